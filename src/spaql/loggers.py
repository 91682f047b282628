"""Loggers of `spaql.callbacks.Log`, as in `from spaql.loggers import CSVLogger`; see `spaql.agents.loggers`."""

from spaql.agents.loggers import *  # noqa: F403
from spaql.agents.loggers import __all__ as __all__
