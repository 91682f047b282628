"""A real Dask cluster on the loopback address, for tests: a scheduler and workers, processes that can be killed."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    """A scheduler on a port that it keeps, and so many workers of one thread each; what they say is in the folder."""

    def __init__(self, folder, workers=2, **settings):
        self.folder = folder
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.settings = {f"DASK_{name.upper()}": str(value) for name, value in settings.items()}
        self.scheduler = None
        self.workers = [None] * workers
        self.start()

    def _begun(self, role, *words):
        call = [sys.executable, "-W", "ignore", "-m", f"distributed.cli.dask_{role}", *words]
        with open(self.folder / f"{role}.log", "a") as log:
            return subprocess.Popen(
                [*call, "--host", "127.0.0.1", "--no-dashboard"],
                cwd=self.folder,
                env=os.environ | self.settings,
                stdout=log,
                stderr=log,
            )

    def start(self, workers=None):
        """Start what is not running: the scheduler, and workers up to so many."""
        if self.scheduler is None or self.scheduler.poll() is not None:
            self.scheduler = self._begun("scheduler", "--port", str(self.port), "--idle-timeout", "600")
        for place, worker in enumerate(self.workers[:workers]):
            if worker is None or worker.poll() is not None:
                self.workers[place] = self._begun(
                    "worker",
                    *(self.address, "--nthreads", "1", "--no-nanny", "--memory-limit", "0", "--death-timeout", "30"),
                    *("--local-directory", str(self.folder)),
                )

    def kill_worker(self, place):
        self.workers[place].kill()
        self.workers[place].wait()

    def kill_scheduler(self):
        """Workers end with it."""
        self.scheduler.kill()
        self.scheduler.wait()
        for worker in self.workers:
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def end(self):
        for process in [*self.workers, self.scheduler]:
            if process is not None:
                process.kill()
                process.wait()


def dump(path):
    """All that a store says of runs, but the seconds they took."""
    connection = sqlite3.connect(path)
    questions = (
        "SELECT id, specification, scalars, digest FROM runs ORDER BY id",
        "SELECT * FROM arrays ORDER BY run, name",
        "SELECT * FROM failures ORDER BY id",
    )
    found = [connection.execute(question).fetchall() for question in questions]
    connection.close()
    return found


def until(condition, seconds=60.0):
    """Wait for something that must happen."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
