"""Your own problem: a shop that orders every evening, with the forecast of tomorrow's demand before it.

Run it with ``python examples/own_problem.py``; it takes some seconds, and longer on first use, when it compiles.  A
number as argument changes the budget, in steps (days) of the simulation.

The state has two dimensions, the stock in the shop and tomorrow's forecast; the action is how much to order.  What is
left in the evening costs 1 per piece, a customer sent away costs 3.  What is left can be sold the day after, so the
textbook answer is a *base-stock* rule: order up to forecast + z * error, with z the quantile of the normal
distribution at the critical ratio 3 / (3 + 1).  It is as good as can be, save for the rare slow day whose leftovers
exceed what tomorrow needs.  It knows the costs and the error of the forecast; the agents know neither.

All agents have the same number of steps.  AQL keeps a partition for every day of the week and so learns the same thing
seven times, with many cells.  SPAQL learns the reward of the current step and nothing of later ones, and spends twenty
of twenty-one steps on selecting between snapshots of itself.  Tessera learns a model of the shop, plans in it, and
returns a tree that is small enough to read.
"""

import sys
import time

import numpy as np

import spaql
from spaql.gym.environments import ProblemEnvironment
from spaql.problems import Box, Problem, normal, uniform
from spaql.stats import mean_interval

SHELF, LOWEST, HIGHEST, ERROR = 100.0, 20.0, 60.0, 5.0
LEFT_OVER, SENT_AWAY = 1.0, 3.0
QUANTILE = 0.6745  # of the standard normal at SENT_AWAY / (SENT_AWAY + LEFT_OVER)

# --- The problem: two plain functions, compiled when the Problem is made ----------------------------------------------


def step(state, action, parameters, random, next_state):
    """Simulate a day: the order arrives, customers come, costs are added up, a new forecast is made."""
    shelf, lowest, highest, error, left_over, sent_away = parameters
    stock = min(shelf, state[0] + action[0])
    demand = max(0.0, state[1] + error * normal(random))
    next_state[0] = max(0.0, stock - demand)
    next_state[1] = lowest + (highest - lowest) * uniform(random)
    cost = left_over * next_state[0] + sent_away * max(0.0, demand - stock)
    return max(0.0, 1.0 - cost / shelf), False  # 1 is a perfect day, 0 a very bad one; nothing ends a week early


def reset(parameters, random, state):
    """Start on Monday morning: the shelf is anything up to half full."""
    shelf, lowest, highest = parameters[:3]
    state[0] = 0.5 * shelf * uniform(random)
    state[1] = lowest + (highest - lowest) * uniform(random)


def shop():
    """Make the problem: a week of seven days."""
    return Problem(
        name="shop",
        step=step,
        reset=reset,
        states=Box([0.0, LOWEST], [SHELF, HIGHEST]),
        actions=Box(0.0, SHELF),
        horizon=7,
        parameters=[SHELF, LOWEST, HIGHEST, ERROR, LEFT_OVER, SENT_AWAY],
    )


# --- Four agents on it, and the textbook rule -------------------------------------------------------------------------


def base_stock(problem, episodes, seed=0):
    """Play the textbook rule on the same problem as a Gymnasium environment; its returns, `[episodes]`."""
    environment = ProblemEnvironment(problem)
    returns = np.zeros(episodes)
    for i in range(episodes):
        (stock, forecast), _ = environment.reset(seed=seed if i == 0 else None)
        over = False
        while not over:
            order = np.clip(forecast + QUANTILE * ERROR - stock, 0.0, SHELF)
            (stock, forecast), reward, terminated, truncated, _ = environment.step([order])
            returns[i] += reward
            over = terminated or truncated
    return returns


def show(name, agent, budget):
    """Train an agent and print one row: its evaluation on new random numbers, its cells and its speed."""
    start = time.perf_counter()
    agent.learn(total_timesteps=budget)  # training and selection together
    seconds = time.perf_counter() - start
    steps = agent.training_steps + agent.selection_steps
    evaluation = agent.evaluate(episodes=2000, deterministic=True)
    low, high = evaluation.interval
    speed = f"{steps / seconds:14,.0f}" if steps else f"{'-':>14}"
    print(f"{name:<16}{evaluation.mean:8.3f}   {low:.3f} to {high:.3f}{len(agent.cells()):8}{steps:14,}{speed}")
    return evaluation.mean


def main(budget=200_000):
    """Print the table; returns the mean return by name."""
    problem = shop()
    # AQL needs no rollouts (they only draw its learning curve); SPAQL selects its policy by them.
    agents = {
        "Random": spaql.Random(problem, seed=0),
        "AQL": spaql.AQL(problem, rollouts=0, seed=0),
        "SPAQL": spaql.SPAQL(problem, seed=0),
        "Tessera": spaql.Tessera(problem, seed=0),
    }
    for agent in agents.values():
        type(agent)(problem).learn(iterations=1)  # compile first, so that the speeds below are those of the code
    print(f"{budget:,} steps of training and selection; scores are returns of a week, at best {problem.horizon}")
    print(f"{'':<16}{'score':>8}   {'95% interval':<14}{'cells':>8}{'steps':>14}{'steps/second':>14}")
    scores = {name: show(name, agent, budget) for name, agent in agents.items()}
    rule = mean_interval(base_stock(problem, 2000))
    low, high = rule.interval
    print(f"{'base stock':<16}{rule.mean:8.3f}   {low:.3f} to {high:.3f}")
    return scores | {"base stock": rule.mean}


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
