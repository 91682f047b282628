"""Q-learning on a fixed grid (Watkins, 1989), the baseline of all others here.

One time-invariant table; a visit of the cell B in state x with reward r and next state x' changes

    Q(B) <- (1 - alpha_t) Q(B) + alpha_t (r + gamma V(x')),       alpha_t = 1 / t^omega, or constant,

with t the visits of B, and V(x') = max Q(x', .) or its mellowmax; V = 0 where the episode ended.  An episode that was
merely cut off, at the horizon or by a time limit, goes on in V.  gamma = 1 - 1 / H unless it is given, so that
1 / (1 - gamma) = H is the optimistic bound for rewards up to 1, and Q starts there.  `spaql.agents.exploration` has the
ways to explore, their schedules, and mellowmax; `spaql.agents.fixed_net` the episode.
"""

from typing import Any

from spaql.agents.base import MOST_STEPS
from spaql.agents.exploration import CYCLIC, EPSILON, KINDS, MELLOWMAX, SCHEDULES, UCB_BOLTZMANN, Exploration
from spaql.agents.fixed_net import FixedNetAgent, Rules
from spaql.agents.registry import register
from spaql.errors import ParameterError
from spaql.partition.net import Bins, read_bins
from spaql.problems.base import LARGEST_REWARD
from spaql.validation import check_choice, check_number, check_whole

_COLDEST = 1e-9


@register(
    "q-learning",
    label="Q-learning",
    colour="#E69F00",
    reference="Watkins: Learning from delayed rewards (1989)",
)
class QLearning(FixedNetAgent):
    """Q-learning on a fixed grid.

    Parameters
    ----------
    bins
        Intervals per dimension: one number for all, or one for each, first those of states, then those of actions in a
        box.  Discrete actions have one cell each.  None takes the largest power of two up to 16 with which the net has
        at most 262,144 cells in all, and at least 2.
    discount
        gamma, from 0 to below 1; None takes 1 - 1 / H.
    learning_rate
        alpha, where it is constant; None takes 1 / visits^`rate_power`.
    rate_power
        omega, from 0.5 to 1.
    initial_q
        Q of every cell at the start; None takes the optimistic bound, the largest reward over 1 - gamma.  The largest
        reward is that which the problem declares, else 1.
    exploration
        "epsilon", "boltzmann", "ucb-boltzmann" or "mellowmax".
    schedule
        "constant", "linear", "exponential" or "cyclic", of epsilon or of the temperature; mellowmax has none.
    exploration_initial
        tau_0, epsilon or the temperature at the start, and of "cyclic" the highest.
    exploration_final
        tau_1, epsilon or the temperature at the end, and of "cyclic" the lowest.
    decay_episodes
        Episodes from the one to the other.
    heat
        u > 1 of "cyclic", by which the temperature rises, as in `SPAQL`.
    heat_decay
        d in (0, 1] of "cyclic", by whose power u falls, as in `SPAQL`.
    scaling
        c of "ucb-boltzmann".
    operator
        "max" or "mellowmax", for the value of the next state.
    omega
        omega of mellowmax, from 1e-6, where it is the mean but for rounding, to 1e9, where it is the maximum.
    problem, seed, **environment
        As for every agent; see `spaql.agents.Agent`.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.QLearning("oil", seed=0).learn(iterations=50)
    >>> agent.predict([0.5])[0]
    array([0.09375])
    """

    _filled = ("temperature", "value_low", "value_high", "cells")

    def __init__(
        self,
        problem: Any,
        *,
        bins: Bins = None,
        discount: float | None = None,
        learning_rate: float | None = None,
        rate_power: float = 0.8,
        initial_q: float | None = None,
        exploration: str = "epsilon",
        schedule: str = "linear",
        exploration_initial: float = 1.0,
        exploration_final: float = 0.05,
        decay_episodes: int = 1000,
        heat: float = 2.0,
        heat_decay: float = 0.8,
        scaling: float = 1.0,
        operator: str = "max",
        omega: float = 5.0,
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(problem, bins, seed=seed, **environment)
        self.bins = read_bins(bins)
        self.discount = None if discount is None else check_number(discount, "discount", least=0.0, most=1.0 - 1e-9)
        limits: dict[str, Any] = {"least": 0.0, "most": 1.0, "above": True}
        self.learning_rate = None if learning_rate is None else check_number(learning_rate, "learning_rate", **limits)
        self.rate_power = check_number(rate_power, "rate_power", least=0.5, most=1.0)
        bound: dict[str, Any] = {"least": -LARGEST_REWARD, "most": LARGEST_REWARD}
        self.initial_q = None if initial_q is None else check_number(initial_q, "initial_q", **bound)
        self.exploration = check_choice(exploration, "exploration", KINDS)
        self.schedule = check_choice(schedule, "schedule", SCHEDULES)
        self.decay_episodes = check_whole(decay_episodes, "decay_episodes", 1, MOST_STEPS)
        self.heat = check_number(heat, "heat", least=1.0, above=True)
        self.heat_decay = check_number(heat_decay, "heat_decay", least=0.0, most=1.0, above=True)
        self.scaling = check_number(scaling, "scaling", least=0.0, most=LARGEST_REWARD)
        self.operator = check_choice(operator, "operator", ("max", "mellowmax"))
        self.omega = check_number(omega, "omega", least=1e-6, most=1e9)
        self._check_levels(exploration_initial, exploration_final)
        self.needs_unit_rewards = initial_q is None and self.problem.rewards is None
        self._begin(*self._make_rules(), exploring=self._make_exploration(), heat=self.heat)

    def _check_levels(self, initial: float, final: float) -> None:
        """Check tau_0 and tau_1, which are shares for epsilon and temperatures for the others."""
        shares = KINDS.index(self.exploration) == EPSILON
        zero = shares and self.schedule in ("constant", "linear")  # an exponential or a cyclic level is never 0
        most, least = (1.0 if shares else LARGEST_REWARD), (0.0 if zero else _COLDEST)
        self.exploration_initial = check_number(initial, "exploration_initial", least=least, most=most)
        self.exploration_final = check_number(final, "exploration_final", least=least, most=most)
        rises = self.exploration_final > self.exploration_initial
        if rises and self.schedule != "constant":
            raise ParameterError(
                f"exploration_final: expected at most exploration_initial, {self.exploration_initial:g}, "
                f"got {self.exploration_final:g}; exploration falls from the one to the other"
            )
        if KINDS.index(self.exploration) == UCB_BOLTZMANN and SCHEDULES.index(self.schedule) == CYCLIC:
            raise ParameterError(
                "schedule: 'ucb-boltzmann' needs a falling temperature; give 'linear' or 'exponential'"
            )

    def _make_rules(self) -> tuple[Rules, float]:
        """Return the rules, and Q at the start."""
        horizon, declared = self.problem.horizon, self.problem.rewards
        discount = 1.0 - 1.0 / horizon if self.discount is None else self.discount
        steps = float(horizon) if self.discount is None else 1.0 / (1.0 - discount)
        initial = (1.0 if declared is None else declared[1]) * steps if self.initial_q is None else self.initial_q
        rules = Rules(horizon, self._shape.choices, discount=discount)
        if self.learning_rate is None:
            return rules._replace(power=self.rate_power), initial
        return rules._replace(step_size=self.learning_rate, power=0.0), initial

    def _make_exploration(self) -> Exploration:
        kind, schedule = KINDS.index(self.exploration), SCHEDULES.index(self.schedule)
        if kind == MELLOWMAX:
            schedule = SCHEDULES.index("constant")
        levels = self.exploration_initial, self.exploration_final, self.decay_episodes, self.heat_decay
        return Exploration(kind, schedule, *levels, self.scaling, self.omega, self.operator == "mellowmax")
