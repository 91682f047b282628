"""Agents: SPAQL, the published ones, and the baselines they are measured against."""

from collections.abc import Callable

from spaql.agents.aql import AQL
from spaql.agents.base import Agent, Evaluation, Trained
from spaql.agents.baselines import Mean, Median, NoMovement, Random
from spaql.agents.diagnosis import Diagnosis
from spaql.agents.spaql import SPAQL, SPAQLTS
from spaql.agents.tessera.agent import Tessera

#: the algorithms by name: called with a problem and keywords, each makes an agent
ALGORITHMS: dict[str, Callable[..., Agent]] = {
    "tessera": Tessera,
    "spaql": SPAQL,
    "spaql-ts": SPAQLTS,
    "aql": AQL,
    "random": Random,
    "no-movement": NoMovement,
    "mean": Mean,
    "median": Median,
}

__all__ = [
    "ALGORITHMS",
    "AQL",
    "SPAQL",
    "SPAQLTS",
    "Agent",
    "Diagnosis",
    "Evaluation",
    "Mean",
    "Median",
    "NoMovement",
    "Random",
    "Trained",
]
