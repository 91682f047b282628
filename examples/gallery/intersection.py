"""Switch the lights of an intersection of two roads, against the best fixed cycle, longest queue first, and gap-out.

Run it with `python examples/gallery/intersection.py`; it takes about a minute.
"""

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
from comparison import REPORTED, compare, follow, play, run, save_picture, train, tune
from gymnasium import spaces

STEP, STEPS = 5.0, 100  # s between two decisions; about eight minutes
ARRIVALS = STEP * np.array([0.22, 0.11])  # vehicles per step on the main road and the side road
DEPARTURES = STEP * 0.5  # vehicles per step that a green light lets pass
MOST = 60  # vehicles of a queue for which there is room


class Intersection(gymnasium.Env):
    """Observed: vehicles waiting on the main road and on the side road, and which has green (0 main, 1 side)."""

    observation_space = spaces.Box(np.zeros(3), np.array([MOST, MOST, 1.0]), dtype=np.float64)
    action_space = spaces.Discrete(2)  # which road has green next

    def reset(self, *, seed=None, options=None):
        """Begin with green for the main road and up to fifteen vehicles on either."""
        super().reset(seed=seed)
        self.queues, self.green, self.steps = self.np_random.integers(0, 16, 2), 0, 0
        return self._observe(), {}

    def step(self, action):
        """Keep or switch; a step in which the lights switch lets no vehicle pass.  The reward is minus the waiting."""
        arriving, ready = self.np_random.poisson(ARRIVALS), self.np_random.binomial(4, DEPARTURES / 4.0)
        if not (switched := int(action) != self.green):
            self.queues[self.green] -= min(ready, self.queues[self.green])
        self.green, self.queues, self.steps = int(action), np.minimum(self.queues + arriving, MOST), self.steps + 1
        waiting = STEP / 60.0 * float(self.queues.sum())
        return self._observe(), -waiting, False, self.steps == STEPS, {"switches": switched}

    def _observe(self):
        return np.array([*self.queues, self.green], np.float64)


def make_cycle(main_green, side_green):
    """Give each road green for its number of steps, whatever waits."""

    def begin():
        green, steps = 0, 0

        def act(observation):
            nonlocal green, steps
            steps += 1
            if steps > (main_green, side_green)[green]:
                green, steps = 1 - green, 0
            return green

        return act

    return begin


def make_longest(margin):
    """Switch when the other queue is longer by more than a margin."""

    def act(observation):
        queues, green = observation[:2], int(observation[2])
        return 1 - green if queues[1 - green] > queues[green] + margin else green

    return lambda: act


def make_gap_out(main_left, side_left, waiting):
    """Switch when the queue with green is nearly served, and enough vehicles wait on the other road."""

    def act(observation):
        queues, green = observation[:2], int(observation[2])
        served = queues[green] <= (main_left, side_left)[green]
        return 1 - green if served and queues[1 - green] >= waiting else green

    return lambda: act


CYCLE = {"main_green": range(2, 13), "side_green": range(1, 9)}
GAP_OUT = {"main_left": [0, 1, 2, 3], "side_left": [0, 1, 2, 3], "waiting": [1, 2, 3, 5]}


def main(out=None, budget=10_000, agents=3, episodes=300):
    """Train, compare and draw; returns the results."""
    env, few = Intersection(), min(20, episodes)
    names = {"names": ["main", "side", "green"], "action_names": ["green for main", "green for side"]}
    trained = train(Intersection(), budget, agents, horizon=STEPS, **names)
    policies = {
        "fixed cycle": tune(env, make_cycle, CYCLE, few),
        "longest queue first": tune(env, make_longest, {"margin": range(11)}, few),
        "gap-out": tune(env, make_gap_out, GAP_OUT, few),
    }
    unit, measures = "minus vehicle minutes", ["switches"]
    result = compare("intersection", env, policies, trained, unit=unit, out=out, episodes=episodes, measures=measures)

    figure, axes = plt.subplot_mosaic("AB;CC", figsize=(9, 6.5), layout="constrained")
    for panel, green in (("A", 0), ("B", 1)):
        trained[0].plot(("main", "side"), {"green": green}, ax=axes[panel])
        axes[panel].set(xlim=(0, 15), ylim=(0, 15))
    for label, policy in (policies | {"Tessera": follow(trained[0])}).items():
        waiting = play(env, policy, REPORTED).observations[:, :2].sum(axis=1)
        axes["C"].plot(STEP / 60.0 * np.arange(STEPS + 1), waiting, label=label)
    axes["C"].set(xlabel="time [min]", ylabel="vehicles waiting")
    axes["C"].legend()
    save_picture(figure, "intersection", out)
    return result


if __name__ == "__main__":
    run(main, __doc__)
