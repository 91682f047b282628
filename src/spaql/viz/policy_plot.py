"""An agent's policy as a matplotlib figure: what `agent.plot` returns.  What is shown is what `spaql.viz.policy_view` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from spaql.agents import Agent
from spaql.errors import ParameterError
from spaql.partition.spaces import Box, Discrete, Floats
from spaql.problems.labels import Words, words
from spaql.validation import check_number, check_whole
from spaql.viz import figures
from spaql.viz.policy_view import LAYERS, Sight, Tiles


def portray(
    agent: Agent,
    *,
    dims: Any,
    at: Any,
    layer: str,
    step: int,
    projection: bool,
    number: int,
    names: Sequence[str] | None,
    actions: Sequence[str] | None,
) -> Figure:
    """The figure of a policy; the parameters are those of `Agent.plot`."""
    sight, named = sight_of(agent, "plot"), words(agent.problem, names, actions)
    if layer not in LAYERS:
        raise ParameterError(f"layer: expected one of {', '.join(LAYERS)}, got {layer!r:.80}")
    step = check_whole(step, "step", 0, sight.partition.steps - 1)
    number = check_whole(number, "number", 0, agent.problem.actions.dimensions - 1)
    when = f", time step {step + 1}" if agent.time_variant else ""
    title = f"{type(agent).__name__} on {agent.problem.name}{when}"
    if agent.problem.states.dimensions == 1:
        return _states_and_actions(sight, named, layer, step, number, title)
    across, up = _dims(dims, sight, named)
    plane = across, up
    if projection:
        tiles = sight.projection(plane, layer, step=step, number=number)
        hidden = [name for d, name in enumerate(named.states) if d not in plane]
        note = f"over all of {', '.join(hidden)}, by visits" if hidden else ""
    else:
        values = _at(at, sight, named)
        box = agent.problem.states
        unit = box.to_unit(np.clip(values, box.low, box.high))
        tiles, _ = sight.slice(plane, unit, layer, step=step, number=number)
        fixed = [f"{name} = {values[d]:.3g}" for d, name in enumerate(named.states) if d not in plane]
        note = (
            "at " + ", ".join(fixed)
            if fixed
            else f"{len(tiles.values):,} boxes of states, {len(agent.cells()):,} cells"
        )
    finite = isinstance(agent.problem.actions, Discrete) and layer == "policy"
    limits = None
    if layer == "policy" and isinstance(agent.problem.actions, Box):
        limits = float(agent.problem.actions.low[number]), float(agent.problem.actions.high[number])
    low, high = (_scaled(corner, agent.problem.states, plane) for corner in (tiles.low, tiles.high))
    return figures.plane_picture(
        low,
        high,
        tiles.values,
        title=title,
        note=note,
        labels=(named.states[across], named.states[up]),
        value_label=label_of(sight, named, layer, number, cells="that decides"),
        limits=limits,
        names=named.actions if finite else None,
        log=layer == "visits",
        borders=not projection,
    )


def sight_of(agent: Agent, what: str) -> Sight:
    """What can be seen of an agent, or a sentence about why there is nothing."""
    agent._require_training()
    if not len(agent.cells()):
        raise ParameterError(f"{what}: {type(agent).__name__} has no partition to look at; SPAQL and AQL do")
    return Sight(agent.problem, agent._policy(), getattr(agent, "scaling", None))


def label_of(sight: Sight, named: Words, layer: str, number: int, *, cells: str) -> str:
    """What the colours of a layer mean."""
    if layer == "policy":
        return "what is done" if isinstance(sight.problem.actions, Discrete) else named.actions[number]
    bonus = "1" if sight.bonus is None else f"{sight.bonus:g}"
    return {
        "q": f"Q of the cell {cells}",
        "visits": "visits relative to an even spread",
        "depth": f"depth of the cell {cells}",
        "uncertainty": f"{bonus} / sqrt(visits) of the cell {cells}",
    }[layer]


def _states_and_actions(sight: Sight, named: Words, layer: str, step: int, number: int, title: str) -> Figure:
    """One observed number: states across, actions upwards, and what is played outlined."""
    cells, played = sight.plane(layer, step=step, number=number)
    tiles = cells if len(cells.values) else played
    space = sight.problem.actions
    finite = isinstance(space, Discrete)

    def placed(part: Tiles) -> tuple[Floats, Floats]:
        ends = []
        for corner in (part.low, part.high):
            x = sight.problem.states.from_unit(corner[:, :1])[:, 0]
            y = corner[:, 1]
            if isinstance(space, Box):
                y = space.low[number] + y * (space.high[number] - space.low[number])
            ends.append(np.stack([x, y], axis=1))
        return ends[0], ends[1]

    low, high = placed(tiles)
    first, last = placed(played)
    edges = np.append(first[:, 0], last[-1, 0])
    return figures.plane_picture(
        low,
        high,
        tiles.values,
        title=title,
        note=f"{len(tiles.values):,} cells; outlined: what is played",
        labels=(named.states[0], "" if finite else named.actions[number]),
        value_label=label_of(sight, named, "q" if layer == "policy" else layer, number, cells="itself"),
        log=layer == "visits",
        rows=named.actions if finite else None,
        played=(edges, first[:, 1], last[:, 1]),
    )


def _scaled(corners: Floats, states: Box, dims: tuple[int, int]) -> Floats:
    plane = list(dims)
    return states.low[plane] + corners * (states.high - states.low)[plane]


def _place(name: Any, named: Words, what: str) -> int:
    """The place of an observed number, by its name or place."""
    if isinstance(name, str) and name in named.states:
        return named.states.index(name)
    if isinstance(name, int | np.integer) and not isinstance(name, bool) and 0 <= name < len(named.states):
        return int(name)
    known = ", ".join(named.states)
    raise ParameterError(
        f"{what}: expected a place from 0 to {len(named.states) - 1} or one of {known}, got {name!r:.80}"
    )


def _dims(dims: Any, sight: Sight, named: Words) -> tuple[int, int]:
    if dims is None:
        across, up = sight.telling()
        return across, up
    if isinstance(dims, str) or not isinstance(dims, Sequence) or len(dims) != 2:
        raise ParameterError(f"dims: expected two observed numbers, by place or name, got {dims!r:.80}")
    across, up = (_place(name, named, "dims") for name in dims)
    if across == up:
        raise ParameterError(f"dims: expected two different observed numbers, got {dims!r:.80}")
    return across, up


def _at(at: Any, sight: Sight, named: Words) -> Floats:
    """A state in the observed numbers' own units."""
    values = sight.problem.states.from_unit(sight.usual())
    if at is None:
        return values
    if isinstance(at, Mapping):
        given = {_place(name, named, "at"): value for name, value in at.items()}
    elif not isinstance(at, str) and np.ndim(at) == 1 and len(at) == len(values):
        given = dict(enumerate(at))
    else:
        raise ParameterError(f"at: expected {len(values)} numbers, or some of them by place or name, got {at!r:.80}")
    for d, value in given.items():
        values[d] = check_number(value, f"at {named.states[d]}")
    return values
