"""Compiled problems: the contract, the paper's two, classic control, random ones, and the spaces to write your own."""

from spaql.partition.spaces import Box, Discrete
from spaql.problems.ambulance import ambulance
from spaql.problems.base import PROBLEMS, Problem
from spaql.problems.control import acrobot, cartpole, mountaincar, mountaincar_continuous, pendulum
from spaql.problems.oil import oil
from spaql.problems.random_travel import random_travel, random_travel_optimum, random_travel_share

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
    "random_travel",
    "random_travel_optimum",
    "random_travel_share",
]
