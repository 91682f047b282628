"""A policy as a decision tree says the same as `predict`, at every border too, with nothing left out or in."""

import gymnasium
import numpy as np
import pytest
from numba.core import config

import spaql
from partitions_for_tests import plant
from problems_for_tests import box_world, finite_world
from spaql.errors import NotTrainedError, ParameterError
from spaql.partition.tree import _find_least
from spaql.problems.labels import make_labels


class Weather(gymnasium.Env):
    """A Dict with an angle, a whole number and an unbounded part; whole numbers to choose, many of them."""

    observation_space = gymnasium.spaces.Dict(
        {
            "angle": gymnasium.spaces.Box(-3.0, 3.0, (1,), np.float32),
            "count": gymnasium.spaces.Discrete(5),
            "wind": gymnasium.spaces.Box(-np.inf, np.inf, (2,)),
        }
    )
    action_space = gymnasium.spaces.MultiDiscrete([3, 2])

    def _seen(self):
        wind = self.np_random.normal(size=2)
        angle = self.np_random.uniform(-3.0, 3.0, 1).astype(np.float32)
        self.seen = {"angle": angle, "count": int(self.np_random.integers(5)), "wind": wind}
        return self.seen

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action):
        self.steps += 1
        angle, wind = float(self.seen["angle"][0]), self.seen["wind"]
        best = (0 if angle < -1 else 1 if angle < 1.5 else 2, int(wind[0] > 0))
        reward = 1.0 - abs(action[0] - best[0]) - 0.3 * abs(action[1] - best[1])
        return self._seen(), reward, False, self.steps == 10, {}


FEW = 40 if config.DISABLE_JIT else 200  # plans take seconds in plain Python
AGENTS = {
    "tessera on oil": lambda: spaql.Tessera("oil", seed=1).learn(iterations=100),
    "published on ambulance": lambda: spaql.SPAQL("ambulance", seed=1, rollouts=2).learn(iterations=200),
    "aql on oil": lambda: spaql.AQL("oil", seed=1, rollouts=0).learn(iterations=300),
    "tessera on a box": lambda: spaql.Tessera(box_world()[0], seed=1).learn(iterations=FEW),
    "published with finite actions": lambda: spaql.SPAQL(finite_world()[0], seed=1, rollouts=2).learn(iterations=200),
    "tessera on an angle": lambda: spaql.Tessera(Weather, seed=1, periodic=["angle"], horizon=10).learn(iterations=FEW),
    "a tree on an angle": lambda: plant(Weather, 40, periodic=["angle"], horizon=10),
    "a tree on a box": lambda: plant(box_world()[0], 40),
}


@pytest.fixture(scope="module", params=AGENTS)
def agent(request):
    return AGENTS[request.param]()


def test_it_decides_as_the_partition_does(agent):
    tree, random = agent.tree(), np.random.default_rng(0)
    points = random.random((20_000, agent.problem.states.dimensions))
    borders = random.choice(tree.cuts, points.shape) if len(tree.cuts) else points
    points = np.where(random.random(points.shape) < 0.5, points, borders)
    steps = random.integers(len(tree.roots), size=len(points))
    policy = agent._policy()
    boxes = policy.forest.boxes[policy.greedy(points, steps)]
    middles = agent.problem.actions.from_unit(boxes[:, 0] + 0.5 * (boxes[:, 1] - boxes[:, 0]))
    chosen = tree.decide(points, steps)
    np.testing.assert_array_equal(tree.actions[chosen], agent.problem.decode(middles, False))


def test_nothing_is_cut_that_needs_no_cut(agent):
    tree = agent.tree()
    assert (tree.children[:, 0] != tree.children[:, 1]).all()
    assert len(np.unique(tree.actions.reshape(len(tree.actions), -1), axis=0)) == len(tree.actions)
    used = {~reference for reference in [*tree.roots, *tree.children.reshape(-1)] if reference < 0}
    assert used == set(range(len(tree.actions)))
    assert len(tree.dims) < agent._policy().forest.used[0]


def test_leaves_fill_the_space_without_overlap(agent):
    tree = agent.tree()
    for step in range(len(tree.roots)):
        low, high, choices = tree.leaves(step)
        assert np.prod(high - low, axis=1).sum() == pytest.approx(1.0, abs=1e-12)
        middles = 0.5 * (low + high)
        np.testing.assert_array_equal(tree.decide(middles, np.full(len(low), step)), choices)


def test_thresholds_are_the_least_numbers_that_reach_their_cuts(agent):
    tree = agent.tree()
    plain = ~np.isin(tree.dims, tree.periodic)
    low, width = tree.states.low[tree.dims][plain], (tree.states.high - tree.states.low)[tree.dims][plain]
    found, cuts = tree.thresholds[plain], tree.cuts[plain]
    assert ((found - low) / width >= cuts).all()
    assert ((np.nextafter(found, -np.inf) - low) / width < cuts).all()
    np.testing.assert_array_equal(tree.thresholds[~plain], tree.cuts[~plain])


@pytest.mark.parametrize(("low", "high"), [(-2.4, 2.4), (0.0, 1.0), (1e-300, 2e-300), (-1e5, 3.0), (1e6, 1e6 + 1e-3)])
def test_thresholds_exist_in_every_range(low, high):
    cuts = np.array([2.0**-30, 0.25, 0.5, 0.75, 1 - 2.0**-30])
    lows, widths = np.full(5, low), np.full(5, high - low)
    found = _find_least(cuts, lows, widths)
    assert ((found - lows) / widths >= cuts).all()
    assert ((np.nextafter(found, -np.inf) - lows) / widths < cuts).all()
    assert (np.diff(found) >= 0).all()


def test_who_has_not_learned_and_who_has_no_partition_say_so():
    with pytest.raises(NotTrainedError, match="has not learned yet"):
        spaql.Tessera("oil").tree()
    with pytest.raises(ParameterError, match="no partition"):
        spaql.Random("oil").tree()


@pytest.mark.compiled_only
def test_words_are_those_of_the_documentation_or_the_users_own():
    assert make_labels(spaql.Tessera("cartpole").problem).states[2] == "angle"
    assert make_labels(spaql.Tessera("CartPole-v1").problem).actions == ["push left", "push right"]
    assert make_labels(box_world()[0]).states[0] == "observation[0]"
    assert make_labels(AGENTS["tessera on an angle"]().problem).states == ["angle", "count", "wind[0]", "wind[1]"]
    assert make_labels(spaql.Tessera("oil").problem, names=["x"]).states == ["x"]
    with pytest.raises(ParameterError, match="names: expected 1 words"):
        make_labels(spaql.Tessera("oil").problem, names=["x", "y"])
