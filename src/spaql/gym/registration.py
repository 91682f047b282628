"""Register our environments with Gymnasium, without importing them.

Gymnasium 1.0 gave up entry points for third-party environments: a module that is imported registers them.  This one
stays light, so the compiler is loaded only when an environment is made.  Either of

    gymnasium.make("spaql.gym.registration:spaql/Oil-v0", survey="laplace", sharpness=10)
    import spaql.gym.registration; gymnasium.make("spaql/Oil-v0", survey="laplace", sharpness=10)

will do; the first form also works as a string in other people's training scripts.
"""

from __future__ import annotations

from gymnasium.envs import registration

ENVIRONMENTS = {"spaql/Oil-v0": "oil", "spaql/Ambulance-v0": "ambulance"}


def register() -> None:
    """Register them; called on import, a second call changes nothing.

    They have no `max_episode_steps`, for the horizon is an argument, and refuse a step before a reset themselves.
    """
    home = "spaql.gym.environments:ProblemEnvironment"
    for name, problem in ENVIRONMENTS.items():
        if name not in registration.registry:
            registration.register(name, home, order_enforce=False, kwargs={"problem": problem})


register()
