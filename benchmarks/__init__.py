"""Speed, as ratios measured in one run: machines are shared and noisy, a ratio of neighbours is not.

(a) `ratio_to_simulation`: time of `learn` over the time of a compiled loop that plays as many environment steps with
    random actions, one episode after the other, and does nothing else; for the paper's twelve problems, the published
    algorithms at the paper's settings (K and N as printed, xi = 0.5).  AQL's monitoring rollouts are steps like any
    other here; `ratio_without_monitoring` is AQL with N = 0.  SPAQL learns from K episodes and has no rollouts;
    `ratio_of_policy` is the time it takes to put together the policy that it returns, over the same simulation.
    Then SPAQL on the five problems of classic control, with the budgets of `spaql control`; episodes differ in length
    there, so both times are per step.
(b) `ratio_to_textbook`: time of `tests/textbook.py` over ours for the same run; null outside a source checkout.
(c) `growth`: time of a learning step (Boltzmann sample, draw, value of a next state, update) on partitions of 10^3 to
    10^6 cells refined along a policy, as agents refine, with every next state drawn from the whole space: the worst
    case for the memory.  `growth_local` draws them from one 4096th of it, as a policy that has settled visits them;
    `growth_dense` has partitions refined everywhere alike, where the sample must look at all of 2^depth actions.
(d) `bytes_per_cell`, of the cells and their index; (e) `predict_per_second` on a million states; (f) `threads`: two
    threads against one.
(g) `start`: seconds for `spaql --help`, for a short training, and for the first use with an empty cache.
(h) `ratio_to_gymnasium`: time per step of `spaql.Tessera(id).learn(total_timesteps=n)`, with making the environment and
    the warm-up, over that of a bare loop in Python that makes the environment, calls `env.step` with random actions
    drawn beforehand, and `env.reset` at every end.  `ratio_to_sampling`: over the loop that people write, which draws
    each action by `env.action_space.sample()`.  The aim is 1.3 for the first.
(i) `compiled_to_gymnasium`: time per step of learning through Gymnasium, as in (h), over that of learning on the same
    problem compiled, from which compiling is excluded.  The aim is 50 for Pendulum.
(j) `memory`: megabytes (10^6 bytes) at most in a process of its own that learns a million steps of compiled problems,
    and in one that learns a single iteration: the interpreter, the libraries and the kernels.  The aim is 500.
(k) `export`: of policies as C, bytes of tables and of the file, comparisons, nanoseconds per decision, and
    `ratio_to_predict`: that time over our own `predict` per state, both on the same batch of random states; null
    without a C compiler.  The aims are 1.5, and 8,000 bytes of tables for the ambulance.
(l) `show`: seconds of `spaql show`, all of the command but the browser, for an agent that sees four numbers and has
    100,000 cells, and megabytes (10^6 bytes) of the page.  The aims are 10 and 15.
(m) `files`: milliseconds to save and to load an agent, the least of a few, and bytes of the file per cell: published
    agents of a thousand and of a million cells in the policy (they keep two partitions), and SPAQL on CartPole, whose
    file is mostly what it remembers.  The aims, for partitions, are 5 ms for 1,000 cells, 2 s for a million, 80 bytes.
(n) `cluster`: `ratio_dask_to_processes`, throughput of the same short runs, about 5 ms each, on a Dask cluster of this
    machine with two workers over that on two processes, both started and warm, each time with a new store; the aim is
    0.8.  `costs`, with a scheduler and two workers in processes of their own: CPU seconds of the scheduler and of the
    client per chunk that hardly has anything to do, and how long one is on its way and back; CPU seconds of the client
    per run that chunks bring, from reading the answer to the commit, with a learning curve of 50 points and without,
    and of a commit alone; bytes per run that go out and come back in chunks of 200.  `limits`: what follows from them
    for 1,000 workers.  Null where Dask is not installed.
(o) `sweeps`: of ten thousand short runs of a compiled problem, done by the runner of studies on two threads and stored:
    `throughput_to_bare`, the time that two threads take which call the same runs one after the other, over ours, in
    blocks measured in turn; memory of the process after each block; milliseconds to store a run; and seconds from the
    command until a study with a hundred thousand finished runs hands out the next.  The aims are 0.9, flat, 0.3, 3.
(p) `tables`: of a study of 200,000 finished runs, in 2 groups, in 2,000 and in 10,000: `status_seconds` to say how
    far it is, and `table_seconds` to read it and make its table, with all its intervals; the worst of them.  The
    aims are 1 and 10.

A part is named after its key; `growth` has the keys of (c) and (d).  The module that `PARTS` names for it, imported
when it is measured, has a `PARTS` of its own with what is done (`timing.Part`).  A new part is an entry in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from spaql.errors import ParameterError

if TYPE_CHECKING:
    from benchmarks.timing import Part

#: every part, in the order in which they are measured and told, and the module of this package that does it
PARTS = {
    "ratio_to_simulation": "learning",
    "ratio_to_gymnasium": "bridged",
    "compiled_to_gymnasium": "bridged",
    "ratio_to_textbook": "learning",
    "growth": "partitions",
    "predict_per_second": "learning",
    "threads": "learning",
    "memory": "processes",
    "export": "shipping",
    "show": "shipping",
    "files": "shipping",
    "cluster": "cluster",
    "tables": "stores",
    "start": "processes",
    "sweeps": "sweeping",
}


def _part(name: str) -> Part:
    part: Part = import_module(f"benchmarks.{PARTS[name]}").PARTS[name]
    return part


def measure(progress_bar: bool = True, parts: Sequence[str] | None = None) -> dict[str, Any]:
    """All of it, in a few minutes, or these parts only.

    Raises
    ------
    ParameterError
        If there is no such part.
    """
    from tqdm import tqdm

    unknown = [name for name in parts or () if name not in PARTS]
    if unknown:
        raise ParameterError(f"parts: {unknown[0]!r} is not one of {', '.join(PARTS)}")
    chosen = [_part(name) for name in PARTS if parts is None or name in parts]
    figures: dict[str, Any] = {}
    length = sum(part.length() for part in chosen)
    with tqdm(total=length, disable=not progress_bar, desc="bench", unit="part") as progress:

        def bar(what: str) -> None:
            progress.set_postfix_str(what)
            progress.update()

        for part in chosen:
            figures |= part.measure(bar)
    return figures


def text(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    return "\n".join(line for name in PARTS if name in figures for line in _part(name).tell(figures))
