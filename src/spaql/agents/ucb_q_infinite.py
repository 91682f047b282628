"""Q-learning with upper confidence bounds for an infinite horizon (Wang, Dong, Chen and Wang, 2020).

One table for all time steps, S states and A actions, rewards discounted by gamma; the cell of largest Qhat is played.
A visit, the t-th of its cell, with reward r and next state x' changes (their algorithm 1)

    Q(x, a)    <- (1 - alpha_t) Q(x, a) + alpha_t (r + b_t + gamma max Qhat(x', .)),      alpha_t = (H + 1) / (H + t)
    Qhat(x, a) <- min(Qhat(x, a), Q(x, a)),                            Q = Qhat = 1 / (1 - gamma) at the start
    b_t = c / (1 - gamma) sqrt(H iota(t) / t),                         iota(t) = ln(S A (t + 1) (t + 2) / delta)

with the effective horizon H = ln(1 / ((1 - gamma) epsilon_1)) / ln(1 / gamma) after which discounted rewards matter by
less than

    epsilon_1 = epsilon / (24 R M ln(1 / (1 - gamma))),
    R = ceil(ln(3 / (epsilon (1 - gamma))) / (1 - gamma)),       M = max(ceil(2 log2(1 / ((1 - gamma) epsilon))), 10),

for a policy that is within epsilon of the best one in all but a number of steps of order S A / (epsilon^2
(1 - gamma)^7).  The table that the agent keeps as its own is Qhat, which never rises.  The paper proves this for
c = 4 sqrt(2), with which Q stays above 1 / (1 - gamma), and Qhat where it began, for hundreds of thousands of visits of
each cell; the default is the one of `UCBQ`.
"""

import math
from typing import Any

from spaql.agents.optimistic_q import OptimisticQ, Range
from spaql.agents.registry import register
from spaql.partition.net import Bins, read_bins
from spaql.validation import check_number

_MARGIN = 1e-9  # of gamma and epsilon to 0 and to 1


@register(
    "ucb-q-infinite",
    label="UCB-Q infinite",
    colour="#882255",
    reference="Wang et al. (2020): Q-learning with UCB exploration is sample efficient for infinite-horizon MDP",
)
class UCBQInfinite(OptimisticQ):
    """Discounted tabular Q-learning with a UCB bonus, one table for all time steps.

    Parameters
    ----------
    bins
        Intervals per dimension: one number for all, or one for each, first those of states, then those of actions in a
        box.  Discrete actions have one cell each.  None takes the largest power of two up to 16 with which the net has
        at most 262,144 cells in all, and at least 2.
    discount
        gamma, from 1e-9 to 1 - 1e-9; None takes 1 - 1 / H with the H steps of an episode, at least 0.5.
    accuracy
        epsilon, the accuracy of the policy, which says how far ahead it must look; from 1e-9 to 1 - 1e-9.
    scaling
        c, the weight of the bonus; at least 0.  The paper's proof takes 4 sqrt(2).
    failure_probability
        delta, with which the bound on the number of worse steps may fail.
    rewards
        Smallest and largest reward of a step, which are scaled to 0 and 1; None takes what the problem declares, else
        0 and 1.
    problem, seed, **environment
        As for every agent; see `spaql.agents.Agent`.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.UCBQInfinite("oil", seed=0).learn(iterations=50)
    >>> agent.predict([0.5])[0]
    array([0.71875])
    """

    def __init__(
        self,
        problem: Any,
        *,
        bins: Bins = None,
        discount: float | None = None,
        accuracy: float = 0.1,
        scaling: float = 0.003,
        failure_probability: float = 0.05,
        rewards: Range | None = None,
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(problem, bins, scaling, failure_probability, rewards, seed=seed, **environment)
        self.bins = read_bins(bins)
        limits: dict[str, Any] = {"least": _MARGIN, "most": 1.0 - _MARGIN}
        self.discount = None if discount is None else check_number(discount, "discount", **limits)
        self.accuracy = check_number(accuracy, "accuracy", **limits)
        steps = max(2.0, float(self.problem.horizon))
        gamma = 1.0 - 1.0 / steps if self.discount is None else self.discount
        most = steps if self.discount is None else 1.0 / (1.0 - gamma)
        horizon = find_effective_horizon(gamma, self.accuracy)
        rules = self._make_rules(
            discount=gamma,
            rate=horizon,
            bonus=self.scaling * most * math.sqrt(horizon),
            union=self._pairs / self.failure_probability,
            ended=self._nothing * most,
        )
        self._begin(rules, most, running=True)


def find_effective_horizon(gamma: float, epsilon: float) -> float:
    """Return H of the module's docstring, or 1 where that is less, as it is for gamma near 0."""
    repeats = math.ceil(math.log(3.0 / (epsilon * (1.0 - gamma))) / (1.0 - gamma))
    levels = max(math.ceil(2.0 * math.log2(1.0 / ((1.0 - gamma) * epsilon))), 10)
    rest = epsilon / (24.0 * repeats * levels * math.log(1.0 / (1.0 - gamma)))
    return max(1.0, math.log(1.0 / ((1.0 - gamma) * rest)) / math.log(1.0 / gamma))
