"""The page of one policy, or of two side by side: one HTML file that needs no network and no server.

The page holds the partition itself, as arrays, and draws in the browser the views of `spaql.viz.policy_plot`: slices
and projections over any two observed dimensions, the cell that decides at a point and the actions beyond its borders,
an episode, and the course of training.  Text, rules, downloads and tables are static; see `spaql.viz.html`.

`spaql.agents.inspection` makes a `Subject` of an agent.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from numpy.typing import ArrayLike, NDArray

from spaql.errors import ParameterError
from spaql.formatting import Table
from spaql.partition.spaces import Box, Floats
from spaql.viz.charts import to_plain
from spaql.viz.html import Download, Section, render_page
from spaql.viz.policy_plot import PolicyView
from spaql.viz.style import DIVERGING, PALETTE, SEQUENTIAL, darken

_PARTS = ("base", "trees", "planes", "zoom", "line_charts", "explanations", "episodes", "panels", "inspector")
_MOST_POINTS = 400  # of a chart
_STOPS = 33  # of a colour scale
_EXPLAIN_TRAINING = (
    "Returns in training are no evaluations: the agent explores in them, or chose its policy by them. An evaluation is "
    "the mean return of the returned policy in new episodes; a point with its 95% interval marks it."
)
_TYPES: tuple[type[np.generic], ...] = (np.uint8, np.int16, np.int32, np.float32, np.float64)


class Episode(NamedTuple):
    """One episode of the greedy policy."""

    points: Floats  # [steps + 1, states] as the agent sees them, in the problem's units
    rewards: Floats  # [steps]
    terminated: bool  # by the environment


class RuleList(NamedTuple):
    """The rules of consecutive time steps that decide alike."""

    first: int  # time step
    last: int
    table: Table
    limits: Sequence[Sequence[tuple[int, float | None, float | None]]]  # of each rule: number, low and high, exact;
    # those of a periodic number are fractions of its period


class Evaluation(NamedTuple):
    """The recorded evaluation: a mean return with its 95% interval."""

    mean: float
    low: float
    high: float
    episodes: int
    iterations: int  # after which it was made


@dataclass(frozen=True, eq=False)
class Subject:
    """A trained agent, as the page shows it; a text may be empty."""

    view: PolicyView
    steps: int  # of the environment that it learned from
    evaluation: str  # the recorded one, in words
    recorded: Evaluation | None
    score: str  # what the scores of its history are
    facts: Mapping[str, str]  # rows of the summary
    parameters: Mapping[str, Any]
    history: Mapping[str, NDArray[Any]]  # columns score, cells and splits, a row for each iteration
    warnings: Sequence[str] = ()  # of its diagnosis
    episode: Episode | None = None  # to be replayed
    note: str = ""  # why there is no episode or no diagnosis
    model: Table | None = None  # accuracy of its learned model, where it has one
    rules: Sequence[RuleList] = ()  # by time step
    rules_note: str = ""  # why some or all rules are missing
    programs: Sequence[Download] = ()  # the exported policy


def render_inspector(subjects: Sequence[Subject]) -> str:
    """Return the page of one policy, or of two side by side, to be written as UTF-8."""
    if not 1 <= len(subjects) <= 2:
        raise ParameterError(f"show: one agent, or two side by side, got {len(subjects)}")
    warnings = [
        Section(f"Warnings for {s.view.title}" if len(subjects) > 1 else "Warnings", items=s.warnings, style="warnings")
        for s in subjects
        if s.warnings
    ]
    texts = [text for subject in subjects for text in _describe(subject, alone=len(subjects) == 1)]
    sections = [
        Section("In short", texts, parts=warnings, style="lead", highlight=_highlight(subjects)),
        Section("The policy", [_explain_view(subjects)], mount="panels", id="policy"),
        _show_rules(subjects),
        *_offer_programs(subjects),
        Section("Training", [_EXPLAIN_TRAINING], mount="charts"),
        *_show_models(subjects),
        Section("Summary", tables=[_summarise(subjects), *map(_tabulate_dims, subjects)]),
    ]
    data = {
        "agents": [_pack_subject(subject) for subject in subjects],
        "scale": [mpl.colors.to_hex(mpl.colormaps[SEQUENTIAL](i / (_STOPS - 1))) for i in range(_STOPS)],
        "diverging": DIVERGING,
        "palette": [{"light": colour, "dark": darken(colour)} for colour in PALETTE],
        "training": _chart_training(subjects),
    }
    scripts = [f"{name}.js" for name in _PARTS]
    title = " beside ".join(subject.view.title for subject in subjects)
    subtitle = "Two readable policies, side by side" if len(subjects) > 1 else "A readable policy"
    return render_page(title, sections, subtitle, data=data, scripts=scripts, styles=("page.css", "inspector.css"))


def _describe(subject: Subject, alone: bool) -> list[str]:
    view = subject.view
    count = len(view.partition)
    text = f"{view.title} learned from {subject.steps:,} environment steps, and decides by "
    text += f"{count:,} cells" if count != 1 else "one cell"
    text += f" over {view.problem.horizon} time steps." if view.partition.steps > 1 else "."
    if not view.influence.any():
        text += " Its action is the same in all visited states."
    elif view.problem.states.dimensions > 2:
        text += f" Its actions depend most on {' and '.join(view.labels.states[d] for d in view.main_dims())}."
    elif view.problem.states.dimensions == 2:
        more, less = (view.labels.states[d] for d in np.argsort(-view.influence, kind="stable"))
        text += f" Its actions depend on {more}" + (f" more than on {less}." if view.influence.all() else " alone.")
    if subject.recorded is None:
        text += " It was not evaluated on new episodes."
    elif not alone:
        text += f" Evaluated on new episodes, it scores {subject.evaluation}."
    return [text, *([subject.note] if subject.note else [])]


def _highlight(subjects: Sequence[Subject]) -> tuple[str, str] | None:
    """Return the evaluation of a single agent as a number in large type, with its meaning."""
    score = subjects[0].recorded
    if len(subjects) > 1 or score is None:
        return None
    since = score.iterations < len(subjects[0].history["score"])
    when = f" after {score.iterations:,} iterations" if since else ""
    number = f"{score.mean:.5g} [{score.low:.5g}, {score.high:.5g}]"
    return number, f"mean return of {score.episodes:,} new episodes{when}, with its 95% interval"


def _explain_view(subjects: Sequence[Subject]) -> str:
    dimensions = max(subject.view.problem.states.dimensions for subject in subjects)
    click = "Point at a state, or click it, to read what the policy does there and why."
    if dimensions == 1:
        return (
            "States run across, actions upwards; each box is a cell, and the red outline is the greedy policy. " + click
        )
    plane = "The two observed dimensions span the picture. "
    if dimensions > 2:
        plane = "Two of the observed dimensions span the picture; sliders fix the others. "
    return "Each box is a set of states in which one cell decides. " + plane + click


def _show_rules(subjects: Sequence[Subject]) -> Section:
    text = "The whole policy as a list: the first rule that matches decides, and the last always matches."
    if any(rules.table.header[-1] == "visits" for subject in subjects for rules in subject.rules):
        text += " Visits: the share of all visits that a rule decides."
    tables = [rules.table.html() for subject in subjects for rules in subject.rules]
    notes = [subject.rules_note for subject in subjects if subject.rules_note]
    return Section("Rules", [text] if tables else [], tables, notes=notes)


def _offer_programs(subjects: Sequence[Subject]) -> list[Section]:
    """Return the section with the exported policies, where there are any."""
    some = [subject for subject in subjects if subject.programs]
    text = (
        "The policy as a program that runs without spaql and decides alike, to the last bit. The files are part of "
        "this page; agent.export and spaql export write the same."
    )
    if len(subjects) == 1:
        return [Section("Download", [text], downloads=subject.programs) for subject in some]
    parts = [Section(subject.view.title, downloads=subject.programs) for subject in some]
    return [Section("Download", [text], parts=parts)] if parts else []


def _show_models(subjects: Sequence[Subject]) -> list[Section]:
    """Return the section on learned models, where there are any."""
    tables = [subject.model.html() for subject in subjects if subject.model is not None]
    text = (
        "The policy was planned in a model of the environment that was learned from the recorded steps; the table says "
        "how well it predicts one step. What it predicts badly is random, depends on something that is not observed, "
        "or needs more steps."
    )
    return [Section("The learned model", [text], tables=tables, id="model")] if tables else []


def _summarise(subjects: Sequence[Subject]) -> dict[str, Any]:
    facts: list[Mapping[str, Any]] = []
    for subject in subjects:
        view = subject.view
        fixed = {"algorithm": view.algorithm, "problem": view.problem.name, "cells": len(view.partition)}
        facts.append({**fixed, **subject.facts, "steps of an episode at most": view.problem.horizon})
    arguments = [subject.view.problem.arguments for subject in subjects]
    parts = {"": facts, "Parameters": [s.parameters for s in subjects], "Arguments of the problem": arguments}
    rows = []
    for heading, columns in parts.items():
        for name in dict.fromkeys(name for column in columns for name in column):
            cells = [_to_text(column.get(name)) for column in columns]
            rows += [[heading, name, *cells]] if any(cells) else []
    return Table(["", "", *(s.view.title for s in subjects)], rows, "Summary", sections=True).html()


def _to_text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return (text[:77] + "...") if len(text) > 80 else text


def _tabulate_dims(subject: Subject) -> dict[str, Any]:
    view, problem = subject.view, subject.view.problem
    clipped, periodic = getattr(problem, "clipped", None), getattr(problem, "periodic", ())
    header = ["dimension", "from", "to", "influence", "", *([] if clipped is None else ["times outside"])]
    rows = []
    for d, name in enumerate(view.labels.states):
        ends = _to_text(float(problem.states.low[d])), _to_text(float(problem.states.high[d]))
        rows.append([name, *ends, f"{100 * view.influence[d]:.0f} %", "periodic" if d in periodic else ""])
        rows[-1] += [] if clipped is None else [f"{int(clipped[d]):,}"]
    if isinstance(problem.actions, Box):
        for name, low, high in zip(view.labels.actions, problem.actions.low, problem.actions.high, strict=True):
            rows.append([name, _to_text(float(low)), _to_text(float(high)), "", "action", ""][: len(header)])
    change = "the share of decisions that differ" if view.discrete else "the mean change as a share of the range"
    note = "Influence: change of actions where this dimension is exchanged for that of another visited state; "
    return Table(header, rows, f"Observations and actions: {view.title}", f"{note}{change}.").html()


def _chart_training(subjects: Sequence[Subject]) -> list[dict[str, Any]]:
    """Return line charts of score, cells and splits over the iterations; the score with the evaluations as points."""
    kinds = (
        ("score", "Return in training", "return", np.mean, "Lines are means over"),
        ("cells", "Cells", "cells", np.max, "The most within"),
        ("splits", "Splits", "cells split per iteration", np.mean, "Means over"),
    )
    charts = []
    for column, title, y_label, fold, note in kinds:
        series: list[dict[str, Any]] = []
        widest = 1
        for at, subject in enumerate(subjects):
            values = subject.history[column]
            size = max(1, -(-len(values) // _MOST_POINTS))
            widest = max(widest, size)
            starts = range(0, len(values), size)
            x = [min(start + size, len(values)) for start in starts]
            y = to_plain([fold(values[start : start + size]) for start in starts])
            name, score = subject.view.algorithm, subject.recorded
            line = {"name": f"{name}: {subject.score}" if column == "score" else name, "x": x, "y": y, "of": at}
            series += [line] if x else []  # an agent that was saved without its history has none
            if column == "score" and score is not None:
                ends = {"low": to_plain([score.low]), "high": to_plain([score.high])}
                point = {"x": [score.iterations], "y": to_plain([score.mean]), **ends, "points": True, "of": at}
                series.append({"name": f"{name}: evaluation, {score.episodes:,} new episodes", **point})
        note = f"{note} {widest:,} iterations each." if widest > 1 else ""
        chart = {"title": title, "note": note, "x_label": "iteration", "y_label": y_label, "series": series}
        if series and (column != "splits" or any(np.any(subject.history[column]) for subject in subjects)):
            charts.append(chart)
    return charts


def pack(values: ArrayLike) -> dict[str, Any]:
    """Return numbers for the page: the smallest type that holds them exactly, and their bytes in base64."""
    array = np.asarray(values)
    for kind in _TYPES:
        with np.errstate(over="ignore", invalid="ignore"):
            small = array.astype(kind)
        if np.array_equal(small, array):
            break
    data = np.ascontiguousarray(small).astype(small.dtype.newbyteorder("<")).tobytes()
    return {"type": small.dtype.name, "data": base64.b64encode(data).decode()}


def _pack_subject(subject: Subject) -> dict[str, Any]:
    """Return all that the scripts need of a policy."""
    view, episode = subject.view, subject.episode
    problem, partition = view.problem, view.partition
    nodes, cells, _ = (int(n) for n in partition.forest.used)
    node, cell = partition.forest.nodes[:nodes], partition.forest.cells[:cells]
    boxes, choice = np.unique(partition.forest.boxes[:cells].reshape(cells, -1), axis=0, return_inverse=True)
    boxes = boxes.reshape(len(boxes), 2, -1)
    middles = problem.actions.from_unit(boxes[:, 0] + 0.5 * (boxes[:, 1] - boxes[:, 0]))
    played = np.asarray(problem.decode(middles, False), np.float64).reshape(len(boxes), -1)
    space = problem.actions
    bounds = {"low": space.low.tolist(), "high": space.high.tolist()} if isinstance(space, Box) else {}
    states, periodic = [], getattr(problem, "periodic", ())
    for d, name in enumerate(view.labels.states):
        ends = {"low": float(problem.states.low[d]), "high": float(problem.states.high[d])}
        states.append({"name": name, **ends, "periodic": d in periodic, "whole": bool(problem.whole[d])})
    replay = None
    if episode is not None:
        points, rewards, terminated = episode
        replay = {"points": pack(points), "rewards": pack(rewards), "terminated": terminated}
    return {
        "name": view.title,
        "states": states,
        "actions": {"discrete": view.discrete, "names": view.labels.actions, "low": [], "high": [], **bounds},
        "bonus": view.scaling,
        "steps": partition.steps,
        "start": {"dims": view.main_dims(), "at": problem.states.from_unit(view.median_state()).tolist()},
        "nodes": {name: pack(node[name]) for name in ("dim", "cut", "child", "head", "top")},
        "cells": {name: pack(cell[name]) for name in ("q", "visits", "next", "depth")} | {"choice": pack(choice)},
        "choices": {"boxes": pack(boxes), "middles": pack(middles), "played": pack(played)},
        "episode": replay,
        "rules": [{"first": r.first, "last": r.last, "limits": r.limits} for r in subject.rules],
    }
