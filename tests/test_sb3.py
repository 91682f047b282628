"""With the real Stable-Baselines3: its `evaluate_policy`, callbacks and vectors take every agent, its agents ours.

Run by `make test-sb3`, in an environment that has it.
"""

import copy
import json
import signal
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import cache

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import spaql
from spaql import cli
from spaql.agents import algorithms
from spaql.gym.environments import ProblemEnvironment
from spaql.partition.rng import Purpose, generator
from spaql.runner.store import Store
from spaql.stats import welch

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed; make test-sb3 runs these")

import torch
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecMonitor, VecNormalize

from spaql.studies import control

pytestmark = pytest.mark.sb3

OURS = {"spaql/Oil-v0": spaql.problems.oil, "spaql/Ambulance-v0": spaql.problems.ambulance}
REFERENCES = {
    "CartPole-v1": [0.0] * 4,
    "Pendulum-v1": [1.0, 0.0, 0.0],
    "spaql/Oil-v0": [0.7],
    "spaql/Ambulance-v0": [0.7],
}
LEARNERS = ("tessera", "spaql", "spaql-ts", "aql")


@pytest.fixture(autouse=True)
def one_thread():
    """Their networks are small, and several threads would wait for each other."""
    torch.set_num_threads(1)


@cache
def trained(algorithm, name):
    """An agent that learned on an environment of Gymnasium, a little."""
    given = {"reference": REFERENCES[name], "radius": 0.5} if algorithm == "spaql-ts" else {}
    horizon = 5 if name in OURS else None
    return (
        algorithms()[algorithm].make(name, seed=1, horizon=horizon, **given).learn(iterations=40 if name in OURS else 6)
    )


@cache
def trained_on_problem(algorithm, name):
    """The same on our compiled problem."""
    given = {"reference": REFERENCES[name], "radius": 0.5} if algorithm == "spaql-ts" else {}
    return algorithms()[algorithm].make(OURS[name](), seed=1, **given).learn(iterations=200)


def vector(name, count, seed, wrap=lambda env: env):
    environments = DummyVecEnv([lambda: wrap(gymnasium.make(name))] * count)
    environments.seed(seed)  # that of the n-th is seed + n
    return environments


def played(agent, environments, episodes, deterministic=True):
    """Returns and lengths, in the order in which the episodes ended."""
    returns, lengths = evaluate_policy(
        agent,
        environments,
        n_eval_episodes=episodes,
        deterministic=deterministic,
        return_episode_rewards=True,
        warn=False,
    )
    return np.array(returns), np.array(lengths)


def by_hand(agent, name, seed, episodes):
    """What an agent reaches when it is asked for one action after the other."""
    environment = gymnasium.make(name)
    observation, _ = environment.reset(seed=seed)
    returns, lengths = [], []
    for _ in range(episodes):
        total, length, over, state = 0.0, 0, False, None
        while not over:
            action, state = agent.predict(observation, state)
            observation, reward, terminated, truncated, _ = environment.step(action)
            total, length, over = total + reward, length + 1, terminated or truncated
        observation, _ = environment.reset()
        returns.append(total)
        lengths.append(length)
    return returns, lengths


# Our agents in evaluate_policy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda env: env, Monitor], ids=["bare", "monitor"])
@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("algorithm", LEARNERS)
def test_the_score_is_that_of_evaluate(algorithm, name, wrap):
    agent = trained(algorithm, name)
    expected = agent.evaluate(8, seed=5, deterministic=True)
    fresh = vector(name, 1, int(generator(5, Purpose.EVALUATION_ENVIRONMENT).integers(2**31)), wrap)
    returns, lengths = played(agent, fresh, 8)
    assert returns == pytest.approx(expected.returns, rel=1e-5)  # they keep rewards in single precision
    assert lengths.sum() == expected.steps


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("algorithm", LEARNERS)
def test_environments_side_by_side_are_played_like_each_alone(algorithm, name):
    agent = trained(algorithm, name)
    returns, lengths = played(agent, vector(name, 3, 11), 7)
    alone = [by_hand(agent, name, 11 + n, (7 + n) // 3) for n in range(3)]
    assert sorted(returns) == pytest.approx(sorted(value for each, _ in alone for value in each), rel=1e-5)
    assert sorted(lengths) == sorted(value for _, each in alone for value in each)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("algorithm", [*LEARNERS, "random"])
def test_draws_have_the_same_mean(algorithm, name, deterministic):
    agent = trained(algorithm, name)
    episodes = 30 if name == "Pendulum-v1" else 200
    returns, _ = played(agent, VecMonitor(vector(name, 4, 3)), episodes, deterministic)
    expected = agent.evaluate(2 * episodes, seed=3, deterministic=deterministic).returns
    if np.ptp(expected) < 1e-12:
        assert returns == pytest.approx(np.full(episodes, expected[0]), rel=1e-5)
    else:
        assert welch(returns, expected).p_value > 1e-3


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("algorithm", [name for name, entry in algorithms().items() if entry.home == "ambulance"])
def test_agents_of_a_compiled_problem_play_its_environment(algorithm, name, deterministic):
    if algorithm in ("mean", "median"):  # heuristics of the ambulance
        name = "spaql/Ambulance-v0"
    agent = trained_on_problem(algorithm, name)
    returns, lengths = played(agent, vector(name, 4, 3), 400, deterministic)
    expected = agent.evaluate(1000, seed=3, deterministic=deterministic).returns
    assert (lengths == 5).all()
    if np.ptp(expected) < 1e-12:
        assert returns == pytest.approx(np.full(400, expected[0]), rel=1e-5)
    else:
        assert welch(returns, expected).p_value > 1e-3


def test_the_usual_call():
    agent = trained("tessera", "CartPole-v1")
    returns, _ = played(agent, vector("CartPole-v1", 1, 8), 10)  # ten episodes are its own default
    assert evaluate_policy(agent, vector("CartPole-v1", 1, 8, Monitor)) == (np.mean(returns), np.std(returns))


class Parts(gymnasium.Env):
    """An episode of six steps that shows and asks whatever it is told to."""

    def __init__(self, seen, asked):
        self.observation_space, self.action_space = seen, asked

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._elapsed = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self._elapsed += 1
        return self.observation_space.sample(), float(np.sum(action)), False, self._elapsed >= 6, {}


@pytest.mark.parametrize("algorithm", ["tessera", "aql", "random"])
@pytest.mark.parametrize(
    ("seen", "asked"),
    [
        (spaces.Discrete(5, start=2), spaces.Discrete(3)),
        (spaces.MultiDiscrete([3, 4]), spaces.MultiDiscrete([2, 3])),
        (spaces.MultiBinary(3), spaces.MultiBinary(2)),
        (spaces.Tuple([spaces.Discrete(4), spaces.Box(-1, 1, (2,))]), spaces.Discrete(2)),
        (spaces.Dict(here=spaces.Box(0, 1, (1,)), there=spaces.Discrete(3)), spaces.Box(-1, 1, (2,))),
        (spaces.Box(0, 1, (2, 2)), spaces.Box(-1, 1, (2, 1))),
        (spaces.Box(0, 1, (3,)), spaces.Box(-1, 1, (1,))),  # as many numbers as environments
    ],
    ids=lambda space: type(space).__name__,
)
def test_every_space(seen, asked, algorithm):
    agent = algorithms()[algorithm].make(lambda: Parts(seen, asked), horizon=6).learn(iterations=3)
    for count in (1, 3):
        returns, lengths = played(agent, DummyVecEnv([lambda: Parts(seen, asked)] * count), 5)
        assert lengths.tolist() == [6] * 5
        assert np.isfinite(returns).all()


# Our agents on their wrappers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in a file"])
def test_an_agent_learns_the_same_through_a_monitor(tmp_path, kept):
    with closing(Monitor(gymnasium.make("CartPole-v1"), str(tmp_path / "log") if kept else None)) as watched:
        agent = spaql.Tessera(watched, seed=2).learn(iterations=20)
        plain = spaql.Tessera("CartPole-v1", seed=2).learn(iterations=20)
        assert np.array_equal(agent.cells().visits, plain.cells().visits)
        seen = list(watched.get_episode_rewards())
        assert seen[-20:] == agent.history["score"].tolist()
        with pytest.warns(UserWarning, match="neither made nor copied") if kept else nullcontext():
            returns = agent.evaluate(4, seed=1).returns.tolist()
        assert returns == plain.evaluate(4, seed=1).returns.tolist()
        # Fresh episodes are played on a copy; a monitor with an open file can be neither copied nor made again.
        assert len(watched.get_episode_rewards()) == len(seen) + (4 if kept else 0)


# Our agents on their vectors ---------------------------------------------------------------------------------------


def subprocesses(name, count, wrap=lambda env: env):
    return SubprocVecEnv([lambda: wrap(gymnasium.make(name))] * count, start_method="spawn")


def learned(env, **parameters):
    return spaql.SPAQL(env, seed=1, rollouts=1, horizon=30, **parameters).learn(iterations=12)


def test_vectors_are_learned_on_alike_in_this_process_and_in_others():
    plain = learned(lambda: gymnasium.make("CartPole-v1"))
    here = learned(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")]))
    for count in (1, 3):
        dummy, others = vector("CartPole-v1", count, None), subprocesses("CartPole-v1", count)
        with closing(others):
            one, other = learned(dummy), learned(VecMonitor(others))
            assert one.problem.warm_up_steps == 1000
            assert one.get_env() is dummy
            assert isinstance(other.get_env(), VecMonitor)
            assert one.history.tobytes() == other.history.tobytes()
            expected = one.evaluate(4).returns
            assert other.evaluate(4).returns.tolist() == expected.tolist()
            assert one.learn(iterations=3).history.tobytes() == other.learn(iterations=3).history.tobytes()
            assert copy.deepcopy(other).evaluate(4).returns.tolist() == other.evaluate(4).returns.tolist()
            returns, lengths = played(other, others, 6)
            assert len(returns) == 6
            assert lengths.sum() >= 6
    assert here.problem.horizon == plain.problem.horizon
    assert len(here.history) == len(plain.history)


def test_the_limit_of_members_in_other_processes_is_found():
    with closing(subprocesses("CartPole-v1", 1, lambda env: gymnasium.wrappers.TimeLimit(env, 40))) as limited:
        assert spaql.GymnasiumProblem(limited).horizon == 40


def test_an_agent_of_a_vector_is_loaded_with_a_vector(tmp_path):
    watched = vector("CartPole-v1", 2, None, Monitor)
    agent = learned(watched)
    again = spaql.load(agent.save(tmp_path / "agent"), env=vector("CartPole-v1", 2, None, Monitor))
    assert again.evaluate(3).returns.tolist() == agent.evaluate(3).returns.tolist()
    assert agent.set_env(vector("CartPole-v1", 3, None)).learn(iterations=2).iterations == 14
    assert len(watched.envs[0].get_episode_rewards()) >= 6


@pytest.mark.parametrize("wrap", [VecNormalize, lambda venv: VecFrameStack(venv, 2)], ids=["normalize", "stack"])
def test_wrappers_that_change_what_is_seen_are_refused(wrap):
    with pytest.raises(spaql.errors.ParameterError, match="changes what a vector environment shows or rewards"):
        spaql.Tessera(wrap(vector("CartPole-v1", 2, 0)))


# Our agents with their callbacks -----------------------------------------------------------------------------------


def test_their_callbacks_while_ours_learns(tmp_path):
    eval_env = Monitor(gymnasium.make("CartPole-v1"))
    stop = StopTrainingOnRewardThreshold(reward_threshold=40.0, verbose=0)
    evaluate = EvalCallback(
        eval_env,
        callback_on_new_best=stop,
        eval_freq=500,
        n_eval_episodes=3,
        log_path=str(tmp_path / "logs"),
        best_model_save_path=str(tmp_path / "logs"),
        verbose=0,
    )
    checkpoint = CheckpointCallback(save_freq=400, save_path=str(tmp_path / "logs"), name_prefix="model")
    agent = spaql.Tessera("MlpPolicy", gymnasium.make("CartPole-v1"), seed=0)
    plain = spaql.Tessera("CartPole-v1", seed=0)
    agent.learn(total_timesteps=1e4, callback=CallbackList([evaluate, checkpoint]))
    assert evaluate.best_mean_reward >= 40.0
    assert agent.num_timesteps < 1e4 - 500  # it was stopped
    assert evaluate.n_calls % 500 == 0  # by that evaluation
    plain.learn(iterations=agent.iterations)
    assert agent.history.tobytes() == plain.history.tobytes()
    best = spaql.Tessera.load(tmp_path / "logs" / "best_model")
    mean, _ = evaluate_policy(best, eval_env, n_eval_episodes=20)
    assert mean >= 30.0
    saved = tmp_path / "logs" / "model_1400_steps.zip"  # after a warm-up of 1000
    assert spaql.load(saved).predict(eval_env.reset()[0])[0] in (0, 1)
    steps = np.load(tmp_path / "logs" / "evaluations.npz")["timesteps"]
    assert (np.diff(steps) == 500).all()
    assert agent.logger.name_to_value == {}  # each evaluation was written out


def test_episodes_are_counted():
    agent = spaql.Tessera("CartPole-v1", seed=1)
    agent.learn(10_000, StopTrainingOnMaxEpisodes(max_episodes=7))
    assert agent.iterations == 7


def test_a_function_of_theirs_that_records(capsys):
    class Note(BaseCallback):
        def _on_step(self):
            assert self.training_env.num_envs == 1
            self.logger.record("note/steps", self.num_timesteps)
            return True

    agent = spaql.SPAQL("oil", rollouts=1, seed=1, verbose=1)
    agent.learn(iterations=20, callback=[Note(), lambda agent: None])
    last = capsys.readouterr().out.splitlines()[-1]
    assert f"note/steps {agent.num_timesteps} |" in last
    assert f"time/total_timesteps {agent.num_timesteps}" in last


PPO_SCRIPT = """
import gymnasium as gym

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

# Parallel environments
vec_env = make_vec_env("CartPole-v1", n_envs=4)

model = PPO("MlpPolicy", vec_env, verbose=1)
model.learn(total_timesteps=25_000)
model.save("ppo_cartpole")

del model # remove to demonstrate saving and loading

model = PPO.load("ppo_cartpole")

obs = vec_env.reset()
for i in range(200):
    action, _states = model.predict(obs)
    obs, rewards, dones, info = vec_env.step(action)
"""


def test_the_script_of_their_page_with_two_words_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = PPO_SCRIPT.replace("stable_baselines3 import PPO", "spaql import Tessera").replace("PPO", "Tessera")
    names = {}
    exec(script.replace("25_000", "5_000"), names)
    assert names["action"].shape == names["rewards"].shape == (4,)
    assert evaluate_policy(names["model"], names["vec_env"], n_eval_episodes=8)[0] > 40.0
    single = spaql.Tessera("MlpPolicy", "CartPole-v1").learn(2_000)
    assert isinstance(single.get_env(), DummyVecEnv)
    assert len(evaluate_policy(single, single.get_env(), 4, return_episode_rewards=True, warn=False)[0]) == 4


# Their agents on our environments ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:We recommend you to use a symmetric and normalized Box action space")
@pytest.mark.filterwarnings("ignore:Your action space has dtype float64")
@pytest.mark.parametrize("name", OURS)
def test_their_checker_finds_nothing(name):
    check_env(gymnasium.make(name).unwrapped)


@pytest.mark.parametrize("problem", ["cartpole", "acrobot"])
def test_their_checker_finds_nothing_in_other_problems(problem):
    check_env(ProblemEnvironment(spaql.problems.PROBLEMS[problem]()))


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("name", OURS)
def test_ppo_trains_on_our_environments(name, count):
    model = PPO("MlpPolicy", vector(name, count, 0, Monitor), n_steps=256 // count, seed=0, device="cpu").learn(1024)
    assert model.num_timesteps == 1024
    assert [episode["l"] for episode in model.ep_info_buffer] == [5] * 100
    mean, _ = evaluate_policy(model, Monitor(gymnasium.make(name)), n_eval_episodes=20)
    assert 0.0 <= mean <= 5.0


def test_ppo_learns_what_there_is_to_learn():
    environment = gymnasium.make("spaql/Ambulance-v0", arrivals="beta", cost=0.0)
    model = PPO("MlpPolicy", environment, n_steps=256, learning_rate=3e-3, seed=0, device="cpu")
    before, _ = evaluate_policy(model, Monitor(environment), n_eval_episodes=50)
    after, _ = evaluate_policy(model.learn(5120), Monitor(environment), n_eval_episodes=50)
    assert after > before + 0.5


def test_sac_and_dqn_train_on_our_environments():
    assert SAC("MlpPolicy", gymnasium.make("spaql/Oil-v0"), seed=0, device="cpu").learn(150).num_timesteps == 150
    finite = ProblemEnvironment(spaql.problems.PROBLEMS["cartpole"]())
    assert DQN("MlpPolicy", finite, seed=0, device="cpu").learn(200).num_timesteps == 200


# spaql control --with-sb3 ------------------------------------------------------------------------------------------

BUDGETS = {"cartpole": 1600, "pendulum": 600}
SMALL = tuple(replace(task, budget=BUDGETS[task.problem]) for task in control.TASKS if task.problem in BUDGETS)
FEW = {"agents": 2, "episodes": 3, "variants": (control.TESSERA, *control.RIVALS), "tasks": SMALL}


def test_the_study_with_their_agents_stopped_and_resumed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(control, "QUICK", FEW)
    command = ["control", "--quick", "--with-sb3", "--sb3-seeds", "2", "--quiet", "--out", str(tmp_path)]
    store = Store.add

    def stopped(self, entries, **options):
        entries = list(entries)
        store(self, entries, **options)
        if any("stable_baselines3" in specification for _, specification, _ in entries):
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "add", stopped)
        assert cli.main(command) == 130
    assert capsys.readouterr().err.count("\n") == 1

    assert cli.main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    rows = {(row["agent"], row["problem"]): row for row in told["rows"] if row["agent"] in ("DQN", "PPO", "SAC")}
    assert list(rows) == [("DQN", "cartpole"), ("PPO", "cartpole"), ("PPO", "pendulum"), ("SAC", "pendulum")]
    for (agent, problem), row in rows.items():
        assert row["steps"] == (2048 if agent == "PPO" else BUDGETS[problem])
        assert (1.0 <= row["mean"] <= 500.0) if problem == "cartpole" else (-2000.0 <= row["mean"] <= 0.0)

    assert cli.main([*command[:-1], str(tmp_path / "again"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told  # a run's numbers depend on its seed alone
    assert cli.main(command) == 0
    shown = capsys.readouterr().out
    assert "all runs were finished before" in shown  # nothing is done twice
    for name in ("DQN (SB3)", "PPO (SB3)", "SAC (SB3)"):
        assert name in shown
    assert "(2 seeds)" in shown
    assert "Stable-Baselines3" in (tmp_path / "control.md").read_text()
