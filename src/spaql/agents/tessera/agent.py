"""Tessera: learn a model of the environment, plan in it, and return a tree that people can read.

The agent records every transition.  Whenever their number has doubled it fits a model to them, plans in the model, and
extracts a small decision tree with constant actions (`spaql.agents.tessera.planner`), by which it acts and explores
until the next plan (`spaql.agents.tessera.replay`).  The policy that it returns is planned from all transitions when it
is first needed; that changes nothing about later learning.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numba.core import config
from numpy.typing import NDArray

from spaql.agents.partition_agent import KeptPolicy, PartitionAgent, select_prefix
from spaql.agents.playable_policy import MOST_EPISODES
from spaql.agents.progress import PLANNING, announce_compilation
from spaql.agents.registry import register
from spaql.agents.rollouts import TRAINING
from spaql.agents.tessera.learned_model import LearnedModel, SimulatedEpisode, thin_out
from spaql.agents.tessera.linear_tree import LEAF
from spaql.agents.tessera.planner import (
    SHORT,
    Facts,
    FittedModels,
    Plan,
    Transitions,
    compile_planner,
    fit_models,
    make_plan,
)
from spaql.agents.tessera.policy_tree import (
    MOST_LEAVES,
    PolicyTree,
    check_actions,
    count_leaves,
    find_leaves,
    has_clock,
    restore_tree,
    single_leaf,
    unroll,
)
from spaql.agents.tessera.replay import (
    DUE,
    FLAT,
    PLANNED,
    POLICY,
    USED,
    Exploration,
    drop_half,
    grow_buffer,
    make_buffer,
    restore_buffer,
    run_episodes,
)
from spaql.agents.tessera.value_iteration import evaluate_actions
from spaql.errors import ParameterError
from spaql.partition.jit import hold_interrupts
from spaql.partition.kernels import NONE
from spaql.partition.partition import Partition, check_numbers, fill_array
from spaql.partition.rng import LARGEST_SEED, Purpose, generator
from spaql.partition.spaces import Box, Discrete, Floats
from spaql.problems.base import LONGEST
from spaql.validation import MOST_COUNTED, check_number, check_whole, show

MOST_TRANSITIONS = 1_000_000_000
_PHASE = "planning"
_FIRST_PLAN = 500
_EXPLORED = 10  # episodes before the first that plays the policy as it is
_GROWTH = 2.0
_MOST_RATED = 100  # recorded states by which a leaf's Q is estimated
_MOST_SHARED = 20_000  # by which rules are weighed
_ROUNDING = 1e-9  # of shares
_LONGEST_TIMED = 10_000  # steps of a policy that compares the time step
_ONE_HOT = 32  # discrete actions that have a feature each

#: mechanisms that can be disabled, for ablations, and what happens instead
MECHANISMS = {
    "residuals": "the model plays means: no residuals are drawn",
    "bootstrap": "policies are judged by one model, fitted to all transitions",
    "quadratic": "models have no quadratic terms",
    "saturation": "changes that are cut off at a limit are fitted as they are",
    "similar_starts": "rollouts begin in recorded starts only, however few they are",
    "replanning": "the returned policy is planned once",
    "pessimism": "states beyond those that episodes came to are taken for the nearest recorded ones",
    "next_reward": "rewards are modelled without the next state",
    "clock": "models do not depend on the time step",
    "imagined_states": "values are iterated on recorded states and those of the policy only",
    "holds": "no action is held for several steps in planning",
    "induction": "short horizons have one discounted V, as long ones have",
    "soft_backup": "the backup is the maximum over actions",
    "elites": "recorded actions are no candidates, nor explored around",
    "novelty": "no episodes follow novelty",
    "repeats": "exploratory actions are played once",
    "greedy_episodes": "all episodes explore",
    "selection": "the last tree that was grown is taken, whatever the models say",
    "dagger": "one tree is grown, on the states of the critic",
    "climbing": "cuts and actions are not moved, and nothing is pruned",
}


class LabelledTree(NamedTuple):
    """The returned policy with what is known of its leaves."""

    tree: PolicyTree
    q: Floats  # [nodes] mean Q of the leaf's action at recorded states
    visits: NDArray[np.int64]  # [nodes] of recorded states


@register("tessera", label="Tessera", colour="#0072B2")
class Tessera(PartitionAgent):
    """Learn a model, plan in it, and return a small decision tree; nothing to tune.

    Parameters
    ----------
    problem
        What to learn; see `spaql.agents.Agent`.
    leaves
        Leaves of the returned tree, at most.
    time_aware
        Whether the returned tree may compare the time step.  "auto" lets it where the model says that this pays, and
        only where episodes have at most 100 steps; then `predict` takes and returns the time step as its state.  In
        longer episodes neither model nor values depend on time, and True rarely helps.
    exploration
        Probability that an exploratory action begins at a step of an exploring episode.
    buffer_size
        Transitions to keep at most; when the buffer is full every second episode is dropped.
    disable
        Names of mechanisms to disable, for ablations; see `spaql.agents.tessera.agent.MECHANISMS`.
    seed
        Of everything random about the agent.
    **environment
        `bounds`, `periodic`, `horizon`, `warm_up`, `env_kwargs` of a Gymnasium environment; `names` and `action_names`
        of any problem; see `spaql.GymnasiumProblem`.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.Tessera(spaql.problems.oil(survey="quadratic", sharpness=1), seed=0).learn(iterations=200)
    >>> agent.evaluate(episodes=100).mean > 4.1
    True
    """

    plays_middle = True
    _filled = ("cells",)
    _phases = (_PHASE,)
    _hurries = False  # whether it is being saved without a policy that would have to be planned first
    steps_to_split_for = "with which a linear model has a few for each of its coefficients"

    def __init__(
        self,
        problem: Any,
        *,
        leaves: int = 64,
        time_aware: bool | str = "auto",
        exploration: float = 0.25,
        buffer_size: int = 1_000_000,
        disable: Sequence[str] = (),
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(problem, seed=seed, **environment)
        problem, actions = self.problem, self.problem.actions
        self.leaves = check_whole(leaves, "leaves", 1, MOST_LEAVES)
        self.time_aware = _check_time_aware(time_aware, problem.horizon)
        self.exploration = check_number(exploration, "exploration", least=0.0, most=1.0, above=True)
        self.buffer_size = check_whole(buffer_size, "buffer_size", 2 * problem.horizon, MOST_TRANSITIONS)
        self.disable = _check_mechanisms(disable)
        states, periodic = problem.states.dimensions, getattr(problem, "periodic", ())
        self._facts = Facts(
            horizon=problem.horizon,
            actions=actions,
            table=_make_table(actions),
            periodic=np.isin(np.arange(states), list(periodic)),
            leaves=self.leaves,
            disabled=self.disable,
            time_aware=self.time_aware,
        )
        self._settings = Exploration(
            horizon=problem.horizon,
            exploration=self.exploration,
            explored=_EXPLORED,
            greedy=0.0 if "greedy_episodes" in self.disable else 0.5,
            novelty=0.0 if "novelty" in self.disable else 0.5,
            repeats="repeats" not in self.disable,
            choices=actions.count if isinstance(actions, Discrete) else 0,
        )
        self._buffer = make_buffer(states, actions.dimensions, 2 * problem.horizon)
        self._buffer.counts[DUE] = _FIRST_PLAN
        middle = np.zeros(1) if isinstance(actions, Discrete) else np.full(actions.dimensions, 0.5)
        self._tree = self._novelty = single_leaf(middle)
        self._elites = np.zeros((0, actions.dimensions))
        self._rule_shares: Floats | None = None  # of a file of the policy alone
        self._frame = problem.frame(1)
        self._last_plan: Plan | None = None
        self._learned: LearnedModel | None = None
        self._returned: LabelledTree | None = None
        self._partition: Partition | None = None

    @property
    def steps_to_split(self) -> int:
        """Transitions with which a linear model has a few for each of its numbers."""
        return 4 * (self.problem.states.dimensions + self._facts.table.shape[1] + 1)

    def _is_indifferent(self) -> bool:
        if len(self._return_policy().tree.dims) > 1 or self.policy_only or not self._final_plan().flat:
            return False
        past = self._past()
        rows = thin_out(np.arange(len(past.times)), _MOST_RATED)
        q = self._estimate_q(past.points[rows], past.times[rows], self._final_plan().candidates)
        return bool(np.ptp(q, axis=1).max() <= 1e-6 * self.problem.horizon * np.abs(past.rewards).max())

    def _make_room(self, steps: int) -> None:
        """Grow the buffer so that the next episode fits, as far as it may grow."""
        size, used = len(self._buffer.points), int(self._buffer.counts[USED])
        if used + self.problem.horizon > size and size < self.buffer_size:
            self._buffer = grow_buffer(self._buffer, min(self.buffer_size, max(2 * size, used + min(steps, 2 * size))))

    def _past(self) -> Transitions:
        used = int(self._buffer.counts[USED])
        return Transitions._make(array[:used] for array in self._buffer[:-1])

    def _iterate(self, rows: NDArray[np.void], budget: int) -> None:
        if len(rows):
            self._forget_policy()
            self._restored = None
            if self._counts[TRAINING] >= self._buffer.counts[DUE]:
                self._plan_next()
            while self._buffer.counts[USED] + self.problem.horizon > len(self._buffer.points):
                with hold_interrupts():
                    drop_half(self._buffer)
        try:
            super()._iterate(rows, budget)
        finally:
            if len(rows):
                self._forget_policy()  # an environment may have asked for it under way

    def _forget_policy(self) -> None:
        """Forget what is computed from the transitions so far."""
        self._last_plan = self._learned = self._returned = self._partition = None

    def _run(self, rows: NDArray[np.void], budget: int) -> None:
        run_episodes(
            self._buffer,
            self._tree,
            self._novelty,
            self._elites,
            self._settings,
            self.problem.world,
            self._frame,
            self._counts,
            self._streams,
            rows,
            budget,
        )

    def prepare(self, progress_bar: bool | None = None) -> Self:
        """Compile or load the agent's kernels now rather than in the first `learn`.

        Parameters
        ----------
        progress_bar
            Whether to say that a kernel is being compiled; None does so on a terminal and in a notebook.

        Returns
        -------
        Agent
            This agent.
        """
        super().prepare(progress_bar)
        if not config.DISABLE_JIT:
            with announce_compilation(PLANNING, progress_bar):
                compile_planner(isinstance(self.problem.actions, Box), self.problem.horizon <= SHORT)
        return self

    def _plan_next(self) -> None:
        """Plan from the transitions so far, for the next episodes."""
        counts, steps = self._buffer.counts, int(self._counts[TRAINING])
        if not counts[USED]:  # nothing but a warm-up so far
            counts[DUE] = steps + _FIRST_PLAN
            return
        previous = self._tree if counts[PLANNED] == POLICY else None
        with self._phase(_PHASE, False):
            plan = make_plan(self._past(), self._facts, previous, self.seed, steps, False)
        due = max(steps + 2 * self.problem.horizon, int(1.25 * steps)) if plan.flat else int(_GROWTH * steps)
        with hold_interrupts():
            self._tree, self._novelty, self._elites = plan.policy, plan.novelty, plan.elites
            counts[PLANNED], counts[DUE] = FLAT if plan.flat else POLICY, due

    def _final_plan(self, progress_bar: bool | None = None) -> Plan:
        """Plan from all transitions; learning does not depend on it."""
        if self._last_plan is None:
            self._require_training()
            previous = self._tree if self._buffer.counts[PLANNED] == POLICY else None
            steps = int(self._counts[TRAINING])
            with announce_compilation(PLANNING, progress_bar), self._phase(_PHASE, progress_bar):
                self._last_plan = make_plan(self._past(), self._facts, previous, self.seed, steps, True)
        return self._last_plan

    def _fit_models(self) -> FittedModels:
        """Fit the models that the final plan is made with."""
        self._require_training()
        self._require_whole("model")
        with announce_compilation(PLANNING, None):
            return fit_models(self._past(), self._facts, self.seed, int(self._counts[TRAINING]))

    @property
    def model(self) -> LearnedModel | None:
        """The model of the environment that the policy was planned in; see `LearnedModel`.

        None where the agent has its policy only.
        """
        if self.policy_only:
            return None
        if self._learned is None:
            self._learned = LearnedModel(self.problem, self._fit_models())
        return self._learned

    def simulate(
        self, episodes: int = 1, *, horizon: int | None = None, seed: int | None = None
    ) -> list[SimulatedEpisode]:
        """Play the policy in the learned model, which takes no step of the environment.

        Episodes begin in recorded starts.  What the model cannot predict is drawn at random, as it was observed.

        Parameters
        ----------
        episodes
            How many.
        horizon
            Steps of an episode at most; None takes the problem's.
        seed
            Of the random draws; None takes the agent's.  The same call returns the same episodes.

        Returns
        -------
        list of SimulatedEpisode
            Observations `[steps + 1, states]`, actions and rewards `[steps]`, in the environment's units.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.Tessera("cartpole", seed=0).learn(2000)
        >>> [episode] = agent.simulate(horizon=20)
        >>> episode.observations.shape, episode.rewards.sum().round()
        ((21, 4), np.float64(20.0))
        """
        episodes = check_whole(episodes, "episodes", 1, MOST_EPISODES)
        longest = self.problem.horizon if horizon is None else check_whole(horizon, "horizon", 1, LONGEST)
        key = self.seed if seed is None else check_whole(seed, "seed", 0, LARGEST_SEED)
        self._require_training()
        self._require_whole("simulate")
        past, random = self._past(), generator(key, Purpose.SIMULATION)
        begin = np.flatnonzero(past.times == 0)
        starts = past.points[random.choice(begin if len(begin) else len(past.times), episodes)]
        model = self.model
        assert model is not None  # as it has transitions
        return model.simulate(self._return_policy().tree, starts, longest, random)

    def _evaluate(self, points: Floats, steps: NDArray[Any], actions: Floats) -> Floats | None:
        return None if self.policy_only else self._estimate_q(points, steps, actions)

    def _estimate_q(self, points: Floats, steps: NDArray[Any], actions: Floats) -> Floats:
        """Return Q of actions `[J, k]` at points `[n, d]` and time steps `[n]`, as `[n, J]`."""
        plan, q = self._final_plan(), np.empty((len(points), len(actions)))
        states, steps = np.ascontiguousarray((points - plan.mean) / plan.scale), steps.astype(np.int64)
        evaluate_actions(plan.models[0], plan.value, states, steps, actions, plan.discount, plan.draws, q)
        return q

    def _extract_policy(self, progress_bar: bool | None) -> None:
        self._return_policy(progress_bar)

    def _return_policy(self, progress_bar: bool | None = None) -> LabelledTree:
        """Return the policy, planned from all transitions."""
        if self._returned is None:
            tree, past = self._final_plan(progress_bar).policy, self._past()
            leaves = np.empty(len(past.times), np.int64)
            find_leaves(tree, np.column_stack([past.points, past.times]), leaves)
            visits, q = np.bincount(leaves, minlength=len(tree.dims)), np.zeros(len(tree.dims))
            for leaf in np.flatnonzero(tree.dims == LEAF):
                rows = np.flatnonzero(leaves == leaf) if visits[leaf] else np.arange(len(leaves))
                rows = thin_out(rows, _MOST_RATED)
                q[leaf] = self._estimate_q(past.points[rows], past.times[rows], tree.actions[leaf][None]).mean()
            self._returned = LabelledTree(tree, q, visits)
        return self._returned

    def _policy(self) -> Partition:
        if self._partition is None:
            count = len(self._tree.dims)
            untrained = LabelledTree(self._tree, np.zeros(count), np.zeros(count, np.int64))
            tree, q, visits = self._return_policy() if self.iterations else untrained
            steps = 1
            if has_clock(tree, self.problem.states.dimensions):
                steps = self.problem.horizon
                tree, nodes = unroll(tree, self.problem.states.dimensions, steps)
                q, visits = q[nodes], visits[nodes]
            self._partition = Partition.from_tree(
                self.problem.states,
                self.problem.actions,
                dims=tree.dims,
                cuts=tree.cuts,
                children=np.where(tree.dims == LEAF, NONE, tree.children),
                played=tree.actions,
                q=q,
                visits=visits,
                steps=steps,
            )
        return self._partition

    def _read_policy(self) -> Partition:
        return self._policy()

    def _keep_policy(self) -> KeptPolicy:
        return KeptPolicy(self.num_timesteps, self._return_policy())

    def _restore_policy(self, kept: KeptPolicy) -> None:
        super()._restore_policy(kept)
        self._returned, self._partition = kept.policy, None

    def count_cells(self) -> int:
        """Return the leaves of the returned tree; those that time steps share count once.

        Returns
        -------
        int
            Leaves.
        """
        return count_leaves(self._return_policy().tree) if self.iterations else 1

    @property
    def time_variant(self) -> bool:  # type: ignore[override]
        """Whether the returned policy changes with the time step."""
        return bool(self.iterations) and has_clock(self._return_policy().tree, self.problem.states.dimensions)

    def _alternatives(self, point: Floats, step: int) -> tuple[Floats, Floats] | None:
        """Return the candidate actions and their Q at a point; None without the transitions that they come from."""
        if self.policy_only:
            return None
        steps = np.array([step])
        actions = np.concatenate([self._boxes(point[None], steps)[:, 0], self._final_plan().candidates])
        return actions, self._estimate_q(point[None], steps, actions)[0]

    def _weigh_rules(self) -> dict[str, Any]:
        if self.policy_only:
            return {"shares": self._rule_shares}
        if self.time_variant or not self.iterations:  # each step has rules of its own, and few visits
            return {}
        past = self._past()
        # At random, as evenly spaced rows may be the same steps of all episodes.
        rows = np.random.default_rng(0).permutation(len(past.times))[:_MOST_SHARED]
        return {"visits": (past.points[rows], np.ones(len(rows)))}

    # Files ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _hurry(self) -> Iterator[None]:
        self._hurries = True
        try:
            yield
        finally:
            self._hurries = False

    def _keep(self, path: str | os.PathLike[str]) -> Path:
        with self._hurry():
            return super()._keep(path)

    def _prepare_keep(self) -> None:
        with self._hurry():
            super()._prepare_keep()

    def _partitions(self) -> dict[str, Partition]:
        return {}

    def _restored_arrays(self) -> dict[str, NDArray[Any]]:
        return {}  # it is what is returned

    def _read_restored(self, arrays: Mapping[str, NDArray[Any]]) -> LabelledTree:
        return self._return_policy()

    def _state(self) -> dict[str, NDArray[Any]]:
        arrays, used = super()._state(), int(self._buffer.counts[USED])
        for name, array in self._buffer._asdict().items():
            arrays[f"replay-{name}"] = array if name == "counts" else array[:used]
        for name, tree in {"policy": self._tree, "novelty": self._novelty}.items():
            arrays |= {f"{name}-{part}": array for part, array in tree._asdict().items()}
        planned = self.iterations and not (self._hurries and self._returned is None)
        return arrays | (self._policy_arrays() if planned else {}) | {"elites": self._elites}

    def _policy_state(self) -> dict[str, NDArray[Any]]:
        shares = None if self.time_variant else self.rules()._shares
        return super()._policy_state() | ({} if shares is None else {"rule-shares": shares})

    def _policy_arrays(self) -> dict[str, NDArray[Any]]:
        tree, q, visits = self._return_policy()
        return {f"returned-{part}": array for part, array in (tree._asdict() | {"q": q, "visits": visits}).items()}

    def _restore_policy_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._returned = self._read_returned(arrays)
        self._partition = None
        self._policy()  # refuses cuts outside their box
        if (shares := arrays.get("rule-shares")) is not None:
            self._rule_shares = np.empty((2, shares.shape[-1] if shares.ndim else 0))
            fill_array(self._rule_shares, shares, "rule-shares")
            sums = self._rule_shares.sum(axis=1)
            if self.time_variant or not ((self._rule_shares >= 0.0).all() and (np.abs(sums - 1.0) < _ROUNDING).all()):
                raise ValueError("invalid shares of rules")

    def _restore_partitions(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        states, actions = self.problem.states.dimensions, self.problem.actions
        self._buffer = restore_buffer(select_prefix(arrays, "replay-"), states, actions, self.problem.horizon)
        self._tree, self._novelty = (
            restore_tree(select_prefix(arrays, f"{name}-"), states, actions) for name in ("policy", "novelty")
        )
        elites = arrays["elites"]
        self._elites = np.zeros((len(elites), actions.dimensions))
        fill_array(self._elites, elites, "elites")
        check_actions(self._elites, actions)
        self._forget_policy()
        if self.iterations and not self._buffer.counts[USED]:
            raise ValueError("no transitions")
        if self.iterations and select_prefix(arrays, "returned-"):
            self._returned = self._read_returned(arrays)
        if self._returned is not None or not self.iterations:
            self._policy()  # refuses cuts outside their box

    def _read_returned(self, arrays: Mapping[str, NDArray[Any]]) -> LabelledTree:
        """Return the returned policy of a file."""
        given, states = select_prefix(arrays, "returned-"), self.problem.states.dimensions
        tree = restore_tree(given, states + 1, self.problem.actions)
        q, visits = np.zeros(len(tree.dims)), np.zeros(len(tree.dims), np.int64)
        fill_array(q, given["q"], "q")
        fill_array(visits, given["visits"], "visits")
        check_numbers(q, "q")
        if not ((visits >= 0) & (visits <= MOST_COUNTED)).all():
            raise ValueError("invalid visits of leaves")
        if has_clock(tree, states) and self.problem.horizon > _LONGEST_TIMED:
            raise ValueError("a tree with a clock for too many steps")
        return LabelledTree(tree, q, visits)


def _make_table(actions: Any) -> Floats:
    """Return features of discrete actions, `[count, k]`: all but the first have one each, if they are few."""
    if not isinstance(actions, Discrete):
        return np.zeros((0, actions.dimensions))
    if actions.count <= _ONE_HOT:
        return np.eye(actions.count)[:, 1:].copy() if actions.count > 1 else np.zeros((1, 1))
    return np.linspace(-1.7, 1.7, actions.count)[:, None]


def _check_time_aware(given: Any, horizon: int) -> bool | str:
    """Return whether trees may compare the time step: True, False or "auto"."""
    if isinstance(given, bool | np.bool_):
        if given and horizon > _LONGEST_TIMED:
            raise ParameterError(f"time_aware: a policy with a clock has at most {_LONGEST_TIMED} steps, got {horizon}")
        return bool(given)
    if not isinstance(given, str) or given != "auto":
        raise ParameterError(f'time_aware: expected True, False or "auto", got {show(given)}')
    return "auto"


def _check_mechanisms(disable: Sequence[str]) -> tuple[str, ...]:
    """Return the names of mechanisms, checked."""
    names = (disable,) if isinstance(disable, str) or not isinstance(disable, Iterable) else tuple(disable)
    for name in names:
        if not isinstance(name, str) or name not in MECHANISMS:
            raise ParameterError(f"disable: expected some of {', '.join(MECHANISMS)}, got {show(name)}")
    return names
