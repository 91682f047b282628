"""The choice of a policy tree by returns in the models, and its improvement: steps 5 and 6 of the planner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spaql.agents.tessera import policy_search
from spaql.agents.tessera.policy_tree import PolicyTree, count_leaves, truncate
from spaql.partition.spaces import Floats

if TYPE_CHECKING:
    from spaql.agents.tessera.planner import Planner

_SMALLER = 0.0015  # share of the gain over random actions that a smaller tree may lose
_FINALISTS = 8  # trees that are scored with all rollouts; before, each is scored with a quarter of them


class Candidates:
    """Policy trees among which to choose, with their scores in the models."""

    def __init__(self, planner: Planner, random_score: float) -> None:
        self.planner, self.random_score = planner, random_score
        self.rated: list[tuple[float, int, PolicyTree]] = []

    def add(self, tree: PolicyTree) -> None:
        """Rate a tree cut back to several sizes, roughly; without selection, only the last one counts."""
        planner, leaves = self.planner, self.planner.facts.leaves
        sizes = [leaves]
        if planner.facts.has("selection"):
            sizes = [size for size in planner.effort.sizes if size < leaves] + sizes
        else:
            self.rated.clear()
        seen = set()
        for size in sizes:
            small = truncate(tree, size)
            if (count := count_leaves(small)) not in seen:
                self.rated.append((planner.score(small, max(1, planner.rollouts // 4)), count, small))
                seen.add(count)

    def choose(self) -> tuple[PolicyTree, float]:
        """Return the best tree, or a smaller one that is hardly worse, and its score."""
        planner = self.planner
        self.rated.sort(key=lambda rated: -rated[0])
        self.rated = [(planner.score(tree), leaves, tree) for _, leaves, tree in self.rated[:_FINALISTS]]
        best = max(score for score, _, _ in self.rated)
        slack = self._slack(best)
        near = [(leaves, -score, tree) for score, leaves, tree in self.rated if score >= best - slack]
        _, score, chosen = min(near, key=lambda rated: rated[:2])
        return chosen, -score

    def _slack(self, best: float) -> float:
        """Return how much of the best score a smaller tree may lose."""
        return _SMALLER * max(best - self.random_score, 0.0)

    def improve(self, chosen: PolicyTree, score: float, candidates: Floats, spread: Floats) -> tuple[PolicyTree, float]:
        """Climb and prune; return the tree and its score."""
        planner = self.planner
        if not planner.facts.has("climbing"):
            return chosen, score
        horizon, models = planner.facts.horizon, planner.models
        chosen = PolicyTree._make(array.copy() for array in chosen)
        count = planner.rollouts
        rollouts = policy_search.record_rollouts(models, chosen, planner.starts, horizon, count)
        room = int(planner.effort.rollout_steps // max(rollouts.lengths.mean(), 1.0))  # episodes may be short
        if (more := min(room, planner.most_rollouts)) > count:
            rollouts = policy_search.record_rollouts(models, chosen, planner.starts, horizon, more)
        budget = planner.effort.climb_steps, planner.ceiling
        score = policy_search.climb(models, chosen, rollouts, candidates, spread, *budget, planner.stream)
        if planner.thorough:
            score = policy_search.prune(models, chosen, rollouts, score, score - 0.4 * self._slack(score))
        return truncate(chosen, 10**6), float(score)
