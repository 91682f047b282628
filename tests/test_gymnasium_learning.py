"""Ends of episodes, seeds, copies and evaluations on Gymnasium environments."""

import copy
import math
import threading

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import spaql
from environments_for_tests import (
    ALL,
    F32,
    F64,
    LEARNERS,
    Broken,
    Chase,
    Dial,
    Pair,
    Toy,
    Watched,
    breaks,
    every_learner,
)
from planning_for_tests import usual_plans
from spaql.errors import ParameterError
from spaql.gym.problem import GymnasiumProblem
from test_laws import assert_same_cells

pytestmark = pytest.mark.compiled_only  # but for the process of its own at the end


@pytest.mark.parametrize("scale", [1.0, -1.0, 1e-6, 1e6])
@pytest.mark.parametrize(
    ("end", "horizon", "ended"),
    [
        ("terminated", 10, True),
        ("truncated", 10, False),
        ("terminated and truncated", 10, True),
        ("by the horizon", 2, False),
        ("by the horizon", 7, False),
        ("terminated", 2, True),
    ],
)
def test_terminated_stops_the_bootstrap_and_truncated_does_not(end, horizon, ended, scale):
    """V(1) = 1 + discount V(0) and V(0) = discount V(1), where V(0) after the end is 0 if terminated."""
    agent = spaql.Tessera(Pair(end, scale), horizon=horizon, disable=["induction"]).learn(iterations=100)
    discount = 1.0 - 1.0 / horizon
    last = scale * (1.0 if ended else 1.0 / (1.0 - discount**2))
    values = agent._evaluate(agent.problem.encode(np.arange(2))[0], np.zeros(2), np.zeros((1, 1)))[:, 0]
    np.testing.assert_allclose(values, [discount * last, last], rtol=0.1)
    lengths = np.diff(agent.history["training_steps"], prepend=0)
    assert set(lengths) == {2 if "t" in end[:1] else horizon}


@pytest.mark.parametrize("scale", [1.0, -1.0, 1e-6, 1e6])
@pytest.mark.parametrize(("end", "horizon"), [("terminated", 10), ("by the horizon", 10), ("by the horizon", 7)])
def test_values_of_a_short_horizon_are_those_of_the_steps_left(end, horizon, scale):
    """V_h(1) = 1 + V_h+1(0) and V_h(0) = V_h+1(1), 0 after the last step and where the episode terminated."""
    agent = spaql.Tessera(Pair(end, scale), horizon=horizon).learn(iterations=100)
    points, action = agent.problem.encode(np.arange(2))[0], np.zeros((1, 1))
    for step in range(horizon):
        left = horizon - step
        last = 1 if end == "terminated" else (left + 1) // 2
        values = agent._evaluate(points, np.full(2, step), action)[:, 0]
        before = (min(last, 1) if left > 1 else 0) if end == "terminated" else left // 2
        np.testing.assert_allclose(values, [scale * before, scale * last], rtol=0.1, atol=0.05 * abs(scale))


def test_the_discount_of_a_long_horizon_sees_past_a_truncation():
    """With 1 - 1/H a state that pays 1 for ever is worth H, however short its episodes; one that ends, 1."""

    class One(Pair):
        def step(self, action):
            return 0, 1.0, self.end == "terminated", self.end == "truncated", {}

    for end, worth in (("terminated", 1.0), ("truncated", 20.0)):
        agent = spaql.Tessera(One(end), horizon=20).learn(iterations=2000)
        assert agent.training_steps == 2000
        np.testing.assert_allclose(agent.cells().q, worth, rtol=0.1)


@pytest.mark.parametrize("name", ["SPAQL", "AQL"])
def test_published_agents_stop_at_terminated_only(name):
    """The value of what follows is 0 after a termination; after a truncation it is not."""
    for end, ends in (("terminated", True), ("truncated", False), ("terminated and truncated", True)):
        agent = LEARNERS[name](Pair(end), horizon=10).learn(iterations=10)
        low = agent.history["value_low"]
        assert (low == 0.0).all() if ends else (low > 0.0).all()
        assert (agent.history["value_high"] > 0.0).all()
        assert set(np.diff(agent.history["training_steps"], prepend=0)) == {2}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("ends", [True, False])
def test_environments_that_end_in_the_first_step(name, ends):
    env = Toy(length=1, ends=ends)
    agent = ALL[name](env, horizon=6).learn(iterations=30)
    result = agent.evaluate(20)
    assert result.steps == 20
    if name != "Random":
        assert agent.training_steps == agent.iterations == 30
        assert np.isfinite(agent.cells().q).all()
    agent.predict([0.5])


@pytest.mark.parametrize("scale", [1e-250, 1e-9, 1.0, 1e9, 1e99, -1e99])
@pytest.mark.parametrize("name", ALL)
def test_rewards_of_every_scale(name, scale):
    env = Toy(twist=lambda env, outcome: (outcome[0], scale * outcome[1], *outcome[2:]))
    agent = ALL[name](env, horizon=6, seed=1).learn(iterations=60)
    result = agent.evaluate(5)
    assert np.isfinite(result.returns).all()
    assert (np.sign(result.returns) == np.sign(scale)).all()
    if name != "Random":
        assert np.isfinite(agent.cells().q).all()


@pytest.mark.parametrize("scale", [1e-9, 1e40])
def test_the_unit_of_rewards_changes_nothing_for_tessera(scale):
    """Powers of two scale without rounding, so that everything else stays bit for bit."""
    factor = 2.0 ** round(math.log2(scale))
    agents = []
    for unit in (1.0, factor):
        env = Chase(unit)
        agents.append(spaql.Tessera(env, seed=0, horizon=20, warm_up=100).learn(iterations=60))
    np.testing.assert_array_equal(agents[0].history["score"] * factor, agents[1].history["score"])
    np.testing.assert_array_equal(agents[0].cells().state_low, agents[1].cells().state_low)
    np.testing.assert_array_equal(agents[0].cells().q * factor, agents[1].cells().q)


def test_tessera_does_much_better_than_random():
    with usual_plans():
        agent = spaql.Tessera(Chase, seed=0, horizon=20).learn(total_timesteps=8000)
        agent.cells()
    assert agent.problem.names == ["body.at", "lamp"]
    assert agent.problem.warm_up_steps == 1000
    learned = agent.evaluate(100)
    random = spaql.Random(Chase, seed=0, horizon=20).evaluate(100)
    assert random.mean < 2.0
    assert learned.mean > 12.0
    right = agent.predict({"lamp": [0, 1, 0, 1], "body": {"at": [[-2.0], [-2.0], [2.0], [2.0]]}})[0]
    assert right[:, 1].tolist() == [0, 1, 0, 1]
    assert right[:, 0].tolist() == [2, 2, 0, 0]


class Stubborn(Toy):
    """Cannot be deep-copied, and is not registered."""

    def __init__(self, **options):
        super().__init__(**options)
        self.lock = threading.Lock()


NEITHER = r"^environment '\w+' can be neither made nor copied again, so evaluations .* give a function that makes a new"


def test_an_environment_that_cannot_be_copied():
    env = Stubborn()
    with pytest.raises(TypeError):
        copy.deepcopy(env)
    agent = spaql.Tessera(env, horizon=6, seed=3).learn(iterations=10)
    steps = env.steps
    with pytest.warns(UserWarning, match=NEITHER) as warned:
        first = agent.evaluate(5)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert env.steps == steps + 30  # on itself, for want of another
    np.testing.assert_array_equal(agent.evaluate(5).returns, first.returns)  # and no other warning, which is an error
    assert agent.training_steps == 60
    agent.learn(iterations=10)
    assert agent.iterations == 20
    assert len(set(env.seeds)) == len(env.seeds) - 1  # of all seeds only that of the evaluation came twice
    again = spaql.Tessera(Stubborn(), horizon=6, seed=3).learn(iterations=10)
    with pytest.warns(UserWarning, match=NEITHER):
        again.evaluate(5)
    again.evaluate(5)
    np.testing.assert_array_equal(again.learn(iterations=10).history, agent.history)
    made = spaql.Tessera(Stubborn, horizon=6, seed=3).learn(iterations=10)  # a factory makes another
    steps = made.problem.env.steps
    made.evaluate(5)
    assert made.problem.env.steps == steps


@pytest.mark.parametrize("wrap", [lambda env: env, Watched])
def test_a_factory_that_makes_the_same_again(wrap):
    """As good as the environment itself: it is copied, or else there is a warning."""
    env, stubborn = Toy(), Stubborn()
    agent = spaql.Tessera(lambda: wrap(env), horizon=6).learn(iterations=10)
    assert agent.evaluate(5).steps == 30
    assert env.steps == 60
    with pytest.warns(UserWarning, match=NEITHER):
        spaql.Tessera(lambda: wrap(stubborn), horizon=6).learn(iterations=10).evaluate(5)
    assert stubborn.steps == 90


class Closing(Toy):
    """Tells who was made and closed."""

    made: list = []  # noqa: RUF012

    def __init__(self, **options):
        super().__init__(**options)
        self.closed = 0
        self.made.append(self)

    def close(self):
        self.closed += 1


def test_environments_made_for_evaluations_are_closed(monkeypatch):
    monkeypatch.setattr(Closing, "made", [])
    agent = spaql.Tessera(Closing, horizon=6).learn(
        iterations=10, callback=spaql.agents.callbacks.Evaluate(every=20, episodes=2)
    )
    agent.evaluate(3)
    agent.diagnose()
    assert len(Closing.made) > 5
    assert [env.closed for env in Closing.made] == [0] + [1] * (len(Closing.made) - 1)
    monkeypatch.setattr(Closing, "made", [])
    agent = spaql.Tessera(lambda: Closing(twist=None if len(Closing.made) == 0 else breaks), horizon=6).learn(
        iterations=1
    )
    with pytest.raises(Broken):
        agent.evaluate(3)
    assert [env.closed for env in Closing.made] == [0, 1]


def test_the_environment_of_the_user_is_never_closed(monkeypatch):
    monkeypatch.setattr(Closing, "made", [])
    env = Closing()
    spaql.Tessera(env, horizon=6).learn(iterations=2).evaluate(2)
    spaql.Tessera(lambda: env, horizon=6).learn(iterations=2).evaluate(2)
    env.lock = threading.Lock()  # cannot be copied
    with pytest.warns(UserWarning, match=NEITHER):
        spaql.Tessera(env, horizon=6).learn(iterations=2).evaluate(2)
    assert (Closing.made, env.closed) == ([env], 0)
    monkeypatch.setattr(Closing, "made", [])
    monkeypatch.setattr(Closing, "render_mode", "human")  # closing one of these closes the windows of all
    spaql.Tessera(Closing, horizon=6).learn(iterations=2).evaluate(2)
    assert [env.closed for env in Closing.made] == [0, 0]


@every_learner
@pytest.mark.parametrize("given", [Toy, lambda: Toy(), lambda: gymnasium.make("Acrobot-v1", max_episode_steps=6)])
def test_a_deep_copy_learns_the_same_on_an_environment_of_its_own(name, given):
    for environment in (given, given()):
        agent = LEARNERS[name](environment, horizon=6, seed=5).learn(iterations=10)
        other = copy.deepcopy(agent)
        assert other.problem.env is not agent.problem.env
        np.testing.assert_array_equal(other.problem.clipped, agent.problem.clipped)
        agent.learn(iterations=10)
        assert other.iterations == 10
        np.testing.assert_array_equal(other.learn(iterations=10).history, agent.history)
        assert_same_cells(other.cells(), agent.cells())
        np.testing.assert_array_equal(other.evaluate(3).returns, agent.evaluate(3).returns)


def test_deep_copies_where_the_environment_cannot_be_copied():
    agent = spaql.Tessera(Stubborn, horizon=6).learn(iterations=5)
    other = copy.deepcopy(agent).learn(iterations=5)
    assert (other.iterations, agent.iterations, agent.problem.env.steps) == (10, 5, 30)
    agent = spaql.Tessera(Stubborn(), horizon=6).learn(iterations=5)
    with pytest.warns(UserWarning, match=NEITHER):
        other = copy.deepcopy(agent)
    assert other.learn(iterations=5).iterations == 10


def test_agents_on_one_problem_do_not_disturb_each_other():
    problem = GymnasiumProblem(Toy(), horizon=6, seed=4)
    first, second = spaql.Tessera(problem), spaql.Tessera(problem)
    alone = spaql.Tessera(GymnasiumProblem(Toy(), horizon=6, seed=4)).learn(iterations=20)
    for _ in range(4):
        first.learn(iterations=5)
        second.learn(iterations=5)
    np.testing.assert_array_equal(first.history, alone.history)
    np.testing.assert_array_equal(second.history, alone.history)
    assert first.problem is problem
    assert second.problem.env is not problem.env
    first.set_env(Toy())
    assert spaql.Tessera(first.problem).problem is not first.problem
    lonely = GymnasiumProblem(Stubborn(), horizon=6)
    spaql.Tessera(lonely).learn(iterations=3)
    with pytest.warns(UserWarning, match=NEITHER):
        second = spaql.Tessera(lonely)
    assert second.learn(iterations=3).iterations == 3


def test_other_observations_and_actions_are_told_of_an_environment():
    night = spaces.Dict({"night": spaces.Box(0, 1, (1,), F64)})
    plane = spaces.Box(-1, 1, (1,), F32)
    agent = spaql.Tessera(Toy(night), horizon=6).learn(iterations=2)
    other = r"^env: 'Toy' has other observations or actions than 'Toy', on which was learned$"
    for env in (
        Toy(),
        Toy(spaces.Dict({"day": spaces.Box(0, 1, (1,), F64)})),
        lambda: Toy(night, spaces.Discrete(3)),
        Toy(night, plane),
    ):
        with pytest.raises(ParameterError, match=other):
            agent.set_env(env)
    flying = spaql.Tessera(Toy(played=plane), horizon=6).learn(iterations=2)
    for env in (Toy(), Toy(played=spaces.Box(-1, 2, (1,), F32)), Toy(played=spaces.Box(-1, 1, (2,), F32))):
        with pytest.raises(ParameterError, match=other):
            flying.set_env(env)
    calls = []
    agent.set_env(lambda: calls.append(1) or Toy(night)).learn(iterations=2)
    assert len(calls) == 1
    agent.evaluate(2)
    assert len(calls) == 2


class Counting(gymnasium.Wrapper):
    """Cannot be deep-copied, and does not tell how it was made."""

    def __init__(self, env):
        super().__init__(env)
        self.lock = threading.Lock()
        self.steps = 0

    def step(self, action):
        self.steps += 1
        return super().step(action)


def test_a_registered_environment_under_a_wrapper_that_cannot_be_made_again():
    env = Counting(gymnasium.make("CartPole-v1"))
    with pytest.raises(ValueError, match="cannot be recreated"):
        gymnasium.make(env.spec)
    agent = spaql.Random(env)
    before = env.steps
    with pytest.warns(UserWarning, match="CartPole-v1' can be neither made nor copied"):
        assert agent.evaluate(5).steps == env.steps - before


def test_evaluations_have_episodes_of_their_own():
    """Neither the first of training nor one another's."""
    agent = spaql.Random(lambda: Toy(spaces.Box(0, 1, (1,), F64), length=3), seed=0, horizon=3)
    returns = agent.evaluate(1500).returns
    assert len(np.unique(returns)) == 1500
    assert not np.isin(agent.evaluate(100, seed=1).returns, returns).any()
    training = spaql.Tessera(lambda: Toy(spaces.Box(0, 1, (1,), F64), length=3), seed=0, horizon=3).learn(
        iterations=500
    )
    assert not np.isin(training.history["score"], returns).any()


def test_diagnose_leaves_learning_alone():
    make = lambda: spaql.Tessera(Chase, seed=1, horizon=10, warm_up=50)  # noqa: E731
    asked, left = make(), make()
    for _ in range(2):
        asked.diagnose(total_timesteps=1000)
        asked.learn(iterations=20)
        left.learn(iterations=20)
    np.testing.assert_array_equal(asked.history, left.history)
    narrow = spaql.Tessera(Dial, horizon=20, bounds={0: (-1, 1)}).learn(iterations=20)
    assert "states-clipped" in [found.id for found in narrow.diagnose()]
    assert spaql.AQL(Chase, horizon=10, warm_up=50).learn(iterations=20).diagnose()
