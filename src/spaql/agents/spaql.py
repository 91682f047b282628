"""Single-partition adaptive Q-learning, exactly as published (algorithms 1 and 2 of the paper).

One partition P' is trained by the step of `spaql.agents.q_learning`, with

    B  ~  exp(Q(B) / (tau max Q)) over RELEVANT(x)          (Boltzmann sample)

and V = min(H, max Q) at the last step too.  P keeps the best one found: the mean return of N greedy rollouts decides
after every episode.  Not worse than the best so far, P' becomes P, tau returns to tau_min and u becomes u^d; else tau
rises to min(tau_max, u tau) once something has split since, and after splits in two iterations P' goes back to P and
tau to tau_min.  Where the text leaves a choice, `docs/studies/paper.md` says which reading this is and why.

`SPAQLTS` is the same with a *terminal state* to be reached and held ("Control with adaptive Q-learning", by the same
authors): the value of the next state counts the less the farther the agent is from it,

    target = r + V(x') exp(-(|x - x_ref| / lambda)^2) + xi / sqrt(v),

with x the state in which the action is taken, scaled to the unit cube, and |.| the Euclidean length.
"""

from typing import Any

from numpy.typing import ArrayLike

from spaql.agents.q_learning import QLearner
from spaql.agents.registry import register
from spaql.errors import ParameterError
from spaql.validation import MOST_COUNTED, check_number, check_whole, show


@register(
    "spaql",
    label="SPAQL",
    colour="#009E73",
    reference="Araujo, Figueiredo, Ayala Botto: Single-partition adaptive Q-learning (2020)",
)
class SPAQL(QLearner):
    """Single-partition adaptive Q-learning as published (Araujo, Figueiredo, Ayala Botto, 2020).

    Parameters
    ----------
    problem, seed, **environment
        As for every agent; see `spaql.agents.Agent`.
    scaling
        xi, the weight of the exploration bonus xi / sqrt(v); at least 0.
    rollouts
        N, greedy rollouts by which each iteration is judged.
    temperature_min
        tau_min, the lowest Boltzmann temperature.
    temperature_max
        tau_max, the highest Boltzmann temperature.
    heat
        u > 1, by which the temperature rises.
    heat_decay
        d in (0, 1], by whose power u itself falls at every improvement.
    splits_before_reset
        Iterations with splits and no improvement after which the agent goes back to its best.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
    >>> agent.predict([0.5])[0]
    array([0.6875])
    """

    caps_value = True

    _filled = ("best", "selection_steps", "temperature", "heat", *QLearner._filled, "resets")

    def __init__(
        self,
        problem: Any,
        *,
        scaling: float = 0.5,
        rollouts: int = 20,
        temperature_min: float = 0.01,
        temperature_max: float = 10.0,
        heat: float = 2.0,
        heat_decay: float = 0.8,
        splits_before_reset: int = 2,
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(problem, scaling=scaling, rollouts=rollouts, seed=seed, **environment)
        self.temperature_min = check_number(temperature_min, "temperature_min", least=0.0, above=True)
        self.temperature_max = check_number(temperature_max, "temperature_max", least=self.temperature_min)
        self.heat = check_number(heat, "heat", least=1.0, above=True)
        self.heat_decay = check_number(heat_decay, "heat_decay", least=0.0, most=1.0, above=True)
        self.splits_before_reset = check_whole(splits_before_reset, "splits_before_reset", 1, MOST_COUNTED)
        self._begin(annealing=(self.temperature_min, self.heat))


@register(
    "spaql-ts",
    label="SPAQL-TS",
    colour="#CC79A7",
    reference="Araujo, Figueiredo, Ayala Botto: Control with adaptive Q-learning (2020)",
    example={"reference": [0.5], "radius": 1.0},
)
class SPAQLTS(SPAQL):
    """SPAQL as published with a terminal state to be reached and held.

    The value of the next state counts the less the farther the agent is from `reference`; the module
    `spaql.agents.spaql` has the equation.

    Parameters
    ----------
    reference
        x_ref, the state to hold, `[states]` in the problem's units.
    radius
        lambda > 0, the distance from it, in the unit cube, at which what follows counts 1/e.
    problem, **parameters
        As for `SPAQL`.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQLTS("oil", reference=[0.75], radius=1.0, seed=0).learn(iterations=50)
    >>> agent.predict([0.5])[0]
    array([0.8125])
    """

    def __init__(self, problem: Any, *, reference: ArrayLike, radius: float, **parameters: Any) -> None:
        super().__init__(problem, **parameters)
        states = self.problem.states
        rows, single = states.check_batch(reference, "reference")
        if not single:
            raise ParameterError(f"reference: expected one state of {states.dimensions} numbers, got {show(reference)}")
        self.reference = rows[0].tolist()
        self.radius = check_number(radius, "radius", least=0.0, above=True, most=1e100)
        self._reference = states.to_unit(rows)[0]
        self._hyper = self._hyper._replace(radius=self.radius)
