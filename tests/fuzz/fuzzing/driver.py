"""Gives inputs to workers, and makes and stores findings. It knows nothing of kinds."""

import contextlib
import dataclasses
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from fuzzing.kind import Files, Finding, store
from fuzzing.worker import Answer, Worker

_MINIMISING = 30.0  # seconds for each finding
_PROGRESS = 10.0
_MUTATIONS = (1, 1, 1, 2, 3, 5)


@dataclasses.dataclass
class Campaign:
    """Reads damaged inputs until the time is over, or Ctrl-C.

    Args:
        kinds: where each kind is, by its name; they take turns.
        seconds: the time after all kinds are prepared.
        seed: makes the inputs.
        out: the folder of the findings.
        say: shows a line of progress.

    Attributes:
        answers: those of each kind.
        findings: a line for each kind and fault.
        end: when the last process to be ready stops; None before the first one is.
    """

    kinds: dict[str, str]
    seconds: float
    seed: int
    out: Path
    say: Callable[[str], None]
    is_over: bool = False
    end: float | None = None
    answers: dict[str, list[Answer]] = dataclasses.field(default_factory=lambda: defaultdict(list))
    findings: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)

    def run(self, jobs: int) -> None:
        """Reads in so many processes."""
        with (
            tempfile.TemporaryDirectory(prefix="keras_vit_fuzz_") as folder,
            ThreadPoolExecutor(jobs) as pool,
        ):
            working = [pool.submit(self._work, Path(folder, str(job)), job) for job in range(jobs)]
            try:
                while wait(working, _PROGRESS).not_done:
                    tried = sum(map(len, self.answers.values()))
                    left = self.end and max(self.end - time.monotonic(), 0)
                    state = "preparing" if left is None else f"{left:.0f} s left"
                    self.say(f"{tried:,} inputs, {len(self.findings)} findings, {state}")
            except KeyboardInterrupt:
                self.is_over = True
                self.say("ended by Ctrl-C")
            for each in working:
                each.result()  # raises its error

    def _work(self, home: Path, job: int) -> None:
        with contextlib.closing(Worker(self.kinds, home)) as worker:
            for kind in self.kinds:
                if not self.is_over:
                    worker.make(kind, "", [])
            end = self.end = time.monotonic() + self.seconds
            spent = dict.fromkeys(self.kinds, 0.0)
            while (start := time.monotonic()) < end and not self.is_over:
                kind = min(spent, key=spent.get)
                self._try_one(worker, kind, f"{self.seed} {job} {len(self.answers[kind])}")
                spent[kind] += time.monotonic() - start

    def _try_one(self, worker: Worker, kind: str, seed: str) -> None:
        mutations = range(random.Random(seed).choice(_MUTATIONS))
        files = worker.make(kind, seed, mutations)
        answer = worker.read(kind, files)
        self.answers[kind].append(answer)
        fault = answer.fault
        if not fault or (kind, fault) in self.findings:
            return
        self.findings[kind, fault] = "not stored yet"  # and no other process shall do so
        if "emory" in fault:  # it may be due to what was read before
            worker.close()
        if worker.read(kind, files).fault != fault:
            self.say(f"{kind}: {fault}: not again")
            del self.findings[kind, fault]
            return
        files = self._smallest(worker, kind, fault, seed, mutations)
        file = store(self.out, Finding(kind, fault, files))
        line = f"{kind}: {fault}: {file.name}, {file.stat().st_size:,} bytes"
        self.findings[kind, fault] = line
        self.say(line)

    def _smallest(self, worker: Worker, kind: str, fault: str, seed: str, mutations) -> Files:
        """The input of fewer mutations, with fewer files and less in each, that still fails."""
        end = time.monotonic() + _MINIMISING

        def fewest(items: Sequence, made: Callable[[Sequence], Files]) -> Sequence:
            """Without each half that can be left out, each quarter, and so on."""
            size = len(items)
            while size:
                at = 0
                while at < len(items) and time.monotonic() < end and not self.is_over:
                    less = items[:at] + items[at + size :]
                    if worker.read(kind, made(less)).fault == fault:
                        items = less
                    else:
                        at += size
                size //= 2
            return items

        mutations = fewest([*mutations], lambda some: worker.make(kind, seed, some))
        files = worker.make(kind, seed, mutations)
        names = fewest(sorted(files), lambda some: {name: files[name] for name in some})
        files = {name: files[name] for name in names}
        for name in names:
            files[name] = fewest(files[name], lambda less, name=name: files | {name: less})
        return files
