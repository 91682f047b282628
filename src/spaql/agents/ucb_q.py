"""Q-learning with upper confidence bounds (Jin, Allen-Zhu, Bubeck and Jordan: Is Q-learning provably efficient? 2018).

One table for each time step h, of S states and A actions; the cell of largest Q is played.  A visit, the t-th of its
cell, with reward r and next state x' changes (algorithms 1 and 2)

    Q_h(x, a) <- (1 - alpha_t) Q_h(x, a) + alpha_t (r + V_{h+1}(x') + b_t),        alpha_t = (H + 1) / (H + t)
    V_h(x)    =  min(H, max Q_h(x, .)),          V_{H+1} = 0,          Q = H at the start,

with one of two bonuses, where iota = ln(S A T / p):

    Hoeffding    b_t = c sqrt(H^3 iota / t)
    Bernstein    b_t = (beta_t - (1 - alpha_t) beta_{t-1}) / (2 alpha_t),          beta_0 = 0,
                 beta_t = min(c (sqrt(H (W_t + H) iota / t) + sqrt(H^7 S A) iota / t),   c sqrt(H^3 iota / t))
                 W_t = the variance of the t values V_{h+1}(x') seen so far: sigma / t - (mu / t)^2, with mu the sum of
                 V and sigma the sum of its squares

(the paper's two constants c_1 and c_2 are one here).  Regret after T steps is of order sqrt(H^4 S A T) with the first
and sqrt(H^3 S A T) with the second, up to logarithms.  The paper's states and actions are the cells of a net.
"""

import math
from typing import Any

from spaql.agents.base import MOST_STEPS
from spaql.agents.optimistic_q import OptimisticQ, Range
from spaql.agents.registry import register
from spaql.partition.net import Bins, read_bins
from spaql.validation import check_choice, check_whole


@register(
    "ucb-q",
    label="UCB-Q",
    colour="#56B4E9",
    reference="Jin, Allen-Zhu, Bubeck, Jordan: Is Q-learning provably efficient? (2018)",
)
class UCBQ(OptimisticQ):
    """Tabular Q-learning with a UCB bonus, one table for each time step.

    Parameters
    ----------
    bins
        Intervals per dimension: one number for all, or one for each, first those of states, then those of actions in a
        box.  Discrete actions have one cell each.  None takes the largest power of two up to 16 with which the net has
        at most 262,144 cells in all, and at least 2.
    bonus
        "hoeffding" or "bernstein".
    scaling
        c, the weight of the bonus; at least 0.  The paper leaves it open.
    failure_probability
        p, with which the regret bound may fail.
    planned_steps
        T, environment steps that are planned in all; the bonus depends on its logarithm only.
    rewards
        Smallest and largest reward of a step, which are scaled to 0 and 1; None takes what the problem declares, else
        0 and 1.
    problem, seed, **environment
        As for every agent; see `spaql.agents.Agent`.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.UCBQ("oil", seed=0).learn(iterations=50)
    >>> agent.predict([0.5])[0]
    array([0.03125])
    """

    time_variant = True

    def __init__(
        self,
        problem: Any,
        *,
        bins: Bins = None,
        bonus: str = "hoeffding",
        scaling: float = 0.003,
        failure_probability: float = 0.05,
        planned_steps: int = 100_000,
        rewards: Range | None = None,
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(problem, bins, scaling, failure_probability, rewards, seed=seed, **environment)
        self.bins = read_bins(bins)
        self.bonus = check_choice(bonus, "bonus", ("hoeffding", "bernstein"))
        self.planned_steps = check_whole(planned_steps, "planned_steps", 1, MOST_STEPS)
        horizon = float(self.problem.horizon)
        scale, iota = self._find_hoeffding(self.planned_steps)
        rules = self._make_rules(
            cap=horizon,
            rate=horizon,
            bonus=scale,
            variance=self.scaling * math.sqrt(horizon * iota),
            lower_order=self.scaling * math.sqrt(horizon**7 * self._pairs) * iota,
            ended=self._nothing,
        )
        self._begin(rules, horizon, moments=self.bonus == "bernstein")

    @property
    def bonus_scale(self) -> float | None:
        """The bonus times sqrt(visits); None for the Bernstein bonus, which is not of that form."""
        return self._rules.bonus if self.bonus == "hoeffding" else None
