"""What agents share with the models of Stable-Baselines3 beside `learn`, `predict`, `save` and `load`.

`docs/how-to/stable-baselines3.md` says what is the same and what differs.
"""

from __future__ import annotations

import inspect
import os
import re
from abc import ABCMeta
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tqdm import tqdm

from spaql.agents.callbacks import Callback, Log
from spaql.agents.loggers import Logger, TensorBoardLogger
from spaql.agents.parameters import OUTPUTS
from spaql.errors import ParameterError
from spaql.problems.base import Playable
from spaql.validation import check_count, check_whole, show

if TYPE_CHECKING:
    from gymnasium import spaces

_POLICIES = ("MlpPolicy", "MultiInputPolicy")
_AVERAGED = 100  # iterations behind a mean return in the log


class AgentType(ABCMeta):
    """The class of agent classes: lets them be made as a model of Stable-Baselines3 is, `Tessera("MlpPolicy", env)`."""

    if not TYPE_CHECKING:

        def __call__(cls, *given: Any, **keywords: Any) -> Any:
            """Make an agent; with a second positional argument, or `policy=` or `env=`, the first names a policy."""
            named = [name for name in ("policy", "env") if name in keywords and not cls.accepts(name)]
            if named or (len(given) == 2 and not _takes_two(cls)):
                given, keywords = (), _read_arguments(cls, given, keywords)
            return super().__call__(*given, **keywords)

    @property
    def __signature__(cls) -> inspect.Signature:
        """The signature of the constructor."""
        return inspect.signature(cls.__init__.__get__(object()))  # type: ignore[misc]


def _takes_two(cls: type[Any]) -> bool:
    """Return whether a constructor, such as one of the user's own, has a second positional argument."""
    parameters = inspect.signature(cls).parameters.values()
    return sum(each.kind is not each.KEYWORD_ONLY and each.kind is not each.VAR_KEYWORD for each in parameters) > 1


def _read_arguments(cls: Any, given: Sequence[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Return keywords for an agent from the arguments of a model of Stable-Baselines3."""
    keywords = dict(zip(("policy", "env"), given, strict=False)) | keywords
    policy, env = keywords.pop("policy", None), keywords.pop("env", None)
    name = cls.__name__
    if policy == "CnnPolicy":
        raise ParameterError(f"policy: {name} has no CnnPolicy; it learns from a few observed numbers, not from images")
    if policy not in _POLICIES:
        raise ParameterError(
            f"policy: expected {' or '.join(map(repr, _POLICIES))}, of which {name} needs neither, got {show(policy)}"
        )
    if env is None:
        raise ParameterError(f"env: missing; write {name}({policy!r}, env)")
    from spaql.gym.problem import OPTIONS  # here, as in `Agent`: it imports all of Gymnasium

    others = [keyword for keyword in keywords if keyword not in (*OUTPUTS, *OPTIONS) and not cls.accepts(keyword)]
    if others:
        such, it = ("such parameter", "it") if len(others) == 1 else ("such parameters", "them")
        raise ParameterError(f"{', '.join(others)}: {name} has no {such}, and needs none like {it}; leave {it} out")
    if keywords.get("seed", 0) is None:
        del keywords["seed"]
    return {"problem": env, **keywords}


class Recorder:
    """What a model's `logger` is in Stable-Baselines3: values by name, written out by `dump`.

    `dump` prints them with `verbose=1`, and adds them to TensorBoard with `tensorboard_log`, while the agent learns.

    Examples
    --------
    >>> import spaql
    >>> logger = spaql.Random("oil", verbose=1).logger
    >>> logger.record("my/value", 0.5)
    >>> logger.name_to_value
    {'my/value': 0.5}
    """

    def __init__(self) -> None:
        self.name_to_value: dict[str, Any] = {}
        self._hidden: dict[str, Sequence[str]] = {}
        self.verbose = False
        self.board: _Board | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Recorder:
        """Return an empty one: files that are open stay with the agent that opened them."""
        return Recorder()

    def record(self, key: str, value: Any, exclude: str | Sequence[str] | None = None) -> None:
        """Keep a value until the next `dump`; `exclude` names outputs that leave it out: stdout, tensorboard.

        Parameters
        ----------
        key, value
            Name and value; a second value of the same name replaces the first.
        exclude
            Outputs that leave it out.
        """
        self.name_to_value[key] = value
        self._hidden[key] = (exclude,) if isinstance(exclude, str) else tuple(exclude or ())

    def dump(self, step: int = 0) -> None:
        """Write out what was recorded since the last time.

        Parameters
        ----------
        step
            Environment steps so far, for TensorBoard.
        """
        values, hidden = self.name_to_value, self._hidden
        self.name_to_value, self._hidden = {}, {}
        shown = {name: value for name, value in values.items() if "stdout" not in hidden[name]}
        if self.verbose and shown:
            texts = ((name, f"{value:.4g}" if isinstance(value, float) else value) for name, value in shown.items())
            tqdm.write(" | ".join(f"{name} {text}" for name, text in texts))
        if self.board is not None:
            self.board.add(step, {name: value for name, value in values.items() if "tensorboard" not in hidden[name]})


class _Board(TensorBoardLogger):
    """TensorBoard for the rows of the history and for what a `Recorder` holds."""

    def add(self, step: int, values: Mapping[str, Any]) -> None:
        """Add a point to the curve of each number, where the file is open."""
        numbers = {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
        if self._file is None or not numbers:
            return
        points = [self._summary.Value(tag=name, simple_value=number) for name, number in numbers.items()]
        with self._report_errors():
            self._file.write_event(self._event(step=step, summary=self._summary(value=points)))
            self._file.flush()


class _Progress(Logger):
    """Records the progress of an agent under the names that Stable-Baselines3 has for it, and writes it out."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write out each of the rows."""
        logger = self._agent.logger
        for row in rows:
            last, steps = row["iteration"], row["timesteps"]
            returns = self._agent.progress(max(0, last - _AVERAGED))["training_return"][:_AVERAGED]
            logger.record("rollout/ep_rew_mean", float(returns.mean()))
            logger.record("time/iterations", last)
            logger.record("time/time_elapsed", row["seconds"])
            logger.record("time/total_timesteps", steps)
            logger.dump(steps)


class SB3Interface(metaclass=AgentType):
    """Base of `spaql.agents.Agent`: attributes and methods that models of Stable-Baselines3 have."""

    problem: Playable  #: what it learns on
    verbose: int = 0  #: whether `learn` prints its progress
    tensorboard_log: str | os.PathLike[str] | None = None  #: folder of the logs for TensorBoard, or None
    _recorder: Recorder | None = None

    def _set_outputs(self, verbose: Any, tensorboard_log: Any) -> None:
        self.verbose = check_whole(verbose, "verbose", 0, 2)
        if tensorboard_log is not None and not isinstance(tensorboard_log, str | os.PathLike):
            raise ParameterError(f"tensorboard_log: expected a folder, got {show(tensorboard_log)}")
        self.tensorboard_log = tensorboard_log

    @property
    def logger(self) -> Recorder:
        """Where callbacks of Stable-Baselines3 record values."""
        if self._recorder is None:
            self._recorder = Recorder()
        self._recorder.verbose = self.verbose > 0
        return self._recorder

    def _make_logs(self, log_interval: Any, name: str | None, new: bool) -> list[Callback]:
        """Return the callbacks that `verbose` and `tensorboard_log` ask for."""
        every, logs = check_count(log_interval, "log_interval", 1), list[Callback]()
        self.logger.board = None
        if self.tensorboard_log is not None:
            folder = _find_folder(Path(self.tensorboard_log), name or type(self).__name__, new)
            self.logger.board = board = _Board(folder)
            logs.append(Log(board, every=every))
        if self.verbose or self.tensorboard_log is not None:
            logs.append(Log(_Progress(self), every=every))  # the last one, which ends first: the board is still open
        return logs

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """The observation space of the environment, of a compiled problem the `Box` of its states."""
        from spaql.gym.environments import find_spaces  # here: it imports all of Gymnasium

        return find_spaces(self.problem)[0]

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The action space of the environment, of a compiled problem a `Box` or `Discrete`."""
        from spaql.gym.environments import find_spaces

        return find_spaces(self.problem)[1]

    def get_env(self) -> Any:
        """Return the environment as a vector of one, as Stable-Baselines3 does; its own vector where that was given.

        It is a `DummyVecEnv` where Stable-Baselines3 was imported, and else has the same methods.  It holds the
        environment that the agent learns on, which is `agent.problem.env`; of a compiled problem, a new one.

        Returns
        -------
        VecEnv
            Or an object with the methods of one.
        """
        from spaql.gym.environments import ProblemEnvironment
        from spaql.gym.problem import GymnasiumProblem
        from spaql.gym.vector import to_vector

        problem: Any = self.problem
        return to_vector(problem.env if isinstance(problem, GymnasiumProblem) else ProblemEnvironment(problem))

    def set_env(self, env: Any) -> Self:
        """Go on with another environment that has the same observations and actions; ranges stay.

        Parameters
        ----------
        env
            An environment, or a function that makes one.

        Returns
        -------
        Agent
            This agent.
        """
        self.problem = self.problem.with_env(env)
        return self

    def set_random_seed(self, seed: int | None = None) -> None:
        """Set the seed of an agent that has not learned yet; None leaves it as it is.

        Parameters
        ----------
        seed
            The new seed.
        """
        if seed is not None:
            self.set_params(seed=seed)  # type: ignore[attr-defined]

    def get_parameters(self) -> dict[str, Any]:
        """Raise a ParameterError: an agent has no weights."""
        raise ParameterError(
            "get_parameters: an agent has no weights; cells() and tree() return its policy, get_params() its "
            "hyper-parameters, and save(path) writes all that it has learned"
        )

    def set_parameters(self, *given: Any, **keywords: Any) -> None:
        """Raise a ParameterError: what was learned belongs together.

        Parameters
        ----------
        *given, **keywords
            Anything.
        """
        name = type(self).__name__
        raise ParameterError(f"set_parameters: what an agent has learned is loaded as a whole: {name}.load(path, env)")

    # Copies ---------------------------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy all of it, with its environment, also where no file could hold it."""
        from copy import deepcopy

        memo[id(self)] = other = object.__new__(type(self))
        other.__dict__.update(deepcopy(self.__dict__, memo))
        return other

    def __copy__(self) -> Self:
        """Return an independent copy: two agents cannot learn in the same arrays."""
        return self.__deepcopy__({})

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        """Return the content of its file and the function that reads it, so that a pickle is as good as a file."""
        from spaql.agents.files import from_bytes, to_bytes  # here: it imports all agents

        self._require_saving("pickle")  # type: ignore[attr-defined]
        return from_bytes, (to_bytes(self),)  # type: ignore[arg-type]


def _find_folder(folder: Path, name: str, new: bool) -> Path:
    """Return the folder of a run, `name_1`, `name_2` and so on: the next one, or the last to go on with it."""
    if not isinstance(name, str) or os.path.basename(name) != name:
        raise ParameterError(f"tb_log_name: expected the name of a folder, got {show(name)}")
    found = [re.fullmatch(rf"{re.escape(name)}_(\d+)", each.name) for each in folder.glob("*")]
    last = max((int(match[1]) for match in found if match), default=0)
    return folder / f"{name}_{last + 1 if new else max(1, last)}"
