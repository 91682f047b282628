"""A tabular Q-learner and a problem from outside the package, for tests of `module:Class` and `module:function`."""

import gymnasium
import numpy as np

import spaql


class TabularQ:
    """Q-learning on a grid over the observations; actions of a box are taken from a grid too."""

    def __init__(self, env, bins=8, rate=0.2, exploration=0.2, seed=0):
        self.env, self.rate, self.exploration = env, rate, exploration
        self.random = np.random.default_rng(seed)
        space, actions = env.observation_space, env.action_space
        self.edges = [
            np.linspace(*np.clip(ends, -3, 3), bins + 1)[1:-1] for ends in zip(space.low, space.high, strict=True)
        ]
        if isinstance(actions, gymnasium.spaces.Discrete):
            self.actions = list(range(int(actions.n)))
        else:
            self.actions = list(np.linspace(actions.low, actions.high, bins))
        self.q = np.zeros([bins] * len(self.edges) + [len(self.actions)])

    def place(self, observation):
        return tuple(int(np.searchsorted(edges, value)) for edges, value in zip(self.edges, observation, strict=True))

    def learn(self, total_timesteps):
        observation, _ = self.env.reset()
        for _ in range(total_timesteps):
            place, explore = self.place(observation), self.random.random() < self.exploration
            choice = int(self.random.integers(len(self.actions)) if explore else self.q[place].argmax())
            observation, reward, terminated, truncated, _ = self.env.step(self.actions[choice])
            value = 0.0 if terminated else 0.9 * self.q[self.place(observation)].max()
            self.q[place][choice] += self.rate * (reward + value - self.q[place][choice])
            if terminated or truncated:
                observation, _ = self.env.reset()

    def predict(self, observation, deterministic=True):
        return self.actions[int(self.q[self.place(observation)].argmax())], None


class NoAgent:
    """A class that can predict, but not learn."""

    def predict(self, observation):
        return 0


class OtherKeyword(TabularQ):
    """A class whose `learn` takes its length under another name."""

    def learn(self, steps):
        super().learn(steps)


class BlindPredict(TabularQ):
    """A class whose `predict` takes no observation."""

    def predict(self):
        return 0


class NaNReward(gymnasium.RewardWrapper):
    """CartPole with a reward that is NaN."""

    value = float("nan")

    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1"))

    def reward(self, reward):
        return self.value


def make_oil(sharpness=1.0):
    """A compiled problem by a function of a module."""
    return spaql.problems.oil(survey="quadratic", sharpness=sharpness)


def make_cartpole(**arguments):
    """An environment by a function of a module."""
    return gymnasium.make("CartPole-v1", **arguments)
