"""Agent files to read, and ways to change them."""

import zipfile

import spaql

MAKERS = {
    "tessera": lambda problem: spaql.Tessera(problem, seed=3),
    "published": lambda problem: spaql.SPAQL(problem, seed=3, rollouts=2),
    "ts": lambda problem: spaql.SPAQLTS(problem, seed=3, rollouts=2, reference=[0.5], radius=0.5),
    "aql": lambda problem: spaql.AQL(problem, seed=3, rollouts=2),
    "adamb": lambda problem: spaql.AdaMB(problem, seed=3, rollouts=2),
    "zoomrl": lambda problem: spaql.ZoomRL(problem, seed=3, rollouts=2),
    "rlsvi": lambda problem: spaql.RLSVI(problem, seed=3, rollouts=2, bins=4),
}


def step(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return 1.0 - abs(state[0] - 0.3), False


def reset(parameters, random, state):
    state[0] = 0.0


def changed(path, name, content):
    """The archive with one member replaced."""
    with zipfile.ZipFile(path) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    members[name] = content(members[name])
    with zipfile.ZipFile(path, "w") as archive:
        for each, data in members.items():
            archive.writestr(each, data)
    return path
