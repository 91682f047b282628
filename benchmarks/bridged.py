"""Learning through Gymnasium: over a bare loop of `env.step`, and over the same problem compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium

from benchmarks import learning
from benchmarks.timing import Bar, Part, Ready, pace, ratios_of_pace
from spaql.agents import Tessera
from spaql.problems import PROBLEMS

BRIDGED = ("CartPole-v1", "Pendulum-v1")


def _bridged(environment: str, steps: int) -> Ready:
    """Learning through Gymnasium, all of it."""
    return lambda: lambda: Tessera(environment).learn(total_timesteps=steps).num_timesteps


def bare_loop(environment: str, steps: int, sampling: bool) -> Callable[[], int]:
    """A loop of `env.step` with random actions, drawn at every step or beforehand."""
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

    def loop_that_samples() -> int:
        env = gymnasium.make(environment)
        env.reset(seed=0)
        for _ in range(steps):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        return steps

    return loop_that_samples if sampling else loop


def to_gymnasium(bar: Bar) -> list[dict[str, Any]]:
    """(h)."""
    rows = []
    for _, environment, steps in learning.CONTROL:
        if environment not in BRIDGED:
            continue
        bar(f"bare {environment}")
        Tessera(environment).learn(iterations=1)
        loops = [partial(bare_loop, environment, steps, sampling) for sampling in (False, True)]
        bare, sampling = ratios_of_pace(_bridged(environment, steps), *loops)
        rows.append(
            {
                "environment": environment,
                "steps": steps,
                "ratio_to_gymnasium": bare,
                "ratio_to_sampling": sampling,
                "gymnasium_us_per_step": 1e6 * pace(loops[0]()),
            }
        )
    return rows


def compiled_to_gymnasium(bar: Bar) -> list[dict[str, Any]]:
    """(i)."""
    rows = []
    for name, environment, steps in learning.CONTROL:
        bar(f"{environment} against {name}")
        Tessera(environment).learn(iterations=1)
        problem = PROBLEMS[name]()
        compiled = learning.learning_of(problem, steps)
        [times] = ratios_of_pace(_bridged(environment, steps), compiled)
        rows.append(
            {
                "problem": name,
                "environment": environment,
                "steps": steps,
                "compiled_to_gymnasium": times,
                "compiled_ns_per_step": 1e9 * pace(compiled()),
            }
        )
    return rows


def _told_loops(figures: dict[str, Any]) -> list[str]:
    lines = ["time of learning through Gymnasium over a bare loop of env.step with random actions"]
    lines += [
        f"  {row['environment']:<24}{row['ratio_to_gymnasium']:6.2f}   (loop {row['gymnasium_us_per_step']:.1f} us per "
        f"step)   where the loop draws its actions {row['ratio_to_sampling']:.2f}"
        for row in figures["ratio_to_gymnasium"]
    ]
    return lines


def _told_compiled(figures: dict[str, Any]) -> list[str]:
    lines = ["time of learning through Gymnasium over learning on the same problem compiled"]
    lines += [
        f"  {row['environment']:<24}{row['compiled_to_gymnasium']:6.1f}   "
        f"(compiled {row['compiled_ns_per_step']:.0f} ns per step)"
        for row in figures["compiled_to_gymnasium"]
    ]
    return lines


PARTS = {
    "ratio_to_gymnasium": Part(
        lambda bar: {"ratio_to_gymnasium": to_gymnasium(bar)}, _told_loops, lambda: len(BRIDGED)
    ),
    "compiled_to_gymnasium": Part(
        lambda bar: {"compiled_to_gymnasium": compiled_to_gymnasium(bar)},
        _told_compiled,
        lambda: len(learning.CONTROL),
    ),
}
