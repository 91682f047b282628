"""The returns of a policy, and the record of them that goes into an agent's file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spaql.notebook import render
from spaql.partition.spaces import Floats
from spaql.stats import Estimate

_BARS = 40  # of the histogram that a notebook shows


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Returns of a policy on random numbers that neither training nor selection has seen.

    Examples
    --------
    >>> import spaql
    >>> evaluation = spaql.Random("oil", seed=0).evaluate(episodes=100)
    >>> evaluation.returns.shape, evaluation.steps
    ((100,), 500)
    >>> low, high = evaluation.interval
    >>> low < evaluation.mean < high
    True
    """

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

    def _repr_html_(self) -> str:
        low, high, *middle = np.quantile(self.returns, [0.0, 1.0, 0.25, 0.5, 0.75])
        facts = {
            "mean return": f"{self.estimate}, with its 95% interval",
            "single episodes": f"{low:.5g} to {high:.5g}, quartiles {', '.join(f'{value:.5g}' for value in middle)}",
            "policy": f"{'deterministic' if self.deterministic else 'random'}, after {self.iterations:,} iterations",
        }
        bars = np.histogram(self.returns, _BARS)[0].tolist() if high > low else []
        return render(f"Evaluation over {self.returns.size:,} new episodes", facts=facts, bars=bars)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the single returns, ready for JSON.

        Returns
        -------
        dict
            Mean, interval, deviation, and the arguments of `evaluate`.
        """
        numbers = {name: float(getattr(self.estimate, name)) for name in ("mean", "low", "high", "deviation")}
        counts = {"episodes": int(self.returns.size), "seed": self.seed, "iterations": self.iterations}
        return numbers | counts | {"deterministic": self.deterministic}


def describe_record(record: Mapping[str, Any], iterations: int) -> str:
    """Return what `Evaluation.to_dict` returned as text, with when it was if the agent has learned since."""
    then = "" if record["iterations"] == iterations else f" after {record['iterations']:,} iterations"
    interval = f"95% interval {record['low']:.5g} to {record['high']:.5g}"
    return f"{record['mean']:.5g}{then} ({interval}, {record['episodes']:,} episodes)"


def check_record(record: Any) -> dict[str, Any]:
    """Return what `Evaluation.to_dict` returned, read from a file; a ValueError if it is invalid."""
    numbers, counts = ("mean", "low", "high", "deviation"), ("episodes", "seed", "iterations")
    kinds = dict.fromkeys(numbers, float) | dict.fromkeys(counts, int) | {"deterministic": bool}
    valid = isinstance(record, dict) and {name: type(value) for name, value in record.items()} == kinds
    if not valid or not np.isfinite([record[name] for name in numbers]).all() or min(record[n] for n in counts) < 0:
        raise ValueError("invalid evaluation record")
    return dict(record)
