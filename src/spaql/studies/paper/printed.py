"""What the paper prints: its tables 1 and 2 and the scaling values behind them.

Araujo, Figueiredo and Ayala Botto, "Single-partition adaptive Q-learning" (2020).  Means over 25 agents (oil, 5000
iterations) or 50 agents (ambulance, 2000) at the best of 13 scaling values, and half the widths of their 95%
intervals.
"""

from typing import NamedTuple

SCALINGS = (0.01, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 4.0, 5.0)
QUICK_SCALINGS = (0.1, 0.5, 1.0, 2.0)  # of reduced studies
HORIZON = 5
ROLLOUTS = 20  # N


class Printed(NamedTuple):
    """A printed mean and half the width of its interval; both are rounded to two decimals."""

    mean: float
    half_width: float


class PrintedRow(NamedTuple):
    """What the paper prints of one problem."""

    rewards: dict[str, Printed]  # by algorithm: random, aql, spaql
    cells: dict[str, Printed]  # aql, spaql; the paper calls cells arms, and Sinclair et al. balls
    bold: tuple[str, ...]  # the best, or both where Welch's test finds no difference


def _row(random: str, aql: str, spaql: str, aql_cells: str, spaql_cells: str, *bold: str) -> PrintedRow:
    texts = (random, aql, spaql, aql_cells, spaql_cells)
    read = [Printed(*map(float, text.split("+-"))) for text in texts]
    return PrintedRow(
        dict(zip(("random", "aql", "spaql"), read, strict=False)), {"aql": read[3], "spaql": read[4]}, bold
    )


PRINTED = {
    "oil-quadratic-1": _row("2.50+-0.06", "4.26+-0.01", "4.17+-0.00", "155.72+-4.47", "42.04+-1.90", "aql"),
    "oil-quadratic-10": _row("0.99+-0.06", "4.22+-0.01", "4.21+-0.00", "140.60+-2.86", "35.08+-1.10", "aql"),
    "oil-quadratic-50": _row("0.44+-0.04", "4.19+-0.04", "4.18+-0.03", "167.84+-2.09", "59.08+-4.52", "aql", "spaql"),
    "oil-laplace-1": _row("1.95+-0.05", "4.21+-0.01", "3.90+-0.00", "158.36+-2.83", "39.28+-1.89", "aql"),
    "oil-laplace-10": _row("0.33+-0.03", "4.07+-0.04", "3.61+-0.07", "195.08+-2.70", "67.12+-4.89", "aql"),
    "oil-laplace-50": _row("0.08+-0.02", "3.29+-0.11", "1.81+-0.26", "357.08+-7.12", "57.28+-7.55", "aql"),
    "ambulance-uniform-0": _row("3.41+-0.03", "4.33+-0.01", "4.46+-0.00", "244.10+-2.51", "32.26+-2.11", "spaql"),
    "ambulance-uniform-0.25": _row("3.40+-0.03", "4.33+-0.02", "4.47+-0.00", "248.24+-2.18", "29.44+-2.03", "spaql"),
    "ambulance-uniform-1": _row(
        "3.46+-0.03", "4.90+-0.02", "4.91+-0.00", "238.40+-1.84", "50.32+-2.76", "aql", "spaql"
    ),
    "ambulance-beta-0": _row("3.38+-0.03", "4.32+-0.02", "4.47+-0.01", "244.04+-3.14", "31.96+-2.21", "spaql"),
    "ambulance-beta-0.25": _row("3.41+-0.03", "4.32+-0.02", "4.47+-0.00", "250.10+-2.30", "29.56+-1.97", "spaql"),
    "ambulance-beta-1": _row("3.48+-0.03", "4.92+-0.01", "4.91+-0.00", "239.54+-1.95", "50.02+-1.28", "aql"),
}
