"""The gallery: every script runs, with tiny budgets, and its page has what it needs."""

import json
import math
import runpy
from types import SimpleNamespace

import gymnasium
import matplotlib
import numpy as np
import pytest

from docs_for_tests import ROOT

SCRIPTS = sorted(path for path in (ROOT / "examples" / "gallery").glob("*.py") if path.stem != "comparison")
NAMES = [path.stem for path in SCRIPTS]
RESULTS = ROOT / "docs" / "gallery" / "results"
comparison = SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / "gallery" / "comparison.py")))
#: what a script must be given so that it takes a second or two
SMALL = {"budget": 1_500, "agents": 1, "episodes": 2}


@pytest.mark.compiled_only
@pytest.mark.tiny_planning
@pytest.mark.parametrize("name", NAMES)
def test_script_writes_its_results(name, tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.syspath_prepend(ROOT / "examples" / "gallery")
    main = runpy.run_path(str(ROOT / "examples" / "gallery" / f"{name}.py"))["main"]
    result = main(out=tmp_path, **SMALL)
    assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8")) == result
    assert {f"{name}.{suffix}" for suffix in ("json", "png", "txt", "c")} <= {path.name for path in tmp_path.iterdir()}
    assert f"Tessera, mean of {SMALL['agents']} agents" in result["policies"]


@pytest.mark.parametrize("name", NAMES)
def test_page_has_script_picture_rules_and_results(name):
    page = (ROOT / "docs" / "gallery" / f"{name}.md").read_text(encoding="utf-8")
    for part in (f"../../examples/gallery/{name}.py", f"(results/{name}.png)", f"<!-- results: {name} -->"):
        assert part in page, part
    assert (RESULTS / f"{name}.png").stat().st_size < 100_000
    assert set(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))) >= {"policies", "verdict", "leaves"}


def test_all_results_belong_to_a_script():
    assert {path.stem for path in RESULTS.iterdir()} == set(NAMES)


class Wager(gymnasium.Env):
    """Two steps; the return is the action plus noise that is the same whatever is played."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,))
    action_space = gymnasium.spaces.Box(0.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        reward = float(action) + self.np_random.normal()
        return np.zeros(1, np.float32), reward, False, self.steps == 2, {"energy": 3.0}


def constant(action):
    """Return the policy that always plays this action."""
    return lambda: lambda observation: action


def test_score_is_paired_and_sums_measures():
    seeds = range(5)
    low, energy = comparison.score(Wager(), constant(0.25), seeds, ["energy"])
    high, _ = comparison.score(Wager(), constant(0.75), seeds, ["energy"])
    assert np.allclose(high - low, 1.0)
    assert low.std() > 0.1
    assert energy.tolist() == [6.0] * 5


def test_tune_returns_the_best_of_a_grid():
    best = comparison.tune(Wager(), constant, {"action": [0.2, 0.9, 0.4]}, episodes=3)
    assert best.parameters == {"action": 0.9}
    assert best()(None) == 0.9


def test_a_policy_begins_every_episode_anew():
    def begin():
        actions = iter([0.1, 0.2])
        return lambda observation: next(actions)

    [returns] = comparison.score(Wager(), begin, [1, 1])
    assert math.isclose(*returns)


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.1, 0.3, "better"), (-0.3, -0.1, "worse"), (-0.1, 0.3, "no difference")]
)
def test_verdict_needs_an_interval_beside_zero(low, high, verdict):
    policies = {"rule": {"difference": None}, "Tessera, mean of 3 agents": {"difference": {"low": low, "high": high}}}
    assert comparison.judge({"policies": policies}) == verdict
