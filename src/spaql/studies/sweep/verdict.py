"""The verdict of a study in a sentence: which algorithm is best, by how much, and whether that is beyond chance.

On every problem the algorithm with the best mean is compared with all others by Welch's test.  Since it was chosen by
its mean, p-values are adjusted by Holm's method over all pairs of algorithms of the problem, not only those tested.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from spaql import stats
from spaql.studies.sweep.group_values import METRIC, REGRET, GroupValues, StudyValues

METHOD = (
    "Beyond chance: the best mean differs from that of each other algorithm by Welch's test at 5%, with p-values "
    "adjusted by Holm's method over all pairs of algorithms of a problem."
)
_LEVEL = 0.05
_MAX_NAMES = 3


@dataclass(frozen=True)
class Best:
    """The algorithm with the best mean on a problem, and how it stands to the others."""

    problem: str
    metric: str
    label: str
    mean: float
    level: tuple[str, ...]  # others that it is not ahead of beyond chance, by their means
    rivals: int  # number of all others
    next: str = ""  # the best of the others
    difference: stats.Estimate | None = None  # to it; positive is better
    p_value: float | None = None  # adjusted, of that difference; None where no test can judge it

    @property
    def is_ahead(self) -> bool:
        """Whether it is ahead of all others beyond chance."""
        return self.rivals > 0 and not self.level

    @property
    def mark(self) -> str:
        """Return words for its row of a table."""
        return "best" if self.is_ahead else "best mean"

    def __str__(self) -> str:
        if not self.rivals:
            return f"{self.label} has a mean {self.metric} of {self.mean:.5g} on {self.problem}; no other has results."
        what = f"{_name_goal(self.metric)} on {self.problem}, {self.mean:.5g}"
        gap = f"The difference to the next, {self.next}, is {self.difference}"
        p_value = self.p_value
        gap += (
            " and cannot be tested"
            if p_value is None
            else " (p < 0.001)"
            if p_value < 0.001
            else f" (p = {p_value:.2g})"
        )
        others = {1: "the other", 2: "both others"}.get(self.rivals, f"all {self.rivals} others")
        if self.is_ahead:
            return f"{self.label} has {what}, and is ahead of {others} beyond chance. {gap}."
        if len(self.level) == self.rivals:
            others = "the other" if self.rivals == 1 else f"any of the {self.rivals} others"
            return f"No difference beyond chance: {self.label} has {what}, but is not ahead of {others}. {gap}."
        names = _join(self.level)
        return f"{self.label} has {what}; beyond chance it is ahead of all others but {names}. {gap}."


def find_best(study: StudyValues) -> dict[str, Best]:
    """Find the best algorithm of each problem that has results; none where more of a metric is not better."""
    if study.metric not in (METRIC, REGRET):
        return {}
    groups = {label: [group for group in some if len(group.sample)] for label, some in study.problems.items()}
    return {label: _compare_best(label, study.metric, some) for label, some in groups.items() if some}


def make_verdict(best: Iterable[Best], *, complete: bool = True) -> str:
    """Return a sentence on one problem, or counts over several."""
    found = list(best)
    if not found:
        return ""
    start = "" if complete else "So far: "
    if len(found) == 1:
        return f"{start}{found[0]}"
    wins = Counter(each.label for each in found)
    what = _name_goal(found[0].metric)
    parts = []
    for label, count in wins.most_common(_MAX_NAMES):
        own = [each for each in found if each.label == label]
        gaps = sorted(float(each.difference.mean) for each in own if each.difference is not None)
        ends = list(dict.fromkeys(f"{gap:.3g}" for gap in (gaps[:1] + gaps[-1:])))
        by = f", by {' to '.join(ends)} over the next" if gaps else ""
        ahead = sum(each.is_ahead for each in own)
        parts.append(f"{label} has {what} on {count} of {len(found)} problems{by}, beyond chance on {ahead or 'none'}")
    left = len(found) - sum(count for _, count in wins.most_common(_MAX_NAMES))
    parts += [f"others have it on {left}"] if left else []
    return f"{start}{'; '.join(parts)}."


def _name_goal(metric: str) -> str:
    return f"the least mean {metric}" if metric == REGRET else f"the best mean {metric}"


def _compare_best(problem: str, metric: str, groups: list[GroupValues]) -> Best:
    sign = -1.0 if metric == REGRET else 1.0
    first, *others = sorted(groups, key=lambda group: -sign * float(group.sample.mean()))  # of equal ones the first
    mean = float(first.sample.mean())
    if not others:
        return Best(problem, metric, first.label, mean, (), 0)
    pairs = list(combinations([first, *others], 2))
    p_values = stats.holm([_test(*pair) for pair in pairs])
    ours = {pair[1].label: p for pair, p in zip(pairs, p_values, strict=True) if pair[0] is first}
    level = tuple(group.label for group in others if not ours[group.label] < _LEVEL)
    difference = stats.combination([first.sample, others[0].sample], [sign, -sign])
    judged = None if _is_untestable(first, others[0]) else float(ours[others[0].label])
    return Best(problem, metric, first.label, mean, level, len(others), others[0].label, difference, judged)


def _is_untestable(one: GroupValues, other: GroupValues) -> bool:
    """Whether no test can judge a difference: single values, or samples without any spread."""
    samples = one.sample, other.sample
    return min(map(len, samples)) < 2 or all(np.ptp(sample) == 0.0 for sample in samples)


def _test(one: GroupValues, other: GroupValues) -> float:
    """Return the p-value of a difference, 1 where no test can judge it."""
    return 1.0 if _is_untestable(one, other) else float(stats.welch(one.sample, other.sample).p_value)


def _join(names: tuple[str, ...]) -> str:
    some, left = [*names[:_MAX_NAMES]], len(names) - _MAX_NAMES
    some += [f"{left} more"] if left > 0 else []
    return some[0] if len(some) == 1 else f"{'; '.join(some[:-1])} and {some[-1]}"
