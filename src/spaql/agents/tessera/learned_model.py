"""The model that Tessera learned, for inspection: its accuracy, its predictions, and episodes played in it.

Each of the models that were fitted to a part of the transitions is tested on the others.  Per output, with errors e and
recorded values y of these held-out transitions,

    explained  =  1 - mean(e^2) / var(y),        RMSE  =  sqrt(mean(e^2)),

where y is the change of an observed number in one step, the reward, or whether the episode terminated (0 or 1).
Rewards and ends are predicted from the recorded next observation, so that each line of the table judges one part of
the model.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.tessera.end_tree import predict_ends
from spaql.agents.tessera.linear_tree import LinearTree, find_node, predict_all
from spaql.agents.tessera.planner import FittedModels
from spaql.agents.tessera.policy_tree import PolicyTree
from spaql.agents.tessera.world_model import ON_NEXT, RANDOM_END, Data, WorldModel, encode_action, imagine
from spaql.errors import ParameterError
from spaql.formatting import Table
from spaql.partition.spaces import Discrete, Floats
from spaql.problems.base import LONGEST, Playable
from spaql.problems.labels import make_labels
from spaql.validation import check_whole, show

_MOST_TESTED = 20_000  # held-out transitions of each model


@dataclass(frozen=True)
class Accuracy:
    """How well one output of the model is predicted.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.Tessera("oil", seed=0).learn(iterations=40)
    >>> position = agent.model.accuracy[0]
    >>> position.name, position.explained > 0.99
    ('position', True)
    """

    name: str  #: of the observed number, or "reward" or "end"
    explained: float | None  #: share of the variance, on held-out transitions; None where it does not vary
    rmse: float | None  #: root mean squared error, in the output's own units; None without held-out transitions
    random: bool  #: whether residuals or ends are drawn at random in the model
    nodes: int  #: of the tree that predicts it; all observed numbers share one


class Prediction(NamedTuple):
    """What the model expects of one step, or of many.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.Tessera("oil", seed=0).learn(iterations=40)
    >>> prediction = agent.model.predict([0.0], [0.5])
    >>> prediction.observation.round(2), round(prediction.end, 2)
    (array([0.5]), 0.0)
    """

    observation: Floats  #: [states] or [n, states]: mean of the next one
    reward: Any  #: float or [n]
    end: Any  #: float or [n]: probability that the episode terminates


@dataclass(frozen=True, eq=False)
class SimulatedEpisode:
    """An episode of the policy in the learned model, in the environment's units.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.Tessera("oil", seed=0).learn(iterations=40)
    >>> [episode] = agent.simulate()
    >>> episode.observations.shape, episode.actions.shape, episode.rewards.shape
    ((6, 1), (5, 1), (5,))
    """

    observations: Floats  #: [steps + 1, states]
    actions: NDArray[Any]  #: [steps, ...] as the environment takes them
    rewards: Floats  #: [steps]
    terminated: bool  #: whether the model ended it before the horizon


class LearnedModel:
    """The model of the environment that an agent learned; `print` shows its accuracy.

    Attributes
    ----------
    accuracy
        One `Accuracy` for each observed number, then "reward" and "end".
    transitions
        Number of transitions that the model was fitted to.
    held_out
        Number of transitions on which accuracy was measured, by models that were fitted without them; 0 where there
        were too few.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.Tessera("cartpole", seed=0).learn(2000)
    >>> print(agent.model)  # doctest: +SKIP
    >>> agent.model.accuracy[0].name, agent.model.accuracy[0].explained > 0.99
    ('position', True)
    >>> observation, reward, end = agent.model.predict([0.0, 0.0, 0.0, 0.0], 1)
    >>> observation.shape, bool(reward > 0.9), bool(end < 0.1)
    ((4,), True, True)
    """

    def __init__(self, problem: Playable, fitted: FittedModels) -> None:
        self._problem, self._model, self._mean, self._scale = problem, fitted.models[0], fitted.mean, fitted.scale
        self.transitions = len(fitted.data.rewards)
        self.accuracy, self.held_out = _measure(problem, fitted)

    def __repr__(self) -> str:
        return f"LearnedModel({self._problem.name!r}, {self.transitions:,} transitions)"

    def __str__(self) -> str:
        table = self.table()
        return f"{table.caption}\n\n{table.text()}\n\n{textwrap.fill(table.note, 88)}"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def table(self, names: Sequence[str] | None = None) -> Table:
        """Return the table that `print` shows; `names` replaces those of the observed numbers.

        Parameters
        ----------
        names
            Names of the observed numbers.

        Returns
        -------
        Table
            A row for each output.
        """
        labels = make_labels(self._problem, names).states
        rows = []
        for name, part in zip([*labels, "reward", "end"], self.accuracy, strict=True):
            explained = "constant" if part.explained is None else f"{math.floor(1000 * part.explained) / 10:.1f} %"
            error = ["unknown", "unknown"] if part.rmse is None else [explained, f"{part.rmse:.3g}"]
            rows.append([name, *error, "yes" if part.random else "no", f"{part.nodes}"])
        caption = f"Model of {self._problem.name}, fitted to {self.transitions:,} transitions"
        note = (
            f"Explained: share of the variance of changes, rewards and ends, in {self.held_out:,} predictions of "
            "transitions that the predicting model was not fitted to. Random: the model draws what it cannot predict."
        )
        return Table(["output", "explained", "RMSE", "random", "nodes"], rows, caption, note)

    def to_dict(self) -> dict[str, Any]:
        """Return the accuracy for JSON.

        Returns
        -------
        dict
            Accuracy by output, and numbers of transitions.
        """
        parts = [asdict(part) for part in self.accuracy]
        return {"transitions": self.transitions, "held_out": self.held_out, "accuracy": parts}

    def predict(self, observation: Any, action: Any, *, step: int = 0) -> Prediction:
        """Return what the model expects of a step: the mean of the next observation, the reward, the chance of an end.

        Parameters
        ----------
        observation, action
            One of each, as the environment has them, or as many of both, stacked along a first axis.
        step
            Time step, from 0; it matters where the model depends on it.

        Returns
        -------
        Prediction
            Arrays with a row for each observation; numbers where there was one.

        Raises
        ------
        ParameterError
            Where there are not as many actions as observations.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.Tessera("oil", seed=0).learn(iterations=40)
        >>> agent.model.predict([[0.0], [0.1]], [[0.5], [0.5]]).reward.shape
        (2,)
        """
        step = check_whole(step, "step", 0, LONGEST)
        points, single = self._problem.encode(observation)
        actions = _encode_actions(self._problem, action, single)
        if len(actions) != len(points):
            raise ParameterError(f"action: expected {len(points)}, one for each observation, got {len(actions)}")
        model, states = self._model, points.shape[1]
        z = self._prepare(points, actions)
        following, rewards = np.empty(points.shape), np.empty(len(points))
        for i in range(len(points)):
            rewards[i], _ = imagine(model, z[i], step, following[i], np.uint64(0))
        width = z.shape[1] - states
        ends = predict_ends(model.end, following, z[:, states:width], z[:, :states])
        observations = self._restore(following)
        if single:
            return Prediction(observations[0], float(rewards[0]), float(ends[0]))
        return Prediction(observations, rewards, ends)

    def simulate(
        self, tree: PolicyTree, starts: Floats, horizon: int, random: np.random.Generator
    ) -> list[SimulatedEpisode]:
        """Play an episode of a policy from each of the starting points `[n, states]` of the unit cube."""
        return [self._play(tree, start, horizon, random) for start in starts]

    def _play(self, tree: PolicyTree, start: Floats, horizon: int, random: np.random.Generator) -> SimulatedEpisode:
        model, states = self._model, len(start)
        points, actions, rewards, end = [start], [], [], False
        z, following = self._prepare(start[None], tree.actions[:1])[0], np.empty(states)
        u = z[states:-states]
        for step, bits in enumerate(random.integers(1, 2**64, horizon, dtype=np.uint64)):
            time = min(step, self._problem.horizon - 1)
            action = tree.actions[find_node(tree.dims, tree.cuts, tree.children, np.append(points[-1], time))]
            encode_action(model.table, action, u)
            reward, end = imagine(model, z, time, following, bits)
            actions.append(action)
            rewards.append(reward)
            points.append(following * self._scale + self._mean)
            z[:states] = following
            if end:
                break
        played = self._problem.decode(self._problem.actions.from_unit(np.array(actions)), False)
        observations = self._problem.states.from_unit(np.array(points))
        return SimulatedEpisode(observations, played, np.array(rewards), bool(end))

    def _prepare(self, points: Floats, actions: Floats) -> Floats:
        """Return (x, u) of points and actions of the unit cube, with room for x' behind them."""
        states, features = points.shape[1], self._model.dynamics.slopes.shape[2] - points.shape[1]
        z = np.zeros((len(points), 2 * states + features))
        z[:, :states] = (points - self._mean) / self._scale
        for row, action in zip(z, actions, strict=True):
            encode_action(self._model.table, action, row[states : states + features])
        return z

    def _restore(self, states: Floats) -> Floats:
        """Return standardised states in the problem's units."""
        return self._problem.states.from_unit(states * self._scale + self._mean)


def _encode_actions(problem: Playable, action: Any, single: bool) -> Floats:
    """Return actions of the environment as points of the unit cube, or as numbers of discrete ones, `[n, actions]`."""
    given = np.asarray(action)[None] if single else np.asarray(action)
    actions = problem.actions
    if isinstance(actions, Discrete):
        known = np.asarray(problem.decode(np.arange(actions.count, dtype=float)[:, None], False))
        same = (given.reshape(len(given), 1, -1) == known.reshape(1, actions.count, -1)).all(axis=2)
        if not same.any(axis=1).all():
            raise ParameterError(f"action: {show(action)} is not an action of {problem.name!r}")
        return same.argmax(axis=1).astype(float)[:, None]
    rows, _ = actions.check_batch(given.reshape(len(given), -1).astype(float), "action")
    return actions.to_unit(rows)


def _measure(problem: Playable, fitted: FittedModels) -> tuple[tuple[Accuracy, ...], int]:
    """Return the accuracy of each output, and the number of held-out predictions."""
    data, model = fitted.data, fitted.models[0]
    errors, outputs = [], []
    for other, rows in zip(fitted.models[1:], fitted.rows[1:], strict=True):
        held_out = thin_out(np.setdiff1d(np.arange(len(data.rewards)), rows), _MOST_TESTED)
        errors.append(find_errors(other, data, fitted.changes, held_out))
        outputs.append(list_outputs(data, fitted.changes, held_out))
    count = sum(map(len, errors))
    units = np.concatenate([fitted.scale * (problem.states.high - problem.states.low), np.ones(2)])
    squares, variances = np.full(len(units), np.nan), np.full(len(units), np.nan)
    if count:
        squares = (np.concatenate(errors) ** 2).mean(axis=0)
        variances = np.concatenate(outputs).var(axis=0)
    drawn = (model.pool != 0.0).any(axis=(0, 1))
    random = [*drawn, False, model.flags[RANDOM_END]]
    nodes = [len(model.dynamics.dims)] * len(drawn) + [len(model.reward.dims), len(model.end.dims)]
    names = [*make_labels(problem).states, "reward", "end"]
    parts = []
    for name, square, variance, unit, draws, size in zip(names, squares, variances, units, random, nodes, strict=True):
        explained = 1.0 - float(square / variance) if variance > 1e-20 else None
        rmse = float(math.sqrt(square) * unit) if count else None
        parts.append(Accuracy(name, explained, rmse, bool(draws), size))
    return tuple(parts), count


def thin_out(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return at most `most` of the rows, evenly spaced."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


def list_outputs(data: Data, changes: Floats, rows: NDArray[np.int64]) -> Floats:
    """Return what the model predicts, `[n, d + 2]`: changes of the states, reward, end."""
    return np.concatenate([changes[rows], data.rewards[rows, None], data.ended[rows, None]], axis=1)


def find_errors(model: WorldModel, data: Data, changes: Floats, rows: NDArray[np.int64]) -> Floats:
    """Return errors of a model, `[n, d + 2]`: of changes, of the reward given x', and of the end given x'."""
    states, features, following = data.states[rows], data.features[rows], data.following[rows]
    z = np.concatenate([states, features], axis=1)
    expected = np.clip(_evaluate(model.dynamics, z), *model.change)
    walled = model.periods == 0.0
    reached = np.clip(states[:, walled] + expected[:, walled], *model.range[:, walled])
    expected[:, walled] = reached - states[:, walled]
    seen = np.concatenate([z, following], axis=1) if model.flags[ON_NEXT] else z
    going = np.clip(_evaluate(model.reward, seen)[:, 0], *model.rewards[0])
    last = np.clip(_evaluate(model.final, z)[:, 0], *model.rewards[1])
    rewards = np.where(data.ended[rows], last, going)
    predicted = np.column_stack([expected, rewards, predict_ends(model.end, following, features, states)])
    return predicted - list_outputs(data, changes, rows)


def _evaluate(tree: LinearTree, features: Floats) -> Floats:
    outputs = np.empty((len(features), tree.offsets.shape[1]))
    predict_all(tree, np.ascontiguousarray(features), outputs)
    return outputs
