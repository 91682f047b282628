"""Optuna: which parameters to try next, its file in the folder of the tuning, and which parameters matter.

For each batch of trials a new TPE sampler, seeded from the study's seed and the number of the batch, is given all
earlier trials.  So the same study file gives the same trials after any interruption, with the same version of Optuna.

Finished trials are added to the file in one SQLite transaction each; after a kill, missing ones are added again from
the runs.  A file that contradicts the trials (failed runs were retried, or ranges have changed) is rewritten in one
transaction, because Optuna does not change finished trials.  While it has later trials, that waits until these are
known too, or until the tuning ends: their values are stored nowhere else, and TPE would suggest others.

A stopped trial is reported as complete with the mean of its seeds.  If it were pruned, TPE would rank it below every
complete trial, even worse ones.  A failed trial is reported as failed, and TPE ignores it.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from spaql.errors import ParameterError, StoreError
from spaql.runner.run_spec import seed_at
from spaql.studies.sweep.study_file import format_choice
from spaql.studies.tune.tuning_result import FAILED, TuningResult

if TYPE_CHECKING:
    from spaql.studies.tune.tuner import Tuning

FILE = "optuna.sqlite"
MIN_TRIALS = 10  # finished ones, for the importance of parameters
_STUDY: dict[str, Any] = {"study_name": "spaql", "direction": "maximize"}
_SEED_LIMIT = 2**32  # of NumPy's legacy generators, which Optuna uses


@contextmanager
def load_optuna() -> Iterator[Any]:
    """Import Optuna, and suppress its logs and warnings; a ParameterError where it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import optuna
        except ModuleNotFoundError:
            raise ParameterError("tune: optuna is missing; install it with: pip install 'spaql[tune]'") from None
        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            yield optuna
        finally:
            optuna.logging.set_verbosity(before)


class OptunaStudy:
    """The Optuna study of one tuning, with its file in the folder; use it in a `with` statement."""

    def __init__(self, tuning: Tuning, folder: Path) -> None:
        self._tuning, self._path = tuning, folder / FILE

    def __enter__(self) -> Self:
        with self._open_file() as optuna:
            self._storage: Any = _make_storage(optuna, self._connect)
            self._study: Any = optuna.create_study(storage=self._storage, load_if_exists=True, **_STUDY)
            if self._study.user_attrs.get("search") != self._tuning.key:
                self._rewrite(optuna, [])
        return self

    def __exit__(self, *error: object) -> None:
        self._storage.remove_session()
        self._storage.engine.dispose()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=30)

    @contextmanager
    def _open_file(self) -> Iterator[Any]:
        """Turn errors of SQLite, SQLAlchemy and Optuna about the file into a StoreError."""
        try:
            with load_optuna() as optuna:
                yield optuna
        except (KeyboardInterrupt, ImportError):
            raise
        except Exception as error:
            message = " ".join(str(error).split())[:200]
            raise StoreError(
                f"{str(self._path)!r} cannot be used ({type(error).__name__}: {message}); move it away, and it is "
                "created again from the runs"
            ) from error

    def _rewrite(self, optuna: Any, frozen: Sequence[Any]) -> None:
        """Replace the contents of the file; a killed process leaves the old or the new ones."""
        with closing(sqlite3.connect(":memory:")) as memory, closing(self._connect()) as file:
            storage = _make_storage(optuna, lambda: memory)
            study = optuna.create_study(storage=storage, **_STUDY)
            study.set_user_attr("search", self._tuning.key)
            study.add_trials(frozen)
            storage.remove_session()
            memory.backup(file, progress=_raise_if_locked)
            storage.engine.dispose()
        self._study = optuna.load_study(study_name=_STUDY["study_name"], storage=self._storage)

    def write_trials(self, result: TuningResult, *, last: bool = True) -> None:
        """Store the trials of a result in the file; later trials in it are kept.

        Unless these are the `last` ones, a file that contradicts them and has later trials is not changed.
        """
        with self._open_file() as optuna:
            wanted, stored = self._freeze(optuna, result), self._study.get_trials(deepcopy=False)
            if all(_contents(one) == _contents(other) for one, other in zip(stored, wanted, strict=False)):
                self._study.add_trials(wanted[len(stored) :])
            elif last or len(wanted) >= len(stored):
                self._rewrite(optuna, [*wanted, *stored[len(wanted) :]])

    def suggest(self, batch: int, numbers: Sequence[int], result: TuningResult) -> dict[int, dict[str, Any]]:
        """Return the values of a batch of trials by number: from the file, or suggested after those of a result."""
        with self._open_file():
            known = {
                int(trial.user_attrs["trial"]): self._to_values(trial.params)
                for trial in self._study.get_trials(deepcopy=False)
                if trial.params.keys() == self._tuning.ranges.keys()
            }
        if known.keys() >= set(numbers):
            return {number: known[number] for number in numbers}
        with load_optuna() as optuna:
            seed = seed_at(self._tuning.file.seed, "tune", batch) % _SEED_LIMIT
            sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
            study = optuna.create_study(sampler=sampler, **_STUDY)
            study.add_trials(self._freeze(optuna, result))
            return {n: self._to_values(study.ask(self._make_distributions(optuna)).params) for n in numbers}

    def rank_parameters(self, result: TuningResult) -> tuple[dict[str, float] | None, str]:
        """Return the importance of each parameter, the largest first, and how it was computed, or why it was not."""
        with load_optuna() as optuna:
            complete = [trial for trial in self._freeze(optuna, result) if trial.state.name == "COMPLETE"]
            if len(complete) < MIN_TRIALS:
                return None, f"The importance of parameters is not known with fewer than {MIN_TRIALS} finished trials."
            study = optuna.create_study(**_STUDY)
            study.add_trials(complete)
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            try:
                importances = optuna.importance.get_param_importances(study, evaluator=evaluator)
            except (ValueError, RuntimeError, ArithmeticError, AssertionError) as error:
                return None, f"The importance of parameters is not known: {' '.join(str(error).split())[:200]}"
        if not sum(importances.values()) > 0:
            return None, "The importance of parameters is not known: all trials were about equally good."
        return {name: float(share) for name, share in importances.items()}, (
            "PED-ANOVA: how much the values of the best tenth of the trials differ from those of all, as shares; "
            f"a hint only, as a tenth of {len(complete)} trials is few."
        )

    def _freeze(self, optuna: Any, result: TuningResult) -> list[Any]:
        """Return trials as Optuna stores them; the defaults only where they lie within the ranges."""
        states, ranges, frozen = optuna.trial.TrialState, self._tuning.ranges, []
        for trial in result.trials:
            tuned = trial.values or self._tuning.defaults
            if tuned is None:
                continue
            choices = {name: format_choice(tuned[name]) for name, span in ranges.items() if span.choices is not None}
            attributes = {"trial": trial.number, "state": trial.state, "seeds": trial.seeds, "note": trial.note}
            frozen.append(
                optuna.trial.create_trial(
                    state=states.FAIL if trial.state == FAILED else states.COMPLETE,
                    value=None if trial.state == FAILED else result.values[trial.number].mean,
                    params={name: tuned[name] for name in ranges} | choices,
                    distributions=self._make_distributions(optuna),
                    user_attrs=attributes,
                )
            )
        return frozen

    def _make_distributions(self, optuna: Any) -> dict[str, Any]:
        kinds, distributions = optuna.distributions, {}
        for name, span in self._tuning.ranges.items():
            if span.choices is not None:
                distributions[name] = kinds.CategoricalDistribution(list(map(format_choice, span.choices)))
            else:
                kind = kinds.IntDistribution if span.whole else kinds.FloatDistribution
                distributions[name] = kind(*span.ends, log=span.log)
        return distributions

    def _to_values(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return Optuna's values as the algorithm takes them: six significant digits, within the range."""
        values: dict[str, Any] = {}
        for name, span in self._tuning.ranges.items():
            if span.choices is not None:
                values[name] = next(choice for choice in span.choices if format_choice(choice) == params[name])
            elif span.whole:
                values[name] = int(params[name])
            else:
                values[name] = min(max(float(f"{params[name]:.6g}"), span.ends[0]), span.ends[1])
        return values


def _make_storage(optuna: Any, connect: Callable[[], sqlite3.Connection]) -> Any:
    """Make Optuna's storage; not by a URL, in which some characters of a path have a meaning."""
    return optuna.storages.RDBStorage("sqlite://", engine_kwargs={"creator": connect})


def _raise_if_locked(status: int, remaining: int, total: int) -> None:
    """End a backup that has waited for a lock; otherwise it continues forever."""
    if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        raise sqlite3.OperationalError("database is locked")


def _contents(frozen: Any) -> tuple[Any, ...]:
    return frozen.state.name, frozen.value, dict(frozen.params), dict(frozen.user_attrs)
