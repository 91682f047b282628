"""Models of known worlds."""

import numpy as np
import pytest

import textbook_planning as textbook
from models_for_tests import (
    BOX,
    THREE,
    deadline,
    deadline_models,
    drift,
    drift_models,
    learn,
    observe,
    walk,
    walk_models,
)
from spaql.agents.tessera.world_model import (
    NOISY,
    ON_NEXT,
    RANDOM_END,
    TIMED,
    Choices,
    Data,
    choose,
    depends_on_time,
    encode_action,
    extend_saturated,
    find_changes,
    find_frontier,
    fit_model,
    imagine,
)
from spaql.partition.rng import scramble


def step(model, x, u, counter=0, time=0):
    """Next state, reward and end; the mean for counter 0."""
    x, u = np.atleast_1d(np.asarray(x, float)), np.atleast_1d(np.asarray(u, float))
    z = np.concatenate([x, u, np.zeros(model.flags[TIMED]), np.zeros(len(x))])
    following = np.zeros(len(x))
    reward, end = imagine(model, z, time, following, np.uint64(scramble(counter) if counter else 0))
    return following, reward, bool(end)


@pytest.mark.parametrize("make", [drift_models, walk_models, deadline_models])
def test_a_step_equals_the_textbook(make):
    (model, *_), _ = make()
    random = np.random.default_rng(0)
    for counter in range(40):
        x, u = random.normal(size=model.range.shape[1]) * 2.0, random.normal(size=model.dynamics.slopes.shape[2])
        u = model.table[counter % 3] if len(model.table) else u[:1]
        following, reward, end = step(model, x, u, counter, counter % 6)
        expected = textbook.imagine(model, x, u, textbook.scramble(counter) if counter else 0, counter % 6)
        np.testing.assert_allclose(following, expected[1], rtol=0, atol=1e-10)
        assert reward == pytest.approx(expected[0], abs=1e-10)
        assert end == expected[2]


def test_a_linear_system_with_noise():
    _, model = learn(observe(drift, 400))
    assert model.flags[NOISY]
    for x, u in ((0.0, 0.0), (0.5, -1.0), (-1.0, 1.0)):
        assert step(model, x, u)[0][0] == pytest.approx(0.9 * x + 0.4 * u, abs=0.15)
        drawn = np.array([step(model, x, u, counter)[0][0] for counter in range(1, 301)])
        assert drawn.mean() == pytest.approx(0.9 * x + 0.4 * u, abs=0.15)
        assert drawn.std() == pytest.approx(0.2, rel=0.3)
    leaf = model.dynamics.dims == -1
    assert (model.pool_sizes[leaf] > 0).all()
    pooled = np.concatenate([model.pool[node, : model.pool_sizes[node]] for node in np.flatnonzero(leaf)])
    assert pooled.std() == pytest.approx(0.2, rel=0.15)


def test_noise_differs_from_place_to_place():
    def uneven(x, u, random):
        return 0.5 * x + (0.05 if x[0] < 0.0 else 0.5) * random.normal(size=1), 0.0, False

    _, model = learn(observe(uneven, 500))
    calm, wild = (np.std([step(model, x, 0.0, counter)[0][0] for counter in range(1, 201)]) for x in (-1.0, 1.0))
    assert calm < 0.2 < 0.35 < wild


def test_without_residuals_and_without_noise_the_mean_is_played():
    _, quiet = learn(observe(walk, width=2, table=THREE), table=THREE)
    _, mean = learn(observe(drift), residuals=False)
    for model in (quiet, mean):
        assert not model.flags[NOISY]
        x, u = np.full(model.range.shape[1], 0.2), np.zeros(model.dynamics.slopes.shape[2] - model.range.shape[1])
        assert {tuple(step(model, x, u, counter)[0]) for counter in range(20)} == {tuple(step(model, x, u)[0])}


def test_discrete_actions():
    (model, *_), _ = walk_models()
    for action, move in enumerate(([-0.1, -0.1], [0.2, -0.1], [-0.1, 0.2])):
        u = np.empty(2)
        encode_action(model.table, np.array([float(action)]), u)
        np.testing.assert_array_equal(u, THREE[action])
        np.testing.assert_allclose(step(model, [0.3, -0.4], u)[0], np.array([0.3, -0.4]) + move, atol=0.02)


def test_actions_of_a_box_have_unit_variance():
    u = np.empty(1)
    features = []
    for place in np.linspace(0.0, 1.0, 101):
        encode_action(BOX, np.array([place]), u)
        np.testing.assert_allclose(u, textbook.encode_action(drift_models()[0][0], [place]), rtol=1e-12)
        features.append(u[0])
    assert np.std(features) == pytest.approx(1.0, abs=0.03)


def test_a_reward_of_the_next_state_is_found_by_held_out_error():
    def noisy(x, u, random):
        following = 0.5 * x + 0.5 * random.normal(size=1)
        return following, 2.0 * following[0], False

    data = observe(noisy)
    choices, model = learn(data)
    assert choices.on_next
    assert model.flags[ON_NEXT]
    for counter in range(1, 20):
        following, reward, _ = step(model, 0.3, 0.1, counter)
        assert reward == pytest.approx(2.0 * following[0], abs=0.1)
    without, model = learn(data, options={"on_next": False})
    assert not without.on_next
    assert not model.flags[ON_NEXT]
    assert not learn(observe(drift))[0].on_next  # its reward depends on x alone


def test_the_mean_reward_of_a_coin_is_unbiased():
    """A drawn state lies between those that are possible, and its reward may be less than any that was recorded."""

    def sells(x, u, random):
        sold = random.random() < 0.5 - 0.2 * np.clip(u[0], -2.0, 2.0)
        return x - sold, 2.0 * sold, False

    choices, model = learn(observe(sells, 1000))
    assert choices.on_next
    for u in (-1.5, 0.0, 1.5):
        rewards = [step(model, 0.0, u, counter)[1] for counter in range(1, 501)]
        assert np.mean(rewards) == pytest.approx(1.0 - 0.4 * u, abs=0.12)


def test_quadratic_terms_are_chosen_by_held_out_error():
    def curved(x, u, random):
        return np.array([x[0] + 0.5 * x[0] * u[0], x[1] - 0.2 * u[0]]), x[0] * x[1], False

    data = observe(curved, width=2)
    choices, model = learn(data)
    assert choices.curved.tolist() == [True, False]
    assert choices.reward_curved.tolist() == [True]
    following, reward, _ = step(model, [1.0, -1.0], 0.5)
    np.testing.assert_allclose(following, [1.25, -1.1], atol=0.05)
    assert reward == pytest.approx(-1.0, abs=0.1)
    plain, model = learn(data, options={"quadratic": False})
    assert not plain.curved.any()
    assert not plain.reward_curved.any()


def test_few_transitions_choose_the_simplest_model():
    choices, model = learn(observe(drift, 40))
    assert not choices.on_next
    assert not choices.curved.any()
    assert np.isfinite(step(model, 0.0, 0.0)[0]).all()


def test_an_end_region_is_found():
    def falls(x, u, random):
        following = x + 0.3 * u
        ended = following[0] > 0.8
        return following, -5.0 if ended else 1.0, ended

    _, model = learn(observe(falls))
    assert not model.flags[RANDOM_END]
    for x, u in ((0.5, 0.0), (0.5, 0.5), (0.5, 1.5), (1.2, 0.2), (1.2, -2.0), (-1.0, 1.0)):
        following, reward, end = step(model, x, u)
        assert end == (following[0] > 0.8)
        assert reward == (-5.0 if end else 1.0)


def test_ends_that_are_random_keep_their_share():
    def dies(x, u, random):
        return x + 0.1 * u, 1.0, random.random() < (0.3 if x[0] > 0.0 else 0.0)

    _, model = learn(observe(dies, 600))
    assert model.flags[RANDOM_END]
    shares = [np.mean([step(model, x, 0.0, counter)[2] for counter in range(1, 401)]) for x in (-0.7, 0.7)]
    assert shares[0] < 0.05
    assert shares[1] == pytest.approx(0.3, abs=0.12)


def test_ends_of_one_share_everywhere_are_random():
    def dies(x, u, random):
        return x + 0.1 * u, 1.0, random.random() < 0.2

    _, model = learn(observe(dies, 400))
    assert model.flags[RANDOM_END]
    assert np.mean([step(model, 0.0, 0.0, counter)[2] for counter in range(1, 401)]) == pytest.approx(0.2, abs=0.1)


def test_the_time_step_is_a_feature_of_a_timed_model():
    (model, *_), _ = deadline_models()
    assert model.flags[TIMED]
    for time in range(6):
        following, reward, end = step(model, 0.3, -0.5, 0, time)
        assert following[0] == pytest.approx(0.07, abs=0.06)
        assert end == (time == 5)
        assert reward == pytest.approx(following[0] if end else -0.2 * time, abs=0.1)


TIMES = np.random.default_rng(1).integers(0, 6, 400)
CLOCK = (TIMES - TIMES.mean()) / TIMES.std()


def is_timed(world):
    """Whether the time step is found to matter in a world, `world(x, u, time, random)`."""
    left = iter(TIMES)
    data = observe(lambda x, u, random: world(x, u, next(left), random), len(TIMES))
    changes, order = find_changes(data, np.zeros(1)), np.random.default_rng(0).permutation(len(TIMES))
    choices = choose(data, changes, order, quadratic=True, on_next=True)
    return depends_on_time(data, changes, order, choices, CLOCK)


def test_whether_the_time_step_matters_is_found_by_held_out_error():
    def prices(x, u, time, random):
        return 0.5 * x + random.normal(size=1), u[0] * (time - 2.5), False

    def season(x, u, time, random):
        return 0.5 * x + 0.5 * (time > 3) + 0.1 * random.normal(size=1), 0.0, False

    def stops(x, u, time, random):
        return 0.5 * x + random.normal(size=1), 0.0, time == 5

    def pays_at_last(x, u, time, random):
        return 0.5 * x + random.normal(size=1), x[0] if time == 5 else 0.0, False

    def always(x, u, time, random):
        return drift(x, u, random)

    def walled(x, u, time, random):
        return np.clip(x + u, -0.5, 0.5), -abs(x[0]), False

    assert all(is_timed(world) for world in (prices, season, stops, pays_at_last, deadline))
    assert not any(is_timed(world) for world in (always, walled))


def test_no_end_was_seen_and_none_is_imagined():
    (model, *_), _ = walk_models()
    assert not any(step(model, [9.0, 9.0], THREE[1], counter)[2] for counter in range(20))


def test_predictions_stay_within_what_was_observed():
    data = observe(walk, width=2, table=THREE)
    _, model = learn(data, table=THREE)
    for x in ([50.0, 0.0], [0.0, -50.0]):
        following, reward, _ = step(model, x, THREE[0])
        assert (data.following.min(axis=0) <= following).all()
        assert (following <= data.following.max(axis=0)).all()
        assert data.rewards.min() <= reward <= data.rewards.max()


def push(x, u, random):
    """A speed with a limit of 1 in both directions, and a second number without."""
    free = np.array([x[0] + 0.8 * u[0], 0.9 * x[1] + 0.1 * x[0]])
    return np.array([np.clip(free[0], -1.0, 1.0), free[1]]), 0.0, False


def test_changes_that_a_limit_cut_off_are_extended():
    data = observe(push, count=200, width=2)
    changes, order = find_changes(data, np.zeros(2)), np.random.default_rng(0).permutation(200)
    extended = extend_saturated(data, changes, order, np.zeros(2))
    assert (np.abs(data.following[:, 0]) == 1.0).sum() > 50
    np.testing.assert_allclose(extended[:, 0], 0.8 * data.features[:, 0], rtol=0, atol=1e-9)
    assert np.array_equal(extended[:, 1], changes[:, 1])  # its least and largest values occur once
    assert np.array_equal(extend_saturated(data, changes, order, np.array([2.0, 0.0])), changes)  # 2 is a period


def test_a_limit_is_predicted_exactly_by_a_linear_model():
    data = observe(push, count=200, width=2)
    changes, order = find_changes(data, np.zeros(2)), np.random.default_rng(0).permutation(200)
    choices = Choices(np.zeros(2, bool), False, np.zeros(1, bool))
    targets = extend_saturated(data, changes, order, np.zeros(2))
    model, plain = (fit_model(data, each, order, choices, np.zeros(2), BOX) for each in (targets, changes))
    tested = observe(push, count=50, seed=1, width=2)
    errors = [
        max(abs(step(each, x, u)[0][0] - x2[0]) for x, u, x2 in zip(*tested[:2], tested.following, strict=True))
        for each in (model, plain)
    ]
    assert errors[0] < 0.01
    assert errors[1] > 0.05


def test_few_stops_and_changes_that_are_not_linear_are_left_alone():
    few = observe(push, count=6, width=2)
    changes = find_changes(few, np.zeros(2))
    assert np.array_equal(extend_saturated(few, changes, np.arange(6), np.zeros(2)), changes)
    data = observe(lambda x, u, random: (np.clip(random.normal(size=1), -1.0, 1.0), 0.0, False), count=200)
    changes = data.following - data.states + 0.0
    extended = extend_saturated(data, changes, np.arange(200), np.zeros(1))
    assert np.abs(data.states + extended).max() < 1.0 + 1e-9 or np.array_equal(extended, changes)


NOT_PERIODIC = np.zeros(1, bool)


def walk_in_episodes(lengths):
    """Transitions of episodes that each begin at 0 and go up by 0.1 in every step."""
    states = np.concatenate([0.1 * np.arange(length) for length in lengths])[:, None]
    episodes = np.repeat(np.arange(len(lengths)), lengths)
    count = len(states)
    following = np.round(states + 0.1, 10)
    rewards = np.full(count, -1.0)
    return Data(states, np.zeros((count, 1)), rewards, following, np.zeros(count, bool)), episodes


def test_states_beyond_those_of_few_episodes_are_unknown():
    data, episodes = walk_in_episodes([10, 10, 10, 20])
    frontier = find_frontier(data, data.following - data.states, episodes, 30, NOT_PERIODIC)
    assert frontier.known[1, 0] == pytest.approx(2.1)  # one episode came to 2.0; a step is 0.1
    assert frontier.range[1, 0] == pytest.approx(2.2)
    assert frontier.known[0, 0] == -np.inf  # all begin at the other end
    assert frontier.range[0, 0] == data.following.min()
    assert frontier.worst.tolist() == [-30.0]
    assert np.isinf(find_frontier(data, data.following - data.states, episodes, 30, ~NOT_PERIODIC).known).all()
    everywhere, same = walk_in_episodes([10, 10, 10, 10])
    assert np.isinf(
        find_frontier(everywhere, everywhere.following - everywhere.states, same, 30, NOT_PERIODIC).known
    ).all()


def test_unknown_states_end_the_episode_with_the_worst_return():
    data, episodes = walk_in_episodes([10, 10, 10, 20])
    changes = data.following - data.states
    frontier = find_frontier(data, changes, episodes, 30, NOT_PERIODIC)
    order, choices = np.random.default_rng(0).permutation(50), Choices(np.zeros(1, bool), False, np.zeros(1, bool))
    model = fit_model(data, changes, order, choices, np.zeros(1), BOX, frontier=frontier)
    for x, unknown in ((1.0, False), (1.9, False), (1.99, False), (2.05, True)):
        following, reward, ended = step(model, [x], [0.0])
        assert following[0] == pytest.approx(x + 0.1, abs=1e-6)
        assert (reward, ended) == ((-30.0, True) if unknown else (-1.0, False))
    without = fit_model(data, changes, order, choices, np.zeros(1), BOX)
    assert step(without, [2.05], [0.0]) == (pytest.approx([2.0]), -1.0, False)


def test_periodic_states_go_round():
    def turn(x, u, random):
        x[0] = random.uniform(-1.0, 1.0)  # the period is 2
        following = x[0] + 0.3 + 0.1 * u[0]
        return np.array([following - 2.0 if following >= 1.0 else following]), 0.0, False

    data = observe(turn)
    changes = find_changes(data, np.array([2.0]))
    assert np.abs(changes - 0.3).max() < 0.5
    _, model = learn(data, [2.0], origins=np.array([-1.0]))
    assert step(model, 0.0, 0.0)[0][0] == pytest.approx(0.3, abs=0.02)
    assert step(model, 0.9, 0.0)[0][0] == pytest.approx(-0.8, abs=0.02)
    for u in (-2.0, 0.0, 2.0):
        assert step(model, 0.9, u)[0] == pytest.approx(textbook.imagine(model, np.array([0.9]), np.array([u]), 0)[1])
    straight = find_changes(data, np.zeros(1))
    assert straight.min() < -1.0


def test_periodic_states_wrap_at_their_origin_wherever_they_were_recorded():
    def turn(x, u, random):
        x[0] = random.uniform(0.4, 0.6)  # a small part of the period from 0 to 1
        return x + 0.02 * np.clip(u, -1.0, 1.0), 0.0, False

    _, model = learn(observe(turn), [1.0], origins=np.zeros(1))
    assert step(model, 0.39, -1.0)[0][0] == pytest.approx(0.37, abs=0.01)
    assert step(model, 0.005, -1.0)[0][0] == pytest.approx(0.985, abs=0.01)
    assert step(model, 0.995, 1.0)[0][0] == pytest.approx(0.015, abs=0.01)
