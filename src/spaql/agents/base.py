"""What every agent offers: parameters by name, learning, fresh evaluation, prediction, and a look inside."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spaql.agents import training
from spaql.agents.callbacks import Callbacks
from spaql.agents.diagnosis import Case, Diagnosis, checked, probe
from spaql.agents.rollouts import evaluate_forest
from spaql.errors import ParameterError
from spaql.partition.jit import records
from spaql.partition.partition import Cells, Partition, fill
from spaql.partition.rng import LARGEST_SEED, Purpose, Stream, generator, stream
from spaql.partition.spaces import Floats
from spaql.problems.base import Frame, Playable, World
from spaql.stats import Estimate, mean_interval
from spaql.validation import check_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from spaql.explain.explanation import Explanation
    from spaql.explain.rules import Rules
    from spaql.export.policy import Policy
    from spaql.partition.tree import Tree

MOST_EPISODES = 100_000_000
_BATCH = 1000  # episodes played side by side in an evaluation; part of what makes its numbers reproducible


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Returns of a policy on random numbers that neither training nor selection has seen.

    Attributes
    ----------
    estimate
        Mean return, its 95% interval and the deviation of one episode.
    returns
        Return of each episode, `[episodes]`.
    steps
        Environment steps played.
    seed, deterministic
        As `evaluate` used them.
    iterations
        How long the agent had learned.
    """

    estimate: Estimate
    returns: Floats
    steps: int
    seed: int
    deterministic: bool
    iterations: int

    @property
    def mean(self) -> float:
        """Mean return."""
        return self.estimate.mean

    @property
    def interval(self) -> tuple[float, float]:
        """95% confidence interval of the mean."""
        return self.estimate.interval

    def __str__(self) -> str:
        return f"{self.estimate} over {self.returns.size} episodes"

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the single returns, ready for JSON."""
        low, high = self.interval
        return {
            "mean": float(self.mean),
            "low": float(low),
            "high": float(high),
            "deviation": float(self.estimate.deviation),
            "episodes": int(self.returns.size),
            "seed": self.seed,
            "deterministic": self.deterministic,
            "iterations": self.iterations,
        }


def _as_problem(problem: Any, seed: int, environment: dict[str, Any]) -> Playable:
    """Whatever a user may call a problem as one."""
    if isinstance(problem, Playable) and not environment:
        return problem
    from spaql.gym.resolve import resolve_problem  # not before it is asked for: it brings all of Gymnasium

    return resolve_problem(problem, seed=seed, **environment)


def empty_cells(problem: Playable) -> Cells:
    """Return no cells, for agents without a partition."""
    states, actions = np.empty((0, problem.states.dimensions)), np.empty((0, problem.actions.dimensions))
    none = np.empty(0)
    steps = none.astype(np.int16)
    return Cells(states, states.copy(), actions, actions.copy(), none, none.astype(np.int32), steps, steps.copy())


class Agent:
    """Common ground of all agents.

    Different agents may learn in different threads at once; one agent belongs to one thread at a time.

    Parameters
    ----------
    problem
        What to learn: a compiled problem or its name, or a Gymnasium environment: its id, an instance, or a function
        that makes one.
    seed
        Fixes everything random about the agent; 0 is a seed like any other.
    **environment
        For a Gymnasium environment: `bounds`, `periodic`, `horizon`, `warm_up`; see `spaql.GymnasiumProblem`.
    """

    #: whether there is anything to learn
    learns: ClassVar[bool] = True
    #: whether the policy changes with the time step
    time_variant: ClassVar[bool] = False
    #: whether the policy is to play the middle of the chosen cell; else a uniform draw inside it, as published
    plays_middle: bool = False
    #: whether it is made for rewards from 0 to 1 per step
    needs_unit_rewards: ClassVar[bool] = False
    #: whether it caps the value of a state, at H
    caps_value: ClassVar[bool] = False
    #: how a first use calls the kernel that evaluates
    _evaluation_kernel: ClassVar[str] = "evaluation"

    def __init__(self, problem: Any, *, seed: int = 0, **environment: Any) -> None:
        self.seed = check_whole(seed, "seed", 0, LARGEST_SEED)
        self._source = problem, environment
        self.problem = _as_problem(problem, self.seed, environment).taken()
        self._history: list[NDArray[np.void]] = []
        self._evaluation: dict[str, Any] | None = None
        self._prediction = generator(self.seed, Purpose.PREDICTION)

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({self.problem.name!r}, {parameters})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's keywords and their values, as scikit-learn does; `deep` makes no difference."""
        signature = inspect.signature(type(self).__init__)
        return {
            name: getattr(self, name)
            for name, parameter in signature.parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters of an agent that has not learned yet; it is made anew, on the problem it was given.

        Raises
        ------
        ParameterError
            On a parameter that the agent does not have, or after learning.
        """
        known = self.get_params()
        for name in parameters:
            if name not in known:
                raise ParameterError(f"set_params: {name!r} is not one of {', '.join(known)}")
        if self.num_timesteps > self.problem.warm_up_steps:
            raise ParameterError(f"set_params: {type(self).__name__} has learned already; make a new agent instead")
        problem, environment = self._source
        self.__init__(problem, **known | parameters, **environment)  # type: ignore[misc]
        return self

    # Learning -------------------------------------------------------------------------------------------------

    def learn(
        self,
        total_timesteps: int | None = None,
        *,
        iterations: int | None = None,
        callback: Callbacks | None = None,
        progress_bar: bool | None = None,
    ) -> Self:
        """Learn for so many iterations, or for so many environment steps (training and selection together).

        Calls with `iterations` add up: `learn(300)` and then `learn(700)` is `learn(1000)`.  One with `total_timesteps`
        stops before the iteration that could pass it, so that some of its steps may be left: up to horizon - 1 for
        agents without rollouts.  Ctrl-C raises KeyboardInterrupt and keeps all that was learned, and the agent can go
        on; an iteration that it broke off has no row in `history`.

        Parameters
        ----------
        iterations, total_timesteps
            How long; one of the two.
        callback
            What to do meanwhile: a function of the agent, which stops learning by returning False, or one of
            `spaql.agents.callbacks`, or a list of these.  What is learned stays the same, to the last bit, unless one plays
            in the environment that is learned on; see there.
        progress_bar
            None shows it on a terminal.
        """
        raise NotImplementedError

    def prepare(self, progress_bar: bool | None = None) -> Self:
        """Compile or load the agent's kernels now rather than in the first `learn`."""
        return self

    @property
    def history(self) -> NDArray[np.void]:
        """One row per iteration, read-only; the columns are those of `spaql.agents.training.ROW`."""
        if len(self._history) != 1:
            self._history[:] = [np.concatenate(self._history) if self._history else records(0, training.ROW)]
        rows = self._history[0].view()
        rows.flags.writeable = False
        return rows

    def _rows_after(self, iteration: int) -> NDArray[np.void]:
        """The rows of `history` after an iteration; does not put all of it together, however often it is asked for."""
        parts: list[NDArray[np.void]] = []
        missing = self.iterations - iteration
        for rows in reversed(self._history):
            if missing <= 0:
                break
            parts.append(rows[max(0, len(rows) - missing) :])
            missing -= len(rows)
        return np.concatenate(parts[::-1]) if parts else records(0, training.ROW)

    @property
    def iterations(self) -> int:
        """Iterations learned so far."""
        return sum(len(rows) for rows in self._history)

    @property
    def training_steps(self) -> int:
        """Environment steps spent on learning."""
        return 0

    @property
    def selection_steps(self) -> int:
        """Environment steps spent on choosing which policy to keep."""
        return 0

    @property
    def monitoring_steps(self) -> int:
        """Environment steps spent on watching only; the agent does not know of them."""
        return 0

    @property
    def num_timesteps(self) -> int:
        """Environment steps so far, of training and selection together: what `total_timesteps` counts."""
        return self.training_steps + self.selection_steps

    @property
    def min_timesteps(self) -> int:
        """The least `total_timesteps` that `learn` accepts now."""
        return 1

    @property
    def selection_score(self) -> float | None:
        """The score by which the returned policy was kept (biased up where it is a maximum), or None."""
        return None

    @property
    def steps_to_split(self) -> int | None:
        """Steps of learning before cells can be a quarter of the space, or None for agents without cells."""
        return None

    def diagnose(self, total_timesteps: int | None = None, *, iterations: int | None = None) -> list[Diagnosis]:
        """What may be wrong with the agent and its problem, and what to change; empty where nothing was found.

        Ask before training, and say how long it is to be, and ask again after it.  Plays a few episodes that count
        towards no budget and change nothing; see `spaql.agents.diagnosis`.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.SPAQL(spaql.problems.oil())
        >>> [found.id for found in agent.diagnose(iterations=5000)]
        ['value-saturated']
        """
        planned = None
        if iterations is not None or total_timesteps is not None:
            planned = self._planned(iterations, total_timesteps)
        return checked(Case(self, probe(self, self._visited if self.iterations else None), planned))

    def _planned(self, iterations: int | None, total_timesteps: int | None) -> int:
        """Steps of learning that a call of `learn` would take."""
        return 0

    def _visited(self, observation: Any, step: int) -> int:
        """How often the cell that is played there was visited."""
        policy = self._policy()
        cell = policy.greedy(self.problem.observed(observation)[0], self._steps(1, [step], None))
        return int(policy.forest.cells["visits"][cell[0]])

    # Files ----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the agent to a file, from which `spaql.load` makes it again; see `spaql.agents.files`."""
        from spaql.agents.files import save  # it knows all agents

        return save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: Any = None) -> Self:
        """An agent from a file, on the given environment or problem, or on the one that the file names."""
        from spaql.agents.files import load  # it knows all agents

        agent = load(path, env)
        if not isinstance(agent, cls):
            raise ParameterError(f"load: {path} holds a {type(agent).__name__}, not a {cls.__name__}; use spaql.load")
        return agent

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        names: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
    ) -> Path:
        """Write the policy as a program of its own, which decides as `predict` does; see `spaql.export`.

        Parameters
        ----------
        path
            The file; its suffix says what it is: .c or .h (C99), .py (plain Python), .json, or .onnx (needs the extra
            spaql[onnx]).
        name
            What functions of C are called, such as `policy` for `policy_act`; None takes the file's own name.
        names, actions
            Your words for the observed numbers and the actions, one for each; they stand in the file for its readers.

        Examples
        --------
        >>> import spaql, tempfile
        >>> agent = spaql.Tessera("oil", seed=0).learn(iterations=50)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     "policy_act" in agent.export(f"{folder}/policy.h").read_text()
        True
        """
        from spaql.export import export

        return export(self.to_policy(names=names, actions=actions), path, name=name).path

    def to_policy(self, *, names: Sequence[str] | None = None, actions: Sequence[str] | None = None) -> Policy:
        """Return what `export` writes: the decision tree, its labels and where it comes from."""
        from spaql.export.policy import make_policy

        return make_policy(
            self.problem,
            self.tree(),
            algorithm=type(self).__name__,
            origin=f"{self.iterations:,} iterations, {self.training_steps:,} training steps, seed {self.seed}",
            time_variant=self.time_variant,
            names=names,
            actions=actions,
        )

    def _state(self) -> dict[str, NDArray[Any]]:
        """All that was learned, as arrays."""
        return {"history": self.history}

    def _numbers(self) -> dict[str, Any]:
        """What else there is to remember, ready for JSON."""
        return {"prediction": self._prediction.bit_generator.state}

    def _restore(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Take over what `_state` and `_numbers` returned; ValueError if they do not fit the parameters."""
        history = records(len(arrays["history"]), training.ROW)
        fill(history, arrays["history"], "history")
        self._history[:] = [history]
        self._prediction.bit_generator.state = numbers["prediction"]

    # Environments ---------------------------------------------------------------------------------------------

    def get_env(self) -> Any:
        """The Gymnasium environment it learns on, or None for a compiled problem."""
        return getattr(self.problem, "env", None)

    def set_env(self, env: Any) -> Self:
        """Go on with another environment, with the same numbers to see and the same actions; ranges stay."""
        self.problem = self.problem.moved(env)
        return self

    # The policy -----------------------------------------------------------------------------------------------

    def cells(self) -> Cells:
        """Return the policy's cells in the problem's units, read-only; `len` counts them (the paper's arms or balls).

        Agents that extract their policy from what they have learned do so at the first call after learning.
        """
        return self._policy().view()

    def _policy(self) -> Partition:
        """The partition that decides."""
        raise NotImplementedError

    def tree(self) -> Tree:
        """The policy as a decision tree: what `predict` does, and nothing else; see `spaql.partition.tree`."""
        from spaql.partition.tree import decision_tree  # not before it is asked for; nor are the next two

        self._require_training()
        return decision_tree(self._policy(), self.problem.played, getattr(self.problem, "periodic", ()))

    def plot(
        self,
        dims: Sequence[int | str] | None = None,
        at: Mapping[int | str, float] | Sequence[float] | None = None,
        layer: str = "policy",
        step: int = 0,
        *,
        projection: bool = False,
        action_dim: int = 0,
        names: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
    ) -> Figure:
        """Draw the policy over two observed dimensions; where there is only one, over states and actions.

        The views are those of `spaql show`; see `spaql.viz.policy_view`.

        Parameters
        ----------
        dims
            The two observed dimensions across and upwards, by index or name; None takes those with most influence.
        at
            Values of the others, by index or name, or a whole state; None takes the median of the visits.
        layer
            What colours show: policy, q, visits, depth or uncertainty.
        step
            Time step of a policy that changes with it, from 0.
        projection
            Average over the other dimensions, weighted by visits, instead of fixing them.
        action_dim
            Dimension of the action to show, where it has several.
        names, actions
            Names of the observed dimensions, and of the actions or their dimensions, if not the usual.

        Examples
        --------
        >>> import spaql
        >>> spaql.Tessera("oil").learn(iterations=50).plot(layer="visits").axes[0].get_xlabel()
        'position'
        """
        from spaql.agents.inspection import view_policy  # it brings all of matplotlib
        from spaql.viz.policy_plot import plot_policy

        view = view_policy(self, "plot", names, actions)
        return plot_policy(
            view, dims=dims, at=at, layer=layer, step=step, projection=projection, action_dim=action_dim
        )

    def explain(
        self,
        observation: Any,
        *,
        step: int = 0,
        runners_up: int = 3,
        names: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
    ) -> Explanation:
        """Why `predict` does what it does for one observation, and what would change it; see `spaql.explain.explanation`.

        Parameters
        ----------
        observation
            One, as `predict` takes it.
        step
            Time step, for agents whose policy changes with it.
        runners_up
            How many other actions to tell of, at most.
        names, actions
            Words for the observed numbers, and for the finite actions or the numbers of an action, if not the usual.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.Tessera("oil", seed=0).learn(iterations=100)
        >>> why = agent.explain([0.0])
        >>> why.action == agent.predict([0.0])[0]
        array([ True])
        """
        from spaql.explain.explanation import explain

        tree, at = self.tree(), self._time(step)
        count = check_whole(runners_up, "runners_up", 0)
        scaling = self.get_params().get("scaling")
        called = {"names": names, "actions": actions}
        return explain(
            self.problem, self._policy(), tree, observation, step=at, scaling=scaling, runners_up=count, **called
        )

    def rules(
        self, *, step: int = 0, names: Sequence[str] | None = None, actions: Sequence[str] | None = None
    ) -> Rules:
        """The policy as a short list of rules, of which the first that fits decides; see `spaql.explain.rules`.

        Parameters
        ----------
        step, names, actions
            As in `explain`.

        Examples
        --------
        >>> import spaql
        >>> rules = spaql.Tessera("oil", seed=0).learn(iterations=100).rules()
        >>> rules[-1].conditions  # of what is done otherwise
        ()
        """
        from spaql.explain.rules import make_rules

        tree, at = self.tree(), self._time(step)
        inherits = "scaling" in self.get_params()  # the published agents, who split as published
        called = {"names": names, "actions": actions}
        with training.announced("rules", None):
            return make_rules(self.problem, self._policy(), tree, step=at, inherits=inherits, **called)

    def _time(self, step: Any) -> int | None:
        """A time step, checked, or None where it makes no difference."""
        at = check_whole(step, "step", 0, self.problem.horizon - 1)
        if at and not self.time_variant:
            raise ParameterError(f"step: {type(self).__name__} decides alike in every step; leave it out")
        return at if self.time_variant else None

    def _require_training(self) -> None:
        """Raise where there is nothing learned to ask for."""

    def evaluate(
        self,
        episodes: int = 1000,
        *,
        seed: int | None = None,
        deterministic: bool | None = None,
        progress_bar: bool | None = None,
    ) -> Evaluation:
        """Score the policy on fresh random numbers.

        Parameters
        ----------
        episodes
            How many, at least 2.
        seed
            Of the evaluation's own streams; None uses the agent's.  The same call always gives the same numbers.
        deterministic
            Play the middle of each chosen cell, or a uniform draw inside it; None does what the agent's own rule says:
            the middle for SPAQL, the draw for the published agents.
        progress_bar
            Whether to say that something is compiled first; None does so on a terminal.
        """
        episodes = check_whole(episodes, "episodes", 2, MOST_EPISODES)
        key = self.seed if seed is None else check_whole(seed, "seed", 0, LARGEST_SEED)
        middle = self.plays_middle if deterministic is None else bool(deterministic)
        self._require_training()
        with closing(self.problem.fresh(key)) as problem:
            returns, steps = self._returns(problem, episodes, key, middle, progress_bar)
        return Evaluation(mean_interval(returns), returns, steps, key, middle, self.iterations)

    def _returns(
        self, problem: Playable, episodes: int, seed: int, middle: bool, progress_bar: bool | None
    ) -> tuple[Floats, int]:
        """Play episodes; their returns `[episodes]`, and the environment steps they took."""
        agent, world = stream(seed, Purpose.EVALUATION), stream(seed, Purpose.EVALUATION_ENVIRONMENT)
        returns, steps = np.empty(episodes), 0
        frame = problem.frame(min(episodes, _BATCH))
        for first in range(0, episodes, _BATCH):
            count = min(_BATCH, episodes - first)
            with training.announced(self._evaluation_kernel, progress_bar), problem.playing():
                status, played = self._play(problem.world, frame, count, middle, agent, world)
            problem.check(status, "while it was evaluated")
            returns[first : first + count] = frame.returns[:count]
            steps += played
        return returns, steps

    def record_evaluation(self, evaluation: Evaluation) -> Self:
        """Keep an evaluation with the agent, also in its file.

        Record one that nothing was chosen by: the best of several evaluations is biased up.
        """
        if not isinstance(evaluation, Evaluation):
            raise ParameterError(f"record_evaluation: expected what evaluate returned, got {evaluation!r:.80}")
        self._evaluation = evaluation.to_dict()
        return self

    @property
    def recorded_evaluation(self) -> dict[str, Any] | None:
        """The evaluation given to `record_evaluation`, as `Evaluation.to_dict` returns it; None where there is none."""
        return None if self._evaluation is None else dict(self._evaluation)

    def _restore_evaluation(self, evaluation: Any) -> None:
        """Take over the recorded evaluation of a file; ValueError if it is invalid."""
        if evaluation is None:
            self._evaluation = None
            return
        numbers = {name: evaluation[name] for name in ("mean", "low", "high", "deviation")}
        whole = {name: evaluation[name] for name in ("episodes", "seed", "iterations")}
        valid = evaluation.keys() == {"deterministic", *numbers, *whole} and type(evaluation["deterministic"]) is bool
        valid = valid and all(type(value) is float and np.isfinite(value) for value in numbers.values())
        if not valid or not all(type(value) is int and value >= 0 for value in whole.values()):
            raise ValueError("invalid evaluation record")
        self._evaluation = dict(evaluation)

    def _play(
        self, world: World, frame: Frame, count: int, deterministic: bool, agent: Stream, world_random: Stream
    ) -> tuple[int, int]:
        horizon = self.problem.horizon
        forest = self._policy().forest
        return evaluate_forest(forest, world, frame, horizon, count, deterministic, agent, world_random)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = True,
    ) -> tuple[Any, Any]:
        """The action for one observation or a batch of them, in the shape of Stable-Baselines3.

        Parameters
        ----------
        observation
            As the environment gives it, or many stacked along a first axis (each part of a Dict or Tuple); `[states]`
            or `[n, states]` in the problem's units for a compiled problem, where outside its space is an error.
        state
            For time-variant agents the time step of each row, as returned by the last call; None is step 0.
        episode_start
            Rows that begin an episode anew, `[n]` of bool.
        deterministic
            Middle of the chosen cell; else the published uniform draw inside it.

        Returns
        -------
        action
            `[actions]` or `[n, actions]`; for finite actions an int or `[n]` of int.
        state
            To hand to the next call; None for time-invariant agents.
        """
        self._require_training()
        points, single = self.problem.observed(observation)
        steps = self._steps(len(points), state, episode_start)
        actions = self._act(points, steps, deterministic)
        following = None
        if self.time_variant:
            following = np.minimum(steps + 1, self.problem.horizon - 1)
        return self.problem.played(actions, single), following

    def _steps(self, count: int, state: Any, episode_start: ArrayLike | None) -> NDArray[np.int64]:
        """Time step of each row."""
        steps = np.zeros(count, np.int64)
        if not self.time_variant:
            return steps
        if state is not None:
            given = np.asarray(state).reshape(-1)
            if given.dtype.kind not in "iu" or given.shape != (count,):
                raise ParameterError(f"state: expected the time step of each of {count} rows, got {state!r:.80}")
            steps[:] = given
            if (steps < 0).any() or (steps >= self.problem.horizon).any():
                raise ParameterError(
                    f"state: time steps must be from 0 to {self.problem.horizon - 1}, got {state!r:.80}"
                )
        if episode_start is not None:
            starts = np.asarray(episode_start).reshape(-1)
            if starts.shape != (count,) or starts.dtype.kind not in "bif":
                raise ParameterError(
                    f"episode_start: expected true or false for each of {count} rows, got {episode_start!r:.80}"
                )
            steps[starts.astype(bool)] = 0
        return steps

    def _boxes(self, points: Floats, steps: NDArray[np.int64]) -> Floats:
        """Unit action boxes of the greedy cells, `[n, 2, actions]`."""
        policy = self._policy()
        boxes: Floats = policy.forest.boxes[policy.greedy(points, steps)]
        return boxes

    def _act(self, points: Floats, steps: NDArray[np.int64], deterministic: bool) -> Floats:
        """Actions at points of the unit cube, in the problem's units, `[n, actions]`."""
        boxes = self._boxes(points, steps)
        draws = 0.5 if deterministic else self._prediction.random((len(points), boxes.shape[2]))
        return self.problem.actions.from_unit(boxes[:, 0] + draws * (boxes[:, 1] - boxes[:, 0]))
