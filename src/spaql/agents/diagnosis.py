"""Checks for common mistakes in an agent and its problem: the observation, its effect, and what to change.

`Agent.diagnose` runs the checks below, and those of `spaql.agents.model_diagnosis` for agents that learned a model.
They use the history, the partition, the parameters, and a *probe*: a few episodes of random actions, and of the policy
where there is one, on random numbers of their own.  The probe teaches the agent nothing, changes none of its streams
and counts towards no budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spaql.agents.rollouts import advance_all, reset_all
from spaql.partition.rng import Purpose, stream
from spaql.partition.spaces import Discrete, Floats
from spaql.problems.base import RAN, SOME_CUT, SOME_ENDED, Frame, Playable

if TYPE_CHECKING:
    from spaql.agents.base import Agent
    from spaql.agents.tessera.planner import Transitions
    from spaql.partition.partition import Partition

_PROBE_STEPS = 1000  # of each kind
_MANY = 0.05  # share of states or steps above which a check reports
_MOST = 0.5
_FEW_VISITS = 4
_ROUNDING = 1e-6  # of the range; observations in single precision round past a border
_NOISE_EPISODES = 200
_TYPICAL = 0.9  # share of episodes, and of the horizon
_FEWEST_EPISODES = 5  # that are enough to say how long they are, unless all are equally long
_FURTHER = 3  # horizons, or a probe if that is longer, within which the end of an episode is looked for
_REPEATED_STEPS = 50  # of episodes that are played twice
_SEEDS = 2**31  # as in training: some environments take no larger ones


@dataclass(frozen=True)
class Diagnosis:
    """A possible mistake in an agent or its problem.

    Examples
    --------
    >>> import spaql
    >>> [finding] = spaql.AQL("oil", rollouts=0, seed=0).diagnose(total_timesteps=20)
    >>> finding.id
    'budget-too-small'
    """

    id: str  #: name of the check, for programs
    what: str  #: the observation
    effect: str  #: its effect on learning
    advice: str  #: what to change

    def __str__(self) -> str:
        return f"{self.what}: {self.effect}. {self.advice}."

    def to_dict(self) -> dict[str, str]:
        """Return the fields for JSON.

        Returns
        -------
        dict
            The fields by name.
        """
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of a part of the probe."""

    points: Floats  # [n, states] of the unit cube
    actions: Floats  # [n, actions]
    rewards: Floats  # [n]
    following: Floats  # [n, states]
    outside: Floats  # [n, states] how far the next observation was outside its range before it was clipped, in widths
    ended: NDArray[np.bool_]  # [n] terminated
    last: NDArray[np.bool_]  # [n] whether it was the last of its episode
    visits: NDArray[np.int64]  # [n] of the cell that was played; 0 for random actions
    times: NDArray[np.int64]  # [n] step of the episode, from 0

    @property
    def cuts(self) -> NDArray[np.int64]:
        """Lengths of the episodes that were not terminated; without the last one, which may be under way."""
        return self.lengths[~self.ended[self.last]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Lengths of all episodes; without the last one, which may be under way."""
        return np.asarray(self.times[self.last] + 1, np.int64)


@dataclass(frozen=True, eq=False)
class Case:
    """Input of a check: the agent, what is planned, and data of the probe."""

    agent: Agent
    planned: int | None  # environment steps still to come, None if unknown
    random: Steps  # of random actions
    policy: Steps | None  # of the policy
    limit: int | None  # steps after which the environment itself truncates, where it says so or was seen to

    @property
    def parts(self) -> list[Steps]:
        """Both parts of the probe."""
        return [self.random] if self.policy is None else [self.random, self.policy]

    @property
    def rewards(self) -> Floats:
        """All rewards of the probe."""
        return np.concatenate([part.rewards for part in self.parts])


def _play_probe(agent: Agent, planned: int | None) -> Case:
    random = np.random.default_rng([agent.seed, _PROBE_STEPS])
    first = _play_steps(agent, None, random)
    has_policy = agent.iterations and (agent.steps_to_split is not None or agent._fineness is not None)
    policy = agent._read_policy() if has_policy else None
    second = None if policy is None else _play_steps(agent, policy, random)
    limit, last = getattr(agent.problem, "limit", None), first if second is None else second
    if limit is None and hasattr(agent.problem, "env") and (last.cuts == agent.problem.horizon).any():
        limit = _play_on(agent, policy, random)
    return Case(agent, planned, first, second, limit)


def _play_on(agent: Agent, policy: Partition | None, random: np.random.Generator) -> int | None:
    """Play an episode past the horizon; return the steps after which the environment truncated it, else None."""
    seed, most = int(random.integers(_SEEDS)), max(_FURTHER * agent.problem.horizon, _PROBE_STEPS)
    with closing(agent.problem.for_evaluation(seed)) as problem, problem.defer_interrupts():
        world_random, frame = stream(seed, Purpose.TRAINING_ENVIRONMENT), problem.frame(1)
        problem.check(reset_all(problem.world, frame, 0, 1, world_random), "while it was diagnosed")
        for step in range(most):
            _choose_action(agent, problem, policy, frame, min(step, problem.horizon - 1), random)
            status = advance_all(problem.world, frame, 1, world_random)
            problem.check(status, "while it was diagnosed")
            if status != RAN:
                return step + 1 if status & SOME_CUT and not status & SOME_ENDED else None
    return None


def _choose_action(
    agent: Agent, problem: Playable, policy: Partition | None, frame: Frame, step: int, random: np.random.Generator
) -> int:
    """Write an action of a policy into a frame, or a random one; return the visits of its cell, 0 for a random one."""
    actions = problem.actions
    if policy is None and isinstance(actions, Discrete):
        frame.actions[0] = random.integers(actions.count)
    elif policy is None:
        frame.actions[0] = random.random(actions.dimensions)
    if policy is None:
        return 0
    cell = policy.greedy(frame.points, np.array([step if agent.time_variant else 0]))[0]
    frame.actions[0] = policy.forest.boxes[cell].mean(axis=0)
    return int(policy.forest.cells["visits"][cell])


def _play_steps(agent: Agent, policy: Partition | None, random: np.random.Generator) -> Steps:
    """Play random actions, or a policy."""
    seed, rows, step = int(random.integers(_SEEDS)), [], 0
    low, width = agent.problem.states.low, agent.problem.states.high - agent.problem.states.low
    rounds = np.isin(np.arange(len(low)), list(getattr(agent.problem, "periodic", ())))
    with closing(agent.problem.for_evaluation(seed)) as problem, problem.defer_interrupts():
        world_random, frame = stream(seed, Purpose.TRAINING_ENVIRONMENT), problem.frame(1)
        for _ in range(_PROBE_STEPS):
            if step == 0:
                problem.check(reset_all(problem.world, frame, 0, 1, world_random), "while it was diagnosed")
            visits = _choose_action(agent, problem, policy, frame, step, random)
            before, time = (frame.points[0].copy(), frame.actions[0].copy()), step
            status = advance_all(problem.world, frame, 1, world_random)
            problem.check(status, "while it was diagnosed")
            step = step + 1 if status == RAN and step + 1 < problem.horizon else 0
            ended = bool(status & SOME_ENDED)
            place = np.zeros(len(low)) if ended else (problem.read_observation(frame) - low) / width
            outside = np.where(rounds, 0.0, np.maximum(place - 1.0, 0.0) + np.minimum(place, 0.0))
            reward = frame.outcomes[0, 0]
            rows.append((*before, reward, frame.points[0].copy(), outside, ended, step == 0, visits, time))
    return Steps(*map(np.array, zip(*rows, strict=True)))


def run_checks(agent: Agent, planned: int | None) -> list[Diagnosis]:
    """Return what all checks find; `planned` is the number of environment steps still to come, None if unknown."""
    case = _play_probe(agent, planned)
    diagnoses = [diagnosis for check in _CHECKS for diagnosis in check(case)]
    if agent.iterations and agent.model is not None:
        from spaql.agents.model_diagnosis import run_model_checks  # here: it imports this module

        known = {diagnosis.id for diagnosis in diagnoses}
        diagnoses += [diagnosis for diagnosis in run_model_checks(case) if diagnosis.id not in known]
    return diagnoses


def _rewards(case: Case) -> Iterator[Diagnosis]:
    low, high = float(case.rewards.min()), float(case.rewards.max())
    declared = case.agent.problem.rewards
    if declared is not None and not declared[0] <= low <= high <= declared[1]:
        yield Diagnosis(
            "reward-outside-declared-range",
            f"rewards from {low:.4g} to {high:.4g} were met, and the problem declares "
            f"{declared[0]:g} to {declared[1]:g}",
            "code that scales rewards by the declared range scales them wrongly",
            "Correct `rewards` of the problem, or the rewards",
        )
    if case.agent.needs_unit_rewards and not 0.0 <= low <= high <= 1.0:
        scales, starts = case.agent.accepts("rewards"), case.agent.accepts("initial_q")
        remedy = "Give their range, as `rewards`" if scales else "Scale the rewards to 0 to 1"
        remedy = "Give `initial_q`, about the best return" if starts else remedy
        yield Diagnosis(
            "reward-outside-unit-range",
            f"rewards from {low:.4g} to {high:.4g} were met, and {type(case.agent).__name__} is made for 0 to 1",
            "every Q starts at H, the return of rewards of 1, so with larger rewards it hardly explores, and with "
            "negative ones every untried action looks better than all others",
            f"{remedy}, or use Tessera, which takes them as they are",
        )


def _clipped(case: Case) -> Iterator[Diagnosis]:
    problem = case.agent.problem
    states, names = problem.states, getattr(problem, "names", None)
    outside = np.concatenate([part.outside for part in case.parts])
    for d in range(states.dimensions):
        called = f"state {d}" if names is None else f"observed number {names[d]!r}"
        widen = "`states`" if names is None else f"its range, by bounds={{{names[d]!r}: (low, high)}}"
        for edge, at, far in (("below", states.low[d], -outside[:, d]), ("above", states.high[d], outside[:, d])):
            share = float(np.mean(far > _ROUNDING))
            if share > _MANY:
                yield Diagnosis(
                    "states-clipped",
                    f"{100 * share:.0f}% of the observations were {edge} the range of {called}, {at:g}, and were moved "
                    "to its border",
                    "situations that differ look alike, and the agent learns their mean",
                    f"Widen {widen}",
                )


def _horizon(case: Case) -> Iterator[Diagnosis]:
    """Compare the horizon with the lengths of episodes that were truncated."""
    agent: Any = case.agent
    horizon = agent.problem.horizon
    past = [find_cuts(agent._past())] if agent.iterations and agent.model is not None else []
    lengths = np.concatenate([*(part.cuts for part in case.parts), *past])
    enough = len(lengths) >= _FEWEST_EPISODES or (len(lengths) > 1 and not np.ptp(lengths))
    typical = int(np.quantile(lengths, _TYPICAL)) if enough else horizon
    if typical < _TYPICAL * horizon:
        yield Diagnosis(
            "horizon-too-long",
            f"the horizon is {horizon:,}, and the environment truncated {100 * _TYPICAL:.0f}% of the episodes that it "
            f"did not terminate after at most {typical:,} steps",
            "the agent plans for time that it does not have, and values rewards that come too late",
            f"Give horizon={int(lengths.max())}",
        )
    every = np.concatenate([part.lengths for part in case.parts])
    if not len(lengths) and len(every) >= _FEWEST_EPISODES and not np.ptp(every) and every[0] <= _MOST * horizon:
        yield Diagnosis(
            "horizon-too-long",
            f"the horizon is {horizon:,}, and the environment terminated each of {len(every):,} episodes after "
            f"{every[0]:,} step{'' if every[0] == 1 else 's'}",
            "if that is the end of the time, and no state to reach or to avoid, the agent plans for time that it does "
            "not have",
            f"Then give horizon={every[0]}, or return truncated=True instead of terminated=True",
        )
    if case.limit is not None and case.limit > horizon and (lengths == horizon).any():
        yield Diagnosis(
            "horizon-too-short",
            f"the horizon of {horizon:,} breaks off episodes that the environment itself truncates after "
            f"{case.limit:,} steps",
            "training and evaluations see the beginning of an episode only, and what it earns later does not count",
            f"Give horizon={case.limit}, unless the beginning is all that counts",
        )


def _memory(case: Case) -> Iterator[Diagnosis]:
    """Look, before anything is learned, whether an environment remembers what a file does not hold.

    One copy plays two episodes and then a third; another goes on after the second, as after a resume.
    """
    agent: Any = case.agent
    if agent.iterations or not hasattr(agent.problem, "env"):
        return
    seed = int(np.random.default_rng([agent.seed, _REPEATED_STEPS]).integers(_SEEDS))
    with closing(agent.problem.for_evaluation(seed)) as whole, whole.defer_interrupts():
        for number in range(2):
            _play_episode(agent, whole, number)
        state = whole.progress()
        expected = _play_episode(agent, whole, 2)
    with closing(agent.problem.for_evaluation(seed)) as resumed, resumed.defer_interrupts():
        resumed.go_on(state)
        if np.array_equal(expected, _play_episode(agent, resumed, 2)):
            return
    yield Diagnosis(
        "environment-remembers",
        "the environment remembers, from one episode to the next, more than a file holds: the state of its np_random",
        "a run that is stopped and resumed does not learn exactly what an uninterrupted one learns",
        "Let reset set everything that step uses, and draw from self.np_random only, if that matters to you",
    )


def _play_episode(agent: Agent, problem: Any, number: int) -> Floats:
    """Return the rewards and observations of an episode of random actions, `[steps, 1 + states]`."""
    random, frame, rows = np.random.default_rng([agent.seed, number]), problem.frame(1), []
    world_random = stream(agent.seed, Purpose.TRAINING_ENVIRONMENT)
    problem.check(reset_all(problem.world, frame, 0, 1, world_random), "while it was diagnosed")
    rows.append([0.0, *problem.read_observation(frame)])
    for step in range(min(_REPEATED_STEPS, problem.horizon)):
        _choose_action(agent, problem, None, frame, step, random)
        status = advance_all(problem.world, frame, 1, world_random)
        problem.check(status, "while it was diagnosed")
        rows.append([frame.outcomes[0, 0], *problem.read_observation(frame)])
        if status != RAN:
            break
    return np.array(rows)


def find_cuts(past: Transitions) -> NDArray[np.int64]:
    """Return the lengths of the episodes that were not terminated; the last one may be under way."""
    last = np.flatnonzero(np.diff(past.times) <= 0)
    return np.asarray(past.times[last[past.ended[last] == 0]] + 1, np.int64)  # no ~: of int8 that is -1 or -2


def _saturated(case: Case) -> Iterator[Diagnosis]:
    agent = case.agent
    if not agent.caps_value or agent.problem.horizon == 1:  # after the last step nothing comes
        return
    horizon = agent.problem.horizon
    advice = "Use Tessera, which learns the value of the next state, unless a myopic policy is good enough"
    effect = "the value of the next state carries no information, and the agent uses immediate rewards only"
    if not agent.iterations:
        if case.rewards.min() >= 0.0 and not case.random.ended.any():  # an end is worth 0, which brings V down
            what = f"no reward below 0 was met, so V, which starts at its cap {horizon}, will stay there"
            yield Diagnosis("value-saturated", what, effect, advice)
    elif len(agent.history) and float(agent.history["value_low"].min()) >= horizon:
        what = f"V was at its cap {horizon} in every update"
        yield Diagnosis("value-saturated", what, effect, advice)


def _starved(case: Case) -> Iterator[Diagnosis]:
    if case.policy is None:
        return
    share, fineness = float(np.mean(case.policy.visits < _FEW_VISITS)), case.agent._fineness
    if share > (_MANY if fineness is None else _MOST):  # some cells of a fixed net are always rare
        remedies = {None: "Train longer", "epsilon": "Give a larger `epsilon`, or train longer"}
        basis = "a guess" if case.agent.model is None else "what the learned model expects, which was not observed"
        yield Diagnosis(
            "cells-starved",
            f"in {100 * share:.0f}% of its steps the policy plays a cell with fewer than {_FEW_VISITS} visits",
            f"what it does there is {basis}",
            remedies.get(fineness, f"Give fewer `{fineness}`, or train longer"),
        )


def _budget(case: Case) -> Iterator[Diagnosis]:
    agent = case.agent
    needed = agent.steps_to_split
    if needed is None:
        return
    steps = agent.training_steps + (case.planned or 0)
    if (agent.iterations or case.planned is not None) and steps < needed:
        yield Diagnosis(
            "budget-too-small",
            f"{steps:,} steps of learning are fewer than the {needed:,} {agent.steps_to_split_for}",
            "the policy can distinguish hardly any states and actions",
            "Train longer",
        )
    elif agent.iterations and agent._is_indifferent():
        yield Diagnosis(
            "nothing-split",
            f"after {steps:,} steps of learning no state and no action was found to be better than another",
            "the policy plays the same everywhere, and its action is arbitrary",
            "Train longer, or look whether the actions matter at all",
        )


def _dropped(case: Case) -> Iterator[Diagnosis]:
    size = getattr(case.agent, "buffer_size", None)
    steps = case.agent.training_steps + (case.planned or 0)
    if size is not None and steps > size:
        yield Diagnosis(
            "buffer-too-small",
            f"{steps:,} environment steps are more than the {size:,} transitions that the replay buffer holds",
            "every second transition is dropped whenever the buffer is full",
            "Nothing, if the score is good; else give more `buffer_size`, of about "
            f"{8 * (2 * case.agent.problem.states.dimensions + case.agent.problem.actions.dimensions + 1) + 5} bytes "
            "for each transition",
        )


def _noise(case: Case) -> Iterator[Diagnosis]:
    agent, rollouts = case.agent, getattr(case.agent, "rollouts", 0)
    if not agent.iterations or not agent.selection_steps or not rollouts or agent.restored_from is not None:
        return  # a restored policy was kept for another score
    kept = np.diff(agent.history["best"])
    gains = kept[kept > 0.0]
    if not len(gains):
        return
    evaluation = agent.evaluate(_NOISE_EPISODES)
    noise = evaluation.estimate.deviation / np.sqrt(rollouts)
    gain = float(np.median(gains[len(gains) // 2 :]))
    if noise > gain:
        yield Diagnosis(
            "selection-noise",
            f"policies are compared by {rollouts} rollouts, with a standard error of {noise:.3g}, and the later ones "
            f"that were kept seemed better by {gain:.3g} only",
            f"which policy is kept is mostly luck, and its training score of {agent.selection_score:.4g} is too high "
            f"(evaluation: {evaluation.mean:.4g})",
            "Give more `rollouts` (four times as many halve the noise), or use Tessera, which selects nothing",
        )


_CHECKS = (_rewards, _clipped, _horizon, _memory, _saturated, _budget, _starved, _dropped, _noise)
