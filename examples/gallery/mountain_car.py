"""MountainCar-v0 in thirty lines: an underpowered car, against rules that pump energy.

Run it with `python examples/gallery/mountain_car.py`; it takes about half a minute.
"""

import gymnasium
import matplotlib.pyplot as plt
from comparison import REPORTED, compare, follow, play, run, save_picture, train


def pump(observation):
    """Push where the car goes: left (0) or right (2)."""
    return 2 if observation[1] >= 0.0 else 0


def follow_curves(observation):
    """Push right between two curves in the plane of position and velocity, else left: a rule by Zhiqing Xiao."""
    position, velocity = observation
    low = min(-0.09 * (position + 0.25) ** 2 + 0.03, 0.3 * (position + 0.9) ** 4 - 0.008)
    return 2 if low < velocity < -0.07 * (position + 0.38) ** 2 + 0.07 else 0


def main(out=None, budget=60_000, agents=3, episodes=300):
    """Train, compare and draw; returns the results."""
    env = gymnasium.make("MountainCar-v0")  # -1 per step until the flag is reached, 200 steps at most
    trained = train("MountainCar-v0", budget, agents)
    policies = {"energy pumping": lambda: pump, "curves": lambda: follow_curves}
    result = compare("mountain_car", env, policies, trained, unit="-1 per step", episodes=episodes, out=out)

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    trained[0].plot(ax=axes)
    for colour, (label, policy) in zip("kwy", (policies | {"Tessera": follow(trained[0])}).items(), strict=True):
        axes.plot(*play(env, policy, REPORTED).observations.T, color=colour, label=label)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=3, facecolor="0.8")
    save_picture(figure, "mountain_car", out)
    return result


if __name__ == "__main__":
    run(main, __doc__)
