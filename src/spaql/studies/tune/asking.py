"""Optuna: which parameters to try next, its file in the study's folder, and which parameters matter.

For each batch of trials a new sampler (TPE) is seeded from the study's seed and the number of the batch, is shown all
earlier trials, and is asked for the whole batch.  So the same file gives the same trials, whatever happened on
the way; only another version of Optuna may ask otherwise, and then trials that its file has are kept.

The file, `optuna.sqlite`, is Optuna's own storage, so that optuna-dashboard reads it.  Trials are written when they are
finished, each in one transaction of SQLite: kill -9 leaves all of a trial or nothing, and never one that seems to run.
What is lost is written again, for the runs are elsewhere.  A file that says something else than the trials do (failed
ones were tried again, or the ranges changed) is written anew, as a whole in one transaction, for Optuna does not change
finished trials.  Where it knows later trials, that waits until these are told too, or until the tuning ends: what they
tried is nowhere else, and TPE, which would see other results now, would not ask for it again.  Optuna's journal file
would do as well, but a line that was cut off in the middle of a write stays in it.

A trial that was stopped is told as complete, with the mean of the seeds it had.  Told as pruned, TPE would hold it for
worse than every complete trial, also than those that are worse: it was behind the best, and no more is known.  Its mean
is a little low, for it was stopped where that was low.  A failed trial is told as failed, which TPE leaves out.
"""

from __future__ import annotations

import contextlib
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from spaql.errors import ParameterError, StoreError
from spaql.runner.run_spec import seed_at
from spaql.stats import Estimate
from spaql.studies.sweep.description import Range
from spaql.studies.tune.outcome import FAILED, Trial
from spaql.studies.tune.search import Search, label

FILE = "optuna.sqlite"
_STUDY = "spaql"
_KEY, _NUMBER, _STATE = "search", "trial", "state"
_SIZES_OF_SEEDS = 2**32  # NumPy's old generators, which Optuna uses, take no larger ones
FEWEST = 10  # finished trials below which nobody can say which parameter matters


def check() -> None:
    """Whether Optuna is there."""
    try:
        with _quiet():
            import optuna  # noqa: F401
    except ModuleNotFoundError:
        raise ParameterError("tune: optuna is missing; install it with: pip install 'spaql[tune]'") from None


class Asker:
    """Optuna's part of one tuning; use it in a `with` statement.

    Parameters
    ----------
    search
        What is looked for.
    folder
        Where its file is or will be.
    """

    def __init__(self, search: Search, folder: Path) -> None:
        self._search = search
        self._path = folder / FILE
        self._storage: Any = None
        self._study: Any = None

    # The file --------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        with self._sentences():
            import optuna

            self._storage = _storage(self._connect)
            self._study = optuna.create_study(
                storage=self._storage, study_name=_STUDY, direction="maximize", load_if_exists=True
            )
            if self._study.user_attrs.get(_KEY) != self._search.key:
                self._anew([])
        return self

    def __exit__(self, *error: object) -> None:
        if self._storage is not None:
            self._storage.remove_session()
            self._storage.engine.dispose()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=30)

    def _anew(self, frozen: Sequence[Any]) -> None:
        """Make the file say this and nothing else; kill -9 leaves this or what it said before."""
        import optuna

        with contextlib.closing(sqlite3.connect(":memory:")) as memory, contextlib.closing(self._connect()) as file:
            storage = _storage(lambda: memory)
            study = optuna.create_study(storage=storage, study_name=_STUDY, direction="maximize")
            study.set_user_attr(_KEY, self._search.key)
            study.add_trials(frozen)
            storage.remove_session()
            memory.backup(file, progress=_or_locked)
            storage.engine.dispose()
        self._study = optuna.load_study(study_name=_STUDY, storage=self._storage)

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        """What SQLite, SQLAlchemy and Optuna say of a file that cannot be used, as one sentence."""
        try:
            with _quiet():
                yield
        except (KeyboardInterrupt, ImportError):
            raise
        except Exception as error:
            said = " ".join(str(error).split())[:200]
            raise StoreError(
                f"{str(self._path)!r} cannot be used ({type(error).__name__}: {said}); move it away, and it is made "
                "again from the runs"
            ) from None

    def known(self) -> dict[int, dict[str, Any]]:
        """Values of the trials that the file has, by their numbers."""
        with self._sentences():
            return {
                int(each.user_attrs[_NUMBER]): self._values(each.params)
                for each in self._study.get_trials(deepcopy=False)
                if each.params.keys() == self._search.algorithm.ranges.keys()
            }

    def write(self, trials: Sequence[Trial], values: Mapping[int, Estimate], *, last: bool = True) -> None:
        """Make the file say what these trials were; what it says of later ones stays.

        Unless these are the `last` ones to be told, a file that says otherwise and knows later ones is left as it is.
        """
        with self._sentences():
            wanted = self._frozen(trials, values)
            there = self._study.get_trials(deepcopy=False)
            if all(_told(one) == _told(other) for one, other in zip(there, wanted, strict=False)):
                self._study.add_trials(wanted[len(there) :])
            elif last or len(wanted) >= len(there):
                self._anew([*wanted, *there[len(wanted) :]])

    # Questions -------------------------------------------------------------------------------------------------

    def ask(
        self, batch: int, count: int, trials: Sequence[Trial], values: Mapping[int, Estimate]
    ) -> list[dict[str, Any]]:
        """What to try in a batch, after these trials with these values."""
        with _quiet():
            import optuna

            seed = seed_at(self._search.description.told.get("seed", 0), "tune", batch) % _SIZES_OF_SEEDS
            sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
            study = optuna.create_study(direction="maximize", sampler=sampler)
            study.add_trials(self._frozen(trials, values))
            return [self._values(study.ask(self._distributions()).params) for _ in range(count)]

    def importance(
        self, trials: Sequence[Trial], values: Mapping[int, Estimate]
    ) -> tuple[dict[str, float] | None, str]:
        """Share of each parameter in what makes a trial good, the largest first, and how that was found."""
        with _quiet():
            import optuna

            told = [each for each in self._frozen(trials, values) if each.state.name == "COMPLETE"]
            if len(told) < FEWEST:
                return None, f"Which parameter matters cannot be said from fewer than {FEWEST} finished trials."
            study = optuna.create_study(direction="maximize")
            study.add_trials(told)
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            try:
                found = optuna.importance.get_param_importances(study, evaluator=evaluator)
            except (ValueError, RuntimeError, ArithmeticError, AssertionError) as error:
                return None, f"Which parameter matters cannot be said: {' '.join(str(error).split())[:200]}"
        if not sum(found.values()) > 0:
            return None, "Which parameter matters cannot be said: all trials were about equally good."
        shares = {name: float(share) for name, share in found.items()}
        return shares, (
            "PED-ANOVA: how much the values of the best tenth of the trials differ from those of all, as shares. With "
            f"{len(told)} trials that tenth is few, so take it as a hint."
        )

    def _frozen(self, trials: Sequence[Trial], values: Mapping[int, Estimate]) -> list[Any]:
        """Trials as Optuna has them; the default only where it lies within the ranges."""
        import optuna

        found = []
        for each in trials:
            tuned = each.values or self._search.defaults
            if tuned is None:
                continue
            failed = each.state == FAILED
            found.append(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState.FAIL if failed else optuna.trial.TrialState.COMPLETE,
                    value=None if failed else values[each.number].mean,
                    params={
                        name: label(tuned[name]) if span.choices else tuned[name]
                        for name, span in self._search.algorithm.ranges.items()
                    },
                    distributions=self._distributions(),
                    user_attrs={_NUMBER: each.number, _STATE: each.state, "seeds": each.seeds, "note": each.note},
                )
            )
        return found

    def _distributions(self) -> dict[str, Any]:
        return {name: _distribution(span) for name, span in self._search.algorithm.ranges.items()}

    def _values(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What Optuna chose, as the algorithm takes it: six digits that count, within the range."""
        found = {}
        for name, span in self._search.algorithm.ranges.items():
            value = params[name]
            if span.choices:
                found[name] = next(choice for choice in span.choices if label(choice) == value)
            elif span.whole:
                found[name] = int(value)
            else:
                found[name] = min(max(float(f"{value:.6g}"), span.low), span.high)
        return found


def _storage(connect: Callable[[], sqlite3.Connection]) -> Any:
    """Optuna's storage; the path is no part of its address, which reads some letters otherwise."""
    import optuna

    return optuna.storages.RDBStorage("sqlite://", engine_kwargs={"creator": connect})


def _or_locked(status: int, remaining: int, total: int) -> None:
    """End a backup that waited in vain, which goes on forever otherwise."""
    if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        raise sqlite3.OperationalError("database is locked")


def _distribution(span: Range) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if span.choices:
        return CategoricalDistribution([label(choice) for choice in span.choices])
    if span.whole:
        return IntDistribution(int(span.low), int(span.high), log=span.log)
    return FloatDistribution(span.low, span.high, log=span.log)


def _told(frozen: Any) -> tuple[Any, ...]:
    return frozen.state.name, frozen.value, dict(frozen.params), dict(frozen.user_attrs)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Optuna neither logs nor warns meanwhile; what it says of itself is not the user's business."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import optuna

        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            yield
        finally:
            optuna.logging.set_verbosity(before)
