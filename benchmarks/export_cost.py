"""Measures the time and the memory of whole exports, from a file of weights to checked bundles.

Writes weights of published sizes that resemble trained ones, and exports each in a process of its
own. "converting" is the part from the weights in memory, and Keras' scores, to a file on disk. The
memory is that of the command and of the processes that it starts, sampled together. RSS is
all that is resident. Its anonymous part (RssAnon) must be in memory; the rest are pages of mapped
files, which the system can drop and read again. Linux only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

PRECISIONS = ("float16", "dynamic", "int8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["ViT-B_16", "ViT-L_16", "ViT-H_14"])
    parser.add_argument("--quantize", nargs="+", default=PRECISIONS, help="one export for each")
    parser.add_argument("--images", type=int, default=4, help="images to compare (default: 4)")
    parser.add_argument("--lines", action="store_true", help="print when each step begins")
    arguments = parser.parse_args()
    header = "model     precision  file MB  converting s  whole s  processor s  RssAnon GB  RSS GB"
    print(header, "-" * len(header), sep="\n")
    for model in arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            weights = Path(folder) / "weights.npz"
            _write(model, weights)
            for precision in arguments.quantize:
                out = Path(folder) / "out"
                cost = _export(weights, precision, arguments.images, out, arguments.lines)
                file = out / precision.replace("none", "float32") / "model.tflite"
                size = f"{file.stat().st_size / 1e6:,.0f}" if file.exists() else "refused"
                print(
                    f"{model:9} {precision:9} {size:>8}"
                    f" {cost['converting']:13.1f} {cost['seconds']:8.1f} {cost['processor']:12.1f}"
                    f" {cost['anonymous'] / 1e9:11.2f} {cost['resident'] / 1e9:7.2f}",
                    flush=True,
                )


def _write(model: str, file: Path) -> None:
    """Weights with kernels that keep the scale of their input, and random norms and biases."""
    from keras_vit.variant_specs import VARIANTS
    from keras_vit.weights import weight_names

    generator, arrays = np.random.default_rng(0), {}
    for name in weight_names(VARIANTS[model], 1000, 224):
        kernel = name.path.endswith("/kernel")
        inputs = VARIANTS[model].hidden_dim if len(name.shape) > 2 else name.shape[0]
        if name.path.startswith("patch_encoder"):
            inputs = int(np.prod(name.shape[:3]))
        values = generator.standard_normal(name.shape, np.float32)
        arrays[name.key] = values * (inputs**-0.5 if kernel else 0.1)
        arrays[name.key] += name.path.endswith("/gamma")
    np.savez(file, **arrays)


def _export(weights: Path, precision: str, images: int, out: Path, lines: bool) -> dict[str, float]:
    command = [sys.executable, "-m", "keras_vit", "export", "--weights", str(weights)]
    command += ["--data", "digits", "--quantize", precision, "--images", str(images)]
    before, start = os.times(), time.perf_counter()
    process = subprocess.Popen(
        [*command, "--calibrate", str(images), "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    highest, began = _Highest(process.pid), {}
    with highest:
        for line in process.stdout:
            began[line.strip()] = time.perf_counter()
            if lines:
                seconds, (anonymous, resident) = time.perf_counter() - start, highest.since()
                print(
                    f"{seconds:7.1f} s {anonymous / 1e9:6.2f} {resident / 1e9:6.2f} GB before: "
                    f"{line.rstrip()}"
                )
        if process.wait() not in (0, 3):  # 3: random weights may be too sensitive to rounding
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    after = os.times()
    processor = after.children_user + after.children_system
    processor -= before.children_user + before.children_system
    # From the weights in memory to a file on disk.
    converting = began[f"{precision}: comparing with Keras"] - began["writing the graph"]
    return {
        "converting": converting,
        "seconds": time.perf_counter() - start,
        "processor": processor,
        "anonymous": highest.anonymous,
        "resident": highest.resident,
    }


class _Highest:
    """A context that records the highest memory of a process and those that it started, in bytes.

    It is sampled every 20 milliseconds.
    """

    def __init__(self, process: int):
        self._process, self._done = process, threading.Event()
        self.anonymous = self.resident = 0
        self._since = (0, 0)

    def __enter__(self):
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    def since(self) -> tuple[int, int]:
        """The highest memory since the last call of this function, anonymous and resident."""
        found, self._since = self._since, (0, 0)
        return found

    def _watch(self):
        while not self._done.wait(0.02):
            sizes = [_memory(process) for process in _with_children(self._process)]
            anonymous, resident = (sum(each) for each in zip(*sizes, strict=True))
            self.anonymous = max(self.anonymous, anonymous)
            self.resident = max(self.resident, resident)
            self._since = (max(self._since[0], anonymous), max(self._since[1], resident))


def _with_children(process: int) -> list[int]:
    """A process and all that it started, directly or not."""
    found = [process]
    for each in found:
        try:
            for task in Path(f"/proc/{each}/task").iterdir():
                children = [int(child) for child in (task / "children").read_text().split()]
                # Until it runs its own program, a new process shares the memory of its parent.
                found += [child for child in children if _command(child) != _command(each)]
        except OSError:
            continue  # it has ended
    return found


def _command(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


def _memory(process: int) -> tuple[int, int]:
    """The anonymous and the whole resident memory of a process; 0 after its end."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0, 0
    fields = dict(line.split(":", 1) for line in text.splitlines())
    kibibytes = (int(fields.get(name, "0 kB").split()[0]) for name in ("RssAnon", "VmRSS"))
    anonymous, resident = (each * 1024 for each in kibibytes)
    return anonymous, resident


if __name__ == "__main__":
    main()
