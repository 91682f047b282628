"""MountainCar-v0 in twenty lines: an underpowered car, against the rule that pumps energy.

Run it with `python examples/gallery/mountain_car.py`; it takes about half a minute.
"""

import gymnasium
import matplotlib.pyplot as plt
from comparison import REPORTED, compare, follow, play, run, save_picture, train


def pump(observation):
    """Push where the car goes: left (0) or right (2)."""
    return 2 if observation[1] >= 0.0 else 0


def main(out=None, budget=60_000, agents=3, episodes=300):
    """Train, compare and draw; returns the results."""
    env = gymnasium.make("MountainCar-v0")  # -1 per step until the flag is reached, 200 steps at most
    trained = train("MountainCar-v0", budget, agents)
    policies = {"energy pumping": lambda: pump}
    result = compare("mountain_car", env, policies, trained, unit="-1 per step", episodes=episodes, out=out)

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    trained[0].plot(ax=axes)
    for label, policy in (policies | {"Tessera": follow(trained[0])}).items():
        observations = play(env, policy, REPORTED).observations
        axes.plot(*observations.T, label=label)
    save_picture(figure, "mountain_car", out)
    return result


if __name__ == "__main__":
    run(main, __doc__)
