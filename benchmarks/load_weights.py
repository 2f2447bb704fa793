"""Measures the time and the memory for inspecting, building and loading models of published sizes.

Writes files of random weights with the official keys and shapes to a temporary folder. Each figure
is a median over separate processes. Memory is the peak minus the memory before: for "load" the
memory before includes the built model, for "build and load" it does not.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["ViT-B_16", "ViT-L_16", "ViT-H_14"])
    parser.add_argument("--runs", type=int, default=3, help="processes per figure (default: 3)")
    arguments = parser.parse_args()
    header = "model     file MiB  inspect s   MiB  load s   MiB  build and load s    MiB"
    print(header, "-" * len(header), sep="\n")
    for model in arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weights.npz"
            _write(model, file)
            runs = {
                task: [_child(task, model, file) for _ in range(arguments.runs)]
                for task in ("inspect", "load", "create")
            }
            median = {
                task: {k: statistics.median(run[k] for run in runs) for k in runs[0]}
                for task, runs in runs.items()
            }
            print(
                f"{model:9} {file.stat().st_size / 2**20:8,.0f}"
                f"  {median['inspect']['seconds']:9.3f}  {median['inspect']['mib']:4,.0f}"
                f"  {median['load']['seconds']:6.2f}  {median['load']['mib']:4,.0f}"
                f"  {median['create']['seconds']:16.2f}  {median['create']['mib']:5,.0f}",
                flush=True,
            )


def _write(model: str, file: Path) -> None:
    from keras_vit.variant_specs import VARIANTS
    from keras_vit.weights import weight_names

    generator = np.random.default_rng(0)
    names = weight_names(VARIANTS[model], 1000, 224)
    np.savez(file, **{n.key: generator.random(n.shape, np.float32) for n in names})


def _child(task: str, model: str, file: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", task, model, str(file)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def _measure(task: str, model: str, file: str) -> None:
    import keras_vit
    from keras_vit.weights import open_checkpoint

    if task == "inspect":

        def work():
            with open_checkpoint(file) as checkpoint:
                return (
                    checkpoint.dialect, checkpoint.variant, checkpoint.image_size,
                    checkpoint.num_classes, checkpoint.head_state, checkpoint.parameters,
                )  # fmt: skip
    elif task == "load":
        built = keras_vit.create_model(model, 1000)

        def work():
            keras_vit.load_weights(built, file)
    else:

        def work():
            return keras_vit.create_model(model, weights=file)

    before, highest = _resident(), _Highest()
    start = time.perf_counter()
    with highest:
        kept = work()
    seconds = time.perf_counter() - start
    del kept
    print(json.dumps({"seconds": seconds, "mib": max(highest.mib - before, 0)}))


class _Highest:
    """A context that records the highest resident memory, sampled every millisecond."""

    def __enter__(self):
        self.mib, self._done = _resident(), threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    def _watch(self):
        while not self._done.wait(0.001):
            self.mib = max(self.mib, _resident())


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _measure(*sys.argv[2:])
    else:
        main()
