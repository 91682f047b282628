"""Callbacks of `learn`, as in `from spaql.callbacks import Evaluate`; see `spaql.agents.callbacks`."""

from spaql.agents.callbacks import *  # noqa: F403
from spaql.agents.callbacks import __all__ as __all__
