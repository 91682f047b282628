"""Callbacks with the interface of Stable-Baselines3, and the best policy restored."""

import os
import signal

import numpy as np
import pytest

import spaql
from callbacks_for_tests import AGENTS, told
from spaql.agents.callbacks import Evaluate
from spaql.agents.registry import Entry
from spaql.errors import ParameterError

pytestmark = pytest.mark.tiny_planning


class Theirs:
    """What learning calls of a callback of Stable-Baselines3, and in which order."""

    def __init__(self, stop_at=None):
        self.stop_at, self.calls, self.steps, self.dones, self.iterations = stop_at, [], [], [], []

    def init_callback(self, model):
        self.model = model
        self.calls.append("init")

    def on_training_start(self, locals_, globals_):
        self.locals = locals_
        self.calls.append("start")

    def on_rollout_start(self):
        self.calls.append("rollout")

    def update_locals(self, locals_):
        self.locals.update(locals_)

    def on_step(self):
        self.steps.append(self.model.num_timesteps)
        self.dones.append(bool(self.locals["dones"][0]))
        self.iterations.append(self.model.iterations)
        return self.model.num_timesteps != self.stop_at

    def on_rollout_end(self):
        self.calls.append("rolled out")

    def on_training_end(self):
        self.calls.append("end")


@pytest.mark.parametrize("name", ["Tessera", "published", "AQL"])
def test_every_step_is_reported_once(name):
    plain, watched, theirs, stepwise = AGENTS[name](), AGENTS[name](), Theirs(), Theirs()
    plain.learn(iterations=8)
    watched.learn(iterations=8, callback=[theirs, lambda agent: None])
    assert watched.history.tobytes() == plain.history.tobytes()
    assert theirs.steps == list(range(1, watched.num_timesteps + 1))
    assert [step for step, done in zip(theirs.steps, theirs.dones, strict=True) if done] == (
        watched.history["training_steps"] + watched.history["selection_steps"]
    ).tolist()
    assert theirs.calls == ["init", "start", "rollout", *["rolled out", "rollout"] * 8, "end"]
    assert theirs.iterations == (1 + np.cumsum([0, *theirs.dones[:-1]])).tolist()  # after the whole iteration
    before = watched.num_timesteps
    watched.learn(2 * watched.steps_per_iteration, stepwise)
    assert stepwise.steps == list(range(before + 1, watched.num_timesteps + 1))
    assert stepwise.locals["total_timesteps"] == before + 2 * watched.steps_per_iteration


def test_false_stops_after_the_iteration():
    agent, theirs = AGENTS["Tessera"](), Theirs(stop_at=12)  # in the third of five steps each
    agent.learn(iterations=10, callback=theirs)
    assert theirs.steps[-1] == 12
    assert agent.iterations == 3
    assert theirs.calls[-1] == "end"


def test_callbacks_see_an_agent():
    seen = {}

    class Curious(Theirs):
        def on_step(self):
            if not seen and self.model.iterations == 2:
                seen["vector"] = self.model.get_env()
                seen["action"], _ = self.model.predict(seen["vector"].reset())
                self.model.logger.record("a", 1)
            return True

    agent = AGENTS["published"]().learn(iterations=3, callback=Curious())
    assert seen["action"].shape == (1, 1)
    assert agent.logger.name_to_value == {"a": 1}
    with pytest.raises(ParameterError, match="callback: Theirs is a class; give an instance"):
        agent.learn(iterations=1, callback=Theirs)
    with pytest.raises(ParameterError, match="expected a function of the agent, got one of two arguments"):
        agent.learn(iterations=1, callback=lambda locals_, globals_: True)
    assert agent.learn(iterations=1, callback=lambda agent, other=3: None).iterations == 4


# The best policy restored -------------------------------------------------------------------------------------------


class Scripted:
    def __init__(self, mean):
        self.mean, self.interval = mean, (mean - 1, mean + 1)


def scripted(name, means, noted):
    """An agent whose evaluations are known beforehand; the policies that they were of are noted."""
    agent, left = AGENTS[name](), iter(means)

    def evaluate(episodes, seed):
        noted.append(play(agent))
        return Scripted(next(left))

    agent.evaluate = evaluate
    return agent


def play(agent):
    """All that a policy shows."""
    cells = agent.cells()
    steps = np.zeros(len(cells), int) if not agent.time_variant else cells.step.astype(int)
    actions, _ = agent.predict(agent.problem.states.from_unit(np.linspace(0, 1, len(cells))[:, None]), steps)
    return cells.q.tobytes(), cells.visits.tobytes(), np.asarray(actions).tobytes()


NAMES = ("Tessera", "published", "SPAQL-TS", "AQL")


@pytest.mark.parametrize("name", NAMES)
def test_the_best_policy_is_restored_and_learning_goes_on_as_if_not(name, tmp_path):
    noted = []
    agent, plain = scripted(name, [3.0, 1.0, 2.0], noted), AGENTS[name]()
    every = (30 if name == "Tessera" else 150) * agent.problem.horizon
    agent.learn(3 * every, Evaluate(every, restore_best=True))
    plain.learn(3 * every)
    assert play(agent) == noted[0] != play(plain)
    assert every <= agent.restored_from < 2 * every
    assert plain.restored_from is None
    del agent.evaluate
    returns, last = agent.evaluate(5).returns.tobytes(), agent.num_timesteps
    again = spaql.load(agent.save(tmp_path / "agent"))
    assert again.restored_from == agent.restored_from
    assert play(again) == noted[0]
    assert again.evaluate(5).returns.tobytes() == returns
    assert "restored from step" in agent.to_policy().origin
    assert agent.num_timesteps == last == plain.num_timesteps
    plain.learn(iterations=3)
    for each in (agent.learn(iterations=3), again.learn(iterations=3)):
        assert each.restored_from is None
        assert each.history.tobytes() == plain.history.tobytes()
        assert play(each) == play(plain)
        assert each.save(tmp_path / "a").read_bytes() == plain.save(tmp_path / "b").read_bytes()


def test_it_is_restored_after_ctrl_c_too():
    noted = []
    agent = scripted("published", [3.0, 1.0, 2.0], noted)
    every = 50 * agent.problem.horizon

    def interrupt(agent):
        if len(noted) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        agent.learn(100 * every, [Evaluate(every, restore_best=True), interrupt])
    assert len(noted) == 3
    assert play(agent) == noted[0]


@pytest.mark.parametrize("make", [spaql.QLearning, spaql.UCBQ, spaql.AdaMB, spaql.RLSVI, spaql.ZoomRL])
def test_every_agent_with_cells_can_be_restored(make, tmp_path):
    agent = make("oil", seed=1)
    agent.learn(iterations=10)
    before, kept = play(agent), agent._keep_policy()
    agent.learn(iterations=30)
    assert play(agent) != before
    agent._restore_policy(kept)
    assert play(agent) == before
    assert play(spaql.load(agent.save(tmp_path / "agent"))) == before
    agent.diagnose()
    assert len(agent.rules()) >= 1


def test_evaluations_of_several_calls_are_compared():
    noted = []
    agent = scripted("published", [3.0, 1.0, 2.0, 4.0], noted)
    every, evaluate = 50 * agent.problem.horizon, Evaluate(50 * agent.problem.horizon, restore_best=True)
    agent.learn(2 * every, evaluate)
    assert play(agent) == noted[0]
    agent.learn(2 * every, evaluate)
    assert play(agent) == noted[-1]
    nothing = AGENTS["published"]().learn(iterations=3, callback=Evaluate(10**6, restore_best=True))
    assert nothing.restored_from is None


def test_a_restored_policy_of_another_time_is_refused(tmp_path):
    agent = spaql.SPAQL("oil", seed=1, rollouts=1).learn(iterations=5)
    agent._restore_policy(agent._keep_policy())
    assert spaql.load(agent.save(tmp_path / "agent")).restored_from == agent.num_timesteps
    arrays = agent._state() | {"restored-steps": np.array([10**6])}
    with pytest.raises(ValueError, match="a restored policy of another time"):
        agent._restore(arrays)


def test_agents_without_cells_are_refused():
    class Foreign:
        def __init__(self, env):
            self.env = env

        def learn(self, total_timesteps):
            pass

        def predict(self, observation):
            return 0

    for agent in (Entry("mine", "mine", Foreign).make("oil"), spaql.Random("oil")):
        with pytest.raises(ParameterError) as error:
            agent.learn(100, Evaluate(10, restore_best=True))
        told(error, "restore_best: ")
        told(error, "has no partition that could be restored")
