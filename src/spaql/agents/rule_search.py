"""The search for short rules: `agent.rules(at_most=...)`.

States are collected that the policy visits, also after random actions, and each action's cost there (see
`spaql.explain.short_list`): whether the policy plays another one, and, for an agent that knows the Q of any action, how
much smaller its Q is.  Small trees are grown on either cost, with and without an oblique feature.  Those of the
allowed length play a few episodes, whose states are added, and the trees are grown anew.

What remains is chosen by returns, in episodes of its own: the shortest list within the allowed loss.  Last, the chosen
one and the policy play the same new episodes.  All random numbers are separate from those of learning and `evaluate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spaql.agents.paired_episodes import Chooser, PairedEpisodes, Played
from spaql.agents.progress import announce_compilation, announce_phase
from spaql.errors import ParameterError
from spaql.explain.decision_list import make_decision_list
from spaql.explain.short_list import Choices, FeatureTree, Growth, Oblique, Sample, find_directions, grow, make_tree
from spaql.explain.short_rules import Comparison, ShortRules
from spaql.partition.rng import LARGEST_SEED, Purpose
from spaql.partition.spaces import Box, Discrete, Floats
from spaql.partition.tree import Tree
from spaql.problems.base import Playable
from spaql.problems.labels import Labels
from spaql.stats import mean_interval
from spaql.validation import check_number, check_whole

if TYPE_CHECKING:
    from spaql.agents.base import Agent

MOST_RULES = 100
MOST_EPISODES = 1_000_000
_ROUNDS = 3  # of growing, with new states before all but the first
_COLLECTED = 6000  # steps of the policy
_NOISE = 0.1  # share of random actions in half as many more
_STATES = 5000  # on which trees are grown
_LEAVES = 2.5  # of the largest tree per rule: a list may be shorter than its tree
_ACTIONS = 64  # different continuous actions that are taken from the policy
_ROUGH = (2_000, 4, 50)  # steps by which a list is judged first; least and most episodes
_WELL = (20_000, 20, 200)  # steps by which it is judged last
_FINALISTS = 3  # lists of one length that are
_SHORTER = 2  # rules that an oblique list must save where axis-aligned ones are within the loss


class Settings(NamedTuple):
    """Parameters of the search; see `Agent.rules`."""

    at_most: int
    max_loss: float
    episodes: int
    seed: int
    oblique: bool


def check_settings(at_most: int, max_loss: float, episodes: int, seed: int, oblique: bool) -> Settings:
    """Return checked parameters."""
    return Settings(
        check_whole(at_most, "at_most", 1, MOST_RULES),
        check_number(max_loss, "max_loss", least=0.0, most=1.0),
        check_whole(episodes, "episodes", 2, MOST_EPISODES),
        check_whole(seed, "seed", 0, LARGEST_SEED),
        bool(oblique),
    )


class Candidate(NamedTuple):
    """A tree to choose, the length of its list, and the comparisons in it."""

    rules: int
    conditions: int
    tree: FeatureTree


class _Fixed:
    """The policy of a tree."""

    def __init__(self, tree: FeatureTree) -> None:
        self.tree, self._points = tree, _find_points(tree)

    def choose(self, numbers: Floats) -> Floats:
        return self._points[self.tree.find_choices(numbers)]


class _Random:
    """Random actions, or those of a policy with some random ones."""

    def __init__(self, problem: Playable, seed: int, policy: Chooser | None = None) -> None:
        self._actions, self._policy, self._random = problem.actions, policy, np.random.default_rng(seed)

    def choose(self, numbers: Floats) -> Floats:
        count, actions = len(numbers), self._actions
        drawn = self._random.random((count, actions.dimensions))
        if isinstance(actions, Discrete):
            drawn = np.floor(drawn * actions.count)
        if self._policy is None:
            return drawn
        return np.where(self._random.random((count, 1)) < _NOISE, drawn, self._policy.choose(numbers))


def find_short_rules(agent: Agent, settings: Settings, labels: Labels, progress_bar: bool | None = None) -> ShortRules:
    """Return a list of at most `settings.at_most` rules that plays about as well as an agent's policy."""
    if agent.time_variant:
        what = f"the policy of {type(agent).__name__} changes with the time step, and short rules cannot"
        raise ParameterError(f"at_most: {what}; leave it out, and give `step`")
    tree = agent.tree()
    announce_kernels = announce_compilation("rules", progress_bar)
    announce_search = announce_phase("finding short rules", None, progress_bar)
    with closing(agent.problem.for_evaluation(settings.seed)) as problem, announce_kernels, announce_search:
        return _Search(agent, problem, FeatureTree.from_tree(tree), settings).run(labels)


class _Search:
    """One search: what it plays on, and the policy to approximate."""

    def __init__(self, agent: Agent, problem: Playable, policy: FeatureTree, settings: Settings) -> None:
        self.agent, self.problem, self.policy, self.settings = agent, problem, policy, settings
        purposes = Purpose.TRAINING_ENVIRONMENT, Purpose.SELECTION_ENVIRONMENT, Purpose.EVALUATION_ENVIRONMENT
        self.collection, self.selection, self.measurement = (
            PairedEpisodes(problem, settings.seed, purpose) for purpose in purposes
        )
        self.choices = _list_choices(problem, policy)
        self.player, self.random = _Fixed(policy), _Random(problem, settings.seed)
        low, high, periodic = problem.states.low.copy(), problem.states.high.copy(), list(policy.periodic)
        low[periodic], high[periodic] = 0.0, 1.0
        self.box = Box(low, high)
        self.length = 1.0  # mean length of the policy's episodes
        self.exact = self._measure_list(policy)  # rules and comparisons of the policy itself

    def run(self, labels: Labels) -> ShortRules:
        """Search, choose and measure."""
        return self.measure(*self.choose(self.find_candidates()), labels)

    def find_candidates(self) -> list[Candidate]:
        """Return trees whose lists are short enough, each with the cheapest of its length and kind."""
        most, runs = self.settings.at_most, [self.collection.play(self.player, 0, 1)]
        self.length = float(len(runs[0].times))
        count = int(np.clip(_COLLECTED // self.length, 8, 200))
        runs.append(self.collection.play(self.player, 1, count))
        self.length = len(runs[1].times) / count
        noisy = _Random(self.problem, self.settings.seed, self.player)
        runs.append(self.collection.play(noisy, 1 + count, count // 2))
        place, part = 1 + count + count // 2, count // 4
        for _ in range(_ROUNDS - 1):
            for sample, features in self._vary(self._sample(runs)):
                tree = self._make_tree(grow(sample, features, most), most)
                runs.append(self.collection.play(_Fixed(tree), place, part))
                place += part
        candidates: list[Candidate] = []
        for sample, features in self._vary(self._sample(runs)):
            growth, best = grow(sample, features, int(_LEAVES * most) + 1), {}
            for leaves in range(1, len(growth.costs) + 1):  # of trees with lists of one length the last is the cheapest
                tree = self._make_tree(growth, leaves)
                size = self._measure_list(tree)
                best[size] = Candidate(*size, tree)
            candidates += best.values()
        candidates.append(Candidate(*self.exact, self.policy))
        return [candidate for candidate in candidates if candidate.rules <= most]

    def _sample(self, runs: list[Played]) -> list[Sample]:
        """Return a sample of the states that were visited, for each kind of cost."""
        numbers, times = (np.concatenate(column) for column in list(zip(*runs, strict=True))[1:])
        rows = np.linspace(0, len(times) - 1, min(len(times), _STATES)).astype(np.int64)
        numbers, times = numbers[rows], times[rows]
        played, points = self.player.choose(numbers), self.choices.points
        distances = ((played[:, None] - points[None]) ** 2).sum(axis=2)
        costs = [(distances > 0.0).astype(float) if isinstance(self.problem.actions, Discrete) else distances]
        projected = self.problem.states.project(numbers, self.policy.periodic)
        if (q := self.agent._evaluate(projected, times, points)) is not None:
            costs.append(q.max(axis=1, keepdims=True) - q)
        values, whole = self.policy.extend(numbers), self.problem.whole
        return [Sample(values, each, self.box, whole, self.policy.periodic) for each in costs]

    def _vary(self, samples: list[Sample]) -> Iterator[tuple[Sample, list[Oblique]]]:
        """Yield each sample without an oblique feature, and with each that is promising."""
        for sample in samples:
            yield sample, []
            if self.settings.oblique:
                yield from ((sample, [feature]) for feature in find_directions(sample, self.settings.at_most))

    def choose(self, candidates: list[Candidate]) -> tuple[FeatureTree, float, bool]:
        """Return a tree, the policy's gain over random actions, and whether the tree is within the allowed loss.

        Lists of one length are judged together, the shortest first: roughly, and well if they may be within the loss.
        Of several within it the one of fewest comparisons is taken.
        """
        few, many = (int(np.clip(steps // self.length, least, most)) for steps, least, most in (_ROUGH, _WELL))
        policy, random = (self.selection.play(player, 0, many).returns for player in (self.player, self.random))
        gain = float(policy.mean() - random.mean())
        allowed = self.settings.max_loss * max(gain, 0.0)

        def lose(place: int, episodes: int) -> Floats:
            return policy[:episodes] - self.selection.play(_Fixed(candidates[place].tree), 0, episodes).returns

        lengths = np.array([each.rules + (_SHORTER - 0.5 if each.tree.features else 0.0) for each in candidates])
        rough, well = np.full(len(candidates), np.inf), dict[int, float]()
        for length in np.unique(lengths):
            near = []
            for place in np.flatnonzero(lengths == length).tolist():
                losses = lose(place, few)
                rough[place] = losses.mean()
                if losses.mean() - 2.0 * losses.std() / np.sqrt(few) <= allowed:
                    near.append((candidates[place].conditions, rough[place], place))
            finalists = [place for *_, place in sorted(near)[:_FINALISTS]]
            finalists += [place for _, place in sorted(pair[1:] for pair in near)[:1] if place not in finalists]
            well |= {place: float(lose(place, many).mean()) for place in finalists}
            within = [
                (candidates[place].conditions, well[place], place) for place in finalists if well[place] <= allowed
            ]
            if within:
                return candidates[min(within)[2]].tree, gain, True
        others = [place for place in np.argsort(rough, kind="stable")[:_FINALISTS].tolist() if place not in well]
        well |= {place: float(lose(place, many).mean()) for place in others}
        return candidates[min(well, key=lambda place: well[place])].tree, gain, False

    def measure(self, tree: FeatureTree, gain: float, is_within: bool, labels: Labels) -> ShortRules:
        """Return the rules of a tree, with what they earn in new episodes."""
        settings, player = self.settings, _Fixed(tree)
        rules, policy = (self.measurement.play(each, 0, settings.episodes) for each in (player, self.player))
        actions, others = (each.choose(rules.numbers) for each in (player, self.player))
        is_discrete = isinstance(self.problem.actions, Discrete)
        comparison = Comparison(
            rules=mean_interval(rules.returns),
            policy=mean_interval(policy.returns),
            loss=mean_interval(policy.returns - rules.returns),
            agreement=float((actions == others).mean()) if is_discrete else None,
            difference=None if is_discrete else float(np.abs(actions - others).mean()),
            gain=gain,
            max_loss=settings.max_loss,
            is_within=is_within,
            episodes=settings.episodes,
            seed=settings.seed,
            steps=self.collection.steps + self.selection.steps + self.measurement.steps,
        )
        return ShortRules(self.agent.problem, tree, labels, rules.numbers, comparison, self.exact[0])

    def _make_tree(self, growth: Growth, leaves: int) -> FeatureTree:
        return make_tree(growth, leaves, self.problem.states, self.policy.periodic, self.choices)

    def _measure_list(self, tree: FeatureTree) -> tuple[int, int]:
        """Return the length of a tree's list of rules, and the comparisons in it."""
        whole = np.append(self.problem.whole, np.zeros(len(tree.features), np.bool_))
        boxes = make_decision_list(tree, 0, whole)
        return len(boxes.choices) + 1, boxes.conditions


def _find_points(tree: Tree) -> Floats:
    """Return the actions of a tree's choices in the unit cube, or their numbers."""
    low, high = tree.boxes[:, 0], tree.boxes[:, 1]
    points: Floats = low + 0.5 * (high - low)
    return points


def _list_choices(problem: Playable, tree: Tree) -> Choices:
    """Return the actions that leaves may play: those of the policy; of continuous ones, rounded, and a few more."""
    points = _find_points(tree)
    if not isinstance(problem.actions, Box):
        points = np.unique(points, axis=0)
        return Choices(points, points, np.asarray(problem.decode(points, False)))
    box = problem.actions
    points = points[np.linspace(0, len(points) - 1, min(len(points), _ACTIONS)).astype(np.int64)]
    if box.dimensions == 1:
        points = np.concatenate([points, np.linspace(0.0, 1.0, 21)[:, None]])
    places = (2 - np.floor(np.log10(box.high - box.low))).astype(np.int64)
    rounded = [np.round(column, place) for column, place in zip(box.from_unit(points).T, places.tolist(), strict=True)]
    values = np.unique(np.clip(np.column_stack(rounded) + 0.0, box.low, box.high), axis=0)
    played = np.asarray(problem.decode(values, False))
    _, kept = np.unique(played.reshape(len(played), -1), axis=0, return_index=True)
    kept.sort()
    return Choices(box.to_unit(values[kept]), values[kept], played[kept])
