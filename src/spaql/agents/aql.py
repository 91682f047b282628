"""Adaptive Q-learning (Sinclair, Banerjee and Yu, 2019): one partition per time step, argmax, optimism.

The step of `spaql.agents.q_learning` with one partition per time step h: the cell of largest Q in partition h is
played, uniformly inside, and V_h(x) = min(H, max Q_h over RELEVANT_h(x)), V_{H+1} = 0.  The agent returned is the
current one.  As in the paper, N greedy rollouts after every episode draw the learning curve; the agent never sees them,
so they count as monitoring, not selection.
"""

from typing import Any

from spaql.agents.q_learning import QLearner
from spaql.agents.registry import register
from spaql.errors import ParameterError

_LONGEST = 10_000


@register(
    "aql",
    label="AQL",
    colour="#D55E00",
    reference="Sinclair, Banerjee, Yu: Adaptive discretization for episodic reinforcement learning (2019)",
)
class AQL(QLearner):
    """Adaptive Q-learning: one partition for each time step.

    Parameters
    ----------
    scaling
        xi, the weight of the exploration bonus xi / sqrt(v); at least 0.
    rollouts
        N, greedy rollouts after every episode that draw the learning curve and change nothing; with 0 the curve
        is the training episodes' own returns.
    problem, seed, **environment
        As for every agent; see `spaql.agents.Agent`.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=50)
    >>> agent.predict([0.5])[0]
    array([0.25])
    """

    time_variant = True
    _fewest_rollouts = 0

    def __init__(
        self, problem: Any, *, scaling: float = 0.5, rollouts: int = 20, seed: int = 0, **environment: Any
    ) -> None:
        super().__init__(problem, scaling=scaling, rollouts=rollouts, seed=seed, **environment)
        horizon = self.problem.horizon
        if horizon > _LONGEST:
            raise ParameterError(f"horizon: AQL keeps a partition per time step, at most {_LONGEST}, got {horizon}")
        self._begin()

    @property
    def regret_exponent(self) -> float:
        """(d + 1) / (d + 2), with d the dimensions of states and actions together (Sinclair et al., 2019)."""
        return self._metric_exponent
