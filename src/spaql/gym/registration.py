"""Register our environments with Gymnasium, without importing them.

Gymnasium 1.0 gave up entry points for third-party environments: a module that is imported registers them.  This one
stays light, so the compiler is loaded only when an environment is made.  Either of

    gymnasium.make("spaql.gym.registration:spaql/Oil-v0", survey="laplace", sharpness=10)
    import spaql.gym.registration; gymnasium.make("spaql/Oil-v0", survey="laplace", sharpness=10)

will do; the first form also works as a string in other people's training scripts.
"""

from gymnasium.envs import registration

ENVIRONMENTS = {
    "spaql/Oil-v0": "oil",
    "spaql/OilND-v0": "oil-nd",
    "spaql/Ambulance-v0": "ambulance",
    "spaql/Ambulances-v0": "ambulances",
    "spaql/Inventory-v0": "inventory",
    "spaql/Machine-v0": "machine",
    "spaql/Revenue-v0": "revenue",
    "spaql/Battery-v0": "battery",
}


# They have no `max_episode_steps`, for the horizon is an argument, and refuse a step before a reset themselves.
for _name, _problem in ENVIRONMENTS.items():
    if _name not in registration.registry:
        _home = "spaql.gym.environments:ProblemEnvironment"
        registration.register(_name, _home, order_enforce=False, kwargs={"problem": _problem})
