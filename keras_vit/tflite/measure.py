"""Measures the size, the latency, the load time and the memory of `.tflite` files with LiteRT."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import platform
import signal
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from keras_vit import _checks
from keras_vit._errors import UsageError
from keras_vit.tflite.flatbuffer import existing_file
from keras_vit.tflite.processes import last_line, run_program
from keras_vit.tflite.runner import as_path, interpreter_class

_PROGRAM = Path(__file__).with_name("timing_program.py")
_MOST_ROUNDS = 100
# Bytes that are compressed at once.
_PART = 2**24


@dataclasses.dataclass(frozen=True)
class Latency:
    """The time that one image takes, from setting the input to reading the scores.

    Attributes:
        threads: number of threads of the interpreter.
        median_ms, p90_ms: median and 90th percentile of the runs, in milliseconds.
        runs: number of timed runs, after a warm-up run.
    """

    threads: int
    median_ms: float
    p90_ms: float
    runs: int


@dataclasses.dataclass(frozen=True)
class Measured:
    """Size, load time, memory and latency of a file.

    Attributes:
        bytes: size of the file.
        compressed_bytes: its size in a zip file or an APK (zlib, level 6).
        load_s: seconds to create an interpreter and allocate its tensors, measured once in a
            process of its own. The file has been read before, so reading the disk is not included.
        before_bytes: peak memory of that process before loading, with Python, NumPy and LiteRT;
            None on other systems than Linux.
        peak_bytes: its peak memory after one image, with the pages of the file that are mapped
            into memory; None on other systems than Linux.
        latency: one entry for each number of threads, in the order of the argument `threads`.
    """

    bytes: int
    compressed_bytes: int
    load_s: float
    before_bytes: int | None
    peak_bytes: int | None
    latency: tuple[Latency, ...]

    @property
    def own_bytes(self) -> int | None:
        """The peak memory without that of Python, NumPy and LiteRT."""
        known = None not in (self.peak_bytes, self.before_bytes)
        return self.peak_bytes - self.before_bytes if known else None

    def to_dict(self) -> dict[str, Any]:
        """The fields and `own_bytes` as plain JSON values."""
        return {**dataclasses.asdict(self), "own_bytes": self.own_bytes}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Measured:
        """The inverse of `to_dict`."""
        return msgspec.convert(values, cls)


def measure(
    files: dict[str, Path | bytes], threads: Sequence[int] = (1, 2), budget_s: float = 20.0
) -> dict[str, Measured]:
    """Measures the memory of each file in its own process, and the latency of all interleaved.

    Args:
        files: names and `.tflite` files or their contents.
        threads: the numbers of threads to measure latency with; the largest one is used for memory.
        budget_s: about how many seconds to spend on latency, divided among the numbers of threads.
            Each file runs at least three times with each of them, even if this takes longer.

    Raises:
        UsageError: a file is missing or LiteRT cannot run it.
        ChildProcessError: a measuring process was killed.
    """
    _check(files, threads)
    with tempfile.TemporaryDirectory() as folder:
        paths = _on_disk(files, folder)
        sizes = {name: path.stat().st_size for name, path in paths.items()}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            compressed = {name: _compressed(path, pool) for name, path in paths.items()}
        loading = {
            name: _program([name], "loading", file=str(path), threads=max(threads))
            for name, path in paths.items()
        }
        limits = {"rounds": _MOST_ROUNDS, "budget_s": budget_s / len(threads)}
        times = [_times(paths, threads=count, **limits) for count in threads]
        latency = {name: tuple(entry[name] for entry in times) for name in paths}
        return {
            name: Measured(size, compressed[name], **loading[name], latency=latency[name])
            for name, size in sizes.items()
        }


def latencies(
    models: dict[str, Path | bytes], threads: int = 2, rounds: int = 30, budget_s: float = 10.0
) -> dict[str, float]:
    """The median latency of one image for each file, in milliseconds.

    Args:
        models: names and `.tflite` files or their contents.
        threads: number of threads of each interpreter.
        rounds: number of runs of each file after a warm-up run, at least three.
        budget_s: seconds after which no new round of runs starts.

    Raises:
        UsageError, ChildProcessError: as `measure`.
    """
    _check(models, [threads])
    with tempfile.TemporaryDirectory() as folder:
        paths = _on_disk(models, folder)
        times = _times(paths, threads=threads, rounds=rounds, budget_s=budget_s)
    return {name: latency.median_ms for name, latency in times.items()}


def machine() -> str:
    """A description of this machine: processor, architecture, number of CPUs, int8 instructions."""
    file = Path("/proc/cpuinfo")  # of Linux
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    fields = {name.strip(): value.strip() for name, value in lines.items()}
    flags = {*fields.get("flags", "").split(), *fields.get("Features", "").split()}
    processor = fields.get("model name") or platform.processor()
    int8_flags = [flag for flag in _INT8_FLAGS if flag in flags]
    parts = [processor, platform.machine(), f"{os.cpu_count()} CPUs", *int8_flags]
    return ", ".join(dict.fromkeys(filter(None, parts)))


# Instructions for int8 dot products; without them int8 is hardly faster than float32.
_INT8_FLAGS = ("avx_vnni", "avx512_vnni", "asimddp", "i8mm")


def _check(files: dict[str, Path | bytes], threads: Sequence[int]) -> None:
    interpreter_class()
    if not files or not threads:
        raise UsageError("there is nothing to measure: expected files and numbers of threads.")
    for count in threads:
        _checks.positive_integer("threads", count)
    for file in files.values():
        if not isinstance(file, bytes):
            existing_file(file)


def _on_disk(files: Mapping[str, Path | bytes], folder: str) -> dict[str, Path]:
    return {
        name: as_path(file, folder, f"{i}.tflite") for i, (name, file) in enumerate(files.items())
    }


def _compressed(path: Path, pool: concurrent.futures.Executor) -> int:
    """The size of a file in a zip archive, nearly: its parts are compressed on their own."""

    def size(start: int) -> int:
        with path.open("rb") as stream:
            stream.seek(start)
            return len(zlib.compress(stream.read(_PART), 6))

    return sum(pool.map(size, range(0, path.stat().st_size, _PART)))


def _times(paths: dict[str, Path], **settings: Any) -> dict[str, Latency]:
    runs = _program(paths, "latencies", files=[*map(str, paths.values())], **settings)
    return {
        name: Latency(settings["threads"], *np.percentile(times, [50, 90]).tolist(), len(times))
        for name, times in zip(paths, runs, strict=True)
    }


def _program(names: Iterable[str], function: str, **arguments: Any) -> Any:
    """Calls a function of `timing_program.py` in a process of its own and returns its result."""
    done = run_program(_PROGRAM, json.dumps({"function": function, **arguments}))
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        advice = "; is there enough memory?" if name == "SIGKILL" else ""
        raise ChildProcessError(f"measuring {', '.join(names)} was ended by {name}{advice}")
    if done.returncode:
        raise UsageError(f"LiteRT cannot run {', '.join(names)}: {last_line(done)}")
    return json.loads(done.stdout)
