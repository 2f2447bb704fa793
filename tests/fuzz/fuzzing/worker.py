"""A process that reads inputs, and the driver's side of it, which names its fault if it ended."""

import contextlib
import faulthandler
import fcntl
import gc
import multiprocessing
import os
import pkgutil
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fuzzing.findings import Finding, packed, unpacked
from fuzzing.kind import Files, Kind, damaged, write

LIMIT = 10.0  # seconds
LONGEST_MESSAGE = 10_000
_PREPARE = 300.0  # seconds: imports, and what the seeds need
_MORE = 2.0  # seconds after the limit, in which the process itself may answer
_SLACK = 2 << 30  # of the process above what an input may take, so that the machine stays usable
_ERRORS = "keras_vit._errors"  # by its name: the import takes seconds
_STATUS = Path("/proc/self/status")
_ROOT = Path(__file__).parents[3]
_CONTEXT = multiprocessing.get_context("spawn")


class Worker:
    """A process that is started when it is needed, and again after it ended.

    Args:
        kinds: where each kind is, by its name.
        shared: a folder for what all workers need.
    """

    def __init__(self, kinds: dict[str, str], shared: Path):
        self._kinds, self._shared = kinds, shared
        self.own = Path(tempfile.mkdtemp(prefix="worker", dir=shared))
        self._process, self._pipe = None, None
        self._prepared: set[str] = set()

    def make(self, kind: str, seed: str, mutations: Sequence[int]) -> bytes:
        """The content of the input of these mutations, as that of a finding's file."""
        self.prepare(kind)
        self._must("make", kind, seed, mutations)
        return (self.own / "input.zip").read_bytes()

    def read(self, kind: str, path: Path) -> dict[str, Any]:
        """What came of reading the input in a finding's file, with "fault": "" if all is well."""
        self.prepare(kind)
        answer = self._ask(LIMIT + _MORE, "read", kind, path)
        return answer or {"outcome": "", "seconds": 0.0, "grown": 0, "memory": 0.0} | self._end()

    def prepare(self, kind: str) -> None:
        """Starts the process if there is none, and makes the kind's seeds."""
        if self._process is None or not self._process.is_alive():
            self.stop()
            self._prepared.clear()
            self._pipe, its_end = _CONTEXT.Pipe()
            arguments = its_end, self.own, self._shared
            self._process = _CONTEXT.Process(target=_answer, args=arguments, daemon=True)
            self._process.start()
            its_end.close()
        if kind not in self._prepared:
            self._must("prepare", kind, self._kinds[kind])
            self._prepared.add(kind)

    def stop(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join()
            self._pipe.close()

    def _must(self, *request: Any) -> None:
        if not self._ask(_PREPARE, *request):
            self.stop()
            log = (self.own / "log.txt").read_text(errors="replace")
            raise RuntimeError(f"no answer to {request}:\n{log[-4000:]}")

    def _ask(self, seconds: float, *request: Any) -> Any:
        """The answer; None if the process ended or does not answer in time."""
        with contextlib.suppress(OSError, EOFError):
            self._pipe.send(request)
            clock = Clock(self._process.pid)
            while clock.seconds() < seconds:
                if self._pipe.poll(0.5):
                    return self._pipe.recv()
        return None

    def _end(self) -> dict[str, Any]:
        """The fault of a process that gave no answer."""
        self._process.join(0.5)
        code, seconds = self._process.exitcode, 0.0
        if code is None:
            fault, seconds = f"more than {LIMIT:.0f} s", LIMIT
        else:
            fault = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self.stop()
        trace = (self.own / "trace.txt").read_text(errors="replace")
        return {"fault": f"{fault}, {where(trace)}", "seconds": seconds}


def _answer(pipe: Connection, own: Path, shared: Path) -> None:
    """What the process does: it answers requests until there are no more."""
    os.setsid()  # Ctrl-C is the driver's
    with open(own / "log.txt", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.path.insert(0, str(_ROOT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    reader = _Reader(own, shared)
    with contextlib.suppress(EOFError):
        while True:
            name, *arguments = pipe.recv()
            pipe.send(getattr(reader, name)(*arguments))


class _Reader:
    """The kinds that were prepared, and the folders of this process and of all."""

    def __init__(self, own: Path, shared: Path):
        self.own, self.shared = own, shared
        self.kinds: dict[str, tuple[Kind, list[Files], Path]] = {}

    def prepare(self, name: str, place: str) -> bool:
        """Makes the seeds, and reads each twice: what the library keeps is no growth later."""
        home = self.shared / name
        home.mkdir(parents=True, exist_ok=True)
        with open(self.shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kind = pkgutil.resolve_name(place)
            gc.freeze()  # a collection takes long with all that the library imports
            seeds = kind.seeds(home)
        self.kinds[name] = kind, seeds, home
        for files in seeds * 2:
            _attempt(kind, self._written(files), home)
        gc.collect()
        gc.freeze()
        return True

    def make(self, name: str, seed: str, mutations: list[int]) -> bool:
        """Stores the input of these mutations."""
        kind, seeds, _ = self.kinds[name]
        found = Finding(name, "", damaged(kind, seeds, seed, mutations))
        (self.own / "input.zip").write_bytes(packed(found, small=False))
        return True

    def read(self, name: str, path: Path) -> dict[str, Any]:
        """Reads the input in a finding's file."""
        kind, _, home = self.kinds[name]
        files = unpacked(path.read_bytes()).files
        folder, allowed = self._written(files), 2 * sum(map(len, files.values())) + kind.memory
        del files
        with open(self.own / "trace.txt", "w") as trace:
            faulthandler.enable(trace)
            faulthandler.dump_traceback_later(LIMIT, file=trace)
            signal.alarm(int(30 * LIMIT))  # ends it even if nobody is left to do so
            clock, before = Clock(), _limit_memory(allowed)
            fault, outcome = _attempt(kind, folder, home)
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

    def _written(self, files: Files) -> Path:
        shutil.rmtree(self.own / "files", ignore_errors=True)
        return write(files, self.own / "files")


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
    inner = re.search(r'File "[^"]*/(keras_vit/[^"]+)", line \d+,? in (\S+)', trace)
    return f"in {inner[1]}:{inner[2]}" if inner else "outside keras_vit"


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
