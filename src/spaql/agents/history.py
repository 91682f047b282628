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

    filled: tuple[str, ...] = ()  #: columns that the algorithm fills, beside steps and returns of episodes
    has_rollouts: bool = False  #: whether the agent plays rollouts of its own

    def __array_finalize__(self, other: Any) -> None:
        self.filled, self.has_rollouts = getattr(other, "filled", ()), getattr(other, "has_rollouts", False)

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    def progress(self, start: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """Return the numbers that the algorithm has, of the iterations after the first `start`.

        `iteration` counts from 1 and `timesteps` as `num_timesteps` does.  `training_return` is the return of the
        training episode, in which the agent explores; `score` is the mean return of the agent's own rollouts, where it
        plays any.  The others are columns of the history.

        Parameters
        ----------
        start
            Iterations to leave out.

        Returns
        -------
        dict of ndarray
            Columns by name.

        Examples
        --------
        >>> import spaql
        >>> history = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=20).history
        >>> list(history.progress())
        ['iteration', 'timesteps', 'training_return', 'value_low', 'value_high', 'cells', 'splits']
        """
        rows, names = self[start:], self.dtype.names or ()
        columns = {"iteration": np.arange(start + 1, start + len(rows) + 1)}
        columns["timesteps"] = rows["training_steps"] + rows["selection_steps"]
        columns["training_return"] = rows["training_return" if "training_return" in names else "score"]
        if self.has_rollouts:
            columns["score"] = rows["score"]
            if "selection_steps" not in self.filled:
                columns["monitoring_steps"] = rows["monitoring_steps"]
        return columns | {name: rows[name] for name in self.filled}

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` of `progress`, indexed by the iteration.

        Returns
        -------
        pandas.DataFrame
            One row per iteration.
        """
        return import_pandas("history.to_pandas").DataFrame(self.progress()).set_index("iteration")

    def _repr_html_(self) -> str | None:
        if self.dtype.names is None:  # the result of a comparison
            return None
        columns, count = self.progress(), len(self)
        places = [*range(min(_ENDS, count)), *range(max(_ENDS, count - _ENDS), count)]
        rows = [[_format(column[at]) for column in columns.values()] for at in places]
        if count > 2 * _ENDS:
            rows.insert(_ENDS, ["..."] * len(columns))
        title = f"History of {count:,} iteration{'' if count == 1 else 's'}"
        return render(title, tables=[Table([*columns], rows).html()] if count else [])


def _format(value: Any) -> str:
    return f"{value:,}" if isinstance(value, np.integer) else f"{value:.5g}"
