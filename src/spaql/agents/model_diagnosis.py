"""Checks of `Agent.diagnose` that use a learned model of the environment.

The model predicts the next observation and the reward from the observation and the action alone.  Where it fails, and
what its errors depend on, says what is wrong with the problem: what the step before or earlier actions explain of them
is due to a state that is not observed, or to a delay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spaql.agents.diagnosis import Case, Diagnosis, Steps, find_cuts
from spaql.agents.tessera.learned_model import find_errors, list_outputs
from spaql.agents.tessera.planner import FittedModels, Transitions
from spaql.agents.tessera.world_model import TIMED, Data, encode_action, find_changes, find_losses
from spaql.partition.spaces import Discrete, Floats
from spaql.problems.labels import make_labels

if TYPE_CHECKING:
    from spaql.agents.tessera.agent import Tessera

_MOST_ROWS = 20_000  # transitions that a check looks at
_MOST_FITTED = 5_000  # that models are compared on
_FEWEST_ROWS = 200
_DELAYS = 3  # steps back to which previous actions are looked at
_UNEXPLAINED = 0.05  # share of the variance of an output below which its errors do not matter
_HISTORY = 0.2  # share of the squared error that the past explains
_DELAYED = 0.9  # of that, what earlier actions alone explain where nothing but a delay is hidden
_AS_WELL = 4.0  # times the squared error with the last change, that with earlier actions alone is at most then
_FAR = 0.2  # mean squared error where the policy goes, relative to the variance of an output
_WORSE = 4.0  # mean squared errors where the policy goes, relative to those on held-out transitions
_EFFECT = 1e-4  # share of the variance of an output, below which an effect is none
_SIGNIFICANT = 5.0  # standard errors, as the largest of several outputs counts
_FURTHER = 3  # horizons that the policy is simulated for
_FEWEST_EPISODES = 5
_SIMULATED = 50  # episodes
_PROMISED = 0.1  # share of what the policy gains over random actions
_ALIKE = 0.01  # relative difference of two returns that does not matter


@dataclass(frozen=True, eq=False)
class ModelCase:
    """Input of a check."""

    case: Case
    agent: Tessera
    past: Transitions
    fitted: FittedModels
    outputs: list[str]  # names of the observed numbers, "reward" and "end"

    @property
    def held_out(self) -> NDArray[np.int64]:
        """Transitions that the second model was not fitted to."""
        rows = np.setdiff1d(np.arange(len(self.past.rewards)), self.fitted.rows[1])
        return rows[:_MOST_ROWS]


def run_model_checks(case: Case) -> list[Diagnosis]:
    """Return what the checks find in the model of an agent that has learned one."""
    agent: Any = case.agent
    names = [*(repr(name) for name in make_labels(agent.problem).states), "the reward", "the end"]
    given = ModelCase(case, agent, agent._past(), agent._fit_models(), names)
    checks = [_constant]
    if len(given.fitted.models) > 1 and len(given.past.rewards) >= _FEWEST_ROWS:
        checks += [_ineffective, _history, _wrong, _promised, _short]
    return [diagnosis for check in checks for diagnosis in check(given)]


def _constant(given: ModelCase) -> Iterator[Diagnosis]:
    rewards, ended = given.past.rewards, given.past.ended
    if np.ptp(rewards) > 0.0 or (ended.any() and rewards[0] != 0.0):  # else the length of an episode counts
        return
    yield Diagnosis(
        "reward-constant",
        f"all {len(rewards):,} rewards were {rewards[0]:g}" + ("" if ended.any() else ", and no episode terminated"),
        "no action was better than another, so there was nothing to learn but where the agent has not been yet",
        "Check the reward; if it is paid at a goal, train longer, give a longer horizon so that an episode can reach "
        "it, or begin some episodes near it",
    )


def _ineffective(given: ModelCase) -> Iterator[Diagnosis]:
    fitted, rows, actions = given.fitted, given.held_out, given.agent.problem.actions
    data, changes, model = fitted.data, fitted.changes, fitted.models[1]
    errors = find_errors(model, data, changes, rows) ** 2
    variance = list_outputs(data, changes, rows).var(axis=0)
    order = np.random.default_rng(0).permutation(len(rows))
    if isinstance(actions, Discrete) and actions.count == 1:
        return
    columns = [slice(0, model.table.shape[1])]
    if not isinstance(actions, Discrete):
        columns = [slice(k, k + 1) for k in range(actions.dimensions)]
    without = []
    for column in columns:
        features = data.features.copy()
        features[rows, column] = data.features[rows[order], column]
        other = find_errors(model, data._replace(features=features), changes, rows) ** 2
        worse = (other - errors).mean(axis=0)
        noise = (other - errors).std(axis=0) / np.sqrt(len(rows))
        without.append(not ((worse > _SIGNIFICANT * noise) & (worse > _EFFECT * variance)).any())
    if not any(without):
        return
    names = make_labels(given.agent.problem).actions
    some = [f"`{name}`" for name, idle in zip(names, without, strict=False) if idle]
    which = "the actions" if all(without) else f"{' and '.join(some)} of the action"
    yield Diagnosis(
        "action-without-effect",
        f"next observations, rewards and ends do not depend on {which}: the model predicts held-out transitions as "
        "well with the actions of others",
        "what the policy plays makes no difference",
        "Check that the environment uses them; an effect that comes later or is not observed is not seen by the model",
    )


def _history(given: ModelCase) -> Iterator[Diagnosis]:
    """Compare models with and without earlier actions and the last change, by held-out errors."""
    data, changes, times = given.fitted.data, given.fitted.changes, given.past.times
    rows = np.arange(max(_DELAYS, len(times) - _MOST_ROWS), len(times))
    rows = rows[(times[rows] - times[rows - _DELAYS] == _DELAYS) & ~data.ended[rows]]
    rows = np.random.default_rng(0).permutation(rows)[:_MOST_FITTED]
    if len(rows) < _FEWEST_ROWS:
        return
    outputs = list_outputs(data, changes, rows)[:, :-1]
    plain = np.concatenate([data.states[rows], data.features[rows]], axis=1)
    actions = np.concatenate([plain, *(data.features[rows - k] for k in range(1, _DELAYS + 1))], axis=1)
    whole = np.concatenate([actions, list_outputs(data, changes, rows - 1)[:, :-1]], axis=1)
    train, test = np.split(np.arange(len(rows)), [3 * len(rows) // 4])
    losses = (find_losses(z, outputs, train, test, None) for z in (plain, actions, whole))
    error, by_actions, by_both = (loss.mean(axis=0) for loss in losses)
    model = given.agent.model
    explained = [] if model is None else [part.explained for part in model.accuracy[:-1]]
    weak = np.array([share is not None and share < 1.0 - _UNEXPLAINED for share in explained])
    matters = weak & (error > np.maximum(_UNEXPLAINED * outputs.var(axis=0), 1e-20))
    gain = np.where(matters, 1.0 - by_both / np.where(matters, error, 1.0), 0.0)
    m = int(np.argmax(gain))
    if gain[m] < _HISTORY:
        return
    share = f"{100 * gain[m]:.0f}% of the model's squared error in {given.outputs[m]}"
    explains = error[m] - by_actions[m] > _DELAYED * (error[m] - by_both[m])
    if explains and by_actions[m] < _AS_WELL * by_both[m]:
        yield Diagnosis(
            "action-delay",
            f"the actions of the last {_DELAYS} steps explain {share}",
            "an action takes effect later than in the step after it, and the agent, which sees the last observation "
            "only, cannot know what is still to come",
            "Add the last actions to the observation",
        )
    else:
        yield Diagnosis(
            "hidden-state",
            f"the step before explains {share}",
            "something that is not observed, such as a speed or a delayed effect, decides what follows, and the agent "
            "learns the mean over it",
            "Observe it, or add the previous observation, or differences from it, to the observation",
        )


def _wrong(given: ModelCase) -> Iterator[Diagnosis]:
    """Compare errors on new steps of the policy with those on held-out transitions."""
    fitted, steps = given.fitted, given.case.policy
    if steps is None:
        return
    model, held_out = fitted.models[0], given.held_out
    features = np.empty((len(steps.rewards), fitted.data.features.shape[1]))
    for row, action in zip(features, steps.actions, strict=True):
        encode_action(model.table, action, row)
    if model.flags[TIMED]:
        features[:, -1] = (steps.times - model.clock[0]) / model.clock[1]
    states, following = ((points - fitted.mean) / fitted.scale for points in (steps.points, steps.following))
    data = Data(states, features, steps.rewards, following, steps.ended)
    going = np.flatnonzero(~steps.ended)  # the state after an end may lie anywhere
    if not len(going):
        return
    there = (find_errors(model, data, find_changes(data, model.periods), going)[:, :-1] ** 2).mean(axis=0)
    tested = find_errors(fitted.models[1], fitted.data, fitted.changes, held_out)[:, :-1]
    usual = (tested**2).mean(axis=0)
    variance = list_outputs(fitted.data, fitted.changes, held_out)[:, :-1].var(axis=0)
    divisor = np.where(variance > 0.0, variance, np.inf)
    far = (there > _FAR * divisor) & (there > _WORSE * usual)
    if not far.any():
        return
    m = int(np.argmax(there / divisor * far))
    box = given.agent.problem.states
    units = np.append(fitted.scale * (box.high - box.low), 1.0)
    there, usual = (units * np.sqrt(each) for each in (there, usual))
    yield Diagnosis(
        "model-error",
        f"where the policy goes, the root mean square of the model's errors in {given.outputs[m]} is {there[m]:.2g}, "
        f"and {usual[m]:.2g} on held-out transitions",
        "the policy was planned with predictions that are wrong where it goes, and earns less than it expects",
        "Train longer: new transitions there correct the model",
    )


def _promised(given: ModelCase) -> Iterator[Diagnosis]:
    """Compare returns of the policy in the model with those of the probe, where these are of equal length."""
    steps = given.case.policy
    if steps is None or steps.ended.any() or len(steps.lengths) < _FEWEST_EPISODES:
        return  # of episodes of several lengths the long ones are under way when the probe ends
    played, random = _sum_episodes(steps), _sum_episodes(given.case.random)
    if not len(random):
        return
    episodes = given.agent.simulate(_SIMULATED, horizon=int(steps.lengths.max()))
    promised = np.array([episode.rewards.sum() for episode in episodes])
    more = promised.mean() - played.mean()
    noise = np.hypot(promised.std(ddof=1) / np.sqrt(len(promised)), played.std(ddof=1) / np.sqrt(len(played)))
    matters = max(_PROMISED * abs(played.mean() - random.mean()), _ALIKE * abs(played.mean()))
    if more > max(_SIGNIFICANT * noise, matters):
        yield Diagnosis(
            "model-optimistic",
            f"the policy earns {played.mean():.4g} per episode, random actions {random.mean():.4g}, and in the learned "
            f"model the policy earns {promised.mean():.4g}",
            "the policy was chosen for returns that it does not get: the model misses something that costs, or "
            "believes in luck",
            "Trust `evaluate`, not `simulate`; train longer, and look for something that is not observed",
        )


def _sum_episodes(steps: Steps) -> Floats:
    """Return the returns of the episodes that came to their end."""
    ends = np.flatnonzero(steps.last)
    return np.add.reduceat(steps.rewards[: ends[-1] + 1], [0, *(ends[:-1] + 1)]) if len(ends) else np.zeros(0)


def _short(given: ModelCase) -> Iterator[Diagnosis]:
    """Compare rewards within the horizon with those that would follow it in the model."""
    agent, steps = given.agent, given.case.policy
    timed = given.fitted.models[0].flags[TIMED]  # what comes after the horizon is not known
    if steps is None or timed or given.past.ended.any() or not len(find_cuts(given.past)):
        return
    horizon = agent.problem.horizon
    episodes = agent.simulate(max(5, 1000 // horizon), horizon=_FURTHER * horizon)
    later = float(np.mean([episode.rewards[horizon:].mean() for episode in episodes]))
    within, random = float(steps.rewards.mean()), float(given.case.random.rewards.mean())
    spread = float(given.past.rewards.std())
    if later - within > max(within - random, spread):
        yield Diagnosis(
            "horizon-too-short",
            f"the policy earns {within:.3g} per step (random actions: {random:.3g}), and in the learned model "
            f"{later:.3g} per step if its episodes went on beyond the horizon of {horizon}",
            "episodes end before most of what can be earned, and rewards that come late are discounted",
            "Give a longer `horizon`, unless the task really ends there",
        )
