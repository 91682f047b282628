"""What pictures of a policy show, against `predict`, `greedy` and plain counting; and the figures of `agent.plot`."""

import functools

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from numba.core import config

import spaql
from partitions_for_tests import Planted, plant
from problems_for_tests import box_world, finite_world
from spaql.errors import NotTrainedError, ParameterError
from spaql.partition.spaces import Discrete
from spaql.problems.labels import make_labels
from spaql.viz.figures import save
from spaql.viz.policy_plot import BINS, LAYERS, PolicyView

AGENTS = {
    "cartpole": lambda: spaql.Tessera("cartpole", seed=1).learn(total_timesteps=500 if config.DISABLE_JIT else 2000),
    "box": lambda: spaql.SPAQL(box_world()[0], seed=1, rollouts=2).learn(iterations=150),
    "finite": lambda: spaql.AQL(finite_world()[0], seed=1, rollouts=0).learn(iterations=150),
    "tree": lambda: plant(box_world()[0], 40, near=0.0),
}


@functools.cache
def trained(name):
    """One of the agents; tests ask it, and change nothing."""
    return AGENTS[name]()


@pytest.fixture(scope="module", params=AGENTS)
def agent(request):
    return trained(request.param)


@pytest.fixture(scope="module")
def cartpole():
    return trained("cartpole")


@pytest.fixture(scope="module")
def box():
    return trained("box")


@pytest.fixture(scope="module")
def oil():
    return spaql.SPAQL("oil", seed=1, rollouts=2).learn(iterations=100)


def view_of(agent):
    labels = make_labels(agent.problem)
    return PolicyView(agent.problem, agent._policy(), labels, "A", getattr(agent, "scaling", None))


def test_slices_show_what_is_done(agent):
    view, random = view_of(agent), np.random.default_rng(0)
    size = agent.problem.states.dimensions
    for step in range(view.partition.steps):
        at = np.where(random.random(size) < 0.3, 0.5, random.random(size))  # 0.5 is a border
        tiles, cells = view.slice((1, 0), at, "policy", step=step)
        assert np.prod(tiles.high - tiles.low, axis=1).sum() == pytest.approx(1.0, abs=1e-12)
        points = np.tile(at, (len(cells), 1))
        points[:, [1, 0]] = tiles.low
        np.testing.assert_array_equal(view.partition.greedy(points, np.full(len(points), step)), cells)
        actions = agent._act(points, np.full(len(points), step), True)
        np.testing.assert_array_equal(actions[:, 0], tiles.values)
        q = view.slice((1, 0), at, "q", step=step)[0].values
        np.testing.assert_array_equal(q, view.partition.forest.cells["q"][cells])


def test_projections_are_means_of_slices_by_visits(agent):
    view, dims = view_of(agent), (0, 1)
    total = view.projection(dims, "visits").values
    there = np.nan_to_num(total)
    assert there.mean() == pytest.approx(1.0)  # relative to an even spread
    random = np.random.default_rng(0)
    hidden = random.random((400, agent.problem.states.dimensions))
    i, j = 20, 41
    hidden[:, 0], hidden[:, 1] = (i + random.random(400)) / BINS, (j + random.random(400)) / BINS
    leaves = view.partition.greedy(hidden, np.zeros(400, np.int64))
    density = np.array([_density(view, at) for at in hidden])
    q = view.partition.forest.cells["q"][leaves]
    shown = view.projection(dims, "q").values[i * BINS + j]
    if density.sum() > 0:
        spread = np.ptp(q) + 1e-9
        assert abs(shown - np.average(q, weights=density)) < 0.15 * spread + 1e-9
        assert abs(there[i * BINS + j] - density.mean()) <= 0.3 * density.max()


def _density(view, point):
    """Visits per volume at a point, relative to all, counted plainly."""
    low, high = view.partition.node_boxes()
    cells = view.partition.forest.cells[: len(view.partition)]
    mine = cells["root"] == 0
    inside = mine & ((low <= point) & (point < high))[cells["node"]].all(axis=1)
    volume = np.prod(high - low, axis=1)[cells["node"]]
    return float((cells["visits"] / volume)[inside].sum()) / cells["visits"][mine].sum()


def test_the_majority_of_finite_actions_is_shown(cartpole):
    view = view_of(cartpole)
    shown = view.projection((2, 3), "policy").values
    assert set(np.unique(shown[~np.isnan(shown)])) <= {0.0, 1.0}
    below = view.projection((2, 3), "q").values
    assert np.array_equal(np.isnan(shown), np.isnan(below))


def test_numbers_that_decide_are_told_from_those_that_do_not():
    problem = spaql.problems.oil()
    assert view_of(spaql.Tessera(problem, seed=1).learn(iterations=100)).main_dims() == [0]
    partition = spaql.SPAQL(finite_world()[0], seed=1, rollouts=2).learn(iterations=200)
    influence = view_of(partition).influence
    assert ((influence >= 0.0) & (influence <= 1.0)).all()


def test_uncertainty_is_the_bonus_left(agent):
    view = view_of(agent)
    cells = np.arange(len(view.partition))
    visits = view.partition.forest.cells["visits"][: len(cells)]
    shown = view.cell_values("uncertainty", cells)
    assert np.array_equal(np.isnan(shown), visits == 0)
    scaling = getattr(agent, "scaling", 1.0)
    np.testing.assert_allclose(shown[visits > 0], scaling / np.sqrt(visits[visits > 0]))


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_can_be_plotted(box, oil, layer):
    for figure in (box.plot(layer=layer, action_dim=1, projection=layer in ("q", "visits")), oil.plot(layer=layer)):
        cells = [c for c in figure.axes[0].collections if isinstance(c, PolyCollection) and c.get_label() == "_cells"]
        (tiles,) = cells
        assert len(tiles.get_paths()) >= 2


def test_a_plot_can_be_saved_as_it_is_printed(cartpole, tmp_path):
    figure = cartpole.plot(projection=True)
    for name in ("a.png", "a.svg"):
        assert save(figure, tmp_path / name).stat().st_size > 4000


@pytest.mark.parametrize("layer", ["policy", "q"])
def test_a_plot_draws_into_given_axes(cartpole, oil, layer):
    for agent in (cartpole, oil):
        figure = Figure(figsize=(10, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        assert agent.plot(layer=layer, ax=right) is right
        alone = agent.plot(layer=layer).axes[0]
        tiles, same = (axes.collections[0] for axes in (right, alone))
        np.testing.assert_array_equal(tiles.get_array(), same.get_array())
        assert (right.get_xlabel(), right.get_title("left")) == (alone.get_xlabel(), alone.get_title("left"))
        assert right.get_xlim() == alone.get_xlim()
        assert not left.collections
        named = agent is cartpole and layer == "policy"  # actions have names there, and else a colour bar
        assert len(figure.axes) == (2 if named else 3)
        assert bool(right.get_legend()) is (named or agent is oil)
        figure.draw_without_rendering()
        assert figure.get_layout_engine() is not None  # the figure stays as its owner made it


def test_a_plot_says_where_it_is(agent):
    finite = isinstance(agent.problem.actions, Discrete)
    names = [f"dimension {d}" for d in range(agent.problem.states.dimensions)]
    figure = agent.plot([1, "dimension 0"], at={0: 0.1}, names=names)
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("dimension 1", "dimension 0")
    assert agent.problem.name in axes.get_title("left")
    if finite:
        assert figure.legends
    else:
        assert figure.axes[1].get_ylabel() == "action[0]"


def test_a_plot_of_a_whole_state_is_its_slice(cartpole):
    texts = [t.get_text() for t in cartpole.plot([2, 3], at=[0.5, -0.25, 9.0, 9.0]).axes[0].texts]
    assert "at position = 0.5, velocity = -0.25" in texts


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"layer": "Q"}, "layer: expected one of policy, q, visits, depth, uncertainty, got 'Q'"),
        ({"dims": "angle"}, "dims: expected two observed dimensions"),
        ({"dims": [0, 0]}, "dims: expected two different"),
        ({"dims": [0, 7]}, "dims: expected an index from 0 to 3 or one of position"),
        ({"dims": [0, "mass"]}, "dims: expected an index from 0 to 3 or one of position, velocity"),
        ({"at": [1.0]}, "at: expected 4 numbers"),
        ({"at": {"angle": "far"}}, "at angle: expected a finite number"),
        ({"at": {9: 1.0}}, "at: expected an index"),
        ({"step": 1}, "step: expected a whole number"),
        ({"action_dim": 1}, "action_dim: expected a whole number"),
        ({"names": ["a"]}, "names: expected 4 words"),
        (
            {"ax": Figure().subplots(1, 2)},
            "ax: expected the matplotlib Axes of one picture, such as axes[0], got",
        ),
    ],
)
def test_bad_arguments_are_one_sentence(cartpole, given, said):
    with pytest.raises(ParameterError, match=said.split(":")[0]) as raised:
        cartpole.plot(**given)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_who_has_nothing_to_show_says_so():
    with pytest.raises(ParameterError, match="Random has no partition to read"):
        spaql.Random("oil").plot()
    with pytest.raises(NotTrainedError):
        spaql.Tessera("oil").plot()


@pytest.mark.parametrize("layer", LAYERS)
def test_single_actions_are_drawn_as_narrow_bands(layer):
    problem = spaql.problems.oil()
    tree = {"dims": [0, -1, -1], "cuts": [0.3, 0, 0], "children": [1, -1, -1], "q": [0, 1, 2], "visits": [0, 3, 7]}
    axes = Planted(problem).plant(played=[[0], [0.4], [1]], **tree).plot(layer=layer).axes[0]
    tiles, outline = (found for found in axes.collections if isinstance(found, PolyCollection))
    for drawn in (tiles, outline):
        boxes = sorted([*path.vertices.min(axis=0), *path.vertices.max(axis=0)] for path in drawn.get_paths())
        np.testing.assert_allclose(boxes, [[0.0, 0.39, 0.3, 0.41], [0.3, 0.98, 1.0, 1.0]])
    assert axes.get_ylim() == (0.0, 1.0)
    if layer == "visits":
        np.testing.assert_allclose(sorted(tiles.get_array()), [1.0, 1.0])


def test_the_title_counts_steps_from_0_as_explain_does():
    agent = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=5)
    for step in (0, 4):
        axes = agent.plot(step=step).axes[0]
        assert axes.get_title("left").endswith(f", step {step}")
        assert f"step {step}" in str(agent.explain([0.5], step=step))
