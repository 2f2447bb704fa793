"""Runs programs in processes of their own, and gives them the memory that this one does not need.

LiteRT, the driver of a GPU or another client may hang, end its process or fill its log.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run_program(
    program: Path, *arguments: str | Path, limit_s: float | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program of this library in a new process of this Python.

    Args:
        program: its file, which needs only NumPy and LiteRT.
        arguments: what it finds in `sys.argv`; a path is absolute.
        limit_s: the most seconds that it may take.
        variables: environment variables beside those of this process.

    Raises:
        subprocess.TimeoutExpired: it takes longer.
    """
    source = program.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as empty:
        # Run as text and in an empty folder: the folder of a script, or else the current one, comes
        # first on its sys.path, and that may be a stranger's.
        command = [sys.executable, "-c", source, *arguments]
        return run_command(command, limit_s, cwd=empty, env=os.environ | variables)


def run_command(
    command: Sequence[str | Path], limit_s: float | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a command, whose output is kept as text; options are those of `subprocess.run`."""
    options |= {"capture_output": True, "encoding": "utf-8", "errors": "replace"}
    return subprocess.run(command, timeout=limit_s, **options)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The last line that a process logged, or its exit code."""
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def release_memory() -> None:
    """Returns unused memory to the system, before work that needs a lot of it.

    The C library keeps what was freed, here and in TensorFlow: gigabytes after a large model.
    """
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # only glibc has this function
        ctypes.CDLL(None).malloc_trim(0)
