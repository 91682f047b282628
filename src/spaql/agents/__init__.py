"""Agents: SPAQL, the published ones, and the baselines they are measured against."""

from spaql.agents.aql import AQL
from spaql.agents.base import Agent
from spaql.agents.baselines import Random
from spaql.agents.diagnosis import Diagnosis
from spaql.agents.evaluation import Evaluation
from spaql.agents.partition_agent import PartitionAgent
from spaql.agents.registry import Entry, algorithms, register, resolve
from spaql.agents.spaql import SPAQL, SPAQLTS
from spaql.agents.tessera.agent import Tessera

__all__ = [
    "AQL",
    "SPAQL",
    "SPAQLTS",
    "Agent",
    "Diagnosis",
    "Entry",
    "Evaluation",
    "PartitionAgent",
    "Random",
    "Tessera",
    "algorithms",
    "register",
    "resolve",
]
