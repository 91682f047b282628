"""A trained agent, or two side by side, as one HTML page that needs no network and no server.

The page holds the partition itself, as arrays, and draws in the browser what `spaql.viz.policy_view` describes: slices and
projections over any two observed numbers, what decides at a point and what would be done beyond the cell's borders, an
episode over it, and how the partition grew.  Words and tables are static and can be read without JavaScript; see
`spaql.viz.html`.

Making a page plays two things on random numbers of their own: the probe of `agent.diagnose`, and one episode of the
greedy policy.  Where the environment cannot be played the page says so and is made without.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from numpy.typing import ArrayLike

from spaql import atomic_io
from spaql.agents import Agent
from spaql.agents.diagnosis import environment_of
from spaql.errors import ParameterError, SpaqlError
from spaql.partition.spaces import Discrete, Floats
from spaql.problems.labels import Words, words
from spaql.viz import html as pages
from spaql.viz.charts import PALETTE, Chart, Series
from spaql.viz.policy_plot import sight_of
from spaql.viz.policy_view import Sight
from spaql.viz.recording import steps_of

MOST_AGENTS = 2
_SCRIPTS = (
    "basics.js",
    "trees.js",
    "planes.js",
    "lines.js",
    "explanations.js",
    "episodes.js",
    "panels.js",
    "show.js",
)
_MOST_STEPS = 2000  # of the episode
_MOST_POINTS = 400  # of a chart
_STOPS = 33  # of the colour scale
_TYPES: tuple[type[np.generic], ...] = (np.uint8, np.int16, np.int32, np.float32, np.float64)


class Episode(NamedTuple):
    """One episode of the greedy policy."""

    points: Floats  # [steps + 1, states] as the agent sees them, in the observed numbers' own units
    rewards: Floats  # [steps]
    ended: bool  # whether the environment ended it


class Subject(NamedTuple):
    """An agent and what the page says of it."""

    agent: Agent
    words: Words
    sight: Sight
    warnings: list[str]
    episode: Episode | None
    missing: str  # why there is no episode or no diagnosis, or nothing


def page(
    agents: Sequence[Agent],
    *,
    seed: int = 0,
    names: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
) -> str:
    """The page of one agent, or of two side by side, to be written as UTF-8.

    Parameters
    ----------
    agents
        One or two, trained.
    seed
        Of the episode.
    names, actions
        Words for the observed numbers and for the actions, where the usual ones are not good enough.

    Examples
    --------
    >>> import spaql
    >>> from spaql import showing
    >>> text = showing.page([spaql.Tessera("oil").learn(iterations=50)])
    >>> text.startswith("<!doctype html>")
    True
    """
    if not 1 <= len(agents) <= MOST_AGENTS:
        raise ParameterError(f"show: one agent, or two side by side, got {len(agents)}")
    subjects = [_subject(agent, seed, words(agent.problem, names, actions)) for agent in agents]
    title = " beside ".join(_name(subject.agent) for subject in subjects)
    body = pages.filled(
        pages.asset("show.html"),
        title=escape(title),
        subtitle=escape(_subtitle(subjects)),
        verdict=pages.paragraphs([sentence for subject in subjects for sentence in _verdict(subject)]),
        warnings=_warnings(subjects),
        reading=escape(_reading(subjects)),
        tables="\n".join(pages.table(table) for table in (_summary(subjects), *map(_ranges, subjects))),
    )
    data = {
        "agents": [_drawn(subject) for subject in subjects],
        "scale": [mpl.colors.to_hex(mpl.colormaps["viridis"](i / (_STOPS - 1))) for i in range(_STOPS)],
        "palette": [{"light": colour, "dark": pages.LIGHTER[colour]} for colour in PALETTE],
        "growth": [pages.dressed(chart.to_dict()) for chart in _growth(subjects)],
    }
    scripts = [pages.program(*_SCRIPTS)]
    return pages.document(title, body, data, styles=["report.css", "show.css"], scripts=scripts)


def show(agents: Sequence[Agent], path: str | os.PathLike[str], *, seed: int = 0) -> Path:
    """Write the page of one agent or two, whole or not at all; the path."""
    target = Path(path)
    text = page(agents, seed=seed)
    atomic_io.write_file(target, text.encode())
    return target


def beside(*agents: str | os.PathLike[str]) -> Path:
    """Where a page goes unless told: next to the first agent, called after the files or folders of all of them."""
    places = [Path(agent) for agent in agents]
    folder = places[0] if places[0].is_dir() else places[0].parent
    stems = [place.resolve().name if place.is_dir() else place.stem for place in places]
    return folder / ("-".join(stem or "agent" for stem in stems) + ".html")


# What is played for the page -----------------------------------------------------------------------------------


def _subject(agent: Agent, seed: int, found: Words) -> Subject:
    sight = sight_of(agent, "show")
    warnings: list[str] = []
    episode, missing = None, ""
    try:
        warnings = [str(warning) for warning in agent.diagnose()]
        episode = _played(agent, seed)
    except Exception as error:  # whatever an environment may raise: what was learned can be shown all the same
        first = (str(error).splitlines() or [""])[0]
        reason = first if isinstance(error, SpaqlError) else f"{type(error).__name__}: {first}"
        missing = f"The environment could not be played ({reason}), so that "
        missing += "the diagnosis may be incomplete and there is no episode."
    return Subject(agent, found, sight, warnings, episode, missing)


def _played(agent: Agent, seed: int) -> Episode:
    """An episode of the greedy policy, up to a length that can still be looked at."""
    points, rewards, ended = [], [], False
    with environment_of(agent.problem) as environment:
        for observation, reward, ended in steps_of(agent, environment, seed):  # noqa: B007  (the last one counts)
            points.append(agent.problem.states.from_unit(agent.problem.observed(observation)[0][0]))
            if reward is not None:
                rewards.append(reward)
            if len(rewards) == _MOST_STEPS:
                break
    return Episode(np.array(points), np.array(rewards), ended)


# Words and tables ----------------------------------------------------------------------------------------------


def _name(agent: Agent) -> str:
    return f"{_algorithm(agent)} on {agent.problem.name}"


def _algorithm(agent: Agent) -> str:
    names = {"SPAQL": "SPAQL published", "SPAQLTS": "SPAQL-TS"}
    return names.get(type(agent).__name__, type(agent).__name__)


def _subtitle(subjects: Sequence[Subject]) -> str:
    if len(subjects) > 1:
        return "Two policies that you can read, side by side"
    return "A policy that you can read"


def _verdict(subject: Subject) -> list[str]:
    agent, named = subject.agent, subject.words
    cells = f"{len(agent.cells()):,} cells" if len(agent.cells()) != 1 else "one cell"
    steps = agent.training_steps + agent.selection_steps
    told = f"{_name(agent)} learned from {steps:,} environment steps, and decides by {cells}"
    told += f" over {agent.problem.horizon} time steps." if agent.time_variant else "."
    dims = subject.sight.telling()
    if not subject.sight.influence.any():
        told += " It does the same wherever it has been."
    elif agent.problem.states.dimensions > 1:
        told += f" What it does depends most on {' and '.join(named.states[d] for d in dims)}."
    if agent.recorded_evaluation is not None:
        told += f" On fresh episodes it scores {_score(agent)}."
    return [told, *([subject.missing] if subject.missing else [])]


def _reading(subjects: Sequence[Subject]) -> str:
    """How to read the picture."""
    if max(subject.agent.problem.states.dimensions for subject in subjects) == 1:
        return (
            "States run across, actions upwards; each box is a cell, and the red outline is what is played in each "
            "state. Click a state, and below the picture stands what decides there and why."
        )
    return (
        "Each box is a set of states in which one cell decides, and its colour tells what is done there, or whatever "
        "else you choose. Two of the observed numbers span the picture; the others are fixed by the sliders, or all "
        "their values are looked through at once. Click a state, and what decides there stands below the picture."
    )


def _score(agent: Agent) -> str:
    """The last fresh score, and when it was, where the agent has learned since; nothing where there is none."""
    fresh = agent.recorded_evaluation
    if fresh is None:
        return ""
    then = "" if fresh["iterations"] == agent.iterations else f" after {fresh['iterations']:,} iterations"
    return (
        f"{fresh['mean']:.5g}{then} (95% interval {fresh['low']:.5g} to {fresh['high']:.5g}, "
        f"{fresh['episodes']:,} episodes)"
    )


def _warnings(subjects: Sequence[Subject]) -> str:
    parts = []
    for subject in subjects:
        heading = f"Warnings for {_name(subject.agent)}" if len(subjects) > 1 else "Warnings"
        if subject.warnings:
            items = "".join(f"<li>{escape(warning)}</li>" for warning in subject.warnings)
            parts.append(f'<div class="warnings"><h3>{escape(heading)}</h3><ul>{items}</ul></div>')
    return "\n".join(parts)


def _cell(text: str) -> dict[str, Any]:
    return {"text": text, "bold": False, "title": ""}


def _summary(subjects: Sequence[Subject]) -> dict[str, Any]:
    def row(head: str, *texts: str) -> list[dict[str, Any]]:
        return [{"head": head, "cells": [_cell(text) for text in texts]}] if any(texts) else []

    agents = [subject.agent for subject in subjects]
    parameters = list(dict.fromkeys(name for agent in agents for name in agent.get_params() if name != "seed"))
    arguments = list(dict.fromkeys(name for agent in agents for name in agent.problem.arguments))
    rows = [
        *row("algorithm", *map(_algorithm, agents)),
        *row("problem", *(agent.problem.name for agent in agents)),
        *row("fresh score", *map(_score, agents)),
        *row("score it was selected by", *(_plain(agent.selection_score) for agent in agents)),
        *row("cells", *(f"{len(agent.cells()):,}" for agent in agents)),
        *row("iterations", *(f"{agent.iterations:,}" for agent in agents)),
        *row("training steps", *(f"{agent.training_steps:,}" for agent in agents)),
        *row("selection steps", *(f"{agent.selection_steps:,}" for agent in agents)),
        *row("steps of an episode at most", *(f"{agent.problem.horizon:,}" for agent in agents)),
        *row("seed", *(str(agent.seed) for agent in agents)),
        {"section": "Parameters"},
        *(r for name in parameters for r in row(name, *(_plain(agent.get_params().get(name)) for agent in agents))),
    ]
    told = [
        r for name in arguments for r in row(name, *(_plain(agent.problem.arguments.get(name)) for agent in agents))
    ]
    return {
        "caption": "Summary",
        "note": "",
        "columns": [_name(agent) for agent in agents],
        "rows": [*rows, *([{"section": "Arguments of the problem"}] if told else []), *told],
    }


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return (text[:77] + "...") if len(text) > 80 else text or "none"


def _ranges(subject: Subject) -> dict[str, Any]:
    problem, named = subject.agent.problem, subject.words
    clipped = getattr(problem, "clipped", None)
    periodic = getattr(problem, "periodic", ())
    rows: list[dict[str, Any]] = []
    for d, name in enumerate(named.states):
        cells = [_plain(float(problem.states.low[d])), _plain(float(problem.states.high[d]))]
        cells += [f"{100 * subject.sight.influence[d]:.0f} %", "comes round" if d in periodic else ""]
        rows.append({"head": name, "cells": [_cell(text) for text in cells]})
        if clipped is not None:
            rows[-1]["cells"].append(_cell(f"{int(clipped[d]):,}"))
    columns = ["number", "from", "to", "matters", "", *(["times outside"] if clipped is not None else [])]
    if not isinstance(problem.actions, Discrete):
        for d, name in enumerate(named.actions):
            cells = [_plain(float(problem.actions.low[d])), _plain(float(problem.actions.high[d])), "", "chosen"]
            rows.append({"head": name, "cells": [_cell(t) for t in (*cells, *([""] if clipped is not None else []))]})
    note = "Matters: by how much decisions change where this number is exchanged for that of another visited state. "
    note += (
        "For actions to choose from, the share of decisions that differ; else the mean change as a share of the range."
    )
    return {
        "caption": f"Numbers seen and chosen: {_name(subject.agent)}",
        "note": note,
        "columns": columns,
        "rows": rows,
    }


# What the page draws -------------------------------------------------------------------------------------------


def _growth(subjects: Sequence[Subject]) -> list[Chart]:
    """Score, cells and splits over the iterations."""
    charts = []
    kinds = (
        ("score", "Score", "return", np.mean, "Of the episode it learned from, or of its own rollouts; a mean over"),
        ("arms", "Cells", "cells", np.max, "Of the partition; the most within"),
        ("splits", "Splits", "cells split per iteration", np.mean, "A mean over"),
    )
    looks = [_algorithm(subject.agent) for subject in subjects]
    looks = looks if len(set(looks)) == len(looks) else [f"{look} {i + 1}" for i, look in enumerate(looks)]
    for column, title, y_label, fold, note in kinds:
        series, widest = [], 1
        for subject, look in zip(subjects, looks, strict=True):
            history = subject.agent.history
            size = -(-len(history) // _MOST_POINTS)
            widest = max(widest, size)
            starts = range(0, len(history), size)
            x = [float(min(start + size, len(history))) for start in starts]
            y = [float(fold(history[column][start : start + size])) for start in starts]
            series.append(Series(look, x, y, look=look))
        about = f"{note} {widest:,} iterations each." if widest > 1 else ""
        charts.append(Chart(title, "iteration", y_label, tuple(series), note=about))
    return charts


def packed(values: ArrayLike) -> dict[str, Any]:
    """Numbers for the page: the smallest type that holds them exactly, and their bytes in base64, lowest first."""
    array = np.asarray(values)
    for kind in _TYPES:
        with np.errstate(over="ignore", invalid="ignore"):
            small = array.astype(kind)
        if np.array_equal(small, array):
            break
    data = np.ascontiguousarray(small).astype(small.dtype.newbyteorder("<")).tobytes()
    return {"type": small.dtype.name, "data": base64.b64encode(data).decode()}


def _drawn(subject: Subject) -> dict[str, Any]:
    """All that the scripts need of an agent."""
    agent, sight = subject.agent, subject.sight
    problem, partition = agent.problem, sight.partition
    nodes, cells, _ = (int(n) for n in partition.forest.used)
    node, cell = partition.forest.nodes[:nodes], partition.forest.cells[:cells]
    boxes, choice = np.unique(partition.forest.boxes[:cells].reshape(cells, -1), axis=0, return_inverse=True)
    boxes = boxes.reshape(len(boxes), 2, -1)
    middles = problem.actions.from_unit(boxes[:, 0] + 0.5 * (boxes[:, 1] - boxes[:, 0]))
    played = np.asarray(problem.played(middles, False), np.float64).reshape(len(boxes), -1)
    finite = isinstance(problem.actions, Discrete)
    states = problem.states
    periodic = getattr(problem, "periodic", ())
    return {
        "name": _name(agent),
        "algorithm": _algorithm(agent),
        "states": [
            {
                "name": name,
                "low": float(states.low[d]),
                "high": float(states.high[d]),
                "periodic": d in periodic,
                "whole": bool(problem.whole[d]),
            }
            for d, name in enumerate(subject.words.states)
        ],
        "actions": {
            "finite": finite,
            "names": subject.words.actions,
            "low": [] if isinstance(problem.actions, Discrete) else problem.actions.low.tolist(),
            "high": [] if isinstance(problem.actions, Discrete) else problem.actions.high.tolist(),
        },
        "bonus": sight.bonus,
        "steps": partition.steps,
        "start": {"dims": sight.telling(), "at": states.from_unit(sight.usual()).tolist()},
        "nodes": {name: packed(node[name]) for name in ("dim", "cut", "child", "head", "top")},
        "cells": {name: packed(cell[name]) for name in ("q", "visits", "next", "depth")} | {"choice": packed(choice)},
        "choices": {"boxes": packed(boxes), "middles": packed(middles), "played": packed(played)},
        "episode": None
        if subject.episode is None
        else {
            "points": packed(subject.episode.points),
            "rewards": packed(subject.episode.rewards),
            "ended": subject.episode.ended,
        },
    }
