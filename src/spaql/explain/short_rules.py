"""A short list of rules that approximates a policy, and what it costs.

The list is a policy itself: `ShortRules.predict` plays it, and its return was measured beside that of the whole policy,
on episodes that nothing was chosen by.  Text, Markdown and JSON hold the measurement with the rules.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spaql.explain.rules import Rules
from spaql.explain.short_list import FeatureTree, Oblique
from spaql.formatting import decimals
from spaql.partition.spaces import Floats
from spaql.problems.base import Playable
from spaql.problems.labels import Labels
from spaql.stats import Estimate


@dataclass(frozen=True)
class Comparison:
    """Returns of a list of rules and of the whole policy in the same new episodes.

    Attributes
    ----------
    rules, policy
        Mean returns with their 95% intervals.
    loss
        Mean of the differences, policy less rules, with its 95% interval: negative where the rules earn more.
    agreement
        Share of the steps of the rules' episodes in which the policy plays the same action; None for continuous ones.
    difference
        Mean distance between both actions in these steps, as a share of the range; None for discrete ones.
    gain
        By how much the policy's mean return is above that of random actions, in the episodes of the choice.
    max_loss, is_within
        The share of `gain` that a list might lose, and whether one of them lost no more in the episodes of the choice.
    episodes, seed
        Episodes measured, and the seed of all random numbers.
    steps
        Environment steps played in all, for the search too.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
    >>> rules = agent.rules(at_most=2, episodes=20)
    >>> rules.comparison.episodes
    20
    >>> rules.comparison.loss.mean <= rules.comparison.policy.mean
    True
    """

    rules: Estimate
    policy: Estimate
    loss: Estimate
    agreement: float | None
    difference: float | None
    gain: float
    max_loss: float
    is_within: bool
    episodes: int
    seed: int
    steps: int

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON.

        Returns
        -------
        dict
            The fields by name.
        """
        estimates = {
            name: {part: float(getattr(getattr(self, name), part)) for part in ("mean", "low", "high")}
            for name in ("rules", "policy", "loss")
        }
        return asdict(self) | estimates


class ShortRules(Rules):
    """Few rules that play about as well as the policy; `agent.rules(at_most=...)` makes them.

    Attributes
    ----------
    comparison
        What the rules earned, and the policy, as a `Comparison`.
    features
        Combinations of two observed numbers that rules compare.
    exact_rules
        Number of rules that decide exactly as the policy.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
    >>> rules = agent.rules(at_most=2, episodes=20)
    >>> len(rules), rules.exact_rules
    (1, 4)
    >>> rules.predict([0.5])[0].shape
    (1,)
    """

    def __init__(
        self,
        problem: Playable,
        tree: FeatureTree,
        labels: Labels,
        numbers: Floats,  # [n, states] observed when the rules were played
        comparison: Comparison,
        exact_rules: int,
    ) -> None:
        self.comparison, self.features, self.exact_rules = comparison, tree.features, exact_rules
        self.tree = tree
        texts = [_describe_feature(feature, labels.states) for feature in tree.features]
        values = tree.extend(numbers)
        fractions = np.isin(np.arange(values.shape[1]), tree.periodic)
        points = np.clip(np.where(fractions, values, tree.states.to_unit(values)), 0.0, 1.0)
        super().__init__(
            problem, tree, labels._replace(states=[*labels.states, *texts]), visits=(points, np.ones(len(points)))
        )

    def __str__(self) -> str:
        return f"{super().__str__()}\n\n{self.describe_loss()}"

    def describe(self) -> str:
        """Return the text with a line above that says how to read it, and what it costs below.

        Returns
        -------
        str
            Lines.
        """
        periods = "".join(
            f"  {self.names[d]} is periodic, from {self._tree.states.low[d]:.4g} to {self._tree.states.high[d]:.4g}."
            for d in self._tree.periodic
        )
        head = f"{self.problem.name}, an approximation of the policy: the first rule that matches decides; on the right"
        return f"{head}, its share of all steps.{periods}\n\n{self}"

    def describe_loss(self) -> str:
        """Return sentences that say what the rules lose, and how that was measured.

        Returns
        -------
        str
            Lines.
        """
        found = self.comparison
        digits = decimals([found.rules.half_width, found.policy.half_width, found.loss.half_width], most=6)
        mean, policy = (f"{each.mean:z.{digits}f}" for each in (found.rules, found.policy))
        loss, low, high = (f"{number:z.{digits}f}" for number in (found.loss.mean, *found.loss.interval))
        share = (
            f" ({found.loss.mean / found.gain:z.1%} of the policy's gain over random actions)"
            if found.gain > 0.0
            else ""
        )
        rules, exact = (f"{count:,} rule{'' if count == 1 else 's'}" for count in (len(self), self.exact_rules))
        lines = [f"{rules}; the policy exactly takes {exact}."]
        lines.append(
            f"In the same {found.episodes:,} new episodes the rules return {mean} and the policy {policy}: a loss of "
            f"{loss}{share}, 95% interval {low} to {high}."
        )
        if not found.is_within:
            lines.append(
                f"No list that short was found within a loss of {100 * found.max_loss:.2g}% of this gain; "
                "this one lost least."
            )
        if found.agreement is not None:
            lines.append(f"Both decide alike in {found.agreement:.1%} of the steps that the rules play.")
        else:
            lines.append(f"Their actions differ by {found.difference:.1%} of the range on average.")
        lines.append(f"This took {found.steps:,} steps of the environment, none of which trained the agent.")
        return "\n".join(lines)

    def markdown(self) -> str:
        """Return a table, and what the rules lose.

        Returns
        -------
        str
            Lines.
        """
        return f"{super().markdown()}\n\n{self.describe_loss()}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything, with exact borders and coefficients, ready for JSON.

        Returns
        -------
        dict
            As of `Rules`, and the comparison.
        """
        sizes = {"approximate": True, "exact_rules": self.exact_rules}
        return super().to_dict() | sizes | {"comparison": self.comparison.to_dict()}

    def predict(
        self, observation: Any, state: Any = None, episode_start: ArrayLike | None = None, deterministic: bool = True
    ) -> tuple[Any, Any]:
        """Return the action of the rules for one observation or a batch, and no state, as `Agent.predict` does.

        Parameters
        ----------
        observation
            As `Agent.predict` takes it.
        state, episode_start, deterministic
            Ignored: the rules depend on the observation alone.

        Returns
        -------
        action
            As `Agent.predict` returns it.
        state
            None.
        """
        numbers, single = self.problem.flatten(observation)
        choices = self._choices[self._match(numbers)]
        if single:
            return self.problem.decode(self._tree.middles[choices[:1]], True), None
        return self._tree.actions[choices], None

    def _match(self, numbers: Floats) -> Any:
        return self._match_values(self.tree.extend(numbers))

    def _make_conditions(self, place: int) -> list[dict[str, Any]]:
        """Return the conditions of a rule; an oblique one has `terms` instead of the number that is compared."""
        conditions = super()._make_conditions(place)
        size = self.problem.states.dimensions
        for condition in conditions:
            if condition["number"] >= size:
                p, q, coefficient = self.features[condition.pop("number") - size]
                pairs = ((p, 1.0), (q, coefficient))
                condition["terms"] = [{"number": number, "coefficient": each} for number, each in pairs]
        return conditions


def _describe_feature(feature: Oblique, names: Sequence[str]) -> str:
    """Return a combination of two numbers as text: angle + 0.3 angular velocity."""
    size = abs(feature.coefficient)
    factor = "" if size == 1.0 else f"{size:g} "
    return f"{names[feature.first]} {'+' if feature.coefficient > 0.0 else '-'} {factor}{names[feature.second]}"
