"""The driver's side of a worker: asks, waits, and names the fault of a worker that ended."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fuzzing.worker import LIMIT, Clock, where

_PREPARE = 300.0  # seconds: imports, and what the seeds need
_MORE = 2.0  # seconds after the limit, in which the worker itself may answer


class Worker:
    """A process that is started when it is needed, and again after it ended.

    Args:
        kinds: the modules by kind.
        shared: a folder for what all workers need.
    """

    def __init__(self, kinds: dict[str, str], shared: Path):
        self._kinds, self._shared = kinds, shared
        self.own = Path(tempfile.mkdtemp(prefix="worker", dir=shared))
        self._process: subprocess.Popen | None = None
        self._prepared: set[str] = set()

    def make(self, kind: str, seed: str, mutations: Sequence[int]) -> bytes:
        """The content of the input of these mutations, as that of a finding's file."""
        self.prepare(kind)
        request = {"do": "make", "kind": kind, "seed": seed, "mutations": list(mutations)}
        if self._exchange(request, _PREPARE) is None:
            raise self._failed(f"{kind} could not be damaged, seed {seed!r}")
        return (self.own / "input.zip").read_bytes()

    def read(self, kind: str, path: Path) -> dict[str, Any]:
        """What came of reading the input in a finding's file, with "fault": "" if all is well."""
        self.prepare(kind)
        answer = self._exchange({"do": "read", "kind": kind, "path": str(path)}, LIMIT + _MORE)
        return answer or {"outcome": "", "seconds": 0.0, "grown": 0, "memory": 0.0} | self._end()

    def prepare(self, kind: str) -> None:
        """Starts the process if there is none, and makes the kind's seeds."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        if kind not in self._prepared:
            request = {"do": "prepare", "kind": kind, "module": self._kinds[kind]}
            if self._exchange(request, _PREPARE) is None:
                raise self._failed(f"{kind} could not be prepared")
            self._prepared.add(kind)

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            self._process = None

    def _failed(self, what: str) -> RuntimeError:
        self.stop()
        log = (self.own / "log.txt").read_text(errors="replace")
        return RuntimeError(f"{what}:\n{log[-4000:]}")

    def _start(self) -> None:
        self.stop()
        self._prepared.clear()
        path = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        with open(self.own / "log.txt", "w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fuzzing.worker", self.own, self._shared],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))},
                start_new_session=True,  # Ctrl-C is the driver's
            )  # fmt: skip

    def _exchange(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """The answer; None if the process ended or does not answer in time."""
        process = self._process
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            return None
        ready, clock = [], Clock(process.pid)
        while not ready and clock.seconds() < seconds:
            ready, _, _ = select.select([process.stdout], [], [], 0.5)
        line = process.stdout.readline() if ready else b""
        return json.loads(line) if line.endswith(b"\n") else None

    def _end(self) -> dict[str, Any]:
        """The fault of a worker that gave no answer."""
        try:
            code = self._process.wait(0.5)
            fault = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            fault = f"more than {LIMIT:.0f} s"
        self.stop()
        trace = (self.own / "trace.txt").read_text(errors="replace")
        seconds = LIMIT if fault.startswith("more") else 0.0
        return {"fault": f"{fault}, {where(trace)}", "seconds": seconds}
