"""A policy as a matplotlib figure: what `agent.plot` returns; see `spaql.viz.policy_view` for the views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from spaql.errors import ParameterError
from spaql.partition.spaces import Box, Floats
from spaql.validation import check_number, check_whole
from spaql.viz.figures import draw_legend, draw_title, make_figure, settle
from spaql.viz.partition_plot import check_cells, draw_cells, draw_policy, make_colours
from spaql.viz.policy_view import LAYERS, PolicyView, Tiles
from spaql.viz.style import EMPTY, LINES

_MOST_NAMES = 24  # in a legend or along an axis


def plot_policy(
    view: PolicyView,
    *,
    dims: Any = None,
    at: Any = None,
    layer: str = "policy",
    step: int = 0,
    projection: bool = False,
    action_dim: int = 0,
) -> Figure:
    """Draw a policy; the parameters are those of `Agent.plot`."""
    if layer not in LAYERS:
        raise ParameterError(f"layer: expected one of {', '.join(LAYERS)}, got {layer!r:.80}")
    step = check_whole(step, "step", 0, view.partition.steps - 1)
    action_dim = check_whole(action_dim, "action_dim", 0, view.problem.actions.dimensions - 1)
    title = view.title + (f", time step {step + 1}" if view.partition.steps > 1 else "")
    if view.problem.states.dimensions == 1:
        return _plot_states_and_actions(view, layer, step, action_dim, title)
    names, states, actions = view.labels.states, view.problem.states, view.problem.actions
    plane = _check_dims(dims, view)
    hidden = [d for d in range(len(names)) if d not in plane]
    if projection:
        tiles = view.projection(plane, layer, step=step, action_dim=action_dim)
        note = f"over all of {', '.join(names[d] for d in hidden)}, by visits" if hidden else ""
    else:
        values = _check_at(at, view)
        unit = states.to_unit(np.clip(values, states.low, states.high))
        tiles, _ = view.slice(plane, unit, layer, step=step, action_dim=action_dim)
        note = f"{len(tiles.values):,} boxes of states, {len(view.partition):,} cells"
        if hidden:
            note = "at " + ", ".join(f"{names[d]} = {values[d]:.3g}" for d in hidden)
    limits = None
    if layer == "policy" and isinstance(actions, Box):
        limits = float(actions.low[action_dim]), float(actions.high[action_dim])
    scale = (states.high - states.low)[list(plane)]
    low, high = (states.low[list(plane)] + corner * scale for corner in (tiles.low, tiles.high))
    return plot_cells(
        low,
        high,
        tiles.values,
        title=title,
        note=note,
        labels=(names[plane[0]], names[plane[1]]),
        value_label=_name_layer(view, layer, action_dim, "that decides"),
        limits=limits,
        names=view.labels.actions if view.discrete and layer == "policy" else None,
        log=layer == "visits",
        borders=not projection,
    )


def plot_cells(
    low: Floats,
    high: Floats,
    values: Floats,
    *,
    title: str,
    note: str = "",
    labels: tuple[str, str] = ("state", "action"),
    value_label: str = "Q",
    limits: tuple[float, float] | None = None,
    names: Sequence[str] | None = None,
    log: bool = False,
    rows: Sequence[str] | None = None,
    policy: tuple[Floats, Floats, Floats] | None = None,
    lines: Mapping[str, tuple[Any, Any]] | None = None,
    borders: bool = True,
) -> Figure:
    """Draw coloured boxes of a plane, smaller ones over larger ones, as a figure of 7 by 5.2 inches.

    Parameters
    ----------
    low, high, values
        Corners `[n, 2]` and values `[n]`; NaN is grey.
    title, note
        Heading, and the line below it in small type.
    labels, value_label
        Names of the axes and of the colours.
    limits, log
        Ends of the colour scale, None for those of the values; and whether it is logarithmic.
    names
        Where values are indices of names: the names, each with a colour of its own.
    rows
        Names along y, each from half below to half above its index.
    policy
        ``(edges, low, high)`` of the greedy actions, outlined: `edges` [m + 1] increasing, `low` and `high` [m].
    lines
        Name to ``(x, y)``, each `[k]`: lines to compare with, such as the optimal policy.
    borders
        Whether to draw the borders of the boxes.
    """
    low, high, values = (np.asarray(array, dtype=np.float64) for array in (low, high, values))
    check_cells(low, high, values, "a picture of cells")
    figure = make_figure(7.0, 5.2)
    axes = figure.add_subplot()
    colours = make_colours(values, limits, names, log)
    cells = draw_cells(axes, low, high, values, colours, borders=0.8 if borders else 0)
    if policy is not None:
        draw_policy(axes, "greedy action", *policy)
    for index, (name, line) in enumerate((lines or {}).items()):
        axes.plot(*line, color="black", linestyle=LINES[(index + 1) % len(LINES)], linewidth=1.4, zorder=4, label=name)
    handles: list[Any] = []
    if names is None:
        bar: Any = figure.colorbar(cells, ax=axes, pad=0.02, fraction=0.05, label=value_label)
        bar.outline.set_visible(False)
    else:
        present = [k for k in range(len(names)) if (values == k).any()][:_MOST_NAMES]
        handles = [Patch(color=colours["cmap"](colours["norm"](k)), label=names[k]) for k in present]
    if np.isnan(values).any():
        handles.append(Patch(color=EMPTY, label="never visited"))
    draw_legend(figure, 9.5, more=handles, title=value_label if names is not None else "")
    if rows is not None:
        stride = -(-len(rows) // _MOST_NAMES)
        axes.set_yticks(range(0, len(rows), stride), rows[::stride])
    draw_title(axes, title, note)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    return settle(figure)


def _plot_states_and_actions(view: PolicyView, layer: str, step: int, action_dim: int, title: str) -> Figure:
    """Draw one observed dimension: states across, actions upwards, and the greedy policy outlined."""
    cells, played = view.state_action_tiles(layer, step=step, action_dim=action_dim)
    tiles = cells if len(cells.values) else played
    space = view.problem.actions

    def place(part: Tiles) -> tuple[Floats, Floats]:
        ends = []
        for corner in (part.low, part.high):
            x, y = view.problem.states.from_unit(corner[:, :1])[:, 0], corner[:, 1]
            if isinstance(space, Box):
                y = space.low[action_dim] + y * (space.high[action_dim] - space.low[action_dim])
            ends.append(np.stack([x, y], axis=1))
        return ends[0], ends[1]

    first, last = place(played)
    return plot_cells(
        *place(tiles),
        tiles.values,
        title=title,
        note=f"{len(tiles.values):,} cells; outlined: the greedy policy",
        labels=(view.labels.states[0], "" if view.discrete else view.labels.actions[action_dim]),
        value_label=_name_layer(view, "q" if layer == "policy" else layer, action_dim, "itself"),
        log=layer == "visits",
        rows=view.labels.actions if view.discrete else None,
        policy=(np.append(first[:, 0], last[-1, 0]), first[:, 1], last[:, 1]),
    )


def _name_layer(view: PolicyView, layer: str, action_dim: int, cell: str) -> str:
    """Return the meaning of the colours of a layer."""
    if layer == "policy":
        return "greedy action" if view.discrete else view.labels.actions[action_dim]
    bonus = "1" if view.scaling is None else f"{view.scaling:g}"
    return {
        "q": f"Q of the cell {cell}",
        "visits": "visits relative to an even spread",
        "depth": f"depth of the cell {cell}",
        "uncertainty": f"{bonus} / sqrt(visits) of the cell {cell}",
    }[layer]


def _find_dim(name: Any, view: PolicyView, what: str) -> int:
    """Return the index of an observed dimension, by its name or index."""
    names = view.labels.states
    if isinstance(name, str) and name in names:
        return names.index(name)
    if isinstance(name, int | np.integer) and not isinstance(name, bool) and 0 <= name < len(names):
        return int(name)
    raise ParameterError(
        f"{what}: expected an index from 0 to {len(names) - 1} or one of {', '.join(names)}, got {name!r:.80}"
    )


def _check_dims(dims: Any, view: PolicyView) -> tuple[int, int]:
    if dims is None:
        across, up = view.main_dims()
        return across, up
    if isinstance(dims, str) or not isinstance(dims, Sequence) or len(dims) != 2:
        raise ParameterError(f"dims: expected two observed dimensions, by index or name, got {dims!r:.80}")
    across, up = (_find_dim(name, view, "dims") for name in dims)
    if across == up:
        raise ParameterError(f"dims: expected two different observed dimensions, got {dims!r:.80}")
    return across, up


def _check_at(at: Any, view: PolicyView) -> Floats:
    """Return a state in the problem's units: the median of the visits, but for the values given."""
    values = view.problem.states.from_unit(view.median_state())
    if at is None:
        return values
    if isinstance(at, Mapping):
        given = {_find_dim(name, view, "at"): value for name, value in at.items()}
    elif not isinstance(at, str) and np.ndim(at) == 1 and len(at) == len(values):
        given = dict(enumerate(at))
    else:
        raise ParameterError(f"at: expected {len(values)} numbers, or some of them by index or name, got {at!r:.80}")
    for d, value in given.items():
        values[d] = check_number(value, f"at {view.labels.states[d]}")
    return values
