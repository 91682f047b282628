"""Spoiled agent files, thousands of them: refused in one sentence, or whole; never a crash, a hang or much memory.

Some are spoiled as disks and cables do it: bytes are flipped, lost, doubled.  Others as an enemy would: what is in the
archive is changed and all lengths and checksums are made right again.  Such a file may tell of another agent, which
then must be one: its predictions are actions, and it can go on learning where no parameter was touched.
"""

import os
import subprocess
import sys

import pytest

FILES = 20_000 if os.environ.get("SPAQL_SOAK") else 600  # make soak

SPOIL = r"""
import faulthandler, hashlib, io, json, random, sys, time, zipfile
from pathlib import Path
import gymnasium, numpy as np
import spaql
from planning_for_tests import small_plans
from spaql.errors import AgentFileError, SpaqlError

folder, count = Path(sys.argv[1]), int(sys.argv[2])
dice = random.Random(0)


def memory(what):
    # Kilobytes of this process, now (VmRSS) or at most since the mark was set back (VmHWM); of Linux.
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(what)).split()[1])


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts, right=True):
    if right:
        head = json.loads(parts["agent.json"])
        for name, data in parts.items():
            if name.endswith(".npy") and isinstance(head, dict) and isinstance(head.get("arrays"), dict):
                head["arrays"][name[:-4]] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        parts = parts | {"agent.json": json.dumps(head).encode()}
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return data.getvalue()


def flipped(data):
    data = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 8))):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(data)


def cut(data):
    return data[: dice.randrange(len(data))]


def doubled(data):
    at = dice.randrange(len(data))
    return data[:at] + data[max(0, at - dice.randrange(1, 200)) :]


def blank(data):
    at = dice.randrange(len(data))
    many = dice.randrange(1, 500)
    return data[:at] + bytes(min(many, len(data) - at)) + data[at + many :]


ODD = [None, True, -1, 0, 1, 2**31, 2**63, -(2**70), 1e308, -1e-308, "", "x", "inf", "../x", [], [1], {}, {"a": 1}]


def places(value, path=()):
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield (*path, name)
        yield from places(each, (*path, name))


def head(data):
    parts = members(data)
    told = json.loads(parts["agent.json"])
    for _ in range(dice.choice((1, 1, 2))):
        where = dice.choice([path for path in places(told) if path[0] != "arrays" or dice.random() < 0.2])
        inner = told
        for name in where[:-1]:
            inner = inner[name]
        odd = dice.choice(ODD)
        if dice.random() < 0.2:
            del inner[where[-1]]
        elif dice.random() < 0.3 and type(inner[where[-1]]) in (int, float):
            inner[where[-1]] += dice.choice((-1, 1, 0.5, 1e9, -1e9))
        else:
            inner[where[-1]] = odd
    return packed(parts | {"agent.json": json.dumps(told).encode()}, right=dice.random() < 0.5)


def array(data):
    parts = members(data)
    name = dice.choice([name for name in parts if name.endswith(".npy")])
    values = np.load(io.BytesIO(parts[name]))
    flat = values.copy()
    if flat.size:
        for _ in range(dice.choice((1, 1, 3))):
            at = dice.randrange(flat.size)
            spot = flat.reshape(-1)[at : at + 1]
            if flat.dtype.names:
                spot = spot[dice.choice(flat.dtype.names)]
            if spot.dtype.kind == "f":
                spot[...] = dice.choice((np.nan, np.inf, -np.inf, 1e308, -1.0, 0.3, 2.0))
            else:
                ends = np.iinfo(spot.dtype)
                spot[...] = dice.choice((ends.min, ends.max, 0, min(1, ends.max), min(77, ends.max), max(ends.min, -1)))
    out = io.BytesIO()
    np.save(out, flat)
    return packed(parts | {name: out.getvalue()})


def shape(data):
    parts = members(data)
    name = dice.choice([name for name in parts if name.endswith(".npy")])
    values = np.load(io.BytesIO(parts[name]))
    how = dice.randrange(6)
    out = io.BytesIO()
    if how == 0:
        np.save(out, values[: len(values) // 2] if values.ndim else values)
    elif how == 1:
        np.save(out, np.concatenate([values, values]) if values.ndim else values)
    elif how == 2:
        np.save(out, values.astype(np.float32) if not values.dtype.names else np.zeros(3))
    elif how == 3:  # a shape that is not there
        text = str({"descr": "<f8", "fortran_order": False, "shape": (10**dice.randrange(3, 18),)})
        text = text.encode().ljust(117) + b"\n"
        out.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    elif how == 4:  # something to execute, were it read with pickle
        text = str({"descr": "|O", "fortran_order": False, "shape": (1,)}).encode().ljust(117) + b"\n"
        out.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"cos\nsystem\n(S'exit 9'\ntR.")
    else:
        out.write(parts[name][: dice.randrange(len(parts[name]))])
    return packed(parts | {name: out.getvalue()})


def named(data):
    parts = members(data)
    name = dice.choice(list(parts))
    how = dice.randrange(4)
    if how == 0:
        parts["../escaped.npy"] = parts.pop(name)
        return packed(parts, right=False)
    if how == 1:
        del parts[name]
        return packed(parts, right=False)
    if how == 2:
        parts["more.npy"] = parts[name]
        return packed(parts, right=False)
    other = dice.choice(list(parts))
    parts[name], parts[other] = parts[other], parts[name]
    return packed(parts, right=dice.random() < 0.5 and "agent.json" not in (name, other))


def bomb(data):
    parts = members(data)
    name = dice.choice(list(parts))
    if dice.random() < 0.5:  # one that says that it is small
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", dice.choice((8, 12, 14))) as archive:
            archive.writestr("agent.json", bytes(100 << 20))
        data = bytearray(out.getvalue())
        for mark, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
            at = data.index(mark) + place
            data[at : at + 4] = (100).to_bytes(4, "little")
        return bytes(data)
    return packed(parts | {name: parts[name] + bytes(dice.choice((1 << 20, 40 << 20, 300 << 20)))}, right=False)


class Sky(gymnasium.Env):
    observation_space = gymnasium.spaces.Dict(
        a=gymnasium.spaces.Box(-np.inf, np.inf, (2,)), b=gymnasium.spaces.Discrete(3)
    )
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"a": self.np_random.normal(size=2), "b": 1}, {}

    def step(self, action):
        return self.reset()[0], float(action[0]), False, False, {}


plans = small_plans()
plans.__enter__()
AGENTS = {
    "tessera": (spaql.Tessera("oil", seed=1).learn(iterations=60), np.array([0.4])),
    "published": (spaql.SPAQL("ambulance", seed=1, rollouts=1).learn(iterations=60), np.array([0.4])),
    "aql": (spaql.AQL("oil", seed=1, rollouts=0).learn(iterations=60), np.array([0.4])),
    "cartpole": (spaql.Tessera("cartpole", seed=1).learn(iterations=20), np.zeros(4)),
    "sky": (spaql.Tessera(Sky, seed=1, horizon=10).learn(iterations=20), {"a": np.zeros(2), "b": 1}),
}
whole = {}
for name, (agent, seen) in AGENTS.items():
    whole[name] = agent.save(folder / f"{name}.spaql").read_bytes()
    spaql.load(folder / f"{name}.spaql").predict(seen)
    agent.evaluate(2)

BY_ACCIDENT, BY_AN_ENEMY = (flipped, cut, doubled, blank), (head, array, array, array, shape, named)
path, refused, kept, slowest, most = folder / "spoiled.spaql", 0, 0, 0.0, 0
for number in range(count):
    name = dice.choice(list(whole))
    how = bomb if number % 200 == 7 else dice.choice(BY_ACCIDENT if dice.random() < 0.4 else BY_AN_ENEMY)
    data = how(whole[name])
    path.write_bytes(data)
    print(number, name, how.__name__, file=sys.stderr)
    faulthandler.dump_traceback_later(20, exit=True)
    Path("/proc/self/clear_refs").write_text("5")  # sets the mark back
    begun, before = time.perf_counter(), memory("VmRSS")
    try:
        again = spaql.load(path)
    except AgentFileError as error:
        assert "\n" not in str(error), error
        refused += 1
        again = None
    except SpaqlError as error:
        raise AssertionError(f"{type(error)} {error}")
    slowest = max(slowest, time.perf_counter() - begun)
    most = max(most, memory("VmHWM") - before)
    if again is not None:
        kept += 1
        try:
            if how in BY_ACCIDENT:
                again.save(path)
                assert path.read_bytes() == whole[name], "another agent"
            else:
                action = np.asarray(again.predict(AGENTS[name][1])[0], float)
                assert np.isfinite(action).all() and (action >= 0).all() and (action <= 3).all(), action
                if how is array and name != "sky":
                    again.learn(iterations=30)  # through a plan
                    again.evaluate(2)
        except SpaqlError as error:  # such as an observation of another shape, which the file may ask for
            assert how is head, error
    faulthandler.cancel_dump_traceback_later()
assert not (folder.parent / "escaped.npy").exists()
assert most < 256 * 1024, most
print(f"{count} files: {refused} refused, {kept} whole or another agent; slowest {slowest:.1f} s, {most // 1024} MB")
assert refused > 0.5 * count
"""


@pytest.mark.compiled_only
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="memory cannot be measured here")
def test_spoiled_files_are_refused_or_whole(tmp_path):
    call = [sys.executable, "-W", "error", "-c", SPOIL, str(tmp_path), str(FILES)]
    path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(call, capture_output=True, text=True, env=path)
    assert told.returncode == 0, told.stderr[-3000:]
    print(told.stdout)
