"""A process that reads inputs: requests come as lines of JSON, and each has one line as answer."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import gc
import json
import os
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from fuzzing.findings import Finding, packed, unpacked
from fuzzing.kind import Files, Kind, damaged, load

LIMIT = 10.0  # seconds
LONGEST_MESSAGE = 10_000
_SLACK = 2 << 30  # of the process above what an input may take, so that the machine stays usable
_ERRORS = "keras_vit._errors"  # by its name: the import takes seconds
_STATUS = Path("/proc/self/status")
_ROOT = Path(__file__).parents[3]


class Reader:
    """The kinds that were prepared, and the folders of this process and of all."""

    def __init__(self, own: Path, shared: Path):
        self.own, self.shared = own, shared
        self.kinds: dict[str, tuple[Kind, list[Files], Path]] = {}

    def prepare(self, kind: str, module: str) -> dict[str, Any]:
        """Makes the seeds, and reads each once: what the library keeps is no growth later."""
        home = self.shared / kind
        home.mkdir(parents=True, exist_ok=True)
        with open(self.shared / f"{kind}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            loaded = load(module)
            gc.freeze()  # a collection takes long with all that the library imports
            self.kinds[kind] = loaded, loaded.seeds(home), home
        for files in self.kinds[kind][1] * 2:
            self._unpack(files)
            _attempt(loaded, self.own / "files", home)
        gc.collect()
        gc.freeze()
        return {"seeds": len(self.kinds[kind][1])}

    def make(self, kind: str, seed: str, mutations: list[int]) -> dict[str, Any]:
        """Stores the input of these mutations."""
        loaded, seeds, _ = self.kinds[kind]
        files = damaged(loaded, seeds, seed, mutations)
        (self.own / "input.zip").write_bytes(packed(Finding(kind, "", files), small=False))
        return {}

    def read(self, kind: str, path: str) -> dict[str, Any]:
        """Reads the input in a finding's file."""
        loaded, _, home = self.kinds[kind]
        files = unpacked(Path(path).read_bytes()).files
        self._unpack(files)
        size = sum(map(len, files.values()))
        del files
        allowed = 2 * size + loaded.MEMORY
        with open(self.own / "trace.txt", "w") as trace:
            faulthandler.enable(trace)
            faulthandler.dump_traceback_later(LIMIT, file=trace)
            signal.alarm(int(30 * LIMIT))  # ends it even if nobody is left to do so
            clock, before = Clock(), _limit_memory(allowed)
            fault, outcome = _attempt(loaded, self.own / "files", home)
            seconds, grown = clock.seconds(), _status("VmHWM") - before
            signal.alarm(0)
            faulthandler.cancel_dump_traceback_later()
        if not fault and seconds > LIMIT:
            fault = f"more than {LIMIT:.0f} s, {where((self.own / 'trace.txt').read_text())}"
        if not fault and grown > allowed:
            fault = f"too much memory, {outcome}"
        gc.collect()
        return {
            "fault": fault, "outcome": outcome, "seconds": seconds, "grown": grown,
            "memory": grown / allowed,
        }  # fmt: skip

    def _unpack(self, files: Files) -> None:
        folder = self.own / "files"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


class Clock:
    """The time of a process, without that in which it waited because others computed.

    Others are processes of this machine, and of its host if it is a virtual one.
    """

    def __init__(self, process: int | str = "self"):
        self._tasks = Path(f"/proc/{process}/task")
        self._start, self._waits = self._time(), self._waited()

    def seconds(self) -> float:
        """The time since the clock was made."""
        # The wait of one thread, because several may wait at the same time.
        waits = [wait - self._waits.get(name, 0) for name, wait in self._waited().items()]
        return self._time() - self._start - max(waits, default=0) / 1e9

    def _time(self) -> float:
        stolen = int(Path("/proc/stat").read_text().split()[8])  # of all processors
        return time.monotonic() - stolen / (os.sysconf("SC_CLK_TCK") * os.cpu_count())

    def _waited(self) -> dict[str, int]:
        """The nanoseconds that each thread has waited for a processor."""
        waits = {}
        with contextlib.suppress(OSError):  # not every kernel counts it, and threads end
            for task in self._tasks.iterdir():
                with contextlib.suppress(OSError):
                    waits[task.name] = int((task / "schedstat").read_text().split()[1])
        return waits


def where(trace: str) -> str:
    """The innermost function of the library in the text of a trace."""
    inner = re.findall(r'File "[^"]*/(keras_vit/[^"]+)", line \d+,? in (\S+)', trace)
    return "in {}:{}".format(*inner[0]) if inner else "outside keras_vit"


def is_expected(error: BaseException) -> bool:
    """Whether it is an exception of keras_vit, or says that there is no such file."""
    classes = type(error).__mro__
    absent = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
    return any(each.__module__ == _ERRORS for each in classes) or isinstance(error, absent)


def _attempt(kind: Kind, folder: Path, home: Path) -> tuple[str, str]:
    """Reads an input; returns what is wrong, or "", and what came of it."""
    try:
        kind.read(folder, home)
        return "", "read"
    except BaseException as error:
        place, unfit = _place(error), _unfit(str(error))
        if not is_expected(error):
            return f"{type(error).__name__}, {place}", "an error"
        return unfit and f"{unfit}, {place}", place


def _unfit(message: str) -> str:
    if len(message) > LONGEST_MESSAGE:
        return f"a message of more than {LONGEST_MESSAGE:,} characters"
    return "" if message.replace("\n", "").isprintable() else "a message that is not printable"


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f'File "{frame.filename}", line 1, in {frame.name}' for frame in reversed(frames)]
    return where("\n".join(lines))


def _limit_memory(allowed: int) -> int:
    """Limits the memory of the process, and forgets its peak; returns what it takes now."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_status("VmData") + allowed + _SLACK, hard))
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins again
    return _status("VmRSS")


def _status(field: str) -> int:
    return 1024 * int(re.search(rf"{field}:\s+(\d+)", _STATUS.read_text())[1])


def main() -> None:
    own, shared = map(Path, sys.argv[1:])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to the log
    sys.path.insert(0, str(_ROOT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    reader = Reader(own, shared)
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(reader, request.pop("do"))(**request)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
