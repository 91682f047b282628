"""The returns of a policy, and the record of them that goes into an agent's file."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from spaql.partition.spaces import Floats
from spaql.stats import Estimate


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Returns of a policy on random numbers that neither training nor selection has seen."""

    estimate: Estimate  #: mean return, its 95% interval and the deviation of one episode
    returns: Floats  #: of each episode, `[episodes]`
    steps: int  #: environment steps played
    seed: int  #: as `evaluate` used it
    deterministic: bool  #: as `evaluate` used it
    iterations: int  #: how long the agent had learned

    @property
    def mean(self) -> float:
        """Mean return."""
        return self.estimate.mean

    @property
    def interval(self) -> tuple[float, float]:
        """95% confidence interval of the mean."""
        return self.estimate.interval

    def __str__(self) -> str:
        return f"{self.estimate} over {self.returns.size} episodes"

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the single returns, ready for JSON."""
        numbers = {name: float(getattr(self.estimate, name)) for name in ("mean", "low", "high", "deviation")}
        counts = {"episodes": int(self.returns.size), "seed": self.seed, "iterations": self.iterations}
        return numbers | counts | {"deterministic": self.deterministic}


def check_record(record: Any) -> dict[str, Any]:
    """Return what `Evaluation.to_dict` returned, read from a file; a ValueError if it is invalid."""
    numbers, counts = ("mean", "low", "high", "deviation"), ("episodes", "seed", "iterations")
    kinds = dict.fromkeys(numbers, float) | dict.fromkeys(counts, int) | {"deterministic": bool}
    valid = isinstance(record, dict) and {name: type(value) for name, value in record.items()} == kinds
    if not valid or not np.isfinite([record[name] for name in numbers]).all() or min(record[n] for n in counts) < 0:
        raise ValueError("invalid evaluation record")
    return dict(record)
