"""Loads and times `.tflite` files: a separate program, which `measure.py` starts.

It imports only NumPy and LiteRT, so that the memory of this library is not measured. It takes a
function's name and arguments as JSON on its command line and prints the result as JSON.
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
    """Loads a file and runs it once: seconds to load, peak memory before loading and at the end."""
    before = _peak_bytes()
    start = time.perf_counter()
    interpreter = _loaded(file, threads)
    load_s = time.perf_counter() - start
    interpreter.invoke()
    return {"load_s": load_s, "before_bytes": before, "peak_bytes": _peak_bytes()}


def latencies(files: list[str], threads: int, rounds: int, budget_s: float) -> list[list[float]]:
    """The milliseconds of each run of each file; runs are interleaved so that drift cancels.

    The warm-up run is not included. After three rounds, no new round starts beyond the budget.
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


# Small files run several times in a row, and the first run is not counted: waking this file's
# threads, and those of the file before, takes tenths of a millisecond.
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
    """A function that sets the input, runs the model and reads the scores."""
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
    # Not getrusage: its maximum starts at that of the parent process.
    file = Path("/proc/self/status")  # of Linux
    text = file.read_text(encoding="ascii", errors="replace") if file.is_file() else ""
    lines = text.splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)


if __name__ == "__main__":
    call = json.loads(sys.argv[1])
    function = {"loading": loading, "latencies": latencies}[call.pop("function")]
    print(json.dumps(function(**call)))
