"""What an agent recorded while it learned: one row per iteration."""

from __future__ import annotations

from typing import Any

import numpy as np

from spaql.formatting import Table
from spaql.notebook import import_pandas, render

_ENDS = 5  # rows at either end of what a notebook shows


class History(np.ndarray[Any, np.dtype[np.void]]):
    """A structured array with one row per iteration, read-only; its parts are plain arrays.

    Examples
    --------
    >>> import spaql
    >>> history = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=20).history
    >>> history["score"].shape, len(history)
    ((20,), 20)
    """

    columns: tuple[str, ...] = ()  #: those that mean something for the algorithm

    def __array_finalize__(self, other: Any) -> None:
        self.columns = getattr(other, "columns", ())

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` of the algorithm's columns, indexed by the iteration, from 1."""
        pandas = import_pandas("history.to_pandas")
        index = pandas.RangeIndex(1, len(self) + 1, name="iteration")
        return pandas.DataFrame({name: self[name] for name in self.columns}, index=index)

    def _repr_html_(self) -> str | None:
        if self.dtype.names is None:  # the result of a comparison
            return None
        names, count = self.columns, len(self)
        places = [*range(min(_ENDS, count)), *range(max(_ENDS, count - _ENDS), count)]
        rows = [[f"{at + 1:,}", *(_format(self[name][at]) for name in names)] for at in places]
        if count > 2 * _ENDS:
            rows.insert(_ENDS, ["..."] * (1 + len(names)))
        title = f"History of {count:,} iteration{'' if count == 1 else 's'}"
        return render(title, tables=[Table(["iteration", *names], rows).html()] if count else [])


def _format(value: Any) -> str:
    return f"{value:,}" if isinstance(value, np.integer) else f"{value:.5g}"
