"""Compiled problems: the contract, the paper's two, and the spaces to write your own."""

from spaql.problems.ambulance import ambulance
from spaql.problems.base import Problem
from spaql.problems.oil import oil
from spaql.spaces import Box, Finite

__all__ = ["Box", "Finite", "Problem", "ambulance", "oil"]
