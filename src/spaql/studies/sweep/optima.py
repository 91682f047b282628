"""The optimum of each problem of a study, to which returns are compared.

It is the number in the study file, else the one that the problem states, which its runs recorded, else the one that is
computed for a built-in problem.  To save time few of the last kind are computed, those with the shortest horizons.
"""

import itertools
import json
from collections import defaultdict

import numpy as np

from spaql.problems import Problem
from spaql.runner.run_spec import problem_of
from spaql.runner.summary import known_optimum
from spaql.studies.sweep.group_values import REGRET, StudyValues

_RETURNS = ("evaluation", "training_score", REGRET)  # metrics with an optimum
_TOLERANCE = 1e-4
_MAX_SOLVED = 50  # problems whose optimum is computed,
_MAX_STEPS = 500  # and the sum of their horizons: a few seconds


def compute_optima(study: StudyValues) -> dict[str, float]:
    """Return the optimum by the label of the problem, where it is known and the metric is a return."""
    if study.metric not in _RETURNS:
        return {}
    optima = dict(study.stated)
    labels: dict[Problem, list[str]] = defaultdict(list)
    order: dict[Problem, tuple[int, str]] = {}  # the shortest first, wherever it stands in the study
    for label, groups in study.problems.items():
        run = groups[0].run
        if label not in optima and run.compiled and (problem := problem_of(run)).model is not None:
            labels[problem].append(label)
            order[problem] = problem.horizon, json.dumps([run.problem, run.arguments], sort_keys=True, default=str)
    shortest = sorted(order, key=order.__getitem__)[:_MAX_SOLVED]
    quick = np.cumsum([problem.horizon for problem in shortest]) <= _MAX_STEPS
    for problem in itertools.compress(shortest, quick):
        optimum = known_optimum(problem, _TOLERANCE)
        if optimum is not None:
            optima |= dict.fromkeys(labels[problem], optimum.value)
    return optima
