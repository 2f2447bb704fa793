"""Starts the program that runs a file in a client, in a process of its own.

A runner is started with a `.tflite` file and a folder: cases.json is a list of {"file", "dtype",
"shape"}, and each file holds the raw bytes of an array, little endian and row-major. Runners in any
language can read that. Its last line is JSON: {"version", "scores": one list for each case}, or
{"version", "refused": why}, or {"missing": why} if the client is not installed. A runner of masks
writes the mask of 0.bin as 0.mask and so on, a byte for each pixel, and prints {"version"}.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError, shown
from keras_vit.tflite.flatbuffer import Model
from keras_vit.tflite.processes import last_line, run_command
from keras_vit.tflite.runner import as_path

_MINUTES = 10


def run_runner(
    command: Sequence[str | Path],
    model: Model,
    cases: Sequence[np.ndarray],
    title: str,
    masks: bool = False,
) -> dict[str, Any]:
    """What a runner answers: "version" and "scores" or "masks", or "missing".

    Args:
        command: starts the runner.
        model: a `.tflite` file or its content.
        cases: pictures, uint8 (height, width, 3) of any size, or inputs of the file.
        title: the client's name, for errors.
        masks: whether it gives masks, uint8 of the pictures' heights and widths.

    Raises:
        RefusedError: the client refuses the file, its process ends, or takes ten minutes.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = as_path(model, folder)
        write_cases(Path(folder), cases)
        try:
            done = run_command([*command, file, folder], 60 * _MINUTES)
        except subprocess.TimeoutExpired:
            raise RefusedError(f"{title} took more than {_MINUTES} minutes.") from None
        answer = _answer(done, title)
        if masks and "missing" not in answer:
            answer["masks"] = [
                _mask(Path(folder) / f"{i}.mask", case.shape[:2], title)
                for i, case in enumerate(cases)
            ]
    return answer


def _answer(done: subprocess.CompletedProcess, title: str) -> dict[str, Any]:
    """The last line of a runner."""
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RefusedError(f"{title} ended while it ran the file: {last_line(done)}")
    try:
        answer = json.loads(lines[-1])
        np.asarray(answer.get("scores", []), np.float32)
        answer["missing" if "missing" in answer else "version"]
    except (ValueError, TypeError, AttributeError, KeyError):
        last = shown(lines[-1])
        raise RefusedError(f"{title} gives no scores; its last line is {last}.") from None
    if "refused" in answer:
        raise RefusedError(f"{title} {answer['version']} refuses it: {answer['refused']}")
    return answer


def _mask(file: Path, size: tuple[int, int], title: str) -> np.ndarray:
    """A mask that a runner wrote, uint8 (*size)."""
    expected = math.prod(size)
    found = file.stat().st_size if file.is_file() and not file.is_symlink() else 0
    if found != expected:
        raise RefusedError(
            f"{title} gives no mask of a picture of {size[0]} x {size[1]}: expected {expected:,} "
            f"bytes. Received: {found:,}."
        )
    return np.fromfile(file, np.uint8, expected).reshape(size)


def write_cases(folder: Path, cases: Sequence[np.ndarray]) -> None:
    """Writes cases.json and the arrays."""
    listed = []
    for i, case in enumerate(cases):
        little = np.ascontiguousarray(case, case.dtype.newbyteorder("<"))
        little.tofile(folder / f"{i}.bin")
        listed.append({"file": f"{i}.bin", "dtype": case.dtype.name, "shape": list(case.shape)})
    (folder / "cases.json").write_text(json.dumps(listed))
