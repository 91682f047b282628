"""A shop's stock of one product: when to order how much, where orders have a fixed cost and demand is random.

Run it with `python examples/gallery/inventory.py`; it takes about half a minute.
"""

import matplotlib.pyplot as plt
import numpy as np
from comparison import compare, follow, run, save_picture, train
from gymnasium.wrappers import TransformReward

import spaql

SETUP, HOLDING, SHORTAGE = 5.0, 1.0, 4.0  # EUR for an order, for a piece left in the evening, for a sale that is lost
SHELF, DEMAND, LARGEST, DAYS = 20, 5.0, 12, 20  # pieces; pieces a day, on average and at most; days of an episode
WORST = SETUP + max(HOLDING * SHELF, SHORTAGE * LARGEST)  # EUR of a day that has the reward 0 in the built-in problem


def play_optimum(problem, steps):
    """Return the optimal policy of each step, which knows the costs and the distribution of the demand."""
    solution = spaql.optimum(problem)

    def begin():
        step = iter(range(steps))
        return lambda stock: solution.policy([stock], next(step))[0]

    return begin


def main(out=None, budget=20_000, agents=5, episodes=1000):
    """Train, compare and draw; returns the results."""
    costs = {"setup": SETUP, "holding": HOLDING, "shortage": SHORTAGE}
    problem = spaql.problems.inventory(capacity=SHELF, demand=DEMAND, largest=LARGEST, horizon=DAYS, **costs)
    shop = TransformReward(spaql.ProblemEnvironment(problem), lambda reward: WORST * (reward - 1.0))
    rule = spaql.algorithms()["s-S"].make(problem)  # with the best s and S, by exact evaluation
    best, trained = follow(rule), train(problem, budget, agents, names=["stock"], action_names=["order"])
    best.parameters = rule.constants
    settings = {"unit": f"EUR in {DAYS} days", "out": out, "episodes": episodes}
    result = compare("inventory", shop, {"best (s, S)": best}, trained, optimum=play_optimum(problem, DAYS), **settings)

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    stocks = np.arange(SHELF + 1.0)[:, None]
    for label, agent in {"best (s, S)": rule, "Tessera": trained[0]}.items():
        axes.step(stocks, np.round(SHELF * agent.predict(stocks)[0]), where="mid", label=label)
    axes.set(xlabel="stock in the morning [pieces]", ylabel="order [pieces]", xticks=range(0, SHELF + 1, 2))
    axes.legend()
    save_picture(figure, "inventory", out)
    return result


if __name__ == "__main__":
    run(main, __doc__)
