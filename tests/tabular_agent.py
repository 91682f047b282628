"""An algorithm and a problem from outside the package: tabular Q-learning on a grid of states and actions."""

import gymnasium
import numpy as np

import spaql


class TabularQ:
    label = "Tabular Q"

    def __init__(self, env, *, seed=0, bins=8, rate=0.2, epsilon=0.2):
        self.env, self.bins, self.rate, self.epsilon = env, bins, rate, epsilon
        self.random = np.random.default_rng(seed)
        self.actions = getattr(env.action_space, "n", bins)
        self.q = np.full((bins,) * env.observation_space.shape[0] + (self.actions,), 5.0)

    def _cell(self, observation):
        space = self.env.observation_space
        share = (observation - space.low) / (space.high - space.low)
        return tuple(np.clip(self.bins * share, 0, self.bins - 1).astype(int))

    def _action(self, index):
        space = self.env.action_space
        if isinstance(space, gymnasium.spaces.Discrete):
            return int(index)
        return (space.low + (index + 0.5) / self.bins * (space.high - space.low)).astype(space.dtype)

    def learn(self, total_timesteps):
        done = True
        for _ in range(total_timesteps):
            if done:
                cell = self._cell(self.env.reset()[0])
            explore = self.random.random() < self.epsilon
            index = self.random.integers(self.actions) if explore else self.q[cell].argmax()
            observation, reward, terminated, truncated, _ = self.env.step(self._action(index))
            after, done = self._cell(observation), terminated or truncated
            self.q[(*cell, index)] += self.rate * (reward + (not done) * self.q[after].max() - self.q[(*cell, index)])
            cell = after
        return self

    def predict(self, observation, deterministic=True):
        return self._action(self.q[self._cell(observation)].argmax()), None


def make_oil(sharpness=1.0):
    return spaql.problems.oil(sharpness=sharpness)
