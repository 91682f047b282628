"""A battery that trades on a power exchange: buy in cheap hours, sell in expensive ones, with losses.

Run it with `python examples/gallery/battery.py`; it takes about a minute.
"""

import matplotlib.pyplot as plt
from comparison import REPORTED, compare, follow, play, run, save_picture, train, tune
from gymnasium.wrappers import TransformReward

import spaql

CAPACITY, POWER, EFFICIENCY = 8, 2, 0.9  # MWh, MW, share of the energy bought that is stored
SCALE = 200.0  # EUR/MWh of the price 1 of the built-in problem
NAMES = {"names": ["charge", "hour", "price"], "action_names": ["trade"]}


def make_hours(buy, sell):
    """Buy with full power in the four hours from `buy` on, sell in the four from `sell` on."""

    def act(observation):
        hour = round(observation[1])
        return [float(buy <= hour < buy + CAPACITY // POWER) - float(sell <= hour < sell + CAPACITY // POWER)]

    return lambda: act


def play_optimum(problem, steps):
    """Return the optimal policy of each hour, which knows the distribution of prices."""
    solution = spaql.optimum(problem)

    def begin():
        step = iter(range(steps))
        return lambda observation: solution.policy([observation], next(step))[0]

    return begin


def main(out=None, budget=50_000, agents=3, episodes=1000):
    """Train, compare and draw; returns the results."""
    problem = spaql.problems.battery(capacity=CAPACITY, power=POWER, efficiency=EFFICIENCY)
    most = SCALE * POWER / EFFICIENCY  # EUR of an hour that has the reward 1, half of which is 0 EUR
    market = TransformReward(spaql.ProblemEnvironment(problem), lambda reward: most * (2.0 * reward - 1.0))
    rule = spaql.algorithms()["price-limits"].make(problem)  # with the best limits of a grid, by exact evaluation
    limits, trained = follow(rule), train(problem, budget, agents, **NAMES)
    limits.parameters = {name: SCALE * limit for name, limit in rule.constants.items()}
    hours = tune(market, make_hours, {"buy": range(0, 12), "sell": range(10, 21)}, max(1, episodes // 30))
    policies = {"price limits": limits, "fixed hours": hours}
    settings = {"unit": "EUR per day", "out": out, "episodes": episodes}
    result = compare("battery", market, policies, trained, optimum=play_optimum(problem, problem.horizon), **settings)

    figure, (top, bottom) = plt.subplots(2, figsize=(8, 5), sharex=True, layout="constrained")
    for label, policy in (policies | {"Tessera": follow(trained[0])}).items():
        observations = play(market, policy, REPORTED).observations
        bottom.step(range(len(observations)), observations[:, 0], where="post", label=label)
    top.step(range(len(observations)), SCALE * observations[:, 2], where="post", color="0.3")
    top.set(ylabel="price [EUR/MWh]", title="One day")
    bottom.set(xlabel="hour", ylabel="charge [MWh]", xticks=range(0, 25, 3))
    bottom.legend()
    save_picture(figure, "battery", out)
    return result


if __name__ == "__main__":
    run(main, __doc__)
