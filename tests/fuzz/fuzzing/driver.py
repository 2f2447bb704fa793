"""Gives inputs to workers, and makes and stores findings. It knows nothing of kinds."""

import concurrent.futures
import contextlib
import dataclasses
import random
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fuzzing.findings import Finding, store
from fuzzing.kind import Files
from fuzzing.worker import Answer, ClosedError, Worker

_MINIMISING = 30.0  # seconds for each finding
_PROGRESS = 10.0
_MUTATIONS = (1, 1, 1, 2, 3, 5)


@dataclasses.dataclass
class Tally:
    """What was seen of a kind."""

    tried: int = 0
    read: int = 0  # without an error
    findings: dict[str, str] = dataclasses.field(default_factory=dict)  # a line for each fault
    seconds: float = 0.0  # the largest of all answers, as those below
    grown: int = 0
    memory: float = 0.0

    def add(self, answer: Answer) -> None:
        """Counts one input."""
        self.tried += 1
        self.read += answer.outcome == "read"
        for field in ("seconds", "grown", "memory"):
            setattr(self, field, max(getattr(self, field), getattr(answer, field)))


def fuzz(
    kinds: dict[str, str],
    seconds: float,
    seed: int,
    jobs: int,
    out: Path,
    say: Callable[[str], None],
) -> dict[str, Tally]:
    """Tries inputs that the seed makes until Ctrl-C, or for some time after all are prepared.

    The kinds, which are given by their names and places, take turns in each of `jobs` processes.
    Findings are stored in `out`, and `say` shows lines of progress.
    """
    tallies = {name: Tally() for name in kinds}
    with (
        tempfile.TemporaryDirectory(prefix="keras_vit_fuzz_") as folder,
        concurrent.futures.ThreadPoolExecutor(jobs) as pool,
    ):
        workers = [Worker(kinds, Path(folder, str(job))) for job in range(jobs)]
        campaigns = [_Campaign(worker, tallies, out, say) for worker in workers]
        working = [
            pool.submit(campaign.run, seconds, f"{seed} {job}")
            for job, campaign in enumerate(campaigns)
        ]
        try:
            while concurrent.futures.wait(working, _PROGRESS).not_done:
                tried = sum(tally.tried for tally in tallies.values())
                findings = sum(len(tally.findings) for tally in tallies.values())
                say(f"{tried:,} inputs, {findings} findings")
        except KeyboardInterrupt:
            say("ended by Ctrl-C")
        finally:
            for worker in workers:
                worker.close()
        for each in working:
            with contextlib.suppress(ClosedError):
                each.result()
    return tallies


class _Campaign:
    """What one thread does with a worker of its own."""

    _lock = threading.Lock()  # of what the threads share: the tallies and the stored findings

    def __init__(self, worker, tallies, out, say):
        self._worker, self._tallies, self._out, self._say = worker, tallies, out, say

    def run(self, seconds: float, seed: str) -> None:
        """Reads inputs until the time is over."""
        for kind in self._tallies:
            self._worker.make(kind, seed, [])
        end = time.monotonic() + seconds
        tried, spent = (dict.fromkeys(self._tallies, 0) for _ in range(2))
        while (start := time.monotonic()) < end:
            kind = min(spent, key=spent.get)
            self._try_one(kind, f"{seed} {kind} {tried[kind]}")
            tried[kind] += 1
            spent[kind] += time.monotonic() - start

    def _try_one(self, kind: str, seed: str) -> None:
        mutations = range(random.Random(seed).choice(_MUTATIONS))
        files = self._worker.make(kind, seed, mutations)
        answer = self._worker.read(kind, files)
        fault, tally = answer.fault, self._tallies[kind]
        with self._lock:
            tally.add(answer)
        if not fault or fault in tally.findings:
            return
        if "emory" in fault:  # it may be due to what was read before
            self._worker.stop()
        if not self._has(kind, files, fault):
            self._say(f"{kind}: {fault}: not again")
            return
        tally.findings[fault] = f"{kind}: {fault}: not stored yet"
        found = Finding(kind, fault, self._smallest(kind, fault, seed, mutations))
        with self._lock:
            file = store(self._out, found, lambda old: self._has(kind, old, fault))
        tally.findings[fault] = f"{kind}: {fault}: {file.name}, {file.stat().st_size:,} bytes"
        self._say(tally.findings[fault])

    def _has(self, kind: str, files: Files, fault: str) -> bool:
        return self._worker.read(kind, files).fault == fault

    def _smallest(self, kind: str, fault: str, seed: str, mutations: Sequence[int]) -> Files:
        """The input of fewer mutations, with fewer files and less in each, that still fails."""
        end = time.monotonic() + _MINIMISING

        def smaller(items: Sequence, made: Callable[[Sequence], Files]) -> Sequence:
            return fewest(items, lambda some: self._has(kind, made(some), fault), end)

        mutations = smaller([*mutations], lambda some: self._worker.make(kind, seed, some))
        files = self._worker.make(kind, seed, mutations)
        names = smaller(sorted(files), lambda some: {name: files[name] for name in some})
        files = {name: files[name] for name in names}
        for name in names:
            files[name] = smaller(files[name], lambda less, name=name: files | {name: less})
        return files


def fewest(items: Sequence, fails: Callable[[Sequence], bool], end: float) -> Sequence:
    """A part of `items` that still fails, without most of what can be left out until `end`."""
    size = len(items)
    while size and time.monotonic() < end:
        at = 0
        while at < len(items) and time.monotonic() < end:
            less = items[:at] + items[at + size :]
            if fails(less):
                items = less
            else:
                at += size
        size //= 2
    return items
