"""Exported policies decide as `predict` does, to the last bit: on every border, beside it, at the ends and beyond."""

import ast
import dataclasses
import doctest
import functools
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from numba.core import config

import spaql
from partitions_for_tests import plant
from problems_for_tests import box_world, finite_world
from spaql import export as exporting
from spaql.cli import main
from spaql.errors import NotTrainedError, OutputError, ParameterError
from spaql.export import compiler, to_c, to_json
from spaql.export.policy import to_comment
from spaql.export.to_c import make_identifier
from test_tree import Weather

DOCS = Path(__file__).parents[1] / "docs"
SLOW = config.DISABLE_JIT
STATES = 2_000 if SLOW else 100_000
FEW = 40 if SLOW else 200  # iterations of agents whose plans take seconds in plain Python
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
HAS_ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))
needs_compiler = pytest.mark.skipif(compiler.find_compiler() is None, reason="there is no C compiler")


class Reach(gymnasium.Env):
    """Numbers without bounds; two numbers to choose, as float32 or as whole numbers."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, kind):
        ends = np.array([-1.0, 0.0]), np.array([2.0, 0.7])
        ends = (np.array([-300, 0]), np.array([300, 7])) if kind == np.int16 else ends
        self.action_space = gymnasium.spaces.Box(ends[0].astype(kind), ends[1].astype(kind), dtype=kind)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.seen = 0, self.np_random.normal(size=2).astype(np.float32)
        return self.seen, {}

    def step(self, action):
        low, high = self.action_space.low.astype(float), self.action_space.high.astype(float)
        reward = 1.0 - np.abs((action - low) / (high - low) - 1.0 / (1.0 + np.exp(-self.seen))).sum()
        self.steps, self.seen = self.steps + 1, self.np_random.normal(size=2).astype(np.float32)
        return self.seen, float(reward), False, self.steps == 5, {}


AGENTS = {
    "one number": lambda: spaql.Tessera("ambulance", seed=1).learn(iterations=60 if SLOW else 300),
    "a box": lambda: spaql.SPAQL(box_world()[0], seed=1, rollouts=2).learn(iterations=200),
    "finite actions": lambda: spaql.SPAQL(finite_world()[0], seed=1, rollouts=2).learn(iterations=200),
    "time steps": lambda: spaql.AQL("oil", seed=1, rollouts=0).learn(iterations=300),
    "cart and pole": lambda: spaql.Tessera("cartpole", seed=1).learn(total_timesteps=3_000),
    "a periodic Dict": lambda: spaql.Tessera(Weather, seed=1, periodic=["angle"], horizon=10).learn(iterations=FEW),
    "float32": lambda: spaql.Tessera(lambda: Reach(np.float32), seed=1, horizon=5).learn(iterations=FEW),
    "int16": lambda: spaql.Tessera(lambda: Reach(np.int16), seed=1, horizon=5).learn(iterations=FEW),
    "time steps of Gymnasium": lambda: spaql.AQL(lambda: Reach(np.float64), seed=1, horizon=3, rollouts=0).learn(
        iterations=60
    ),
    "a tree over a periodic Dict": lambda: plant(Weather, 60, periodic=["angle"], horizon=10),
    "a tree of float32": lambda: plant(lambda: Reach(np.float32), 60, horizon=5),
    "a single leaf": lambda: spaql.Tessera("oil", seed=1).learn(iterations=1),
}


@functools.cache
def trained(kind):
    """One of the agents, trained once for all tests; they ask it, and change nothing."""
    return AGENTS[kind]()


LONG = "cart and pole"  # its plan takes long with the JIT off


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.compiled_only] * (name == LONG)) for name in AGENTS]
)
def agent(request):
    return trained(request.param)


@pytest.fixture(scope="module")
def small():
    return trained("one number")


def borders(tree):
    """For each number: its thresholds, the doubles beside them, the ends of its range, and what is beyond them."""
    low, high = tree.states.low, tree.states.high
    found = []
    for dim in range(tree.states.dimensions):
        at = np.unique(tree.thresholds[tree.dims == dim])
        width = high[dim] - low[dim]
        if dim in tree.periodic:
            at = np.concatenate([low[dim] + (at + turn) * width for turn in (-7, -1, 0, 1, 2, 1e6)])
        at = np.concatenate([at, [low[dim], high[dim]]])
        far = np.array([low[dim] - width / 3, high[dim] + width, -1e15, 1e15, -1.7e308, 1.7e308])
        found.append(np.concatenate([at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf), far]))
    return found


def states(agent, tree, count, seed=0):
    """Observations `[n, numbers]` and time steps `[n]`: borders of every leaf and their corners, and some at random."""
    random = np.random.default_rng(seed)
    low, width = tree.states.low, tree.states.high - tree.states.low
    exact = {(dim, cut): at for dim, cut, at in zip(tree.dims, tree.cuts, tree.thresholds, strict=True)}

    def value(dim, cuts):  # in the units of the observation
        usual = low[dim] + cuts * width[dim]
        if dim in tree.periodic:
            return usual
        return np.array([exact.get((dim, cut), end) for cut, end in zip(cuts, usual, strict=True)])

    rows, steps = [], []
    for step in range(len(tree.roots)):
        lower, upper, _ = tree.leaves(step)
        corner = np.stack([value(dim, lower[:, dim]) for dim in range(len(low))], axis=1)
        for dim in range(len(low)):
            for border in (corner[:, dim], value(dim, upper[:, dim])):
                inside = low + (lower + random.random(lower.shape) * (upper - lower)) * width
                point = np.where(random.random(lower.shape) < 0.5, inside, corner)
                for beside in (border, np.nextafter(border, -np.inf), np.nextafter(border, np.inf)):
                    point = point.copy()
                    point[:, dim] = beside
                    rows.append(point)
                    steps.append(np.full(len(point), step))
    rest = max(count - sum(map(len, rows)), count // 4)
    drawn = low + random.random((rest, len(low))) * width
    for dim, at in enumerate(borders(tree)):
        chosen = random.random(rest) < 0.6
        drawn[chosen, dim] = random.choice(at, chosen.sum())
        drawn[: len(at), dim] = at[:rest]  # every one of them
    rows, steps = np.concatenate([*rows, drawn]), np.concatenate([*steps, random.integers(len(tree.roots), size=rest)])
    if not hasattr(agent.problem, "observations") and not agent.problem.clip:  # then `predict` takes none outside
        rows = np.clip(rows, tree.states.low, tree.states.high)
    return rows, steps.astype(np.int64)


def observation(agent, rows):
    """Rows as the environment shows them."""
    seen = getattr(agent.problem, "observations", None)
    if seen is None or not seen.parts[0].path:
        return rows
    return {part.path[0]: rows[:, part.places].reshape(-1, *part.shape) for part in seen.parts}


@pytest.fixture(scope="module")
def case(agent):
    """An agent, its policy, states and what `predict` does there."""
    policy = agent.to_policy()
    rows, steps = states(agent, policy.tree, STATES)
    expected, _ = agent.predict(observation(agent, rows), state=steps if agent.time_variant else None)
    return agent, policy, rows, steps, expected


def agree(got, expected):
    """To the last bit."""
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)
    if expected.dtype.kind == "f":
        assert got.dtype == expected.dtype
        assert got.tobytes() == np.ascontiguousarray(expected).tobytes()


def read(text, rows, steps):
    """A reader of the JSON, for many observations at once."""
    policy = json.loads(text)
    nodes = {key: np.array(value) for key, value in policy["nodes"].items()}
    seen = rows.copy()
    for place, number in enumerate(policy["observation"]):
        if number["periodic"]:
            with np.errstate(all="ignore"):
                turns = (rows[:, place] - number["low"]) / number["width"]
                turned = turns - np.floor(turns)
            seen[:, place] = np.where(np.isfinite(turned), turned, 0.0)
    at = np.array(policy["roots"])[np.clip(steps, 0, len(policy["roots"]) - 1)]
    while (inner := np.flatnonzero(at >= 0)).size:
        node = at[inner]
        reached = seen[inner, nodes["number"][node]] >= nodes["threshold"][node]
        at[inner] = np.where(reached, nodes["above"][node], nodes["below"][node])
    actions = np.array(policy["actions"], policy["action"]["type"])
    assert actions.shape[1:] == tuple(policy["action"]["shape"])
    return actions[-1 - at]


def python(path):
    namespace = {}
    exec(compile(path.read_text("ascii"), str(path), "exec"), namespace)
    return namespace


def session(path):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is missing")
    return runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])


def onnx_decides(path, policy, rows, steps):
    given = {"observation": rows} | ({"step": steps} if policy.time_variant else {})
    return session(path).run(["action"], given)[0]


def test_the_states_are_hard_ones(case):
    _, policy, rows, _, expected = case
    tree = policy.tree
    assert len(rows) >= STATES
    assert len(np.unique(expected.reshape(len(expected), -1), axis=0)) == len(tree.actions)  # nothing is left out
    for dim, threshold in zip(tree.dims, tree.thresholds, strict=True):
        if dim not in tree.periodic:
            assert (rows[:, dim] == threshold).any()
            assert (rows[:, dim] == np.nextafter(threshold, -np.inf)).any()


@needs_compiler
@pytest.mark.parametrize("header", [False, True])
def test_c_decides_as_predict(case, header):
    _, policy, rows, steps, expected = case
    agree(compiler.compile_policy(policy, *STRICT, header=header)(rows, steps), expected)


def test_python_decides_as_predict(case, tmp_path):
    agent, policy, rows, steps, expected = case
    namespace = python(agent.export(tmp_path / "policy.py"))
    chosen = np.random.default_rng(0).permutation(len(rows))[: STATES // 10]
    act = namespace["act"]
    found = [act(rows[i].tolist(), int(steps[i])) if policy.time_variant else act(rows[i].tolist()) for i in chosen]
    agree(np.array(found, expected.dtype), expected[chosen])
    assert isinstance(found[0], tuple if policy.shape else int)
    assert list(namespace["OBSERVATION"]) == policy.labels.states


def test_json_decides_as_predict(case, tmp_path):
    agent, _, rows, steps, expected = case
    agree(read(agent.export(tmp_path / "policy.json").read_text("ascii"), rows, steps), expected)


def test_onnx_decides_as_predict(case, tmp_path):
    pytest.importorskip("onnx", reason="onnx is missing")
    agent, policy, rows, steps, expected = case
    got = onnx_decides(agent.export(tmp_path / "policy.onnx"), policy, rows, steps)
    agree(got, expected)
    assert got.dtype == expected.dtype


def test_what_predict_refuses_is_defined(case, tmp_path):
    """NaN is below every threshold, infinite the border, or the low end where numbers come round; steps are clipped."""
    agent, policy, _, _, _ = case
    tree, random = policy.tree, np.random.default_rng(3)
    rows, steps = states(agent, tree, 400, seed=3)
    odd = random.choice([np.nan, np.inf, -np.inf], rows.shape)
    odd = np.where(random.random(rows.shape) < 0.6, odd, rows)
    low, high = np.broadcast_to(tree.states.low, rows.shape), np.broadcast_to(tree.states.high, rows.shape)
    meant = np.where(np.isnan(odd) | (odd == -np.inf), low, np.where(odd == np.inf, high, odd))
    for dim in tree.periodic:
        meant[~np.isfinite(odd[:, dim]), dim] = tree.states.low[dim]
    beyond = steps + len(tree.roots) * random.integers(-1, 2, len(steps))
    within = np.clip(beyond, 0, len(tree.roots) - 1)
    expected, _ = agent.predict(observation(agent, meant), state=within if agent.time_variant else None)
    agree(read(agent.export(tmp_path / "policy.json").read_text(), odd, beyond), expected)
    act = python(agent.export(tmp_path / "policy.py"))["act"]
    pairs = zip(odd.tolist(), beyond.tolist(), strict=True)
    actions = [act(row, step) if policy.time_variant else act(row) for row, step in pairs]
    agree(np.array(actions, expected.dtype), expected)
    if compiler.find_compiler() is not None:
        agree(compiler.compile_policy(policy)(odd, beyond), expected)
    if HAS_ONNX:
        agree(onnx_decides(agent.export(tmp_path / "policy.onnx"), policy, odd, beyond), expected)


def test_python_takes_numpys_numbers(tmp_path):
    """A float32 would draw the threshold to its own precision."""
    agent = trained("float32")
    act = python(agent.export(tmp_path / "policy.py"))["act"]
    at = agent.tree().thresholds.astype(np.float32)
    at = np.concatenate([at, np.nextafter(at, np.float32(-9e9)), np.nextafter(at, np.float32(9e9))])
    rows = np.stack([np.random.default_rng(0).permutation(at) for _ in range(2)], axis=1)
    np.testing.assert_array_equal([act(row) for row in rows], agent.predict(rows)[0])


def test_python_needs_nothing(small, tmp_path):
    path = small.export(tmp_path / "policy.py")
    call = [sys.executable, "-S", "-I", "-c", f"exec(open({str(path)!r}).read()); print(act([0.9])[0].hex())"]
    found = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    assert float.fromhex(found) == small.predict([0.9])[0][0]
    assert not [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]


@needs_compiler
def test_files_compile_without_a_word(agent, tmp_path):
    agent.export(tmp_path / "policy.c")
    agent.export(tmp_path / "2nd policy.h")
    includes = '#include "2nd policy.h"\n#include "2nd policy.h"\n'  # twice must do no harm, nor being unused
    (tmp_path / "main.c").write_text(f"{includes}int main(void) {{ return 0; }}\n")
    (tmp_path / "main.cpp").write_text(f"{includes}int main() {{ return 0; }}\n")
    calls = [[compiler.find_compiler(), "-std=c99", *words] for words in (("-O0", "policy.c"), ("-O2", "main.c"))]
    if plus := shutil.which("g++"):
        calls.append([plus, "-std=c++17", "-O2", "main.cpp"])
    for call in calls:
        done = subprocess.run([*call, *STRICT, "-S", "-o", "/dev/null"], cwd=tmp_path, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")


def test_tables_are_as_small_as_they_are_said_to_be(case, tmp_path):
    agent, policy, _, _, _ = case
    text = agent.export(tmp_path / "policy.c").read_text("ascii")
    sizes = {"double": 8, "float": 4} | {f"{sign}int{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16, 32)}
    found = re.findall(r"static const (\w+) \w+\[(\d+)\](?:\[(\d+)\])? = \{\n(.*?)\n\};", text, re.DOTALL)
    for _, rows, row, entries in found:
        assert len(re.findall(r"[^\s{},]+", entries)) == int(rows) * int(row or 1)
    size = sum(sizes[kind] * int(rows) * int(row or 1) for kind, rows, row, _ in found)
    assert size == to_c.count_bytes(policy)
    assert f"Its tables take {size:,} bytes" in text
    assert not re.search(r"malloc|math\.h|floor", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


KINDS = {
    "int64": [-(2**63), 2**63 - 1],
    "uint64": [0, 2**64 - 1],
    "int32": [-(2**31), 2**31 - 1],
    "uint16": [0, 65535],
    "int8": [-128, 127],
    "bool": [False, True],
    "float16": [-0.1, 65504.0],
    "float32": [1e-45, -3.4e38],
    "float64": [5e-324, -0.1],
}


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_c_holds_every_number_of_every_type(kind):
    policy = plant("ambulance", 8).to_policy()
    actions = np.resize(np.array(KINDS[kind], kind), len(policy.tree.actions))
    changed = dataclasses.replace(policy, tree=dataclasses.replace(policy.tree, actions=actions))
    points = np.linspace(0.0, 1.0, 1001)[:, None]
    found = compiler.compile_policy(changed, *STRICT)(points, np.zeros(1001, np.intc))
    np.testing.assert_array_equal(found, actions[policy.tree.decide(points)])
    assert len(np.unique(found)) == 2


def test_equal_agents_make_equal_bytes(small, tmp_path):
    pytest.importorskip("onnx", reason="onnx is missing")
    again = AGENTS["one number"]()
    for suffix in exporting.SUFFIXES:
        (tmp_path / "1").mkdir(exist_ok=True)
        paths = [small.export(tmp_path / f"policy{suffix}"), again.export(tmp_path / "1" / f"policy{suffix}")]
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_json_keeps_to_its_schema(case):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is missing")
    _, policy, _, _, _ = case
    schema = json.loads((DOCS / "reference" / "policy.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(to_json.make_document(policy))
    assert document["algorithm"] in ("tessera", "spaql", "aql", "partitions_for_tests:Planted")
    assert document == json.loads(json.dumps(to_json.to_dict(policy)))
    jsonschema.validate(document, schema)
    for name in document.keys() & set(schema["required"]):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({key: value for key, value in document.items() if key != name}, schema)


EVIL = [
    "*/ int evil(void) { return 1; } /*",
    "evil\n#error evil\r#error\x0b#error\u2028#error",
    "evil ??/\n\\\n*\\\n/ */* /*/ //",
    '"""\nimport evil\n"""',
    "'); evil(); ('\x00\ud800",
    "Größe \u202e evil",
    "evil" * 1000,
    "{evil} %s %n",
]


@pytest.mark.parametrize("word", EVIL)
def test_words_stay_words(small, word, tmp_path):
    words = {"names": [word], "actions": [word[::-1]]}
    namespace = python(small.export(tmp_path / "policy.py", **words))
    assert namespace["OBSERVATION"] == (word,)
    kinds = {type(node) for node in ast.parse((tmp_path / "policy.py").read_text()).body}
    assert kinds == {ast.Assign, ast.FunctionDef}
    assert json.loads(small.export(tmp_path / "policy.json", **words).read_text())["observation"][0]["name"] == word
    text = small.export(tmp_path / "policy.c", **words).read_bytes()
    assert "evil" not in re.sub(r"/\*.*?\*/", "", text.decode("ascii"), flags=re.DOTALL)
    if compiler.find_compiler() is not None:
        call = [compiler.find_compiler(), "-std=c99", *STRICT, "-S", "-o", "/dev/null", "policy.c"]
        subprocess.run(call, check=True, cwd=tmp_path)
    if HAS_ONNX:
        assert session(small.export(tmp_path / "policy.onnx", **words)).get_inputs()[0].name == "observation"


def test_plain_words_are_left_alone():
    assert to_comment("speed [m/s], cos(angle)") == "speed [m/s], cos(angle)"
    assert to_comment("é") == "U+00E9"
    assert len(to_comment("x" * 500)) == 60


@pytest.mark.parametrize(
    ("stem", "name"),
    [("policy", "policy"), ("my-policy 2", "my_policy_2"), ("2nd", "policy_2nd"), ("__x__", "x"), ("é", "policy")],
)
def test_functions_are_called_by_the_file(stem, name, small, tmp_path):
    assert make_identifier(stem) == name
    assert f"double {name}_act(const double observation[1])\n" in small.export(tmp_path / f"{stem}.c").read_text()


def test_a_name_of_ones_own(small, tmp_path):
    assert "double drive_act(" in small.export(tmp_path / "policy.h", name="drive").read_text()
    for name in ("2x", "a b", "", "é", "x;", "_x", 3):
        with pytest.raises(ParameterError, match="name: expected letters"):
            small.export(tmp_path / "policy.h", name=name)
    with pytest.raises(ParameterError, match="only C has function names"):
        small.export(tmp_path / "policy.py", name="drive")


def test_the_comment_tells_what_goes_in_and_out(tmp_path):
    text = trained("a periodic Dict").export(tmp_path / "policy.c").read_text()
    assert "[0] angle: from -3 to 3, periodic" in text
    assert "void policy_act(const double observation[4], int action[2])" in text
    listed = re.findall(r"(\d), (\d): action \((\d), (\d)\)", text)
    assert listed
    assert all(numbers[:2] == numbers[2:] for numbers in listed)
    text = trained("time steps").export(tmp_path / "policy.c").read_text()
    assert "double policy_act(const double observation[1], int step)" in text
    assert "The time step is from 0 to 4" in text
    text = plant("cartpole", 12).export(tmp_path / "policy.c").read_text()
    assert "int policy_act(const double observation[4])" in text
    assert "0: push left" in text
    assert "void policy_act(const double observation[2], float action[2])" in (
        trained("float32").export(tmp_path / "policy.c").read_text()
    )


@pytest.mark.parametrize("path", ["policy.txt", "policy", "policy.spaql", "", "c"])
def test_an_unknown_suffix_is_one_sentence(small, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=r"export: .* supported are \.c, \.h, \.py, \.json, \.onnx$"):
        small.export(path)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_one_sentence(small, tmp_path):
    with pytest.raises(ParameterError, match="expected the path of a file, got 3"):
        small.export(3)
    (tmp_path / "file").write_text("kept")
    with pytest.raises(OutputError, match="cannot be written"):
        small.export(tmp_path / "file" / "policy.c")
    (tmp_path / "policy.c").mkdir()
    with pytest.raises(OutputError, match="it is a folder"):
        small.export(tmp_path / "policy.c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "policy.c"]
    assert small.export(tmp_path / "new" / "folder" / "policy.c").exists()  # as `save` does


def test_who_has_nothing_to_export_says_so(tmp_path):
    with pytest.raises(NotTrainedError, match="has not learned yet"):
        spaql.Tessera("oil").export(tmp_path / "policy.c")
    with pytest.raises(ParameterError, match="no partition"):
        spaql.Random("oil").export(tmp_path / "policy.c")
    assert not list(tmp_path.iterdir())


def test_without_onnx_the_extra_is_named(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ParameterError, match=r"onnx is missing; install it with: pip install 'spaql\[onnx\]'"):
        small.export(tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_the_command_tells_what_it_wrote(small, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small.save("agent.spaql")
    size, tree = to_c.count_bytes(small.to_policy()), small.tree()
    assert main(["export", "agent.spaql", "policy.h", "--name", "drive", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["file"], told["bytes"]) == ("policy.h", (tmp_path / "policy.h").stat().st_size)
    assert (told["table_bytes"], told["nodes"], told["depth"]) == (size, len(tree.dims), tree.depth)
    assert (told["nanoseconds"] is None) == (compiler.find_compiler() is None)
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    assert main(["export", "agent.spaql", "policy.c"]) == 0
    said = capsys.readouterr().out
    assert f"policy.c: {(tmp_path / 'policy.c').stat().st_size:,} bytes, {size:,} bytes of tables" in said
    assert "time per decision not measured: no C compiler" in said
    assert main(["export", "agent.spaql", "policy.py"]) == 0
    assert "time per decision not measured: only C is" in capsys.readouterr().out
    assert main(["export", "agent.spaql", "policy.exe"]) == 2
    assert capsys.readouterr().err.startswith("spaql: export: 'policy.exe' has the suffix '.exe'; supported")


@needs_compiler
def test_time_per_decision_is_a_number(small):
    assert 0.0 < compiler.measure_nanoseconds(small.to_policy()) < 1e6


def test_the_example_of_the_method_runs():
    from spaql.agents import base

    found = doctest.DocTestFinder().find(base.Agent.export, "export", globs={})
    assert doctest.DocTestRunner().run(found[0]).failed == 0
