"""Files of a policy alone: what they are enough for, and what they say where they are not."""

import pickle
import sys

import gymnasium
import numpy as np
import pytest

import spaql
from files_for_tests import MAKERS
from fuzz_subjects import Sky
from spaql.agents import inspection
from spaql.cli import main
from spaql.errors import NotTrainedError, ParameterError


@pytest.fixture(scope="module", params=MAKERS)
def pair(request, tmp_path_factory):
    """A trained agent, and the one that its policy alone makes."""
    agent = MAKERS[request.param]("oil").learn(iterations=30)
    path = agent.save(tmp_path_factory.mktemp("policy") / "policy.spaql", policy_only=True)
    return agent, spaql.load(path), path


def test_it_decides_as_the_whole_agent_does(pair):
    agent, alone, path = pair
    states = np.random.default_rng(0).random((100, 1))
    steps = np.arange(100) % 5 if agent.time_variant else None
    np.testing.assert_array_equal(alone.predict(states, steps)[0], agent.predict(states, steps)[0])
    np.testing.assert_array_equal(alone.evaluate(20).returns, agent.evaluate(20).returns)
    for name in ("state_low", "action_high", "q", "visits", "depth", "step"):
        np.testing.assert_array_equal(getattr(alone.cells(), name), getattr(agent.cells(), name))
    assert alone.policy_only
    assert not agent.policy_only
    assert path.stat().st_size < 8192


def test_it_can_be_read_in_every_way(pair, tmp_path):
    agent, alone, _ = pair
    assert str(alone.rules()) == str(agent.rules())
    assert "At position 0.3" in str(alone.explain([0.3]))
    assert alone.export(tmp_path / "a.py").read_text() == agent.export(tmp_path / "b.py").read_text()
    assert (alone.iterations, alone.num_timesteps) == (agent.iterations, agent.num_timesteps)
    assert len(alone.history) == 0
    assert alone.selection_score is None
    assert alone.model is None


def test_it_is_saved_again_as_it_is(pair, tmp_path):
    _, alone, path = pair
    assert alone.save(tmp_path / "again.spaql").read_bytes() == path.read_bytes()
    assert pickle.loads(pickle.dumps(alone)).policy_only


def test_it_says_that_it_cannot_learn(pair):
    _, alone, _ = pair
    with pytest.raises(ParameterError, match=r"^learn: this agent was saved with policy_only=True, without what it"):
        alone.learn(iterations=1)
    if isinstance(alone, spaql.Tessera):
        with pytest.raises(ParameterError, match=r"^simulate: this agent was saved with policy_only=True"):
            alone.simulate()


@pytest.mark.parametrize("kind", ["tessera", "published"])
def test_it_has_a_page_and_a_diagnosis(tmp_path, kind):
    path = MAKERS[kind]("oil").learn(iterations=30).save(tmp_path / "policy.spaql", policy_only=True)
    alone = spaql.load(path)
    alone.diagnose()
    alone.plot()
    assert "could not be played" not in inspection.make_page([alone])


def test_an_untrained_agent_has_no_policy(tmp_path):
    with pytest.raises(NotTrainedError):
        spaql.AQL("oil").save(tmp_path / "policy.spaql", policy_only=True)


def test_a_restored_policy_is_the_one_that_is_kept(tmp_path):
    agent = spaql.SPAQL("oil", seed=1, rollouts=1)
    agent.learn(iterations=40, callback=spaql.callbacks.Evaluate(50, episodes=2, restore_best=True))
    assert agent.restored_from is not None
    alone = spaql.load(agent.save(tmp_path / "policy.spaql", policy_only=True))
    assert alone.restored_from == agent.restored_from
    np.testing.assert_array_equal(alone.cells().q, agent.cells().q)


def test_an_environment_of_your_own_has_to_be_given_to_evaluate_only(tmp_path):
    agent = spaql.Tessera(Sky, seed=1, horizon=10).learn(iterations=5)
    path = agent.save(tmp_path / "policy.spaql", policy_only=True)
    alone, seen = spaql.load(path), {"a": np.zeros(2), "b": 1}
    np.testing.assert_array_equal(alone.predict(seen)[0], agent.predict(seen)[0])
    with pytest.raises(ParameterError, match=r"give the environment: load\(path, env="):
        alone.evaluate(2)
    assert spaql.load(path, Sky).evaluate(2).steps == 20


TRAP = """
import gymnasium
gymnasium.register("Trap-v0", entry_point="gymnasium.envs.classic_control:PendulumEnv", max_episode_steps=20)
"""


@pytest.mark.parametrize("alone", [False, True])
def test_nothing_is_imported_until_it_plays(tmp_path, monkeypatch, alone):
    (tmp_path / "trap_module.py").write_text(TRAP)
    monkeypatch.syspath_prepend(tmp_path)
    path = spaql.Tessera("trap_module:Trap-v0", seed=1).learn(iterations=2).save(tmp_path / "a", policy_only=alone)
    del sys.modules["trap_module"], gymnasium.registry["Trap-v0"]
    agent, seen = spaql.load(path), np.zeros(3)
    agent.predict(seen)
    str(agent.explain(seen))
    str(agent.rules())
    agent.export(tmp_path / "policy.c")
    agent.save(tmp_path / "again")
    agent.plot()
    repr(agent)
    agent._repr_html_()
    assert "trap_module" not in sys.modules
    agent.evaluate(2)
    assert sys.modules.pop("trap_module")
    del gymnasium.registry["Trap-v0"]


def test_a_module_that_is_gone_is_named(tmp_path, monkeypatch):
    (tmp_path / "lost_module.py").write_text(TRAP.replace("Trap", "Lost"))
    monkeypatch.syspath_prepend(tmp_path)
    path = spaql.Tessera("lost_module:Lost-v0", seed=1).learn(iterations=2).save(tmp_path / "a", policy_only=True)
    del sys.modules["lost_module"], gymnasium.registry["Lost-v0"]
    (tmp_path / "lost_module.py").unlink()
    with pytest.raises(ParameterError, match=r"'lost_module:Lost-v0' cannot be made: .*lost_module"):
        spaql.load(path).evaluate(2)


def test_all_commands_read_it(tmp_path, capsys):
    path = str(MAKERS["aql"]("oil").learn(iterations=30).save(tmp_path / "policy.spaql", policy_only=True))
    for words in (
        ["explain", path, "0.3", "--step", "1"],
        ["rules", path],
        ["export", path, str(tmp_path / "policy.json")],
        ["evaluate", path, "--episodes", "5"],
        ["show", path, "--no-open", "--out", str(tmp_path / "page.html")],
    ):
        assert main(words) == 0, capsys.readouterr().err
    assert (tmp_path / "page.html").exists()
