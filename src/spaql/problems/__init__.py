"""Compiled problems: the contract, the paper's two, classic control, random ones, and the spaces to write your own."""

from collections.abc import Callable

from spaql.partition.spaces import Box, Discrete
from spaql.problems.ambulance import ambulance
from spaql.problems.base import Problem
from spaql.problems.control import acrobot, cartpole, mountaincar, mountaincar_continuous, pendulum
from spaql.problems.oil import oil
from spaql.problems.random_travel import wild, wild_optimum, wild_share

#: the built-in problems by name
PROBLEMS: dict[str, Callable[..., Problem]] = {
    "oil": oil,
    "ambulance": ambulance,
    "wild": wild,
    "cartpole": cartpole,
    "mountaincar": mountaincar,
    "mountaincar-continuous": mountaincar_continuous,
    "acrobot": acrobot,
    "pendulum": pendulum,
}

__all__ = [
    "PROBLEMS",
    "Box",
    "Discrete",
    "Problem",
    "acrobot",
    "ambulance",
    "cartpole",
    "mountaincar",
    "mountaincar_continuous",
    "oil",
    "pendulum",
    "wild",
    "wild_optimum",
    "wild_share",
]
