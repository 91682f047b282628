"""Training through Gymnasium: relative to a bare loop of `env.step`, and to the same problem compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium

from benchmarks import Report, part, simulation
from benchmarks.timing import Prepare, measure_pace, measure_pace_ratios
from spaql.agents import Tessera
from spaql.problems import PROBLEMS

LOOPS = ("CartPole-v1", "Pendulum-v1")


def _prepare_learning(environment: str, steps: int) -> Prepare:
    """Return training through Gymnasium, with making the environment and the warm-up."""
    Tessera(environment).learn(iterations=1)  # compiles
    return lambda: lambda: Tessera(environment).learn(total_timesteps=steps).num_timesteps


def prepare_loop(environment: str, steps: int, sampling: bool) -> Callable[[], int]:
    """Return a loop of `env.step` with random actions, drawn at every step or beforehand."""
    space = gymnasium.make(environment).action_space
    space.seed(0)
    drawn = [] if sampling else [space.sample() for _ in range(steps)]

    def loop() -> int:
        env = gymnasium.make(environment)
        env.reset(seed=0)
        for action in drawn:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return steps

    def loop_with_sampling() -> int:
        env = gymnasium.make(environment)
        env.reset(seed=0)
        for _ in range(steps):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        return steps

    return loop_with_sampling if sampling else loop


@part
def ratio_to_gymnasium(report: Report) -> dict[str, Any]:
    """Time per step of `spaql.Tessera(id).learn(n)` over that of a bare loop in Python; the aim is 1.3.

    The loop makes the environment, calls `env.step` with random actions drawn beforehand, and `env.reset` at every end.
    `ratio_to_sampling` is over the loop that people write, which calls `env.action_space.sample()` at every step.
    """
    rows = []
    for _, environment, steps in simulation.CONTROL:
        if environment in LOOPS:
            report(f"bare {environment}")
            loops = [partial(prepare_loop, environment, steps, sampling) for sampling in (False, True)]
            bare, sampling = measure_pace_ratios(_prepare_learning(environment, steps), *loops)
            row = {
                "environment": environment,
                "steps": steps,
                "ratio_to_gymnasium": bare,
                "ratio_to_sampling": sampling,
            }
            rows.append(row | {"gymnasium_us_per_step": 1e6 * measure_pace(loops[0]())})
    return {"ratio_to_gymnasium": rows}


@part
def compiled_to_gymnasium(report: Report) -> dict[str, Any]:
    """Time per step of learning through Gymnasium over learning on the same problem compiled; the aim is 50 (Pendulum).

    Compiling is excluded.
    """
    rows = []
    for name, environment, steps in simulation.CONTROL:
        report(f"{environment} against {name}")
        compiled = simulation.prepare_training(Tessera, PROBLEMS[name](), total_timesteps=steps)
        [ratio] = measure_pace_ratios(_prepare_learning(environment, steps), compiled)
        row = {"problem": name, "environment": environment, "steps": steps, "compiled_to_gymnasium": ratio}
        rows.append(row | {"compiled_ns_per_step": 1e9 * measure_pace(compiled())})
    return {"compiled_to_gymnasium": rows}
