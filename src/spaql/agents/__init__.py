"""Agents: the published algorithms, Tessera, baselines, and any class of the user's own.

`registry` knows every algorithm, declared next to its class: `algorithms`, `resolve`, `register`.  `base.Agent` is what
all agents have (`learn`, `evaluate`, `predict`, `save`, `load`, `explain`); `foreign` wraps classes from outside.
`spaql`, `aql` and `tessera` are rules over `partition_agent`, `q_learning` and `rollouts`; `adamb`, `zoomrl` and
`rlsvi` over `stepwise`; `tabular_q_learning`, `ucb_q`, `ucb_q_infinite` and `nbql` over `fixed_net`; `callbacks`,
`loggers`, `diagnosis` and `files` are used with any of them.
"""

from spaql.agents.adamb import AdaMB
from spaql.agents.aql import AQL
from spaql.agents.base import Agent
from spaql.agents.baselines import Random
from spaql.agents.diagnosis import Diagnosis
from spaql.agents.evaluation import Evaluation
from spaql.agents.nbql import NBQL
from spaql.agents.partition_agent import PartitionAgent
from spaql.agents.registry import Entry, algorithms, register, resolve
from spaql.agents.rlsvi import RLSVI
from spaql.agents.spaql import SPAQL, SPAQLTS
from spaql.agents.tabular_q_learning import QLearning
from spaql.agents.tessera.agent import Tessera
from spaql.agents.ucb_q import UCBQ
from spaql.agents.ucb_q_infinite import UCBQInfinite
from spaql.agents.zoomrl import ZoomRL

__all__ = ["AQL", "NBQL", "RLSVI", "SPAQL", "SPAQLTS", "UCBQ", "AdaMB", "QLearning", "Random", "Tessera"]
__all__ += ["Agent", "PartitionAgent", "UCBQInfinite", "ZoomRL"]
__all__ += ["Diagnosis", "Entry", "Evaluation", "algorithms", "register", "resolve"]
