"""The gallery's environments of control and operations: what their physics promise, and what their rules assume."""

import runpy
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import spaql
from docs_for_tests import ROOT


@pytest.fixture
def load(monkeypatch):
    """Return a function that runs a script of the gallery and returns what it defines."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "gallery")
    return lambda name: SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / "gallery" / f"{name}.py")))


@pytest.mark.parametrize(
    ("script", "environment"),
    [("servo", "Servo"), ("tank", "Tank"), ("dosing", "Infusion"), ("intersection", "Intersection")],
)
@pytest.mark.filterwarnings("ignore:.*(action space|render)")
def test_environment_keeps_the_contract_of_gymnasium(load, script, environment):
    env = getattr(load(script), environment)()
    check_env(env, skip_render_check=True)


def test_shaft_rubs_and_hits_its_stop(load):
    servo = load("servo")
    env = servo.Servo()
    env.reset(seed=0)
    start = env.error
    observation, *_ = env.step([0.9 * servo.FRICTION])
    assert observation.tolist() == [start, 0.0]
    for _ in range(servo.STEPS - 1):
        observation, *_ = env.step([servo.VOLTS])
    assert observation.tolist() == [servo.STOP, 0.0]


@pytest.mark.compiled_only
@pytest.mark.tiny_planning
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_policy_in_c_needs_no_symbols_and_no_variables(load):
    servo = load("servo")
    agent = spaql.Tessera(servo.Servo(), horizon=servo.STEPS, seed=0).learn(600)
    symbols, size, speed = servo.measure_in_c(agent).splitlines()
    assert symbols == "symbols that policy.o needs: none"
    assert size.endswith("variables: 0 bytes")
    assert speed.startswith("time per decision: ")


def test_prediction_over_the_dead_time_is_exact_without_disturbances(load):
    tank = load("tank")
    env = tank.Tank()
    observation, _ = env.reset(seed=0)
    env.np_random = SimpleNamespace(normal=lambda: 0.0, random=np.ones)
    for power in (0.2, 0.9, 0.4):
        observation, *_ = env.step([power])
    predicted, *powers = observation
    assert powers == [0.4, 0.9, 0.2]
    for power in reversed(powers):
        predicted = tank.heat(predicted, power)
    for _ in range(tank.DELAY):
        observation, *_ = env.step([1.0])
    assert observation[0] == pytest.approx(predicted)


@pytest.mark.parametrize("start", [0.0, 9.0, 12.0, 25.0])
@pytest.mark.parametrize("final", [0.0, 8.0, 12.5, 40.0])
@pytest.mark.parametrize("limit", [10.0, 15.0])
def test_hours_above_a_limit_are_those_of_the_level(load, start, final, limit):
    dosing = load("dosing")
    decay, times = 0.15, (np.arange(60_000) + 0.5) * dosing.STEP / 60_000
    levels = final + (start - final) * np.exp(-decay * times)
    end = final + (start - final) * np.exp(-decay * dosing.STEP)
    expected = dosing.STEP * np.mean(levels > limit)
    assert dosing.count_hours_above(limit, start, end, final, decay) == pytest.approx(expected, abs=1e-3)


def test_estimate_of_the_clearance_leads_to_the_target(load):
    dosing = load("dosing")
    env = dosing.Infusion()
    observation, _ = env.reset(seed=0)
    env.np_random, env.clearance = SimpleNamespace(normal=lambda: 0.0), 2.0 * dosing.CLEARANCE
    act = dosing.make_monitored(loading=100.0, target=12.0)()
    for _ in range(dosing.STEPS):
        observation, *_ = env.step(act(observation))
    assert observation[0] == pytest.approx(12.0, abs=0.3)


def test_switching_lets_nobody_pass(load):
    intersection = load("intersection")
    env = intersection.Intersection()
    env.reset(seed=0)
    env.queues = np.array([10, 10])
    env.np_random = SimpleNamespace(poisson=lambda rates: np.array([2, 1]), binomial=lambda count, share: 3)
    assert env.step(0)[0].tolist() == [9.0, 11.0, 0.0]
    assert env.step(1)[0].tolist() == [11.0, 12.0, 1.0]
    assert env.step(1)[0].tolist() == [13.0, 10.0, 1.0]
