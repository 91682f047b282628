"""The returns of a policy, and the record of them that goes into an agent's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spaql.partition.spaces import Floats
from spaql.stats import Estimate


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Returns of a policy on random numbers that neither training nor selection has seen.

    Attributes
    ----------
    estimate
        Mean return, its 95% interval and the deviation of one episode.
    returns
        Return of each episode, `[episodes]`.
    steps
        Environment steps played.
    seed, deterministic
        As `evaluate` used them.
    iterations
        How long the agent had learned.
    """

    estimate: Estimate
    returns: Floats
    steps: int
    seed: int
    deterministic: bool
    iterations: int

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
        low, high = self.interval
        return {
            "mean": float(self.mean),
            "low": float(low),
            "high": float(high),
            "deviation": float(self.estimate.deviation),
            "episodes": int(self.returns.size),
            "seed": self.seed,
            "deterministic": self.deterministic,
            "iterations": self.iterations,
        }


def check_record(record: Any) -> dict[str, Any]:
    """Return what `Evaluation.to_dict` returned, read from a file; a ValueError if it is invalid."""
    numbers, counts = ("mean", "low", "high", "deviation"), ("episodes", "seed", "iterations")
    valid = isinstance(record, dict) and record.keys() == {"deterministic", *numbers, *counts}
    valid = valid and type(record["deterministic"]) is bool
    valid = valid and all(type(record[name]) is float and np.isfinite(record[name]) for name in numbers)
    if not valid or not all(type(record[name]) is int and record[name] >= 0 for name in counts):
        raise ValueError("invalid evaluation record")
    return dict(record)
