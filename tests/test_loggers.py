"""Loggers: rows of the history in files."""

import csv
import itertools
import json
import math
import struct
import sys

import numpy as np
import pytest

import spaql
from callbacks_for_tests import AGENTS, COLUMNS, Kept, Recorder, told
from spaql.agents import callbacks
from spaql.agents.callbacks import Evaluate, Log
from spaql.agents.loggers import CSVLogger, JSONLinesLogger, TensorBoardLogger, make_logger
from spaql.errors import OutputError, ParameterError, SpaqlError

# Loggers ------------------------------------------------------------------------------------------------------


def as_rows(agent):
    """History as the rows of a logger should have it, without those of the clock."""
    renamed = {"timesteps": agent.history["training_steps"] + agent.history["selection_steps"]}
    renamed["iteration"] = np.arange(1, agent.iterations + 1)
    if "training_return" not in agent.history.dtype.names:
        renamed["training_return"] = agent.history["score"]
    names = next(names for kind, names in COLUMNS.items() if isinstance(agent, getattr(spaql, kind)))
    known = [name for name in names if name in renamed or name in agent.history.dtype.names]
    columns = [renamed[name] if name in renamed else agent.history[name] for name in known]
    return [dict(zip(known, row, strict=True)) for row in zip(*(column.tolist() for column in columns), strict=True)]


def same(row, expected):
    return all(row[name] == value or (math.isnan(value) and math.isnan(row[name])) for name, value in expected.items())


@pytest.mark.parametrize("name", ["AQL", "CartPole"])
def test_a_log_has_every_row_once(name):
    agent, log = AGENTS[name](), Kept()
    agent.learn(iterations=4)
    agent.learn(iterations=10, callback=[Log(log), Recorder(every=1)])
    agent.learn(iterations=3)
    agent.learn(iterations=2, callback=Log(log))
    assert [row["iteration"] for row in log.rows] == [*range(5, 15), 18, 19]
    history = as_rows(agent)
    columns = COLUMNS["AQL" if name == "AQL" else "Tessera"]
    assert log.columns == columns
    assert all(list(row) == columns and same(row, history[row["iteration"] - 1]) for row in log.rows)
    assert log.batches == 12  # one for each time that the run stood still
    seconds = [row["seconds"] for row in log.rows[:10]]
    assert seconds == sorted(seconds)
    assert all(0 <= value < 60 for value in seconds)


@pytest.mark.parametrize("start", [0, 3, 4])
def test_a_log_can_leave_rows_out(start):
    agent, log = AGENTS["Tessera"](), Kept()
    if start:
        agent.learn(iterations=start)
    agent.learn(iterations=15, callback=[Log(log, every=4), Recorder(every=15)])
    expected = [number for number in range(4, start + 16, 4) if number > start]
    assert [row["iteration"] for row in log.rows] == expected
    assert [row["timesteps"] for row in log.rows] == [5 * number for number in expected]


def test_history_is_not_copied_and_rows_stay_as_they_were():
    """Or every call of a log would copy all that was learned."""
    agent, kept = spaql.Tessera("oil").learn(iterations=3), Kept()
    before = agent.history
    copied = before.copy()
    agent.learn(iterations=40, callback=[Log(kept), Recorder(every=5)])
    assert np.shares_memory(agent.history, agent.history)
    np.testing.assert_array_equal(before, copied)
    np.testing.assert_array_equal(agent.history[:3], copied)
    assert [row["iteration"] for row in kept.rows] == list(range(4, 44))
    with pytest.raises(ValueError, match="read-only"):
        agent.history["score"][0] = 1.0


def read_csv(path):
    with path.open(newline="") as file:
        return [{name: float(value or "nan") for name, value in row.items()} for row in csv.DictReader(file)]


def read_lines(path):
    rows = [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]
    return [{name: math.nan if value is None else value for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("name", ["Tessera", "published"])
def test_a_log_has_the_evaluations_of_the_same_callbacks(name):
    agent, kept, first, second = AGENTS[name](), Kept(), Evaluate(20, episodes=2), Evaluate(50, episodes=2, seed=7)
    agent.learn(iterations=2, callback=first)  # not part of the log
    before = len(first.results)
    agent.learn(iterations=30, callback=[Log(kept, every=7), first, second])
    logged = [column for column in kept.columns if column.startswith("evaluation")]
    assert logged == [f"evaluation{number}{end}" for number in ("", "_2") for end in ("", "_low", "_high")]
    for evaluate, prefix, known in ((first, "evaluation", before), (second, "evaluation_2", 0)):
        rows = [row for row in kept.rows if row[prefix] is not None]
        results = [(each.iterations, each.steps, each.mean, each.low, each.high) for each in evaluate.results[known:]]
        columns = ("iteration", "timesteps", prefix, f"{prefix}_low", f"{prefix}_high")
        assert [tuple(row[column] for column in columns) for row in rows] == results
        assert results
    evaluated = {each.iterations for each in (*first.results[before:], *second.results)}
    assert [row["iteration"] for row in kept.rows] == [n for n in range(3, 33) if n % 7 == 0 or n in evaluated]


def test_an_evaluation_without_a_new_iteration_has_a_row():
    """As at the end of the budget of another library's agent, within an episode."""
    agent, kept, evaluate = AGENTS["published"](), Kept(), Evaluate(10**6, episodes=2)
    log = Log(kept)
    agent.learn(iterations=3, callback=log)
    log.follow([evaluate])
    log.begin(agent)
    evaluate.call(agent)
    log.call(agent)
    row = kept.rows[-1]
    assert (row["iteration"], row["timesteps"], row["score"]) == (3, agent.num_timesteps, None)
    assert row["evaluation"] == evaluate.best.mean


def test_the_clock_counts_no_callback_as_learning(monkeypatch):
    agent, kept = AGENTS["Tessera"](), Kept()
    now = itertools.count()  # a second for each look at the clock
    monkeypatch.setattr(callbacks.time, "perf_counter", lambda: float(next(now)))
    slow = Recorder()
    monkeypatch.setattr(slow, "call", lambda agent: [next(now) for _ in range(1000)] and None)
    agent.learn(iterations=20, callback=[slow, Log(kept)])
    assert kept.rows[-1]["seconds"] > 1000
    assert all(row["steps_per_second"] > 0.01 for row in kept.rows)
    assert kept.rows[-1]["planning_seconds"] == 0.0  # fewer transitions than the first plan takes


def test_planning_is_timed():
    agent, kept = AGENTS["Tessera"](), Kept()
    agent.learn(600, callback=Log(kept))
    spent = [row["planning_seconds"] for row in kept.rows]
    assert spent[0] == 0.0 < spent[-1] <= kept.rows[-1]["seconds"] + 0.001
    assert spent == sorted(spent)


FILES = {"csv": (CSVLogger, read_csv), "lines": (JSONLinesLogger, read_lines)}


@pytest.mark.parametrize("kind", FILES)
def test_files_can_be_followed_and_continued(kind, tmp_path):
    make, read = FILES[kind]
    path = tmp_path / "new" / "log"
    seen = []
    agent = AGENTS["published"]()
    agent.learn(
        iterations=5, callback=[Log(make(str(path))), Recorder(every=1), lambda agent: seen.append(len(read(path)))]
    )
    assert seen == [1, 2, 3, 4, 5]
    agent.learn(iterations=3, callback=Log(make(path)))
    rows = read(path)
    assert [row["iteration"] for row in rows] == list(range(1, 9))
    assert all(list(row) == COLUMNS["SPAQL"] for row in rows)
    assert all(same(row, expected) for row, expected in zip(rows, as_rows(agent), strict=True))


@pytest.mark.parametrize("kind", FILES)
def test_what_is_not_finite_is_written_so_that_it_can_be_read(kind, tmp_path):
    make, read = FILES[kind]
    logger = make(tmp_path / "log")
    logger.open(["iteration", "score"])
    logger.write([{"iteration": 1, "score": math.nan}, {"iteration": 2, "score": 0.1}])
    logger.close()
    logger.close()
    first, second = read(tmp_path / "log")
    assert math.isnan(first["score"])
    assert second == {"iteration": 2, "score": 0.1}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"iteration,score\n1,2\n", "has other columns than this run; move it or choose another name"),
        (b'{"iteration": 1, "score": 2}\n', "has other columns"),
        (b"[1, 2]\n", "has other columns"),
        (b"\xff\xfe\x00\n", "has other columns"),
        (b"\n", "has other columns"),
    ],
)
def test_a_file_with_other_columns_is_left_alone(kind, text, words, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(text)
    agent = AGENTS["Tessera"]()
    kept = Kept()
    with pytest.raises(OutputError) as error:
        agent.learn(iterations=5, callback=Log(kept, FILES[kind][0](path)))
    told(error, words)
    assert path.read_bytes() == text
    assert agent.iterations == 0
    assert kept.opened == 0


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_ends_within_a_line_is_left_alone(kind, tmp_path):
    path = tmp_path / "log"
    make = FILES[kind][0]
    AGENTS["Tessera"]().learn(iterations=2, callback=Log(make(path)))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(OutputError) as error:
        AGENTS["Tessera"]().learn(iterations=2, callback=Log(make(path)))
    told(error, "ends within a line")


@pytest.mark.parametrize("kind", FILES)
def test_an_empty_file_is_as_good_as_none(kind, tmp_path):
    make, read = FILES[kind]
    (tmp_path / "log").touch()
    AGENTS["Tessera"]().learn(iterations=2, callback=Log(make(tmp_path / "log")))
    assert len(read(tmp_path / "log")) == 2


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_cannot_be_opened_is_told(kind, tmp_path):
    for path in (tmp_path, tmp_path / "file" / "log"):
        (tmp_path / "file").touch()
        with pytest.raises(OutputError) as error:
            AGENTS["Tessera"]().learn(iterations=2, callback=Log(FILES[kind][0](path)))
        told(error, "cannot be written")


def events(folder):
    """All points in a folder of event files: tag to (step, value)."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    points = {}
    for path in sorted(folder.iterdir()):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            event = event_pb2.Event.FromString(data[at + 12 : at + 12 + length])
            at += 16 + length
            for value in event.summary.value:
                points.setdefault(value.tag, []).append((event.step, value.simple_value))
    return points


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX")
    agent, seen, folder = AGENTS["published"](), [], tmp_path / "runs"
    log = Log(TensorBoardLogger(folder))
    agent.learn(
        iterations=3, callback=[log, Recorder(every=1), lambda agent: seen.append(len(events(folder)["learning/best"]))]
    )
    assert seen == [1, 2, 3]
    agent.learn(iterations=2, callback=log)  # within the same second, and not over the first file
    history, points = agent.history, events(folder)
    clock = {"time/seconds", "time/steps_per_second"}
    learning = {f"learning/{name}" for name in COLUMNS["SPAQL"] if name not in ("timesteps", "seconds")}
    assert set(points) == (learning - {"learning/steps_per_second"}) | clock
    steps = history["training_steps"] + history["selection_steps"]
    assert points["learning/score"] == list(zip(steps, history["score"].astype(np.float32), strict=True))
    assert [value for _, value in points["learning/iteration"]] == [1, 2, 3, 4, 5]


def test_tensorboard_has_evaluations(tmp_path):
    pytest.importorskip("tensorboardX")
    evaluate = Evaluate(10, episodes=2)
    AGENTS["Tessera"]().learn(iterations=6, callback=[Log(TensorBoardLogger(tmp_path)), evaluate])
    expected = [(result.steps, np.float32(result.mean)) for result in evaluate.results]
    points = events(tmp_path)
    assert points["evaluation/mean"] == expected
    assert {"evaluation/low", "evaluation/high", "time/planning_seconds", "learning/training_return"} <= set(points)


def test_tensorboard_leaves_out_what_is_not_finite(tmp_path):
    pytest.importorskip("tensorboardX")
    logger = TensorBoardLogger(tmp_path)
    logger.open(["score", "best", "timesteps", "evaluation"])
    logger.write([{"score": math.nan, "best": 1.0, "timesteps": 5, "evaluation": None}])
    logger.close()
    assert events(tmp_path) == {"learning/best": [(5, 1.0)]}


def test_tensorboard_where_the_folder_cannot_be_made(tmp_path):
    pytest.importorskip("tensorboardX")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError) as error:
        AGENTS["Tessera"]().learn(iterations=2, callback=Log(TensorBoardLogger(tmp_path / "file")))
    told(error, "cannot be written")


def test_without_the_extra_one_sentence_says_so(monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboardX"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ParameterError) as error:
        TensorBoardLogger(tmp_path)
    told(error, "pip install 'spaql[tensorboard]'")


def test_modules_are_there_by_name():
    assert spaql.agents.callbacks.Evaluate is Evaluate
    assert spaql.agents.loggers.CSVLogger is CSVLogger
    assert {"callbacks", "loggers"} <= set(dir(spaql))
    assert issubclass(OutputError, SpaqlError)


def test_a_logger_is_chosen_by_the_name_of_its_file(tmp_path):
    assert type(make_logger(tmp_path / "run.csv")) is CSVLogger
    assert type(make_logger(tmp_path / "run.JSONL")) is JSONLinesLogger
    with pytest.raises(ParameterError) as error:
        make_logger("run.txt")
    told(error, "log 'run.txt': expected a file that ends in .csv or .jsonl, or a folder for TensorBoard")
    pytest.importorskip("tensorboardX")
    assert type(make_logger(tmp_path)) is type(make_logger(tmp_path / "runs")) is TensorBoardLogger
