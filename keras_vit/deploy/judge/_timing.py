"""Loads and times `.tflite` files: a program of its own, which `measure.py` starts.

It imports nothing but NumPy and LiteRT, so that the memory of this library does not count. It is
asked in JSON on its command line and answers in JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter


def loading(file: str, threads: int) -> dict[str, float | int | None]:
    """Loads a file and runs it once: the seconds to load, the most memory before and in all."""
    before = _peak_bytes()
    start = time.perf_counter()
    interpreter = _loaded(file, threads)
    load_s = time.perf_counter() - start
    interpreter.invoke()
    return {"load_s": load_s, "before_bytes": before, "peak_bytes": _peak_bytes()}


def latencies(files: list[str], threads: int, rounds: int, budget_s: float) -> list[list[float]]:
    """The milliseconds of each run of each file; runs are interleaved so that drift cancels.

    One run warms up and does not count; after three rounds, no further one starts beyond the
    budget.
    """
    runs = [_run(_loaded(file, threads)) for file in files]
    repeats = [min(max(round(_TURN_MS / _milliseconds(run)), 1), _MOST_REPEATS) for run in runs]
    times: list[list[float]] = [[] for _ in files]
    start = time.perf_counter()
    for done in range(max(rounds, _FEWEST_ROUNDS)):
        if done >= _FEWEST_ROUNDS and time.perf_counter() - start > budget_s:
            break
        for run, repeat, taken in zip(runs, repeats, times, strict=True):
            turn = [_milliseconds(run) for _ in range(repeat)]
            taken += turn[1:] or turn
    return times


# Small files run some times in a row, and the first does not count: threads that wait for work, of
# the file before or of this one, are a matter of tenths of a millisecond.
_TURN_MS, _MOST_REPEATS, _FEWEST_ROUNDS = 20.0, 10, 3


def _milliseconds(run: Callable[[], None]) -> float:
    before = time.perf_counter()
    run()
    return (time.perf_counter() - before) * 1e3


def _loaded(file: str, threads: int) -> Interpreter:
    interpreter = Interpreter(model_path=file, num_threads=threads)
    interpreter.allocate_tensors()
    return interpreter


def _run(interpreter: Interpreter) -> Callable[[], None]:
    """A function that puts an image in, computes, and takes the scores out."""
    inputs = [(entry["index"], _noise(entry)) for entry in interpreter.get_input_details()]
    outputs = [entry["index"] for entry in interpreter.get_output_details()]

    def run() -> None:
        for index, values in inputs:
            interpreter.set_tensor(index, values)
        interpreter.invoke()
        for index in outputs:
            interpreter.get_tensor(index)

    return run


def _noise(entry: dict) -> np.ndarray:
    generator, dtype = np.random.default_rng(0), np.dtype(entry["dtype"])
    if dtype.kind == "f":
        return generator.uniform(-1, 1, entry["shape"]).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, entry["shape"], dtype, endpoint=True)


def _peak_bytes() -> int | None:
    # Not getrusage: its maximum begins with that of the process that started this one.
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps({"loading": loading, "latencies": latencies}[asked.pop("what")](**asked)))
