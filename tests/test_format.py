"""docs/reference/format.md reads what the library writes."""

import json

import numpy as np
import pytest

import spaql
from docs_for_tests import find_blocks, read_page, run_block, run_page
from spaql.agents.rollouts import ROW


def test_the_reader_of_the_page_decides_as_predict_does(tmp_path):
    namespace = run_page("reference/format.md")
    states = np.random.default_rng(0).random((200, 1))
    published = spaql.SPAQL("ambulance", seed=1, rollouts=2).learn(iterations=100)
    read = namespace["read"](published.save(tmp_path / "published.spaql"))
    for state in states:
        np.testing.assert_array_equal(namespace["decide"](*read, state), published.predict(state)[0])
    aql = spaql.AQL("oil", seed=1, rollouts=0).learn(iterations=200)
    read = namespace["read"](aql.save(tmp_path / "aql.spaql"))
    for step in range(5):
        for state in states[:50]:
            done = namespace["decide"](*read, state, step)
            np.testing.assert_array_equal(done, aql.predict(state, np.array([step]))[0])


@pytest.mark.parametrize("make", [spaql.AdaMB, spaql.ZoomRL, spaql.RLSVI])
def test_the_reader_of_the_page_decides_as_those_with_one_partition_do(tmp_path, make):
    namespace = run_page("reference/format.md")
    agent = make("ambulance", seed=1, rollouts=0).learn(iterations=30)
    read = namespace["read"](agent.save(tmp_path / "agent.spaql"))
    for step in range(5):
        for state in np.random.default_rng(0).random((20, 1)):
            done = namespace["decide"](*read, state, step)
            np.testing.assert_array_equal(done, agent.predict(state, np.array([step]))[0])


def test_the_file_of_tessera_has_its_policy(tmp_path):
    tessera = spaql.Tessera("ambulance", seed=1).learn(iterations=100)
    namespace = run_page("reference/format.md")
    head, arrays = namespace["read"](tessera.save(tmp_path / "tessera.spaql"))
    assert (head["algorithm"], len(arrays["history"])) == ("tessera", 100)
    with pytest.raises(KeyError):  # it has no partition
        namespace["decide"](head, arrays, [0.5])
    [reader] = [block for block in find_blocks(read_page("how-to/export.md")) if "def act(" in block]
    run_block(reader.split("\n\n\nwith open")[0], "how-to/export.md", namespace)
    policy = json.loads(tessera.export(tmp_path / "policy.json").read_text())
    for state in np.random.default_rng(0).random((50, 1)):
        action = tessera.predict(state)[0]
        np.testing.assert_array_equal(namespace["decide_by_tree"](head, arrays, state), action)
        np.testing.assert_array_equal(namespace["act"](policy, state), action)


@pytest.mark.parametrize("make", [spaql.SPAQL, spaql.AQL])
@pytest.mark.parametrize("problem", ["oil-nd", "mountaincar"])
def test_the_reader_of_the_page_reads_a_policy_alone(tmp_path, make, problem):
    namespace = run_page("reference/format.md")
    agent = make(problem, seed=1, rollouts=1).learn(iterations=3)
    read = namespace["read"](agent.save(tmp_path / "policy.spaql", policy_only=True))
    states, actions = agent.problem.states, agent.problem.actions
    for unit in np.random.default_rng(0).random((20, states.dimensions)):
        state = states.from_unit(unit)
        done = actions.from_unit(namespace["decide"](*read, state))
        np.testing.assert_array_equal(agent.problem.decode(done[None], True), agent.predict(state)[0])


def test_every_array_is_named_on_the_page(tmp_path):
    text, read = read_page("reference/format.md"), run_page("reference/format.md")["read"]
    others = [make("oil", rollouts=0) for make in (spaql.AQL, spaql.AdaMB, spaql.ZoomRL, spaql.RLSVI)]
    for agent in (spaql.Tessera("oil"), spaql.SPAQL("oil", rollouts=1), *others):
        head, arrays = read(agent.learn(iterations=5).save(tmp_path / "agent.spaql"))
        for name in arrays:
            family, _, last = name.partition("-")
            known = f"`{family}-*`" in text or f"`{family}-`" in text
            assert f"`{name}`" in text or (known and f"`{last}`" in text), name
        for name in (*head, *head["problem"]):
            assert f"`{name}`" in text or f'"{name}"' in text, name
        for name, array in arrays.items():
            assert name == "history" or all(f"`{column}`" in text for column in array.dtype.names or ())
        assert arrays["history"].dtype.names[: len(ROW)] == ROW.names
        assert set(arrays["history"].dtype.names) <= {*ROW.names, "training_return"}


def test_the_page_on_security_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page("security.md")
    assert "At position 0.3" in capsys.readouterr().out
