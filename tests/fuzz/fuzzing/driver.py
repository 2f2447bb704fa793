"""Gives inputs to workers, and makes and stores findings. It knows nothing of kinds."""

import contextlib
import dataclasses
import random
import re
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzzing.findings import Finding, Store, packed, unpacked
from fuzzing.minimise import fewest, smallest
from fuzzing.worker import Worker

_MINIMISING = 30.0  # seconds for each finding
_PROGRESS = 10.0
_MUTATIONS = (1, 1, 1, 2, 3, 5)
_EXCEPTION = re.compile(r"(?!MemoryError)\w+(Error|Exception),|a message")


@dataclasses.dataclass
class Tally:
    """What was seen of a kind."""

    tried: int = 0
    read: int = 0  # without an error
    findings: dict[str, str] = dataclasses.field(default_factory=dict)  # a line for each fault
    grown: int = 0  # the largest growth of the memory, in bytes
    memory: float = 0.0  # the largest fraction of what an input may take
    seconds: float = 0.0  # the longest time of an input
    spent: float = 0.0  # the seconds for this kind so far

    def add(self, answer: dict[str, Any]) -> None:
        """Counts one input."""
        self.tried += 1
        self.read += answer["outcome"] == "read"
        for field in ("grown", "memory", "seconds"):
            setattr(self, field, max(getattr(self, field), answer[field]))


def fuzz(
    kinds: dict[str, str],
    seconds: float,
    seed: int,
    jobs: int,
    store: Store,
    say: Callable[[str], None],
) -> dict[str, Tally]:
    """Tries inputs that the seed makes until Ctrl-C, or for some time after all are prepared.

    The kinds, which are given by their names and places, take turns in `jobs` processes. Findings
    are stored, and `say` shows lines of progress.
    """
    with tempfile.TemporaryDirectory(prefix="keras_vit_fuzz_") as folder:
        campaign = _Campaign(kinds, seconds, seed, Path(folder), store, say)
        threads = [threading.Thread(target=campaign.work, daemon=True) for _ in range(jobs)]
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                time.sleep(0.2)
                campaign.show()
        except KeyboardInterrupt:
            say("ended by Ctrl-C")
        campaign.is_over = True
        for worker in campaign.workers:
            worker.stop()
        for thread in threads:
            thread.join(5)
    if campaign.error is not None:
        raise campaign.error
    return campaign.tallies


class _Campaign:
    """What the threads share. Each thread has a worker of its own."""

    def __init__(self, kinds, seconds, seed, folder, store, say):
        self.tallies = {name: Tally() for name in kinds}
        self.workers: list[Worker] = []
        self.is_over, self.error = False, None
        self._kinds, self._seed, self._folder = kinds, seed, folder
        self._store, self._say, self._lock = store, say, threading.Lock()
        self._seconds, self._end, self._shown = seconds, None, time.monotonic()
        self._started = 0

    def work(self) -> None:
        """Reads inputs with a worker until the time is over."""
        worker = Worker(self._kinds, self._folder)
        self.workers.append(worker)
        try:
            for kind in self._kinds:
                worker.prepare(kind)
            self._end = self._end or time.monotonic() + self._seconds
            while not self._finished():
                self._try_one(worker)
        except Exception as error:
            if not self.is_over:  # or it is only that the worker was ended
                self.error, self.is_over = error, True
        finally:
            worker.stop()

    def show(self) -> None:
        """A line of progress now and then."""
        if time.monotonic() - self._shown > _PROGRESS:
            self._shown = time.monotonic()
            tried = sum(tally.tried for tally in self.tallies.values())
            findings = sum(len(tally.findings) for tally in self.tallies.values())
            left = self._end and max(self._end - time.monotonic(), 0)
            state = "preparing" if left is None else f"{left:.0f} s left"
            self._say(f"{tried:,} inputs, {findings} findings, {state}")

    def _finished(self) -> bool:
        return self.is_over or time.monotonic() >= self._end

    def _try_one(self, worker: Worker) -> None:
        with self._lock:
            kind = min(self.tallies, key=lambda name: self.tallies[name].spent)
            tally, number = self.tallies[kind], self._started
            self._started += 1
            tally.spent += 1e-3  # so that another thread takes another kind
        seed, start = f"{self._seed} {kind} {number}", time.monotonic()
        mutations = list(range(random.Random(seed).choice(_MUTATIONS)))
        file = worker.own / "smallest.zip"
        file.write_bytes(worker.make(kind, seed, mutations))
        answer = worker.read(kind, file)
        if self.is_over:
            return
        tally.add(answer)
        fault = answer["fault"]
        if fault and fault not in tally.findings and self._holds(worker, kind, fault, file):
            tally.findings[fault] = f"{kind}: {fault}: not stored yet"
            stored = self._stored(worker, kind, fault, file, seed, mutations)
            size = stored.stat().st_size
            tally.findings[fault] = f"{kind}: {fault}: {stored.name}, {size:,} bytes"
            self._say(tally.findings[fault])
        tally.spent += time.monotonic() - start

    def _holds(self, worker: Worker, kind: str, fault: str, file: Path) -> bool:
        """Whether the input has this fault again, in a new process if it may be due to the old."""
        if not _EXCEPTION.match(fault):
            worker.stop()
        holds = worker.read(kind, file)["fault"] == fault
        if not holds and not self.is_over:
            self._say(f"{kind}: {fault}: not again")
        return holds

    def _stored(self, worker, kind, fault, file, seed, mutations) -> Path:
        """Makes the input in a file small, and stores it."""
        candidate, end = worker.own / "candidate.zip", time.monotonic() + _MINIMISING

        def fails(content: bytes) -> bool:
            if time.monotonic() > end or self.is_over:
                raise _NoTimeLeftError
            candidate.write_bytes(content)
            found = worker.read(kind, candidate)["fault"] == fault
            if found:  # the smallest so far
                file.write_bytes(content)
            return found

        with contextlib.suppress(_NoTimeLeftError):
            fewest(mutations, lambda some: fails(worker.make(kind, seed, some)))
            files = unpacked(file.read_bytes()).files
            smallest(files, lambda less: fails(packed(Finding(kind, fault, less))))
        found = Finding(kind, fault, unpacked(file.read_bytes()).files)
        with self._lock:
            return self._store.add(found, lambda old: worker.read(kind, old)["fault"] == fault)


class _NoTimeLeftError(Exception):
    """Making an input smaller takes too long."""
