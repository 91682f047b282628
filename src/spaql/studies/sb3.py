"""DQN, PPO and SAC of Stable-Baselines3 with their default settings, at the budgets of `spaql control`.

DQN learns discrete actions, SAC continuous ones, PPO both; each agent is evaluated in new episodes of the Gymnasium
environment.  Rows are kept after every agent in `sb3.json` of the study's folder, so that an interrupted study resumes;
a row is identified by all that it depends on, `_KEY`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from tqdm import tqdm

from spaql.atomic_io import check_folder, write_files
from spaql.errors import ParameterError, StoreError
from spaql.partition.jit import is_progress_shown
from spaql.runner.run_spec import seed_at
from spaql.studies.control import Task

NAME = "sb3.json"
_KEY = ("agent", "problem", "seed", "budget", "episodes", "version")
_SEEDS = 2**31  # Stable-Baselines3 takes no larger ones


def package() -> Any:
    """Import Stable-Baselines3, or say how to install it."""
    try:
        import stable_baselines3
    except ImportError:
        raise ParameterError(
            "--with-sb3: Stable-Baselines3 is missing; install it with: pip install 'spaql[sb3]'"
        ) from None
    return stable_baselines3


def measure(
    folder: str | os.PathLike[str],
    tasks: Sequence[Task],
    *,
    agents: int,
    episodes: int,
    seed: int = 0,
    progress_bar: bool | None = None,
) -> list[dict[str, Any]]:
    """Return a row for each agent, and train the agents that the folder, locked by the caller, has no row of.

    A row has the fields of `_KEY`, the `mean` return, and the environment `steps` played; PPO plays whole batches.
    """
    version = str(package().__version__)
    path = check_folder(folder) / NAME
    rows = {_key(row): row for row in _read(path)}
    wanted = {_key(row): (name, task, row) for name, task, row in _agents(tasks, agents, episodes, seed, version)}
    missing = [wanted[key] for key in wanted if key not in rows]
    options = {"unit": "agent", "desc": "Stable-Baselines3", "disable": not is_progress_shown(progress_bar)}
    with tqdm(total=len(wanted), initial=len(wanted) - len(missing), **options) as bar:
        for name, task, row in missing:
            bar.set_postfix_str(f"{name} on {task.environment}")
            rows[_key(row)] = row | _train(name, task, row["seed"], episodes)
            write_files(path.parent, {NAME: json.dumps(list(rows.values()), indent=1, allow_nan=False) + "\n"})
            bar.update()
    return [rows[key] for key in wanted]


def _agents(
    tasks: Sequence[Task], agents: int, episodes: int, seed: int, version: str
) -> Iterator[tuple[str, Task, dict[str, Any]]]:
    """Yield algorithm and task of each agent, and its row without the result."""
    for task in tasks:
        with closing(gymnasium.make(task.environment)) as environment:
            discrete = isinstance(environment.action_space, gymnasium.spaces.Discrete)
        for name in ("DQN" if discrete else "SAC", "PPO"):
            for agent in range(agents):
                own = seed_at(seed, "control", name, task.problem, agent) % _SEEDS
                values = f"{name} (SB3)", task.problem, own, task.budget, episodes, version
                yield name, task, dict(zip(_KEY, values, strict=True))


def _train(name: str, task: Task, seed: int, episodes: int) -> dict[str, Any]:
    from stable_baselines3.common.evaluation import evaluate_policy

    make = partial(gymnasium.make, task.environment)
    with _one_thread(), closing(make()) as environment, closing(make()) as new:
        model = getattr(package(), name)("MlpPolicy", environment, seed=seed, device="cpu")
        model.learn(task.budget)
        new.reset(seed=seed_at(seed, "fresh") % _SEEDS)
        returns, _ = evaluate_policy(model, new, n_eval_episodes=episodes, return_episode_rewards=True, warn=False)
    return {"mean": float(np.mean(returns)), "steps": int(model.num_timesteps)}


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread for small networks: more would wait for each other, and their number would change results."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)


def _read(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a file; none where there is no file."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        for row in rows:
            hash(_key(row))
            if not math.isfinite(row["mean"]):
                raise ValueError("mean is not finite")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{str(path)!r} cannot be read: {error.strerror}; choose another folder") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StoreError(f"{str(path)!r} is damaged; restore a copy of it, or move it away to start anew") from None
    return list(rows)
