"""An episode of a trained agent as a moving picture, drawn by the environment itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from spaql.agents import Agent
from spaql.atomic_io import check_folder
from spaql.errors import OutputError, ParameterError, SpaqlError
from spaql.gym.problem import GymnasiumProblem
from spaql.problems.control import GYMNASIUM

KINDS = (".gif", ".mp4")
_FRAMES_PER_SECOND = 30
_MOST_FRAMES = 3000
_NAMES = {"gravity": "g"}  # arguments of compiled problems as Gymnasium calls them
_RANGES = ("velocities", "horizon")  # those that are not physics


def beside(agent: str | os.PathLike[str]) -> Path:
    """Where a recording goes unless told: next to the agent."""
    path = Path(agent)
    return (path if path.is_dir() else path.parent) / "episode.gif"


def record(agent: Agent, target: str | os.PathLike[str], *, seed: int = 0) -> tuple[Path, float, int]:
    """Play one episode and write it as .gif or .mp4; the path, the return and the number of steps."""
    path = Path(target)
    if path.suffix.lower() not in KINDS:
        raise OutputError(f"{path}: an episode can be kept as {' or '.join(KINDS)}")
    check_folder(path.parent)
    environment = _drawing(agent)
    frames: list[Any] = []
    total, step = 0.0, 0
    for _, reward, _ in steps_of(agent, environment, seed):
        if reward is not None:
            total, step = total + reward, step + 1
        if len(frames) < _MOST_FRAMES:
            frames.append(np.asarray(environment.render(), dtype=np.uint8))
    if step >= _MOST_FRAMES:
        frames.append(np.asarray(environment.render(), dtype=np.uint8))
    rate = int(environment.metadata.get("render_fps") or _FRAMES_PER_SECOND)
    environment.close()
    (_write_gif if path.suffix.lower() == ".gif" else _write_mp4)(path, frames, rate)
    return path, total, step


def steps_of(agent: Agent, environment: Any, seed: int) -> Iterator[tuple[Any, float | None, bool]]:
    """Play one episode of the greedy policy: each observation, the reward before it, and whether it was the end.

    The first observation has no reward.  At the horizon the episode is broken off, which is no end.
    """
    observation, _ = environment.reset(seed=seed)
    yield observation, None, False
    state, over, step = None, False, 0
    while not over and step < agent.problem.horizon:
        action, state = agent.predict(observation, state)
        observation, reward, terminated, truncated, _ = environment.step(action)
        step += 1
        over = terminated or truncated
        yield observation, float(reward), bool(terminated)


def _drawing(agent: Agent) -> Any:
    """The agent's environment with pictures as arrays."""
    problem = agent.problem
    made, arguments = (problem.env.spec, {}) if isinstance(problem, GymnasiumProblem) else _counterpart(problem)
    if made is None:
        raise ParameterError(f"record: {problem.name!r} has no environment that can draw it")
    try:
        environment = gymnasium.make(made, render_mode="rgb_array", **arguments)
        environment.reset(seed=0)
        if environment.render() is None:
            raise ParameterError(f"record: {problem.name!r} draws nothing")
    except gymnasium.error.DependencyNotInstalled as error:
        raise ParameterError(f"record: {error}; install spaql[record]") from None
    except (gymnasium.error.Error, TypeError, ValueError, NotImplementedError) as error:
        if isinstance(error, SpaqlError):
            raise
        raise ParameterError(f"record: {problem.name!r} cannot be drawn: {error}") from None
    return environment


def _counterpart(problem: Any) -> tuple[str | None, dict[str, Any]]:
    """Id and arguments of Gymnasium's own environment of a compiled problem, with the same physics."""
    made = GYMNASIUM.get(getattr(problem, "maker", None) or "")
    arguments = {"max_episode_steps": problem.horizon}
    for name, value in problem.arguments.items() if made is not None else ():
        if name in _NAMES:
            arguments[_NAMES[name]] = value
        elif name not in _RANGES:
            raise ParameterError(f"record: {problem.name!r} was made with {name}, which nothing that draws it knows")
    return made, arguments


def _write_gif(path: Path, frames: list[Any], rate: int) -> None:
    from PIL import Image  # comes with matplotlib

    pictures = [Image.fromarray(frame).quantize(64) for frame in frames]
    pause = max(20, round(1000 / rate))  # ms; browsers show no shorter one
    try:
        pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=pause, loop=0)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _write_mp4(path: Path, frames: list[Any], rate: int) -> None:
    try:
        import imageio.v2 as imageio
    except ModuleNotFoundError:
        raise ParameterError(f"{path}: .mp4 needs more; install spaql[record], or choose .gif") from None
    try:
        imageio.mimsave(path, frames, fps=rate, macro_block_size=1)
    except (OSError, ValueError) as error:
        raise OutputError(f"{path}: cannot be written as .mp4: {error}") from None
