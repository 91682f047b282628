"""The five classic control problems of Gymnasium, compiled: millions of steps take seconds.

`cartpole`, `mountaincar`, `mountaincar_continuous`, `acrobot` and `pendulum` have the physics of CartPole-v1,
MountainCar-v0, MountainCarContinuous-v0, Acrobot-v1 and Pendulum-v1 of Gymnasium 1.x, in the same order of operations
and with the same roundings to float32, so that every step from the same state with the same action equals Gymnasium's
own (`tests/test_control.py`: to 1e-12, and observations to the last place of a float32).  Rewards, starts and ends are
the same too; the random numbers are spaql's own.  The velocities of `cartpole` have no bounds in Gymnasium; here their
range is an argument, and what leaves it is taken for its border.

With `noise` the actuator is noisy: at the end of every step a normal number is added to the speed that the action
drives (`acrobot`: to the torque), whose standard deviation is `noise` times the effect of an action in one step.
"""

import math

import numpy as np

from spaql.errors import ParameterError
from spaql.partition.jit import kernel
from spaql.partition.rng import normal, uniform
from spaql.partition.spaces import Box, Discrete
from spaql.problems.base import OBSERVE, RESET, STEP, Problem, built_in
from spaql.validation import check_number, show

#: the environment of Gymnasium that each of these is
GYMNASIUM = {
    "cartpole": "CartPole-v1",
    "mountaincar": "MountainCar-v0",
    "mountaincar-continuous": "MountainCarContinuous-v0",
    "acrobot": "Acrobot-v1",
    "pendulum": "Pendulum-v1",
}
_TWO_PI = 2.0 * math.pi


@kernel(OBSERVE)
def _rounded(state, parameters, observation):
    """All of the state, as float32."""
    for d in range(observation.shape[0]):
        observation[d] = np.float32(state[d])


@kernel(inline=True)
def _between(random, low, high):
    return low + (high - low) * uniform(random)


@kernel(inline=True)
def _disturb(random, speed, deviation, limit):
    """The speed with normal noise, within its limit; without noise no random number is drawn."""
    return min(max(speed + deviation * normal(random), -limit), limit) if deviation > 0.0 else speed


def _make(
    name, physics, hidden, spaces, horizon, rewards, noise, effect, *, clip=False, parameters=(), **arguments
) -> Problem:
    """Make a problem from its step, reset and observe functions.

    `effect` is that of an action in one step; the standard deviation of the noise is the last of the parameters.
    """
    (step, reset, observe), (states, actions) = physics, spaces
    noise = check_number(noise, "noise", least=0.0, most=1000.0)
    arguments |= {"horizon": horizon} | ({"noise": noise} if noise else {})
    more = {"arguments": arguments, "rewards": rewards, "clip": clip}
    more |= {"parameters": [*parameters, noise * effect], "observe": observe, "hidden": hidden}
    return Problem(name, step, reset, states, actions, horizon, **more)


@kernel(RESET)
def _pendulum_reset(parameters, random, state):
    state[0] = _between(random, -math.pi, math.pi)
    state[1] = _between(random, -1.0, 1.0)


@kernel(OBSERVE)
def _pendulum_observe(state, parameters, observation):
    observation[0] = np.float32(math.cos(state[0]))
    observation[1] = np.float32(math.sin(state[0]))
    observation[2] = np.float32(state[1])


@kernel(STEP)
def _pendulum_step(state, action, parameters, random, next_state):
    gravity = parameters[0]
    angle = state[0]
    speed = state[1]
    torque = np.float32(action[0])  # Gymnasium works with a float32, and so squares and scales one
    # A square by the power function of the C library, as there, which rounds otherwise than a product now and then; the
    # compiler would make a product of a constant exponent.
    effort = np.float32(0.001) * torque ** np.float32(parameters[1])
    upright = (angle + math.pi) % _TWO_PI - math.pi
    cost = upright**2 + 0.1 * speed**2 + np.float64(effort)
    push = np.float64(np.float32(3.0) * torque)
    speed = speed + (3.0 * gravity / 2.0 * math.sin(angle) + push) * 0.05
    speed = min(max(speed, -8.0), 8.0)
    next_state[0] = angle + speed * 0.05
    next_state[1] = _disturb(random, speed, parameters[-1], 8.0)
    return -cost, False


@built_in("pendulum")
def pendulum(*, gravity: float = 10.0, noise: float = 0.0, horizon: int = 200) -> Problem:
    """Swing a pendulum up and hold it there: Pendulum-v1.

    Parameters
    ----------
    gravity
        In m/s^2.
    noise
        Standard deviation of normal noise on the angular velocity, relative to 0.3, what a torque of 2 adds in a step.
    horizon
        Steps of an episode.

    Returns
    -------
    Problem
        A compiled problem.

    Raises
    ------
    ParameterError
        Where an argument is out of its range.

    Examples
    --------
    >>> import spaql
    >>> problem = spaql.problems.pendulum()
    >>> problem.states.dimensions, problem.actions, problem.horizon
    (3, Box(low=array([-2.]), high=array([2.])), 200)
    """
    gravity = check_number(gravity, "gravity", least=0.0, most=1000.0)
    physics = _pendulum_step, _pendulum_reset, _pendulum_observe
    spaces, rewards = (Box([-1.0, -1.0, -8.0], [1.0, 1.0, 8.0]), Box(-2.0, 2.0)), (-(math.pi**2 + 6.404 + 1e-6), 0.0)
    numbers = {"parameters": [gravity, 2.0], "gravity": gravity}
    return _make("pendulum", physics, 2, spaces, horizon, rewards, noise, 0.3, **numbers)


@kernel(RESET)
def _cartpole_reset(parameters, random, state):
    for d in range(4):
        state[d] = _between(random, -0.05, 0.05)


@kernel(STEP)
def _cartpole_step(state, action, parameters, random, next_state):
    x, speed, angle, spin = state[0], state[1], state[2], state[3]
    force = 10.0 if action[0] == 1.0 else -10.0
    cosine = math.cos(angle)
    sine = math.sin(angle)
    total = 0.1 + 1.0
    moment = 0.1 * 0.5
    pull = (force + moment * (spin * spin) * sine) / total
    turn = (9.8 * sine - cosine * pull) / (0.5 * (4.0 / 3.0 - 0.1 * (cosine * cosine) / total))
    push = pull - moment * turn * cosine / total
    x = x + 0.02 * speed
    angle = angle + 0.02 * spin
    next_state[0] = x
    next_state[1] = speed + 0.02 * push
    next_state[2] = angle
    next_state[3] = _disturb(random, spin + 0.02 * turn, parameters[-1], math.inf)
    limit = 12 * 2 * math.pi / 360
    return 1.0, x < -2.4 or x > 2.4 or angle < -limit or angle > limit


@built_in("cartpole")
def cartpole(*, velocities: tuple[float, float] = (3.0, 3.5), noise: float = 0.0, horizon: int = 500) -> Problem:
    """Balance a pole on a cart: CartPole-v1.

    Parameters
    ----------
    velocities
        Largest speeds of the cart and of the pole's turning that are distinguished; Gymnasium has no bounds.
    noise
        Standard deviation of normal noise on the angular velocity, relative to 0.3, what the force adds in a step.
    horizon
        Steps of an episode.

    Returns
    -------
    Problem
        A compiled problem.

    Raises
    ------
    ParameterError
        Where an argument is out of its range.

    Examples
    --------
    >>> import spaql
    >>> problem = spaql.problems.cartpole()
    >>> problem.states.dimensions, problem.actions, problem.horizon
    (4, Discrete(count=2), 500)
    """
    try:
        speed, spin = velocities
    except (TypeError, ValueError) as error:
        raise ParameterError(f"velocities: expected two numbers, got {show(velocities)}") from error
    speed, spin = (check_number(v, "velocities", least=0.0, above=True, most=1e6) for v in (speed, spin))
    high = np.array([4.8, speed, np.float32(24 * 2 * math.pi / 360), spin], np.float32)
    physics, spaces = (_cartpole_step, _cartpole_reset, _rounded), (Box(-high, high), Discrete(2))
    more = {"clip": True, "velocities": (speed, spin)}
    return _make("cartpole", physics, 4, spaces, horizon, (1.0, 1.0), noise, 0.3, **more)


_VALLEY = Box(np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32))


@kernel(RESET)
def _car_reset(parameters, random, state):
    state[0] = _between(random, -0.6, -0.4)
    state[1] = 0.0
    if state.shape[0] == 3:
        state[2] = 1.0  # the first step of Gymnasium's continuous car is computed with float64, others with float32


@kernel(STEP)
def _car_step(state, action, parameters, random, next_state):
    position, speed = state[0], state[1]
    speed += (action[0] - 1.0) * 0.001 + math.cos(3.0 * position) * (-0.0025)
    speed = min(max(speed, -0.07), 0.07)
    position += speed
    position = min(max(position, -1.2), 0.6)
    if position == -1.2 and speed < 0.0:
        speed = 0.0
    next_state[0] = position
    next_state[1] = _disturb(random, speed, parameters[-1], 0.07)
    return -1.0, position >= 0.5 and speed >= 0.0


@built_in("mountaincar")
def mountaincar(*, noise: float = 0.0, horizon: int = 200) -> Problem:
    """Drive a weak car out of a valley, in three gears: MountainCar-v0.

    Parameters
    ----------
    noise
        Standard deviation of normal noise on the speed, relative to 0.001, what the engine adds in a step.
    horizon
        Steps of an episode.

    Returns
    -------
    Problem
        A compiled problem.

    Raises
    ------
    ParameterError
        Where an argument is out of its range.

    Examples
    --------
    >>> import spaql
    >>> problem = spaql.problems.mountaincar()
    >>> problem.states.dimensions, problem.actions, problem.horizon
    (2, Discrete(count=3), 200)
    """
    physics, spaces = (_car_step, _car_reset, _rounded), (_VALLEY, Discrete(3))
    return _make("mountaincar", physics, 2, spaces, horizon, (-1.0, -1.0), noise, 0.001)


@kernel(STEP)
def _continuous_car_step(state, action, parameters, random, next_state):
    force = np.float32(action[0])
    slope = 0.0025 * math.cos(3.0 * state[0] if state[2] > 0.0 else np.float64(np.float32(3.0) * np.float32(state[0])))
    push = np.float32(force * np.float32(0.0015)) - np.float32(slope)
    if state[2] > 0.0:
        fast = state[1] + np.float64(push)
        far = state[0] + fast
        speed = np.float32(fast)
        position = np.float32(far)
    else:
        speed = np.float32(state[1]) + push
        speed = min(max(speed, np.float32(-0.07)), np.float32(0.07))
        position = np.float32(state[0]) + speed
        position = min(max(position, np.float32(-1.2)), np.float32(0.6))
        if position == np.float32(-1.2) and speed < np.float32(0.0):
            speed = np.float32(0.0)
    ended = position >= np.float32(0.45) and speed >= np.float32(0.0)
    next_state[0] = position
    next_state[1] = np.float32(_disturb(random, np.float64(speed), parameters[-1], 0.07))
    next_state[2] = 0.0
    reward = 100.0 if ended else 0.0
    return reward - np.float64(force) ** 2 * 0.1, ended


@built_in("mountaincar-continuous")
def mountaincar_continuous(*, noise: float = 0.0, horizon: int = 999) -> Problem:
    """Drive a weak car out of a valley, paying for force: MountainCarContinuous-v0.

    Parameters
    ----------
    noise
        Standard deviation of normal noise on the speed, relative to 0.001 as in `mountaincar`.
    horizon
        Steps of an episode.

    Returns
    -------
    Problem
        A compiled problem.

    Raises
    ------
    ParameterError
        Where an argument is out of its range.

    Examples
    --------
    >>> import spaql
    >>> problem = spaql.problems.mountaincar_continuous()
    >>> problem.states.dimensions, problem.actions, problem.horizon
    (2, Box(low=array([-1.]), high=array([1.])), 999)
    """
    physics, spaces = (_continuous_car_step, _car_reset, _rounded), (_VALLEY, Box(-1.0, 1.0))
    return _make("mountaincar-continuous", physics, 3, spaces, horizon, (-0.1, 100.0), noise, 0.001)


@kernel(RESET)
def _acrobot_reset(parameters, random, state):
    for d in range(4):
        state[d] = np.float32(_between(random, -0.1, 0.1))


@kernel(OBSERVE)
def _acrobot_observe(state, parameters, observation):
    for d in range(2):
        observation[2 * d] = np.float32(math.cos(state[d]))
        observation[2 * d + 1] = np.float32(math.sin(state[d]))
        observation[4 + d] = np.float32(state[2 + d])


@kernel(inline=True)
def _accelerations(angle_1, angle_2, spin_1, spin_2, torque):
    """Of both links, as in Sutton and Barto's book; masses and lengths are 1, centres of mass at one half."""
    cosine = math.cos(angle_2)
    sine = math.sin(angle_2)
    d1 = 0.25 + (1.25 + cosine) + 2.0
    d2 = (0.25 + 0.5 * cosine) + 1.0
    pull_2 = 0.5 * 9.8 * math.cos(angle_1 + angle_2 - math.pi / 2.0)
    pull_1 = -0.5 * spin_2**2 * sine - spin_2 * spin_1 * sine + 1.5 * 9.8 * math.cos(angle_1 - math.pi / 2.0) + pull_2
    turn_2 = (torque + d2 / d1 * pull_1 - 0.5 * spin_1**2 * sine - pull_2) / (0.25 + 1.0 - d2**2 / d1)
    turn_1 = -(d2 * turn_2 + pull_1) / d1
    return turn_1, turn_2


@kernel(inline=True)
def _wrapped(angle):
    while angle > math.pi:
        angle -= _TWO_PI
    while angle < -math.pi:
        angle += _TWO_PI
    return angle


@kernel(STEP)
def _acrobot_step(state, action, parameters, random, next_state):
    torque = _disturb(random, action[0] - 1.0, parameters[-1], math.inf)
    a, b, u, v = state[0], state[1], state[2], state[3]
    u1, v1 = u, v
    p1, q1 = _accelerations(a, b, u, v, torque)
    u2, v2 = u + 0.1 * p1, v + 0.1 * q1
    p2, q2 = _accelerations(a + 0.1 * u1, b + 0.1 * v1, u2, v2, torque)
    u3, v3 = u + 0.1 * p2, v + 0.1 * q2
    p3, q3 = _accelerations(a + 0.1 * u2, b + 0.1 * v2, u3, v3, torque)
    u4, v4 = u + 0.2 * p3, v + 0.2 * q3
    p4, q4 = _accelerations(a + 0.2 * u3, b + 0.2 * v3, u4, v4, torque)
    sixth = 0.2 / 6.0
    a = _wrapped(a + sixth * (u1 + 2 * u2 + 2 * u3 + u4))
    b = _wrapped(b + sixth * (v1 + 2 * v2 + 2 * v3 + v4))
    next_state[0] = a
    next_state[1] = b
    next_state[2] = min(max(u + sixth * (p1 + 2 * p2 + 2 * p3 + p4), -4 * math.pi), 4 * math.pi)
    next_state[3] = min(max(v + sixth * (q1 + 2 * q2 + 2 * q3 + q4), -9 * math.pi), 9 * math.pi)
    ended = -math.cos(a) - math.cos(b + a) > 1.0
    return 0.0 if ended else -1.0, ended


@built_in("acrobot")
def acrobot(*, noise: float = 0.0, horizon: int = 500) -> Problem:
    """Swing the tip of a double pendulum up by its middle joint: Acrobot-v1.

    Parameters
    ----------
    noise
        Standard deviation of normal noise on the torque, relative to the largest torque, 1.
    horizon
        Steps of an episode.

    Returns
    -------
    Problem
        A compiled problem.

    Raises
    ------
    ParameterError
        Where an argument is out of its range.

    Examples
    --------
    >>> import spaql
    >>> problem = spaql.problems.acrobot()
    >>> problem.states.dimensions, problem.actions, problem.horizon
    (6, Discrete(count=3), 500)
    """
    physics = _acrobot_step, _acrobot_reset, _acrobot_observe
    high = np.array([1.0, 1.0, 1.0, 1.0, 4 * math.pi, 9 * math.pi], np.float32)
    return _make("acrobot", physics, 4, (Box(-high, high), Discrete(3)), horizon, (-1.0, 0.0), noise, 1.0)
