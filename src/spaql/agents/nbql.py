"""Net-based Q-learning (Song and Sun: Efficient model-free reinforcement learning in metric spaces, 2019).

UCB-Q (`spaql.agents.ucb_q`) on an epsilon-net of the product of states and actions, one for each time step.  Let
|N| be the size of the net, and let Q* be L-Lipschitz.  Two pairs of states and actions in one cell are at most
2 epsilon apart, so their Q* differ by at most 2 epsilon L, and that much is added to the bonus to keep it an upper one:

    Q_h(z) <- (1 - alpha_t) Q_h(z) + alpha_t (r + V_{h+1}(x') + b_t),       b_t = c sqrt(H^3 iota / t) + 2 epsilon L
    V_h(x) =  min(H, max Q_h(z) over the cells z of x),      alpha_t = (H + 1) / (H + t),      iota = ln(|N| T / delta)

Distances are those of the maximum norm in the unit cube.  There, cells of side 1/n have their centres as an epsilon-net
for epsilon = 1/(2n), with n the smallest number for which that is not above the `epsilon` asked for; 2 epsilon L is
then L / n.  Discrete actions are at a distance from each other that no net bridges: each has its own cells.
"""

import math
from typing import Any

from spaql.agents.base import MOST_STEPS
from spaql.agents.optimistic_q import OptimisticQ, Range
from spaql.agents.registry import register
from spaql.partition.net import Bins
from spaql.problems.base import LARGEST_REWARD
from spaql.validation import check_number, check_whole

_ROUNDING = 1e-9  # 0.5 / 0.05 is 10
_FINEST = 1e-9  # finer nets fit in no memory


@register(
    "nbql",
    label="NBQL",
    colour="#999933",
    reference="Song, Sun: Efficient model-free reinforcement learning in metric spaces (2019)",
)
class NBQL(OptimisticQ):
    """Net-based Q-learning: UCB-Q on a fixed epsilon-net, with a bonus for its coarseness.

    Parameters
    ----------
    epsilon
        Largest distance of a point of the unit cube from the net, at least 1e-9 and at most 0.5.  None takes the net of
        `UCBQ`: 1/32 in few dimensions, and more where that would be over 262,144 cells.
    lipschitz
        L, the Lipschitz constant of Q* in the unit cube, after rewards are scaled to 0 to 1; at least 0.
    scaling
        c, the weight of the part of the bonus that falls with the visits; at least 0.  The paper leaves it open.
    failure_probability
        delta, with which the regret bound may fail.
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
    >>> agent = spaql.NBQL("oil", seed=0).learn(iterations=50)
    >>> agent.predict([0.5])[0]
    array([0.03125])
    """

    time_variant = True
    _fineness = "epsilon"

    def __init__(
        self,
        problem: Any,
        *,
        epsilon: float | None = None,
        lipschitz: float = 1.0,
        scaling: float = 0.003,
        failure_probability: float = 0.05,
        planned_steps: int = 100_000,
        rewards: Range | None = None,
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(problem, epsilon, scaling, failure_probability, rewards, seed=seed, **environment)
        self.epsilon = None if epsilon is None else float(epsilon)
        self.lipschitz = check_number(lipschitz, "lipschitz", least=0.0, most=LARGEST_REWARD)
        self.planned_steps = check_whole(planned_steps, "planned_steps", 1, MOST_STEPS)
        horizon = float(self.problem.horizon)
        scale, _ = self._find_hoeffding(self.planned_steps)
        width = 1.0 / min(self._shape.states)  # 2 epsilon
        rules = {"bonus": scale, "offset": width * self.lipschitz, "ended": self._nothing}
        self._begin(self._make_rules(cap=horizon, rate=horizon, **rules), horizon)

    @classmethod
    def _find_bins(cls, fineness: Any) -> Bins:
        if fineness is None:
            return None
        epsilon = check_number(fineness, "epsilon", least=_FINEST, most=0.5)
        return math.ceil(0.5 / epsilon - _ROUNDING)

    @property
    def regret_exponent(self) -> float:
        """(d + 1) / (d + 2), with d the dimensions of states and actions together (Song and Sun, 2019)."""
        return self._metric_exponent

    @property
    def bonus_scale(self) -> float | None:
        """C sqrt(H^3 iota), of the part of the bonus that falls with the visits."""
        return self._rules.bonus
