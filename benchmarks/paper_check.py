"""Do we land where the paper does?  Published SPAQL and AQL on two of its problems, by the paper's own way of scoring.

As in the paper, the scaling is the best of 13 values by the mean final score over the agents, and that same mean is
the score: for SPAQL of the running maximum, for AQL of the last N = 20 rollouts.  Beside it stands what the returned
policies earn on fresh random numbers.  Run: `python benchmarks/paper_check.py [agents]` (10 unless given).
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import spaql
from spaql.stats import mean_interval

SCALINGS = (0.01, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 4.0, 5.0)
# Tables 1 and 2 of the paper: mean, half width of the 95% interval, arms.
CASES = (
    (spaql.problems.oil(survey="quadratic", sharpness=50), 5000, "SPAQL", (4.18, 0.03, 59.08)),
    (spaql.problems.oil(survey="quadratic", sharpness=50), 5000, "AQL", (4.19, 0.04, 167.84)),
    (spaql.problems.ambulance(arrivals="beta", cost=0.0), 2000, "SPAQL", (4.47, 0.01, 31.96)),
    (spaql.problems.ambulance(arrivals="beta", cost=0.0), 2000, "AQL", (4.32, 0.02, 244.04)),
)


def main() -> None:
    """Print the comparison."""
    agents = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    print(f"{agents} agents each; ours is inside where our mean lies in the printed interval")
    print(f"{'problem':<20}{'agent':<7}{'printed':>14}{'ours':>8}{'95% interval':>18}{'inside':>8}", end="")
    print(f"{'fresh':>8}{'95% interval':>18}{'optimum':>9}{'arms':>7}{'printed':>9}{'scaling':>9}")
    for problem, iterations, name, (printed, half, printed_arms) in CASES:

        def run(job, name=name, problem=problem, iterations=iterations):
            scaling, seed = job
            agent = getattr(spaql, name)(problem, scaling=scaling, seed=seed).learn(iterations)
            return agent.selection_score, agent.evaluate(2000).mean, agent.arms

        # Other seeds for every scaling, so that no two of the runs compared share their random numbers.
        jobs = [(scaling, 1000 * i + seed) for i, scaling in enumerate(SCALINGS) for seed in range(agents)]
        with ThreadPoolExecutor(2) as pool:
            results = np.array(list(pool.map(run, jobs))).reshape(len(SCALINGS), agents, 3)
        chosen = int(np.argmax(results[:, :, 0].mean(axis=1)))
        own, fresh = mean_interval(results[chosen, :, 0]), mean_interval(results[chosen, :, 1])
        inside = abs(own.mean - printed) <= half + 0.005  # the printed numbers are rounded to two places
        print(
            f"{problem.name:<20}{name:<7}{printed:>7.2f} +-{half:.2f}{own.mean:>9.3f}"
            f"{f'[{own.low:.3f}, {own.high:.3f}]':>18}{'yes' if inside else 'no':>8}{fresh.mean:>8.3f}"
            f"{f'[{fresh.low:.3f}, {fresh.high:.3f}]':>18}{spaql.optimum(problem).value:>9.3f}"
            f"{results[chosen, :, 2].mean():>7.0f}{printed_arms:>9.0f}{SCALINGS[chosen]:>9g}"
        )


if __name__ == "__main__":
    main()
