"""Plans of Tessera that take a fraction of their usual effort, for tests that need a policy but not a good one."""

from contextlib import contextmanager

import pytest
from numba.core import config

from spaql.agents.tessera import planner

_QUICK, _THOROUGH, _ROUNDS = planner._QUICK, planner._THOROUGH, planner._ROUNDS
_SMALL = planner._QUICK._replace(
    support=100,
    actions=12,
    draws=4,
    successors=5000,
    trees=2,
    sizes=(2, 8),
    rollout_steps=1000,
    rollouts=20,
    climb_steps=2000,
)
_TINY = _SMALL._replace(
    support=24, actions=4, draws=2, successors=500, trees=1, sizes=(2,), rollout_steps=40, rollouts=4, climb_steps=40
)


def small_plans():
    """Plan with little effort; with the JIT off, with next to none."""
    return tiny_plans() if config.DISABLE_JIT else _plan_with(_SMALL, rounds=30)


def usual_plans():
    """Plan with the usual effort, for tests of what it reaches; with the JIT off, with next to none."""
    return tiny_plans() if config.DISABLE_JIT else _plan_with(_QUICK, _ROUNDS, _THOROUGH)


def tiny_plans():
    """Plan with next to no effort: what is planned is a policy, and that is all there is to say of it."""
    return _plan_with(_TINY, rounds=3)


@contextmanager
def _plan_with(effort, rounds, thorough=None):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "_QUICK", effort)
        patch.setattr(planner, "_THOROUGH", thorough or effort)
        patch.setattr(planner, "_ROUNDS", rounds)
        yield
