"""Regret: what an agent lost while it learned, against the best that any policy can earn.

In training episode k an agent plays its learning policy pi_k and earns the return G_k.  With the optimum V*,

    regret of episode k     V* - E G_k, of which V* - G_k is an observation,
    cumulative regret       R(K) = sum_{k <= K} (V* - G_k).

Training episodes count, and no others: rollouts that select a policy (SPAQL) or draw a learning curve (AQL) are not
regret, though they are experience.  So agents are compared at equal numbers of training episodes.  G_k is observed: a
lucky episode has negative regret, and means over agents are what the bounds of the literature speak of.  These are
R(K) <= C K^b, up to logarithms, and on log-log axes R has a slope that tends to at most b; uniform play has slope 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spaql import stats
from spaql.agents.base import Agent
from spaql.errors import NotTrainedError, ParameterError, ProblemError
from spaql.formatting import Table
from spaql.notebook import render
from spaql.partition.spaces import Floats
from spaql.problems.optimum import optimum as solve
from spaql.validation import check_number, show

_PER_DOUBLING = 4  # points of a stored curve


def training_returns(agent: Agent) -> Floats:
    """Return what each training episode earned, `[iterations]`, under the policy that the agent learned with.

    That is the column `training_return` of `history`, and for agents without it `score`: they play no rollouts, and
    their score is the return of the training episode.
    """
    history = agent.history
    names = history.dtype.names or ()
    return np.array(history["training_return" if "training_return" in names else "score"], np.float64)


def episode_grid(count: int) -> NDArray[np.int64]:
    """Return numbers of episodes from 1 to `count`, by equal factors; those of a shorter training are among them."""
    if count < 1:
        return np.zeros(0, np.int64)
    exponents = np.arange(_PER_DOUBLING * (int(count).bit_length() + 1)) / _PER_DOUBLING
    points = np.unique(np.round(2.0**exponents).astype(np.int64))
    return np.append(points[points < count], count)


@dataclass(frozen=True, eq=False)
class Regret:
    """The regret of agents of one algorithm on one problem, over the training episodes that all of them have.

    Examples
    --------
    >>> import spaql
    >>> result = spaql.regret(spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=100))
    >>> result.returns.shape
    (1, 100)
    >>> round(result.reference, 4)
    4.2476
    """

    reference: float  #: V*
    returns: Floats  #: of training episodes, `[agents, K]`

    @property
    def episodes(self) -> NDArray[np.int64]:
        """1 to K."""
        return np.arange(1, self.returns.shape[1] + 1)

    @cached_property
    def per_episode(self) -> stats.Estimate:
        """Regret of each episode, with Student's 95% intervals over agents; columns `[K]`."""
        return stats.mean_interval(self.reference - self.returns)

    @cached_property
    def cumulative(self) -> stats.Estimate:
        """Cumulative regret after each episode, with Student's 95% intervals over agents; columns `[K]`."""
        return stats.mean_interval(np.cumsum(self.reference - self.returns, axis=1))

    @cached_property
    def slope(self) -> stats.Estimate:
        """Slope of the cumulative regret on log-log axes; see `spaql.stats.log_log_slope`."""
        at = episode_grid(self.returns.shape[1])
        return stats.log_log_slope(at, np.cumsum(self.reference - self.returns, axis=1)[:, at - 1])

    def __str__(self) -> str:
        last = stats.mean_interval((self.reference - self.returns).sum(axis=1))
        return f"regret {last} after {self.returns.shape[1]:,} episodes, slope {self.slope}"

    def _repr_html_(self) -> str:
        agents, count = self.returns.shape
        at = [k for k in 10 ** np.arange(len(str(count))) if k < count] + [count]
        sums = [stats.mean_interval((self.reference - self.returns[:, :k]).sum(axis=1)) for k in at]
        rows = [[f"{k:,}", str(total), f"{total.mean / k:.4g}"] for k, total in zip(at, sums, strict=True)]
        table = Table(["training episodes", "cumulative regret [95%]", "per episode"], rows)
        facts = {"optimum": f"{self.reference:.6g}", "slope on log-log axes": str(self.slope)}
        title = f"Regret of {agents:,} agent{'' if agents == 1 else 's'}"
        return render(title, facts=facts, tables=[table.html()])


def regret(agents: Agent | Sequence[Agent], *, optimum: float | None = None) -> Regret:
    """Return the regret of trained agents of one algorithm, which differ in their seeds.

    Parameters
    ----------
    agents
        One, or several on the same problem.
    optimum
        V*; None takes that of `spaql.optimum`, computed or stated by the problem.

    Returns
    -------
    Regret
        Of each episode, cumulative, and its growth.

    Raises
    ------
    ProblemError
        Where the optimum is not known.
    NotTrainedError
        Where an agent has not learned yet.
    ParameterError
        On agents of several problems.

    Examples
    --------
    >>> import spaql
    >>> agents = [spaql.AQL("oil", rollouts=0, seed=seed).learn(iterations=300) for seed in range(3)]
    >>> result = spaql.regret(agents)
    >>> result.cumulative.mean.shape, bool(result.slope.mean < 1.0)
    ((300,), True)
    """
    some: list[Any] = [agents] if isinstance(agents, Agent) else list(agents)
    if not some or not all(isinstance(agent, Agent) for agent in some):
        raise ParameterError(f"agents: expected a trained agent or several, got {show(agents)}")
    others = {(agent.problem.name, str(sorted(agent.problem.arguments.items()))) for agent in some}
    if len(others) > 1:
        raise ParameterError(f"agents: they learned on {len(others)} problems; give those of one problem")
    if not all(agent.iterations for agent in some):
        raise NotTrainedError("regret: an agent has no finished training episode; call learn(total_timesteps) first")
    if optimum is None:
        problem = some[0].problem
        if problem.model is None and problem.optimum is None:
            reason = f"{problem.name!r} has no model, so its optimum cannot be computed"
            raise ProblemError(f"regret: {reason}; give the one you know: regret(agents, optimum=4.2)")
        optimum = solve(some[0].problem).value
    returns = [training_returns(agent) for agent in some]
    count = min(map(len, returns))
    return Regret(check_number(optimum, "optimum"), np.array([row[:count] for row in returns]))
