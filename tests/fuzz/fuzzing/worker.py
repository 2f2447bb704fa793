"""A process that makes and reads inputs, and the driver's side of it, which names how it ended."""

import faulthandler
import functools
import gc
import multiprocessing
import os
import pkgutil
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from fuzzing.kind import Files, Kind, damaged, write

LONGEST_MESSAGE = 10_000
# Seconds of an input. Those of the processor do not depend on what else the machine does.
COMPUTING, WAITING = 10, 60
_PREPARING = 300  # imports, and what the seeds need
_LIMITS = {
    signal.SIGPROF: f"more than {COMPUTING} s", signal.SIGALRM: f"no end within {WAITING} s",
}  # fmt: skip
_SLACK = 2 << 30  # of the process above what an input may take, so that the machine stays usable
_ERRORS = "keras_vit._errors"  # by its name: the import takes seconds
_ROOT = Path(__file__).parents[3]
_CONTEXT = multiprocessing.get_context("spawn")


class Answer(NamedTuple):
    """What came of reading an input."""

    fault: str  # "" if all is well
    outcome: str = ""  # "read", or where its error is from
    seconds: float = 0.0  # of the processor
    memory: float = 0.0  # how much it grew, as a fraction of what the input may take


class Worker:
    """A process that is started when it is needed, and again after it ended.

    Args:
        kinds: where each kind is, by its name.
        home: a folder of its own.
    """

    def __init__(self, kinds: dict[str, str], home: Path):
        self._kinds, self._home = kinds, home
        self._process, self._pipe = None, None

    def make(self, kind: str, seed: str, mutations: Sequence[int]) -> Files:
        """The input of these mutations."""
        return self._ask(_make, kind, seed, mutations)

    def read(self, kind: str, files: Files) -> Answer:
        """What came of reading an input."""
        try:
            return self._ask(_read, kind, files)
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            end = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            trace = (self._home / "trace.txt").read_text(errors="replace")
            return Answer(f"{_LIMITS.get(-code, end)}, {where(trace)}")

    def close(self) -> None:
        """Ends the process; the next input is read in a new one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()

    def _ask(self, function: Callable, kind: str, *arguments: Any) -> Any:
        """What the function returns in the process."""
        if self._process is None or not self._process.is_alive():
            self._pipe, its_end = _CONTEXT.Pipe()
            self._process = _CONTEXT.Process(target=_serve, args=(its_end, self._home), daemon=True)
            self._process.start()
            its_end.close()
        self._pipe.send((function, self._kinds[kind], self._home / kind, *arguments))
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(pipe: Connection, home: Path) -> None:
    """What the process does: it answers requests until there are no more."""
    os.setsid()  # Ctrl-C is the driver's
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # libraries write there
        os.dup2(nowhere, stream)
    sys.path.insert(0, str(_ROOT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "trace.txt", "w") as trace:
        faulthandler.enable(trace)
        for limit in _LIMITS:
            faulthandler.register(limit, trace, chain=True)  # the signal then ends the process
        while True:
            function, *arguments = pipe.recv()
            signal.alarm(_PREPARING)
            try:
                answer = function(*arguments)
            except Exception:  # a fault of the kind itself
                answer = RuntimeError(traceback.format_exc())
            signal.alarm(0)
            pipe.send(answer)


@functools.cache
def _prepared(place: str, home: Path) -> tuple[Kind, list[Files]]:
    """A kind and its seeds, each of which is read twice: what the library keeps is no growth."""
    home.mkdir(exist_ok=True)
    kind = pkgutil.resolve_name(place)
    gc.freeze()  # a collection takes long with all that the library imports
    seeds = kind.seeds(home)
    for files in seeds * 2:
        _attempt(kind, _written(files, home), home)
    gc.collect()
    gc.freeze()
    return kind, seeds


def _make(place: str, home: Path, seed: str, mutations: Sequence[int]) -> Files:
    return damaged(*_prepared(place, home), seed, mutations)


def _read(place: str, home: Path, files: Files) -> Answer:
    kind, _ = _prepared(place, home)
    folder, allowed = _written(files, home), 2 * sum(map(len, files.values())) + kind.memory
    files.clear()
    before, start = _limit_memory(allowed), time.process_time()
    signal.setitimer(signal.ITIMER_PROF, COMPUTING)
    signal.alarm(WAITING)
    fault, outcome = _attempt(kind, folder, home)
    signal.setitimer(signal.ITIMER_PROF, 0)
    seconds, memory = time.process_time() - start, (_status("VmHWM") - before) / allowed
    if not fault and memory > 1:
        fault = f"too much memory, {outcome}"
    gc.collect()
    return Answer(fault, outcome, seconds, memory)


def _written(files: Files, home: Path) -> Path:
    shutil.rmtree(home / "input", ignore_errors=True)
    return write(files, home / "input/files")


def _attempt(kind: Kind, folder: Path, home: Path) -> tuple[str, str]:
    """Reads an input; returns what is wrong, or "", and what came of it."""
    try:
        kind.read(folder, home)
        return "", "read"
    except BaseException as error:
        place = where("".join(reversed(traceback.format_tb(error.__traceback__))))
        message, fault = str(error), ""
        if not is_expected(error):
            fault = f"{type(error).__name__}, {place}"
        elif len(message) > LONGEST_MESSAGE:
            fault = f"a message of more than {LONGEST_MESSAGE:,} characters, {place}"
        elif not message.replace("\n", "").isprintable():
            fault = f"a message that is not printable, {place}"
        return fault, place


def is_expected(error: BaseException) -> bool:
    """Whether it is an exception of keras_vit, or says that there is no such file."""
    absent = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
    classes = type(error).__mro__
    return isinstance(error, absent) or any(each.__module__ == _ERRORS for each in classes)


def where(trace: str) -> str:
    """The first function of the library in the text of a trace whose innermost call is first."""
    inner = re.search(r'File "[^"]*/(keras_vit/[^"]+)", line \d+,? in (\S+)', trace)
    return f"in {inner[1]}:{inner[2]}" if inner else "outside keras_vit"


def _limit_memory(allowed: int) -> int:
    """Limits the memory of the process, and forgets its peak; returns what it takes now."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_status("VmData") + allowed + _SLACK, hard))
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins again
    return _status("VmRSS")


def _status(field: str) -> int:
    return 1024 * int(re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())[1])
