"""Compiled problems: the contract, the paper's two, random ones, and the spaces to write your own."""

from collections.abc import Callable

from spaql.problems.ambulance import ambulance
from spaql.problems.base import Problem
from spaql.problems.oil import oil
from spaql.problems.wild import wild, wild_optimum, wild_share
from spaql.spaces import Box, Finite

#: the built-in problems by name
PROBLEMS: dict[str, Callable[..., Problem]] = {"oil": oil, "ambulance": ambulance, "wild": wild}

__all__ = ["PROBLEMS", "Box", "Finite", "Problem", "ambulance", "oil", "wild", "wild_optimum", "wild_share"]
