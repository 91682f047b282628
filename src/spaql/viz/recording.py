"""An episode as an animation, drawn by the environment itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from spaql.atomic_io import check_folder
from spaql.errors import OutputError, ParameterError, SpaqlError
from spaql.gym.problem import GymnasiumProblem
from spaql.problems.control import GYMNASIUM

_MOST_FRAMES = 3000
_NAMES = {"gravity": "g"}  # arguments of compiled problems as Gymnasium calls them
_RANGES = ("velocities", "horizon")  # those that are not physics


def record(agent: Any, path: Path, *, seed: int = 0) -> tuple[float, int]:
    """Play one episode and write it as .gif or .mp4; return its return and the number of steps."""
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise OutputError(f"{path}: an episode is recorded as .gif or .mp4")
    check_folder(path.parent)
    environment = _make_environment(agent.problem)
    frames: list[Any] = []
    rewards: list[float] = []
    for _, reward, _ in play(agent, environment, seed):
        rewards.append(reward or 0.0)
        if len(frames) < _MOST_FRAMES:
            frames.append(np.asarray(environment.render(), dtype=np.uint8))
    if len(rewards) > _MOST_FRAMES:
        frames.append(np.asarray(environment.render(), dtype=np.uint8))
    rate = int(environment.metadata.get("render_fps") or 30)
    environment.close()
    _write(path, frames, rate)
    return sum(rewards), len(rewards) - 1


def play(agent: Any, environment: Any, seed: int) -> Iterator[tuple[Any, float | None, bool]]:
    """Play one greedy episode: yield each observation, the reward before it (None first), and whether it terminated."""
    observation, _ = environment.reset(seed=seed)
    yield observation, None, False
    state, over, step = None, False, 0
    while not over and step < agent.problem.horizon:
        action, state = agent.predict(observation, state)
        observation, reward, terminated, truncated, _ = environment.step(action)
        step += 1
        over = terminated or truncated
        yield observation, float(reward), bool(terminated)


def _make_environment(problem: Any) -> Any:
    """Make the environment of a problem, rendering to arrays."""
    made, arguments = (problem.env.spec, {}) if isinstance(problem, GymnasiumProblem) else _counterpart(problem)
    if made is None:
        raise ParameterError(f"record: {problem.name!r} has no environment that can render it")
    try:
        environment = gymnasium.make(made, render_mode="rgb_array", **arguments)
        environment.reset(seed=0)
        if environment.render() is None:
            raise ParameterError(f"record: {problem.name!r} renders nothing")
    except gymnasium.error.DependencyNotInstalled as error:
        raise ParameterError(f"record: {error}; install spaql[record]") from None
    except (gymnasium.error.Error, TypeError, ValueError, NotImplementedError) as error:
        if isinstance(error, SpaqlError):
            raise
        raise ParameterError(f"record: {problem.name!r} cannot be rendered: {error}") from None
    return environment


def _counterpart(problem: Any) -> tuple[str | None, dict[str, Any]]:
    """Return id and arguments of Gymnasium's own environment of a compiled problem, with the same physics."""
    made = GYMNASIUM.get(getattr(problem, "maker", None) or "")
    arguments = {"max_episode_steps": problem.horizon}
    for name, value in problem.arguments.items() if made is not None else ():
        if name in _NAMES:
            arguments[_NAMES[name]] = value
        elif name not in _RANGES:
            raise ParameterError(
                f"record: {problem.name!r} has the argument {name}, which the environment that renders it does not have"
            )
    return made, arguments


def _write(path: Path, frames: list[Any], rate: int) -> None:
    """Write frames as .gif or .mp4, by the suffix."""
    try:
        if path.suffix.lower() == ".gif":
            from PIL import Image  # comes with matplotlib

            first, *others = (Image.fromarray(frame).quantize(64) for frame in frames)
            pause = max(20, round(1000 / rate))  # ms; browsers show no shorter one
            first.save(path, save_all=True, append_images=others, duration=pause, loop=0)
            return
        import imageio.v2 as imageio

        imageio.mimsave(path, frames, fps=rate, macro_block_size=1)
    except ModuleNotFoundError:
        raise ParameterError(
            f"{path}: writing .mp4 needs another package; install spaql[record], or choose .gif"
        ) from None
    except (OSError, ValueError) as error:
        raise OutputError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from None
