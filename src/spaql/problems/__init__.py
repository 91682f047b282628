"""Compiled problems: what agents learn on at full speed.

`base` has the contract (`Problem`) and the registry that `@built_in` fills; `oil` and `ambulance` are the paper's,
`oil_nd` and `ambulances` their generalisations, `inventory`, `machine`, `revenue` and `battery` problems of operations
research, `control` the five of classic control, `random_travel` draws problems that nobody tuned an agent on.
`optimum` and `finite` compute exact optima, `heuristics` is how problems declare theirs, `labels` names observations
and actions.  The package imports `spaql.partition` and leaf modules only.  For a problem of your own: `from
spaql.problems import Box, Discrete, Problem, normal`.
"""

from spaql.partition.rng import gamma, normal, uniform
from spaql.partition.spaces import Box, Discrete
from spaql.problems.ambulance import ambulance
from spaql.problems.ambulances import ambulances
from spaql.problems.base import PROBLEMS, Problem
from spaql.problems.battery import battery
from spaql.problems.control import acrobot, cartpole, mountaincar, mountaincar_continuous, pendulum
from spaql.problems.inventory import inventory
from spaql.problems.machine import machine
from spaql.problems.oil import oil
from spaql.problems.oil_nd import oil_nd
from spaql.problems.random_travel import random_travel, random_travel_optimum, random_travel_share
from spaql.problems.revenue import revenue

__all__ = ["PROBLEMS", "Box", "Discrete", "Problem", "gamma", "normal", "uniform"]
__all__ += ["acrobot", "ambulance", "cartpole", "mountaincar", "mountaincar_continuous", "oil", "pendulum"]
__all__ += ["ambulances", "battery", "inventory", "machine", "oil_nd", "revenue"]
__all__ += ["random_travel", "random_travel_optimum", "random_travel_share"]
