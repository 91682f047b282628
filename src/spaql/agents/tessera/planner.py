"""Planning: from recorded transitions to a policy tree.

`make_plan` is a function of the transitions, the previous policy and a seed, and of nothing else, so that an agent that
was interrupted, saved and loaded plans as one that was not.  Its steps:

1. standardise the states by their mean and standard deviation, so that units and declared ranges do not matter;
2. fit models of the environment: one to all transitions, and two to random parts of them
   (`spaql.agents.tessera.world_model`);
3. iterate values on a support of recorded states, and of states to which the previous policy leads in the model
   (`spaql.agents.tessera.value_iteration`);
4. refine the candidate actions of a box: the best ones of the states of the support, and recorded ones that turned out
   better than the values expected (*elites*);
5. grow policy trees on regrets, with states added where each tree leads in the model (DAgger: Ross, Gordon and Bagnell,
   2011), and choose among their sizes by returns in the models (`spaql.agents.tessera.policy_tree`,
   `spaql.agents.tessera.policy_search`);
6. move cuts and actions by hill climbing in the models, and prune.

In long episodes a policy that is to be returned is planned several times from step 3 on: with states where the
previous policy leads, without them, and with those where the best one so far leads, while that pays.  Rollouts that
played no part in these plans decide between them (validation).

A second policy is planned for novelty, for exploration: its reward is 1 / sqrt(1 + visits) of the box of a grid that a
step leads to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.tessera import policy_search, value_iteration
from spaql.agents.tessera.policy_tree import (
    PolicyTree,
    find_leaves,
    grow_policy,
    rescale,
    round_clock,
    simplify,
    single_leaf,
    truncate,
)
from spaql.agents.tessera.replay import number_episodes
from spaql.agents.tessera.rollout_starts import SOME, find_starts, find_validation_starts
from spaql.agents.tessera.tree_selection import Candidates
from spaql.agents.tessera.value_iteration import Successors, ValueForest, iterate_values
from spaql.agents.tessera.world_model import (
    NOISY,
    RANDOM_END,
    Data,
    WorldModel,
    choose,
    depends_on_time,
    encode_actions,
    extend_saturated,
    find_changes,
    find_frontier,
    fit_model,
)
from spaql.partition.jit import hold_interrupts
from spaql.partition.rng import Purpose
from spaql.partition.spaces import Actions, Box, Discrete, Floats

_SHARE = 0.7  # of the transitions that each of the further models is fitted to
_RARE = 20  # transitions that are rare
_ELITES = 16
_REFINED = 8  # candidates of a box beside the grid, for values
_HOLD = 5
SHORT = 100  # horizons with one V for each time step
_IMAGINED_STEPS = 10  # of random actions that follow recorded states in the support
_SOFT = 0.1
_ROUNDS = 300
_PLANS = 4  # of the returned policy, at most
_VALIDATION_STEPS = 300_000  # in each model, of rollouts that compare these
_UNSEEN = 1_000_000  # number of the first of them: their draws are not those by which policies are chosen
_WORTH = 0.005  # share of the gain over random actions that a plan must add before another is made
_NOVELTY_DISCOUNT = 0.98
_MOST_RECORDED = 20_000_000  # numbers that recorded rollouts may take
_CLOCK_GAIN = 0.01  # share of the gain over random actions that a policy with a clock must add


class Effort(NamedTuple):
    """How much work a plan takes."""

    support: int  # states on which values are iterated, a quarter of it in one dimension
    actions: int  # candidates in a box
    draws: int  # of a random model, for expectations
    successors: int  # states that one step leads to from the support, at most
    trees: int  # of the value, and grown for the policy
    sizes: tuple[int, ...]  # leaves of the trees among which to choose
    rollout_steps: int  # in each model, for one score
    rollouts: int  # for one score, at most
    climb_steps: int  # in all models, for hill climbing


_QUICK = Effort(1000, 20, 6, 60_000, 3, (2, 8, 32), 10_000, 300, 150_000)  # to explore with
_THOROUGH = Effort(2000, 64, 10, 150_000, 5, (2, 4, 8, 16, 32, 64, 128, 256), 20_000, 800, 2_000_000)  # to be returned


@dataclass(frozen=True)
class Facts:
    """What the planner knows of a problem."""

    horizon: int
    actions: Actions
    table: Floats  # [count, k] features of discrete actions, [0, k] for a box
    periodic: NDArray[np.bool_]  # [d]
    leaves: int
    disabled: Collection[str]
    time_aware: bool | str = "auto"

    def has(self, mechanism: str) -> bool:
        """Whether a mechanism is not disabled."""
        return mechanism not in self.disabled


@dataclass(frozen=True, eq=False)
class Plan:
    """A policy, and what it was made from."""

    policy: PolicyTree  # over points of the unit cube
    novelty: PolicyTree
    elites: Floats  # [n, k]
    flat: bool  # whether no state is worth more than another, as far as is known
    score: float  # of the policy in the models; by validation, where there are several plans
    random_score: float  # of random actions there
    models: tuple[WorldModel, ...]
    value: ValueForest
    candidates: Floats  # [J, k]
    mean: Floats  # [d] and scale, by which states are standardised
    scale: Floats
    discount: float
    draws: int  # of the model, for expectations


class Transitions(NamedTuple):
    """Columns of the replay buffer, `[n, ...]`."""

    points: Floats
    actions: Floats
    rewards: Floats
    following: Floats
    ended: NDArray[np.int8]
    times: NDArray[np.int32]


def make_plan(
    past: Transitions, facts: Facts, previous: PolicyTree | None, seed: int, steps: int, thorough: bool
) -> Plan:
    """Plan after `steps` steps of learning; `thorough` for a policy that is returned rather than explored with."""
    with hold_interrupts() as check:
        return Planner(past, facts, (seed, steps), thorough, check, cautious=thorough).run(previous)


@cache
def compile_planner(box: bool, short: bool) -> None:
    """Compile or load the planner's kernels, once per process, by a plan for a few made-up transitions.

    Some are for actions in a `box` only, some for `short` horizons.
    """
    points, actions = np.random.default_rng(0).random((120, 2)), np.tile([0.0, 1.0], 60)[:, None]
    following, times = 0.5 * (points + actions), np.zeros(120, np.int32)
    ended = (following[:, 0] > 0.7).astype(np.int8)
    past = Transitions(points, actions, -following[:, 0], following, ended, times)
    space, table = (Box(0, 1), np.zeros((0, 1))) if box else (Discrete(2), np.array([[-1.0], [1.0]]))
    facts = Facts(5 if short else SHORT + 1, space, table, np.zeros(2, np.bool_), 4, ())
    plan = make_plan(past, facts, None, 0, 0, False)
    plan = make_plan(past, facts, plan.policy, 0, 0, True)
    find_leaves(plan.policy, points, np.empty(120, np.int64))


@dataclass(frozen=True, eq=False)
class FittedModels:
    """The models of a plan, and what they were fitted to."""

    models: tuple[WorldModel, ...]
    rows: tuple[NDArray[np.int64], ...]  # transitions that each was fitted to
    data: Data  # all of them
    changes: Floats  # [n, d] x' - x
    mean: Floats  # [d] and scale, by which states are standardised
    scale: Floats


def fit_models(past: Transitions, facts: Facts, seed: int, steps: int) -> FittedModels:
    """Fit the models of a thorough plan, without planning; to them no state is unknown."""
    with hold_interrupts() as check:
        planner = Planner(past, facts, (seed, steps), True, check)
    models, rows, data, changes = planner.models, planner.rows, planner.data, planner.changes
    return FittedModels(models, rows, data, changes, planner.mean, planner.scale)


class Planner:
    """The state of one planning."""

    def __init__(
        self,
        past: Transitions,
        facts: Facts,
        seed: tuple[int, int],
        thorough: bool,
        check: Callable[[], None],  # raises KeyboardInterrupt after Ctrl-C
        cautious: bool = False,
    ) -> None:
        self.check = check
        self.past, self.facts, self.thorough, self.cautious = past, facts, thorough, cautious
        self.effort = _THOROUGH if thorough else _QUICK
        key = (int(Purpose.PLANNING), seed[1], int(thorough))
        self.random = np.random.default_rng(np.random.SeedSequence(seed[0], spawn_key=key))
        self.stream = self.random.integers(1, 2**63, 4).astype(np.uint64)
        self.mean, self.scale = past.points.mean(axis=0), past.points.std(axis=0)
        self.scale = np.where(self.scale > 1e-12, self.scale, 1.0)
        self.data = Data(
            np.ascontiguousarray((past.points - self.mean) / self.scale),
            encode_actions(facts.table, past.actions),
            np.ascontiguousarray(past.rewards),
            np.ascontiguousarray((past.following - self.mean) / self.scale),
            past.ended.astype(np.bool_),
        )
        self.states, self.times = past.points.shape[1], past.times.astype(np.int64)
        self.short = facts.horizon <= SHORT and facts.has("induction")
        self.discount = 1.0 if self.short else 1.0 - 1.0 / facts.horizon
        self.hold = _HOLD if not self.short and facts.horizon >= 10 * _HOLD and facts.has("holds") else 1
        self.size, self.trees = self.effort.support, 6
        if self.states == 1:
            self.size, self.trees = self.size // 4, 2
            self.effort = self.effort._replace(rollouts=self.effort.rollouts // 2)
        self.clocks = [False]  # whether trees may compare the time step; both kinds are grown where it may pay
        if thorough and facts.time_aware:
            self.clocks = [False, True] if facts.time_aware == "auto" else [True]
            self.clocks = self.clocks if self.short or facts.time_aware != "auto" else [False]
        self.models = self._fit_models()
        self.model = self.models[0]
        self.noisy = bool(self.model.flags[NOISY])
        self.draws = self.effort.draws if self.noisy else 1
        starts = find_starts(self.data.states, self.times, self.random, similar=facts.has("similar_starts"))
        random = bool(self.model.pool_sizes.any() or self.model.flags[RANDOM_END])
        self.starts = np.ascontiguousarray(starts if random else np.unique(starts, axis=0))
        self.begin = self.starts, np.zeros(len(self.starts), np.int64)  # with their time steps
        fewest = max(1, self.effort.rollout_steps // facts.horizon)
        # The same start leads to the same rollout where nothing is random but the actions of some rollouts.
        enough = self.effort.rollouts if random else max(40, len(self.starts))
        room = max(4, _MOST_RECORDED // (3 * facts.horizon * (self.states + 2)))
        self.most_rollouts = min(enough, self.effort.rollouts, room)
        self.rollouts = min(max(fewest, 20), self.most_rollouts)

    def _fit_models(self) -> tuple[WorldModel, ...]:
        count, facts = len(self.data.rewards), self.facts
        periods = np.where(facts.periodic, 1.0 / self.scale, 0.0)
        self.changes = find_changes(self.data, periods)
        order = self.random.permutation(count)
        allowed = {"quadratic": facts.has("quadratic"), "on_next": facts.has("next_reward")}
        targets = extend_saturated(self.data, self.changes, order, periods) if facts.has("saturation") else self.changes
        self.choices = choose(self.data, targets, order, **allowed)
        if self._use_clock(order):
            self.choices = choose(self.data, targets, order, **allowed)
        orders = [order]
        if facts.has("bootstrap") and count >= 100:
            parts = [self.random.permutation(count)[: int(_SHARE * count)] for _ in range(2)]
            orders += [self.random.permutation(np.union1d(part, self._find_rare())) for part in parts]
        self.rows = tuple(orders)
        frontier = None
        if self.cautious and facts.has("pessimism"):
            episodes = number_episodes(self.past.times)
            frontier = find_frontier(self.data, self.changes, episodes, facts.horizon, facts.periodic)
        models = []
        for rows in orders:
            self.check()
            given = self.data, targets, rows, self.choices, periods, facts.table
            options: dict[str, Any] = {"frontier": frontier, "residuals": facts.has("residuals")}
            fitted = fit_model(*given, origins=-self.mean / self.scale, clock=self.clock, **options)
            models.append(fitted)
        return tuple(models)

    def _find_rare(self) -> NDArray[np.int64]:
        """Return transitions that every model must know: ends, if they are few, and the largest rewards."""
        ends = np.flatnonzero(self.data.ended)
        best = np.argsort(-self.data.rewards, kind="stable")[:_RARE]
        return np.union1d(ends if len(ends) <= _RARE else ends[:0], best)

    def _use_clock(self, order: NDArray[np.int64]) -> bool:
        """Make the time step a feature where the model of short episodes depends on it; return whether it does."""
        self.clock: Floats | None = None
        if self.facts.horizon > SHORT or not self.facts.has("clock") or not np.ptp(self.times) > 0:
            return False
        clock = np.array([self.times.mean(), self.times.std()])
        times = (self.times - clock[0]) / clock[1]
        if not depends_on_time(self.data, self.changes, order, self.choices, times):
            return False
        self.clock = clock
        self.data = self.data._replace(features=np.column_stack([self.data.features, times]))
        return True

    def score(self, tree: PolicyTree, rollouts: int | None = None) -> float:
        """Return the score of a policy in the models."""
        self.check()
        count = self.rollouts if rollouts is None else rollouts
        return float(policy_search.score_policy(self.models, tree, self.starts, self.facts.horizon, count))

    @property
    def ceiling(self) -> float:
        """A score that no policy exceeds."""
        ended = bool(self.data.ended.any())
        best = float(max(model.rewards[: 1 + ended, 1].max() for model in self.models))
        return best * (self.facts.horizon if best > 0.0 else 1)

    def run(self, previous: PolicyTree | None) -> Plan:
        """Plan; for a policy that is returned, plan several times and return the plan with the best validation.

        The second plan begins without a policy, as the previous one may keep all plans that follow it from a better
        one.  Further plans begin with the best policy so far, while that pays.  Values of one sweep over all time steps
        are as good as they get; those of a fixed point depend on the support.
        """
        plan = self._plan_once(previous)
        if not self.thorough or self.short or plan.flat or not self.facts.has("replanning"):
            return plan
        starts = find_validation_starts(self.data.states, self.times, self.random)
        plan = self._validate(plan, starts)
        for turn in range(1, _PLANS):
            if plan.score >= self.ceiling:
                break
            again = self._validate(self._plan_once(None if turn == 1 else plan.policy), starts)
            gain = again.score - plan.score
            if gain > 0.0:
                plan = again
            if turn > 1 and gain <= _WORTH * (plan.score - plan.random_score):
                break
        return plan

    def _validate(self, plan: Plan, starts: Floats) -> Plan:
        """Return a plan with a score by rollouts that played no part in it.

        Choosing and climbing see a few dozen rollouts, and make the most of them.
        """
        self.check()
        count = len(starts) if len(self.starts) > 1 else self.effort.rollouts
        count = min(count, max(self.rollouts, _VALIDATION_STEPS // self.facts.horizon))
        given = self.models, self._standardise(plan.policy), starts, self.facts.horizon, count
        return replace(plan, score=policy_search.score_policy(*given, first=_UNSEEN))

    def _standardise(self, policy: PolicyTree) -> PolicyTree:
        """Return a policy over standardised states, and the time step."""
        mean, scale = np.append(self.mean, 0.0), np.append(self.scale, 1.0)
        return rescale(policy, -mean / scale, 1.0 / scale)

    def _plan_once(self, previous: PolicyTree | None) -> Plan:
        timed = np.append(self.mean, 0.0), np.append(self.scale, 1.0)
        self.previous = None if previous is None else self._standardise(previous)
        self.bounds, horizon = self._find_bounds(), self.facts.horizon
        draws = 8 if self.noisy else 1
        tried = candidates = self._grid()
        box = not isinstance(self.facts.actions, Discrete)
        branches = (len(candidates) + (_REFINED if box else 0)) * draws * (2 if self.hold > 1 else 1)
        support = self._find_support()[: max(200, self.effort.successors // branches)]
        values = np.zeros((self.facts.horizon + 1 if self.short else 1, len(support)))
        successors = self._find_successors(support, candidates, draws)
        soft = _SOFT if self.facts.has("soft_backup") else 0.0
        given = self.bounds, values, self.random
        options: dict[str, Any] = {"soft": soft, "rounds": _ROUNDS, "trees": self.trees}
        at = self._successors_at(support, candidates, draws)
        value = iterate_values(support, successors, *given, **options, successors_at=at)
        flat = bool(np.ptp(values[0]) <= 1e-6 * (self.bounds[1] - self.bounds[0]))
        elites = np.zeros((0, candidates.shape[1]))
        plans = not flat or (self.thorough and self._actions_differ(value, support, candidates))
        if plans and box:
            if self.facts.has("elites"):
                elites = self._find_elites(value)
            tried = self._refine(value, support, np.concatenate([candidates, elites]), _REFINED)
            successors, at = self._find_successors(support, tried, draws), self._successors_at(support, tried, draws)
            value = iterate_values(support, successors, *given, **options, successors_at=at)
            room = max(_REFINED, self.effort.actions - len(candidates))
            candidates = self._refine(value, support, np.concatenate([tried, elites]), room)
        novelty = single_leaf(candidates[len(candidates) // 2])
        if self.facts.has("novelty") and not self.thorough:
            novelty = self._plan_novelty(support, successors, tried)
        policy, score, random_score = single_leaf(candidates[len(candidates) // 2]), 0.0, 0.0
        if plans:
            policy, score, random_score = self._extract(value, support, candidates)
        back, above = (self.mean, self.scale), np.ones(self.states)
        return Plan(
            simplify(round_clock(rescale(policy, *timed), self.states), np.append(above, horizon - 0.5)),
            simplify(rescale(novelty, *back), above),
            elites,
            flat,
            score,
            random_score,
            self.models,
            value,
            candidates,
            *back,
            self.discount,
            self.draws,
        )

    def _actions_differ(self, value: ValueForest, support: Floats, candidates: Floats) -> bool:
        """Whether some action is worth more than another somewhere, though all states are worth the same."""
        q = self._evaluate(value, support[:100], np.zeros(min(100, len(support)), np.int64), candidates)
        return bool(np.ptp(q, axis=1).max() > 1e-6 * (self.bounds[1] - self.bounds[0]))

    def _find_bounds(self) -> Floats:
        """Return bounds of V."""
        rewards, ended = self.data.rewards, self.data.ended
        going = rewards[~ended] * self.facts.horizon
        every = np.concatenate([[0.0], rewards[ended], going])
        return np.array([every.min(), every.max()])

    def _find_support(self) -> Floats:
        """Return recorded states: half at random, half spread evenly; a quarter are where the previous policy leads."""
        states, random = self.data.states, self.random
        count = min(self.size, max(50, len(states)))
        some = random.integers(0, len(states), count // 2)
        pick = np.arange(len(states)) if len(states) < SOME else random.integers(0, len(states), SOME)
        low, width = states.min(axis=0), np.ptp(states, axis=0)
        places = (states[pick] - low) / np.where(width > 0.0, width, 1.0)
        order = random.permutation(len(pick))
        chosen = order[: count // 2]
        for bits in range(8, 0, -1):
            boxes = np.minimum((places[order] * 2**bits).astype(np.int64), 2**bits - 1)
            _, first = np.unique(_number_boxes(boxes, 2**bits), return_index=True)
            if len(first) <= count // 2:
                chosen = order[first]
                break
        support = np.concatenate([states[some], states[pick[chosen]]])
        grid = self._grid()
        if self.previous is not None:
            quarter = len(support) // 4
            support[:quarter], _ = policy_search.visit_states(
                self.model, self.previous, *self.begin, self.facts.horizon, grid, 0.1, self.stream, quarter
            )
        if self.facts.has("imagined_states") and self.states > 1:
            length = min(_IMAGINED_STEPS, self.facts.horizon)
            imagined, _ = policy_search.visit_states(
                self.model, single_leaf(grid[0]), states, self.times, length, grid, 1.0, self.stream, self.size
            )
            support = np.concatenate([support, imagined])
        return np.ascontiguousarray(support[random.permutation(len(support))])

    def _grid(self) -> Floats:
        """Return the first candidates: all discrete actions, or a grid in the box."""
        actions = self.facts.actions
        if isinstance(actions, Discrete):
            if actions.count <= _THOROUGH.actions:
                return np.arange(float(actions.count))[:, None]
            tried, place = np.unique(self.past.actions[:, 0], return_inverse=True)
            earned = np.bincount(place, self.past.rewards) / np.bincount(place)
            order = np.argsort(-earned, kind="stable")  # half are those of the largest mean rewards
            best, others = np.split(order, [_THOROUGH.actions // 2])
            chosen = np.concatenate([best, self.random.permutation(others)[: _THOROUGH.actions - len(best)]])
            return np.sort(tried[chosen])[:, None]
        points = {1: 9, 2: 5, 3: 3}.get(actions.dimensions, 2)
        if actions.dimensions <= 5:
            corners = list(itertools.product(np.linspace(0.0, 1.0, points), repeat=actions.dimensions))
        else:
            corners = [*self.random.integers(0, 2, (32, actions.dimensions))]
        middle = [np.full(actions.dimensions, 0.5)] if points % 2 == 0 else []
        return np.array([*middle, *corners], dtype=float)

    def _evaluate(self, value: ValueForest, states: Floats, steps: NDArray[np.int64], candidates: Floats) -> Floats:
        """Return Q of candidates in states at time steps, `[n, J]`."""
        self.check()
        q = np.empty((len(states), len(candidates)))
        value_iteration.evaluate_actions(self.model, value, states, steps, candidates, self.discount, self.draws, q)
        return q

    def _draw_steps(self, count: int) -> NDArray[np.int64]:
        """Return time steps for states of which any may occur."""
        return self.random.integers(0, self.facts.horizon, count)

    def _find_successors(self, support: Floats, candidates: Floats, draws: int, step: int | None = None) -> Successors:
        """Return where candidates lead from states of the support, at a time step or at any of them."""
        self.check()
        steps = np.full(len(support), step or 0)
        if step is None and self.clock is not None:
            steps = self._draw_steps(len(support))
        given = self.model, support, steps, candidates
        return value_iteration.find_successors(*given, self.discount, self.hold, draws)

    def _successors_at(self, support: Floats, candidates: Floats, draws: int) -> Callable[[int], Successors] | None:
        """Return the successors as a function of the time step, or None where they do not depend on it."""
        if self.clock is None:
            return None
        return lambda step: self._find_successors(support, candidates, draws, step)

    def _find_elites(self, value: ValueForest) -> Floats:
        """Return recorded actions that exceeded the values most, no two alike."""
        count = len(self.data.rewards)
        rows = np.arange(count) if count <= 20_000 else self.random.integers(0, count, 20_000)
        here, there = np.empty(len(rows)), np.empty(len(rows))
        steps = self.times[rows]
        value_iteration.evaluate_values(value, steps, self.data.states[rows], here)
        value_iteration.evaluate_values(value, steps + 1, self.data.following[rows], there)
        there[self.data.ended[rows]] = 0.0
        gains = self.data.rewards[rows] + self.discount * there - here
        best = rows[np.argsort(-gains, kind="stable")[:256]]
        return _distinct(self.past.actions[best], _ELITES, 0.01)

    def _refine(self, value: ValueForest, support: Floats, candidates: Floats, room: int) -> Floats:
        """Return the grid, and at most `room` of the best actions of states of the support."""
        some = np.ascontiguousarray(support[self.random.permutation(len(support))[:200]])
        steps = self._draw_steps(len(some))
        q = self._evaluate(value, some, steps, candidates)
        best = policy_search.refine_actions(self.model, value, some, steps, q, candidates, self.discount, self.draws)
        return np.concatenate([self._grid(), _distinct(best, room, 0.004)])

    def _plan_novelty(self, support: Floats, successors: Successors, candidates: Floats) -> PolicyTree:
        """Return the policy that leads where few transitions are recorded."""
        following = self.data.following
        low, width = following.min(axis=0), np.ptp(following, axis=0)
        width = np.where(width > 0.0, width, 1.0)
        cells = max(2, round(len(following) ** (0.75 / self.states)))

        def number(points: Floats) -> NDArray[np.int64]:
            boxes = np.clip(((points - low) / width * cells).astype(np.int64), 0, cells - 1)
            return _number_boxes(boxes, cells)

        boxes, counts = np.unique(number(following), return_counts=True)
        reached = number(successors.states.reshape(-1, self.states))
        at = np.minimum(np.searchsorted(boxes, reached), len(boxes) - 1)
        visits = np.where(boxes[at] == reached, counts[at], 0)
        fresh = (1.0 / np.sqrt(1.0 + visits)).reshape(successors.discounts.shape)
        steps = np.where(np.arange(successors.rewards.shape[1]) < successors.single, 1, self.hold)[None, :, None]
        discounts = np.where(successors.discounts > 0.0, _NOVELTY_DISCOUNT**steps, 0.0)
        novel = Successors(successors.states, fresh.mean(axis=2), discounts, successors.single)
        bounds, values = np.array([0.0, 1.0 / (1.0 - _NOVELTY_DISCOUNT)]), np.zeros((1, len(support)))
        value = iterate_values(support, novel, bounds, values, self.random, soft=0.0, rounds=100, trees=self.trees)
        ahead = np.empty(reached.size)
        everywhere = novel.states.reshape(-1, self.states)
        value_iteration.evaluate_values(value, np.zeros(len(everywhere), np.int64), everywhere, ahead)
        q = (novel.rewards + (discounts * ahead.reshape(discounts.shape)).mean(axis=2))[:, : successors.single]
        tree = grow_policy(support, np.ascontiguousarray(q), candidates, self.facts.leaves)
        return truncate(tree, self.facts.leaves)

    def _extract(self, value: ValueForest, support: Floats, candidates: Floats) -> tuple[PolicyTree, float, float]:
        """Grow trees and choose one; return it, its score and that of random actions."""
        facts, horizon, starts = self.facts, self.facts.horizon, self.starts
        random_score = float(
            policy_search.play_randomly(self.model, starts, horizon, candidates, self.rollouts, self.stream)
        )
        trees = {clocked: Candidates(self, random_score) for clocked in self.clocks}
        if self.previous is not None and facts.has("selection"):
            for grown in trees.values():
                grown.add(self.previous)
        greedy, steps = policy_search.visit_greedily(
            self.model, value, starts, horizon, candidates, self.discount, 0.1, self.stream, int(0.75 * self.size)
        )
        some = support[self.random.integers(0, len(support), self.size // 2)]
        states, steps = np.concatenate([greedy, some]), np.concatenate([steps, self._draw_steps(len(some))])
        q = self._evaluate(value, states, steps, candidates)
        for _ in range(self.effort.trees if facts.has("dagger") else 1):
            visited = []
            for clocked, grown in trees.items():
                seen = np.column_stack([states, steps]) if clocked else states
                tree = grow_policy(np.ascontiguousarray(seen), q, candidates, facts.leaves)
                grown.add(tree)
                count = self.size // (4 * len(trees))
                visited.append(
                    policy_search.visit_states(
                        self.model, tree, *self.begin, horizon, candidates, 0.05, self.stream, count
                    )
                )
            for more, then in visited:
                states, steps = np.concatenate([states, more]), np.concatenate([steps, then])
                q = np.concatenate([q, self._evaluate(value, more, then, candidates)])
        spread = np.append(states.std(axis=0), steps.std())
        chosen = {clocked: grown.choose() for clocked, grown in trees.items()}
        if len(chosen) == 2 and chosen[True][1] <= chosen[False][1]:
            del chosen[True]
        improved = {clocked: trees[clocked].improve(*chosen[clocked], candidates, spread) for clocked in chosen}
        clocked = max(improved)
        if len(improved) == 2:
            gain = improved[False][1] - random_score
            clocked = improved[True][1] > improved[False][1] + _CLOCK_GAIN * max(gain, 0.0)
        return *improved[clocked], random_score


def _number_boxes(boxes: NDArray[np.int64], sides: int) -> NDArray[np.int64]:
    """Return one number for each row of box coordinates `[n, d]`; in many dimensions some may share one."""
    number = np.zeros(len(boxes), np.int64)
    for column in boxes.T:
        number = (number * sides + column) % (2**61 - 1)
    return number


def _distinct(points: Floats, most: int, apart: float) -> Floats:
    """Return the first of `points` [n, k] that are at least `apart` from all before them, at most `most`."""
    kept: list[Floats] = []
    for point in points:
        if len(kept) == most:
            break
        if not kept or np.abs(np.array(kept) - point).max(axis=1).min() >= apart:
            kept.append(point)
    return np.array(kept).reshape(len(kept), points.shape[1])
