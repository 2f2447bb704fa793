"""Kills commands while they write; `kill_exports.py` and `kill_training.py` share it.

A write lasts milliseconds, so a kill at a random moment hardly ever falls into one. But as long as
it lasts there is a temporary folder (`_files.py`). A process is therefore stopped when one appears,
and killed if it is still there. Only the writer removes it: a new one that is left after a kill
proves that the kill fell into a write.

The commands are forked from a process that has imported everything, which takes most of their time.
"""

import argparse
import importlib
import multiprocessing
import os
import random
import runpy
import signal
import sys
import time
from collections.abc import Callable, Set
from multiprocessing.process import BaseProcess
from pathlib import Path

from keras_vit import _files

# Seconds between two looks for temporary folders, and for a signal to stop all threads.
_LOOK, _STOPPED = 0.001, 0.005


class Killer:
    """Kills processes that write to a folder, at any depth, and counts how many were in a write."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.kills = self.in_writes = 0

    def kill_after(self, start: Callable[[], BaseProcess], seconds: float) -> str:
        """Starts a process and kills it after some seconds.

        Returns "ended" if it has ended before, else "killed" or "killed in a write".
        """
        before, process = unfinished(self.folder), start()
        process.join(seconds)
        process.kill()
        return self._result(process, before)

    def kill_in_write(self, start: Callable[[], BaseProcess], earlier: int, delay: float) -> str:
        """Starts a process and kills it in a write; returns the same as `kill_after`.

        `earlier` writes are let pass, and then those that are complete `delay` seconds after they
        were noticed.
        """
        before, process = unfinished(self.folder), start()
        seen = set(before)
        while process.is_alive():
            new = unfinished(self.folder) - seen
            if new and earlier > 0:
                earlier -= len(new)
            elif new:
                time.sleep(delay)
                if _killed_while(process, lambda new=new: unfinished(self.folder) & new):
                    break
            seen |= new
            time.sleep(_LOOK)
        return self._result(process, before)

    def _result(self, process: BaseProcess, before: Set[Path]) -> str:
        process.join()
        if process.exitcode != -signal.SIGKILL:
            if process.exitcode:
                sys.exit(f"{process.name} exits with {process.exitcode}")
            return "ended"
        in_write = bool(unfinished(self.folder) - before)
        self.kills += 1
        self.in_writes += in_write
        return "killed in a write" if in_write else "killed"


def start(command: Path, *words: str | Path, cwd: Path) -> BaseProcess:
    """Starts a command in a process of its own, without its standard output."""
    line = [str(command), *map(str, words)]
    context, name = multiprocessing.get_context("fork"), " ".join(line)
    process = context.Process(target=_run, args=(line, cwd), name=name)
    process.start()
    return process


def load(*modules: str) -> None:
    """Imports what commands import, before they are started."""
    for module in modules:
        importlib.import_module(module)


def unfinished(folder: Path) -> set[Path]:
    """The temporary folders of writers in a folder and below; those of killed writers too.

    Those that `check_writable` makes are not counted: nothing is written.
    """
    return {
        Path(path, name)
        for path, folders, _ in os.walk(folder)
        for name in folders
        if name.endswith(_files.UNFINISHED) and not name.startswith(".check_writable.")
    }


def options(description: str) -> argparse.ArgumentParser:
    """The options of both programs."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--kills", type=int, default=20, help="(default: 20)")
    parser.add_argument("--in-writes", type=int, default=0, help="the least number (default: 0)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    return parser


def check(killer: Killer, at_least: int) -> None:
    """Exits with an error if too few kills fell into a write."""
    if killer.in_writes < at_least:
        received = f"{killer.in_writes} of {killer.kills}; raise --kills"
        sys.exit(f"expected {at_least} kills in a write. Received: {received}")


def aim(moments: random.Random, writes: int) -> dict[str, float]:
    """Arguments of `kill_in_write` for a random write of so many, at its beginning or later."""
    return {"earlier": moments.randrange(writes), "delay": moments.choice((0, 0.001, 0.005))}


def _run(line: list[str], cwd: Path) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.chdir(cwd)
    sys.argv = line
    runpy.run_path(line[0], run_name="__main__")


def _killed_while(process: BaseProcess, writes: Callable[[], object]) -> bool:
    """Stops a process, and kills it if it `writes`; otherwise it goes on."""
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(_STOPPED)
    if writes():
        process.kill()
        return True
    os.kill(process.pid, signal.SIGCONT)
    return False
