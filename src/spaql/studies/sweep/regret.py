"""The regret of the runs of a study, as one more metric; `spaql.agents.regret` defines it.

A run stores the sum of its training returns at a grid of episodes that depends on no run, so that all runs share its
points.  The *value* of a run is its cumulative regret after K training episodes, with K the largest number that all
learning runs on the problem share; its *curve* is the cumulative regret at all points that the runs of its group share.
Agents that do not learn lose the same in every episode: the optimum minus their evaluation.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from spaql.agents import algorithms
from spaql.agents.regret import episode_grid
from spaql.errors import StudyError
from spaql.runner.store import STORE, Store
from spaql.studies.sweep.group_values import METRIC, REGRET, Curve, GroupValues, StudyValues, read_values
from spaql.studies.sweep.optima import compute_optima

_NAMES = ("episode", "return_sum")


def read_metric(folder: str | os.PathLike[str], metric: str = METRIC) -> StudyValues:
    """Read the values of all finished runs of a folder: of regret, or as `read_values` does of any other metric."""
    if metric != REGRET:
        return read_values(folder, metric)
    study = replace(read_values(folder), metric=REGRET)
    optima = compute_optima(study)
    if not optima:
        raise StudyError(
            "regret: the optimum of no problem is known; state it as optimum= in the study file, or in Problem(...)"
        )
    groups: dict[int, GroupValues] = {}
    with Store.open_readonly(study.folder / STORE) as store, store.snapshot():
        for label, some in study.problems.items():
            curves = [_read_curve(store, group, optima[label]) if label in optima else None for group in some]
            shared = [curve.episodes for curve in curves if curve is not None]
            last = int(reduce(np.intersect1d, shared).max()) if shared else 1
            for group, curve in zip(some, curves, strict=True):
                if curve is None and label in optima:
                    curve = _make_line(store, group, optima[label], [*shared, episode_grid(last)])
                sample = np.zeros(0) if curve is None else curve.cumulative[:, curve.episodes == last].ravel()
                bound = next(iter(store.scalars(group.finished[:1]).values()), {}).get("regret_exponent")
                groups[id(group)] = replace(group, sample=sample, curve=curve, episodes=last, bound=bound)
    return replace(study, groups=tuple(groups[id(group)] for group in study.groups))


def _read_curve(store: Store, group: GroupValues, optimum: float) -> Curve | None:
    """Return the cumulative regret of the runs of a group that learned; None where there is none."""
    rows = [store.arrays(run_id, _NAMES) for run_id in group.finished]
    rows = [row for row in rows if len(row) == len(_NAMES)]
    if not rows:
        return None
    episodes: NDArray[np.int64] = reduce(np.intersect1d, [row["episode"] for row in rows]).astype(np.int64)
    sums = np.array([row["return_sum"][np.isin(row["episode"], episodes)] for row in rows])
    return Curve(episodes, optimum * episodes - sums)


def _make_line(store: Store, group: GroupValues, optimum: float, shared: Sequence[NDArray[np.int64]]) -> Curve | None:
    """Return the cumulative regret of agents that do not learn, at the episodes of those that do."""
    entry = algorithms().get(group.run.algorithm)
    if entry is None or entry.learns:
        return None
    rows = store.scalars(group.finished)
    means = [rows[run_id].get(METRIC) for run_id in group.finished if run_id in rows]  # in the order of the seeds
    known = np.array([mean for mean in means if mean is not None], np.float64)
    if not len(known):
        return None
    episodes = np.unique(np.concatenate(shared))
    return Curve(episodes, (optimum - known)[:, None] * episodes)
