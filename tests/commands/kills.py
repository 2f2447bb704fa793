"""Kills commands while they write; `kill_exports.py` and `kill_training.py` share it.

A write lasts milliseconds, so a kill at a random moment hardly ever falls into one. But as long as
it lasts there is a temporary folder (`_files.py`). A process therefore counts its own steps in such
folders, each of which opens or renames something, and kills itself before one of them. Only the
writer removes the folder: a new one that is left after a kill proves that the kill fell into a
write.

The commands are forked from a process that has imported everything, which takes most of their time.
"""

import argparse
import importlib
import itertools
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

from keras_vit import _files


class Killer:
    """Runs commands in a folder, kills them, and counts how many were in a write.

    Args:
        folder: what they write lies in it, at any depth.
        modules: what they import, which is imported before they are started.
    """

    def __init__(self, folder: Path, *modules: str):
        self.folder = folder
        self.kills = self.in_writes = 0
        for module in modules:
            importlib.import_module(module)

    def run(
        self,
        *words: str | Path,
        step: int | None = None,
        wait: Callable[[BaseProcess], object] = BaseProcess.join,
    ) -> str:
        """Runs a command in a process of its own, without its standard output.

        It is killed before that step of its writes, and when `wait` returns.

        Returns "ended" if it has ended before, else "killed" or "killed in a write".
        """
        line = [*map(str, words)]
        process = multiprocessing.get_context("fork").Process(
            target=_run, args=(line, self.folder, step), name=" ".join(line)
        )
        before = unfinished(self.folder)
        process.start()
        wait(process)
        process.kill()
        process.join()
        if process.exitcode == 0:
            return "ended"
        if process.exitcode != -signal.SIGKILL:
            sys.exit(f"{process.name} exits with {process.exitcode}")
        in_write = bool(unfinished(self.folder) - before)
        self.kills += 1
        self.in_writes += in_write
        return "killed in a write" if in_write else "killed"

    def check(self, at_least: int) -> None:
        """Exits with an error if too few kills fell into a write."""
        if self.in_writes < at_least:
            received = f"{self.in_writes} of {self.kills}; raise --kills"
            sys.exit(f"expected {at_least} kills in a write. Received: {received}")


def unfinished(folder: Path) -> set[Path]:
    """The temporary folders of writers in a folder and below; those of killed writers too."""
    return {path for path in folder.rglob(f".*{_files.UNFINISHED}") if _is_of_a_write(path)}


def options(description: str) -> argparse.ArgumentParser:
    """The options of both programs."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--kills", type=int, default=20, help="(default: 20)")
    parser.add_argument("--in-writes", type=int, default=0, help="the least number (default: 0)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    return parser


def _is_of_a_write(path: str | Path) -> bool:
    """Whether it lies in a temporary folder, but in none of `check_writable`, which are empty."""
    return _files.UNFINISHED in str(path) and ".check_writable." not in str(path)


def _run(line: list[str], folder: Path, step: int | None) -> None:
    steps = itertools.count()

    def die(event, arguments):
        is_step = event in ("open", "os.rename") and _is_of_a_write(arguments[0])
        if is_step and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.chdir(folder)
    sys.argv = line
    runpy.run_path(line[0], run_name="__main__")
