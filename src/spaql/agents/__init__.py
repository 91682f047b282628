"""Agents: the published ones, and the baselines they are measured against."""

from spaql.agents.aql import AQL
from spaql.agents.base import Agent, Evaluation, Trained
from spaql.agents.baselines import Mean, Median, NoMovement, Random
from spaql.agents.spaql import SPAQL

ALGORITHMS = {
    "spaql": SPAQL,
    "aql": AQL,
    "random": Random,
    "no-movement": NoMovement,
    "mean": Mean,
    "median": Median,
}

__all__ = ["ALGORITHMS", "AQL", "SPAQL", "Agent", "Evaluation", "Mean", "Median", "NoMovement", "Random", "Trained"]
