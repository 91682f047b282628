"""Fuzz every kind of file that spaql reads: agents, folders of training, stores of runs, studies, tunings.

    python tests/fuzz_files.py --count 20000 --seed 0

Each mutation is a function of the seed and its number.  It is refused in one sentence, or the file is used: an agent
predicts, explains, learns, and is saved and loaded again.  Children do the work, with a limit to the time of each
mutation and to their memory; where one crashes or hangs, that is a failure, and another one goes on behind it.  Ctrl-C
ends it, with a summary.
"""

import argparse
import collections
import contextlib
import faulthandler
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

SECONDS = 20
MEMORY = 2 << 30  # bytes beyond those that a child has at its start
_SHARE = {"agent": 0.8, "train": 0.04, "store": 0.05, "study": 0.04, "toml": 0.04, "best": 0.03}


def mutate(files, seed, number, kinds=tuple(_SHARE)):
    """Return kind, name, mutation and content of the file of a number."""
    import fuzz_mutations
    import fuzz_subjects

    dice = random.Random(f"{seed}-{number}")
    kind = dice.choices(kinds, [_SHARE[kind] for kind in kinds])[0]
    name = dice.choice(sorted(files[kind]))
    edits = fuzz_mutations.agent_edits(files["agent"]) if kind == "agent" else fuzz_subjects.EDITS[kind]
    edit = fuzz_mutations.make_bomb if kind == "agent" and dice.random() < 0.003 else dice.choice(edits)
    return kind, name, edit.__name__, edit(files[kind][name], dice)


def read_memory(what):
    """Return bytes of this process: VmSize or VmHWM."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(what)).split()[1])


def work(folder, seed, first, last, kinds):
    """Perform the mutations from `first` to before `last`, and print a line at the begin and end of each."""
    import fuzz_subjects
    from planning_for_tests import tiny_plans

    files = pickle.loads((folder / "files").read_bytes())
    with tiny_plans(), tempfile.TemporaryDirectory(dir=folder) as own:
        place = Path(own)
        for kind in ("base-study.json", "base-store"):
            (place / kind).write_bytes((folder / kind).read_bytes())
        for name in ("tessera", "spaql"):  # loads compiled code
            fuzz_subjects.read_agent(files["agent"][name], place)
        resource.setrlimit(resource.RLIMIT_AS, (read_memory("VmSize") + MEMORY,) * 2)
        for number in range(first, last):
            print("begin", number, flush=True)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            kind, name, edit, content = mutate(files, seed, number, kinds)
            begun, outcome = time.perf_counter(), "accepted"
            try:
                fuzz_subjects.READERS[kind](content, place)
            except fuzz_subjects.Refused:
                outcome = "refused"
            except BaseException as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                outcome = f"failed {text} ({Path(where.filename).name}:{where.lineno})"
            faulthandler.cancel_dump_traceback_later()
            seconds = time.perf_counter() - begun
            print("end", number, f"{seconds:.3f}", kind, name.replace(" ", "_"), edit, outcome, sep="\t", flush=True)
            if number % 100 == 0 or number == last - 1:
                print("most", read_memory("VmHWM"), flush=True)


def run_child(folder, seed, first, last, kinds):
    """Yield (number, seconds, kind, name, edit, outcome) of a child's mutations, and ("most", bytes) at its end."""
    call = [sys.executable, "-W", "ignore", __file__, "--child", str(folder), "--seed", str(seed)]
    call += ["--first", str(first), "--count", str(last - first), "--kinds", ",".join(kinds)]
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    log = folder / "stderr"
    begun, options = None, {"stdout": subprocess.PIPE, "text": True, "env": os.environ | {"PYTHONPATH": path}}
    with log.open("w") as stderr, subprocess.Popen(call, stderr=stderr, **options) as child:
        for line in child.stdout:
            word, *rest = line.rstrip("\n").split("\t") if "\t" in line else line.split()
            if word == "begin":
                begun = int(rest[0])
            elif word == "end":
                yield int(rest[0]), float(rest[1]), *rest[2:5], "\t".join(rest[5:])
                begun = None
            elif word == "most":
                yield "most", int(rest[0])
        code = child.wait()
    tail = log.read_text()[-1500:]
    if begun is not None:
        yield begun, float(SECONDS), "?", "?", "?", f"failed crash or hang (exit code {code}): {tail}"
    elif code:
        raise RuntimeError(f"a child failed before its first mutation, with exit code {code}: {tail}")


def fuzz(count, seed=0, kinds=tuple(_SHARE), first=0, report=lambda line: None):
    """Perform mutations; return their numbers by outcome, the failures, and the slowest and largest."""
    import fuzz_subjects
    from planning_for_tests import tiny_plans

    outcomes, failures, slowest, largest = collections.Counter(), [], (0.0, -1), 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with tiny_plans():
            (folder / "files").write_bytes(pickle.dumps(fuzz_subjects.make_files(folder)))
        number, end = first, first + count
        with contextlib.suppress(KeyboardInterrupt):  # which ends it, with a summary
            while number < end:
                for row in run_child(folder, seed, number, min(end, number + 5000), kinds):
                    if row[0] == "most":
                        largest = max(largest, row[1])
                        continue
                    number, outcome = row[0] + 1, row[5].split(" ")[0]
                    outcomes[row[2], outcome] += 1
                    slowest = max(slowest, (row[1], row[0]))
                    if outcome == "failed":
                        failures.append(row)
                        report(f"{row[0]}: {' '.join(row[2:5])}: {row[5]}")
    return outcomes, failures, slowest, largest


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutation")
    parser.add_argument("--kinds", default=",".join(_SHARE), help="agent, train, store, study, toml, best")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    kinds = tuple(options.kinds.split(","))
    if options.child:
        work(Path(options.child), options.seed, options.first, options.first + options.count, kinds)
        return 0
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets background processes ignore it
    begun = time.perf_counter()
    outcomes, failures, slowest, largest = fuzz(options.count, options.seed, kinds, options.first, print)
    seconds = time.perf_counter() - begun
    for kind in kinds:
        counts = {outcome: outcomes[kind, outcome] for outcome in ("refused", "accepted", "failed")}
        print(f"{kind}: " + ", ".join(f"{number:,} {outcome}" for outcome, number in counts.items()))
    by_kind = collections.Counter(row[5].split(":")[0] for row in failures)
    print(
        f"{sum(outcomes.values()):,} mutations in {seconds:.0f} s; slowest {slowest[0]:.1f} s (number {slowest[1]}); ",
        end="",
    )
    print(f"largest process {largest / 2**20:.0f} MB; {len(failures)} failures {dict(by_kind) or ''}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
