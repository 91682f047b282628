"""The shape of Stable-Baselines3 without it: how agents are made, logs, copies; `test_sb3.py` has the real package."""

import copy
import inspect
import multiprocessing
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import spaql
from callbacks_for_tests import told
from docs_for_tests import run_page
from spaql.agents import algorithms
from spaql.agents.registry import Entry
from spaql.errors import AgentFileError, ParameterError
from spaql.problems import oil

pytestmark = pytest.mark.tiny_planning


def same(one, other):
    """Whether two agents have learned the same and go on the same."""
    assert one.history.tobytes() == other.history.tobytes()
    assert one.evaluate(3).returns.tobytes() == other.evaluate(3).returns.tobytes()


# A script for PPO with two words changed ---------------------------------------------------------------------------


@pytest.mark.compiled_only
def test_the_script_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ppo_cartpole").mkdir()  # what save writes is what load reads
    names = run_page("how-to/stable-baselines3.md")
    assert [path.name for path in tmp_path.glob("ppo*.*")] == ["ppo_cartpole.spaql"]
    assert names["obs"].shape == (1, 4)
    assert (names["rewards"].dtype, names["dones"].dtype) == (np.float32, np.bool_)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("rollout/ep_rew_mean ") for line in lines)
    assert [int(line.split("time/iterations ")[1].split()[0]) for line in lines] == [
        10 * (n + 1) for n in range(len(lines))
    ]
    assert len(lines) == names["model"].iterations // 10


@pytest.mark.parametrize("entry", [e for e in algorithms().values() if e.home == "ambulance"], ids=lambda e: e.name)
def test_the_name_of_a_policy_is_ignored(entry):
    cls, given = entry.cls, entry.example
    plain = cls("ambulance", seed=3, **given)
    for made in (
        cls("MlpPolicy", "ambulance", seed=3, **given),
        cls("MultiInputPolicy", env="ambulance", seed=3, **given),
        cls(policy="MlpPolicy", env="ambulance", seed=3, **given),
    ):
        assert repr(made) == repr(plain)
    assert repr(cls("MlpPolicy", "ambulance", seed=None, **given)) == repr(cls("ambulance", **given))


@pytest.mark.parametrize(
    ("arguments", "keywords", "words"),
    [
        (("CnnPolicy", "oil"), {}, "not from images"),
        (("oil", "oil"), {}, "policy: expected 'MlpPolicy' or 'MultiInputPolicy'"),
        ((dict, "oil"), {}, "policy: expected 'MlpPolicy'"),
        (("MlpPolicy", None), {}, "env: missing; write Tessera('MlpPolicy', env)"),
        (("MlpPolicy", "oil"), {"n_steps": 2048}, "n_steps: Tessera has no such parameter"),
        (("MlpPolicy", "oil"), {"learning_rate": 3e-4}, "learning_rate: Tessera has no such parameter"),
        (("MlpPolicy", "oil"), {"n_steps": 2, "gae_lambda": 1}, "n_steps, gae_lambda: Tessera has no such parameters"),
        (("MlpPolicy", "oil"), {"device": "cpu"}, "device: Tessera has no such parameter"),
        (("MlpPolicy", "oil"), {"verbose": "yes"}, "verbose: expected a whole number"),
        (("MlpPolicy", "oil"), {"tensorboard_log": 3}, "tensorboard_log: expected a folder, got 3"),
    ],
)
def test_arguments_that_no_agent_has(arguments, keywords, words):
    with pytest.raises(ParameterError) as error:
        spaql.Tessera(*arguments, **keywords)
    told(error, words)


def test_classes_of_users_may_have_a_second_argument():
    class Mine(spaql.Tessera):
        def __init__(self, problem, leaves, *, seed=0):
            super().__init__(problem, leaves=leaves, seed=seed)

    assert Mine("oil", 5).leaves == 5
    parameters = list(inspect.signature(spaql.Tessera).parameters)
    assert (parameters[0], parameters[-1]) == ("problem", "environment")


def test_outputs_are_no_parameters():
    agent = spaql.Tessera("oil", verbose=1, tensorboard_log="logs")
    assert agent.get_params() == spaql.Tessera("oil").get_params()
    assert (agent.set_params(leaves=3).verbose, agent.tensorboard_log, agent.leaves) == (1, "logs", 3)


def test_whole_floats_are_counts():
    one, other = (spaql.SPAQL("oil", rollouts=2) for _ in range(2))
    one.learn(1e3, spaql.callbacks.Evaluate(every=5e2, episodes=2e1))
    same(one, other.learn(total_timesteps=1000))
    for given in (1e3 + 0.5, np.nan, np.inf, "1000"):
        with pytest.raises(ParameterError, match="total_timesteps: expected a whole number"):
            one.learn(given)


# Attributes ---------------------------------------------------------------------------------------------------------


def test_spaces():
    agent = spaql.Tessera("CartPole-v1")
    assert agent.observation_space == agent.problem.env.observation_space
    assert agent.action_space == spaces.Discrete(2)
    assert spaql.Tessera("oil").observation_space == spaces.Box(0.0, 1.0, (1,), np.float64)
    assert spaql.Tessera("oil").action_space == spaces.Box(0.0, 1.0, (1,), np.float64)


def test_a_compiled_problem_has_an_environment_too():
    agent = spaql.SPAQL(oil(), rollouts=1).learn(iterations=20)
    vector = agent.get_env()
    vector.seed(3)
    observation, rewards = vector.reset(), []
    for _ in range(5):
        observation, reward, done, info = vector.step(agent.predict(observation)[0])
        rewards += reward.tolist()
    assert done.tolist() == [True]
    assert info[0]["TimeLimit.truncated"]
    assert info[0]["terminal_observation"].shape == (1,)
    again = agent.get_env()
    again.seed(3)
    assert again.step(agent.predict(again.reset())[0])[1].tolist() == rewards[:1]
    assert spaql.Tessera(vector).problem.horizon == 5  # one can learn on it in turn


def test_seeds_can_be_set_before_learning():
    agent = spaql.SPAQL("oil", rollouts=1)
    agent.set_random_seed(4)
    same(agent.learn(iterations=3), spaql.SPAQL("oil", rollouts=1, seed=4).learn(iterations=3))
    agent.set_random_seed(None)
    with pytest.raises(ParameterError, match="has learned already"):
        agent.set_random_seed(5)


def test_weights_are_refused():
    agent = spaql.Tessera("oil")
    with pytest.raises(ParameterError, match="an agent has no weights"):
        agent.get_parameters()
    with pytest.raises(ParameterError, match=r"as a whole: Tessera\.load"):
        agent.set_parameters({"policy": {}}, exact_match=True)


# Logs ---------------------------------------------------------------------------------------------------------------


def events(folder):
    """Curves of TensorBoard, as a dict from tag to points."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import directory_check  # noqa: F401

    curves = {}
    for path in folder.glob("*tfevents*"):
        data, at = path.read_bytes(), 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 8], "little")
            event = Event.FromString(data[at + 12 : at + 12 + size])
            at += 16 + size
            for value in event.summary.value:
                curves.setdefault(value.tag, []).append((event.step, value.simple_value))
    return curves


def test_logs_for_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX")

    def note(agent):
        if agent.iterations == 40:
            agent.logger.record("mine/steps", agent.num_timesteps)
            agent.logger.record("mine/hidden", 1.0, exclude="tensorboard")

    agent = spaql.SPAQL("oil", rollouts=1, tensorboard_log=tmp_path)
    agent.learn(iterations=40, callback=note, log_interval=20)
    agent.learn(iterations=20, log_interval=20, tb_log_name="run")
    agent.learn(iterations=20, log_interval=20, tb_log_name="run", reset_num_timesteps=False)
    agent.learn(iterations=20, log_interval=20, tb_log_name="run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["SPAQL_1", "run_1", "run_2"]
    first, second = events(tmp_path / "SPAQL_1"), events(tmp_path / "run_1")
    assert [step for step, _ in first["rollout/ep_rew_mean"]] == [205, 405]  # of 10 steps, and 5 of the first score
    assert first["rollout/ep_rew_mean"][1][1] == pytest.approx(agent.history["training_return"][:40].mean())
    assert first["learning/score"][1][1] == pytest.approx(agent.history["score"][39])
    assert len(second["time/iterations"]) == 2
    assert "mine/hidden" not in first
    with pytest.raises(ParameterError, match="tb_log_name: expected the name of a folder"):
        agent.learn(iterations=1, tb_log_name="a/b")


def test_what_is_recorded_is_printed_with_verbose_alone(capsys):
    agent = spaql.SPAQL("oil", rollouts=1)
    agent.logger.record("mine/value", 0.25)
    agent.logger.dump(3)
    assert capsys.readouterr().out == ""
    agent.verbose = 1
    agent.logger.record("mine/value", 0.25)
    agent.logger.record("mine/hidden", 1, exclude=("stdout", "json"))
    agent.logger.dump(3)
    agent.logger.dump(4)
    assert capsys.readouterr().out == "mine/value 0.25\n"


# Copies -------------------------------------------------------------------------------------------------------------

COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda agent: pickle.loads(pickle.dumps(agent))}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("make", [spaql.Tessera, spaql.SPAQL, spaql.QLearning], ids=lambda make: make.__name__)
def test_copies_go_on_like_the_agent(make, how):
    agent = make("oil", seed=2).learn(iterations=20)
    other = COPIES[how](agent)
    agent.learn(iterations=5)
    assert other.iterations == 20
    same(other.learn(iterations=5), agent)


def test_an_agent_of_an_environment_is_pickled_with_how_to_make_it():
    agent = spaql.SPAQL("CartPole-v1", seed=2, horizon=20, rollouts=1).learn(iterations=5)
    same(COPIES["pickle"](agent), agent)


def double(agent):
    return agent.learn(iterations=5)


@pytest.mark.compiled_only
def test_agents_go_to_another_process_and_back():
    agent = spaql.SPAQL("oil", seed=2, rollouts=1).learn(iterations=5)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        same(pool.apply(double, (agent,)), double(agent))


def test_a_pickle_runs_nothing_but_the_loader_of_files():
    function, (content,) = spaql.SPAQL("oil").__reduce__()
    assert content[:2] == b"PK"
    assert (function.__module__, function.__name__) == ("spaql.agents.files", "from_bytes")
    with pytest.raises(AgentFileError, match="pickled agent: not an agent file, or damaged"):
        function(content[:100])


def test_what_no_file_can_hold_is_no_pickle_either():
    class Theirs:
        def __init__(self, env):
            self.env = env

        def learn(self, total_timesteps):
            pass

        def predict(self, observation):
            return 0

    agent = Entry("mine", "mine", Theirs).make("oil")
    with pytest.raises(ParameterError, match="mine is not an algorithm of spaql"):
        pickle.dumps(agent)
    assert copy.deepcopy(agent).name == "mine"


# Vector environments of Gymnasium -----------------------------------------------------------------------------------


class Line(gymnasium.Env):
    """A walk on a line that begins at a random place, and ends after six steps."""

    observation_space, action_space = spaces.Box(-9.0, 9.0, (1,), np.float64), spaces.Discrete(2)
    spec = None

    def __init__(self, number=0):
        self.number, self.seeds = number, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.place, self.steps = self.np_random.uniform(-1.0, 1.0), 0
        return np.array([self.place]), {}

    def step(self, action):
        self.place, self.steps = self.place + 2 * action - 1, self.steps + 1
        return np.array([self.place]), -abs(self.place), False, self.steps == 6, {}


def limited(number=0):
    return gymnasium.wrappers.TimeLimit(Line(number), 6)


@pytest.mark.parametrize("kind", [gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv])
def test_members_of_a_vector_are_played_in_turn(kind):
    vector = kind([lambda number=number: limited(number) for number in range(3)])
    agent = spaql.SPAQL(vector, seed=1, rollouts=1).learn(iterations=5)
    assert agent.problem.horizon == 6
    members = [member.unwrapped for member in agent.problem.env.members]
    assert [member.number for member in members] == [0, 1, 2]
    assert [len(member.seeds) for member in members] == [4, 4, 3]  # 5 iterations of 2 episodes, and a first score
    assert None not in {seed for member in members for seed in member.seeds}
    assert agent.get_env().num_envs == 1
    before = [len(member.seeds) for member in members]
    same(agent, copy.deepcopy(agent))
    assert [len(member.seeds) for member in members] == before  # evaluations are played in others
    again = spaql.SPAQL(lambda: kind([limited] * 3), seed=1, rollouts=1).learn(iterations=5)
    same(agent, again)
    same(agent.set_env(vector).learn(iterations=2), again.learn(iterations=2))
    observations, _, _, _, _ = vector.step(agent.predict(vector.reset(seed=3)[0])[0])  # their own loop
    assert observations.shape == (3, 1)
    vector.close()


def test_seeds_of_members_follow_each_other():
    vector = gymnasium.vector.SyncVectorEnv([limited] * 3)
    env = spaql.GymnasiumProblem(vector).env
    env.reset(seed=7)
    for _ in range(4):
        env.reset()
    assert [member.unwrapped.seeds for member in env.members] == [[7, None], [8, None], [9]]
    env.close()
    vector.close()


def test_a_vector_of_one_registered_environment_is_made_again_from_a_file(tmp_path):
    vector = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    agent = spaql.SPAQL(vector, horizon=20, seed=1, rollouts=1).learn(iterations=4)
    again = spaql.load(agent.save(tmp_path / "agent"))
    assert again.problem.name == "CartPole-v1"
    same(again, agent)
    assert again.learn(iterations=1).iterations == 5
    vector.close()


def test_vectors_that_cannot_be_played_member_by_member():
    whole = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    with pytest.raises(ParameterError) as error:
        spaql.Tessera(whole)
    told(error, "CartPoleVectorEnv steps all its environments at once")
    vector = gymnasium.vector.SyncVectorEnv([limited] * 2)
    with pytest.raises(ParameterError) as error:
        spaql.Tessera(gymnasium.wrappers.vector.NormalizeReward(vector))
    told(error, "NormalizeReward changes what a vector environment shows or rewards")
    assert spaql.Tessera(gymnasium.wrappers.vector.RecordEpisodeStatistics(vector)).problem.horizon == 6
    vector.close()
    whole.close()
