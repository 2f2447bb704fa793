"""Where the time of a training step goes: XLA's operations by kind, on the CPU.

    python benchmarks/step_profile.py --model S16 --batch-size 8

The step is that of train/benchmark.py. Operations run at the same time on several threads, so their
sum may be more than the step. `MatMul` are the products of Dense layers, `dot` those of attention.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from training_step import SIZES, keras_vit_step

_CALLERS = (
    "Execute",
    "Process",
    "Block",
    "Run",
    "multi_step_on_iterator",
    "Eager",
    "end:",
    "Await",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", choices=list(SIZES), default="S16", help="(default: S16)")
    parser.add_argument("--batch-size", type=int, default=8, help="(default: 8)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="(default: all cores)")
    arguments = parser.parse_args()
    seconds, events = profile(arguments.model, arguments.batch_size, arguments.threads)
    print(f"{1e3 * seconds:.0f} ms for the step\n\n{'ms':>8} {'calls':>6}  operation")
    for name, (total, calls) in by_kind(events).items():
        if total >= 1:
            print(f"{total:8.1f} {calls:6}  {name}")


def profile(size: str, batch: int, threads: int) -> tuple[float, list[tuple[str, float]]]:
    """Seconds of a compiled step, and the names and milliseconds of what ran in it."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    step = keras_vit_step(size, batch, precision="float32", jit=True)
    step()  # compiles
    step()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        tf.profiler.experimental.stop()
        (path,) = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
    events = [
        (plane.event_metadata[event.metadata_id].name, event.duration_ps / 1e9)
        for plane in space.planes
        for line in plane.lines
        for event in line.events
    ]
    return seconds, events


def by_kind(events: Iterable[tuple[str, float]]) -> dict[str, tuple[float, int]]:
    """Milliseconds and calls of each kind of operation, the longest first.

    "MatMul.470" and "MatMul_1.2" are of the kind "MatMul".
    """
    totals: dict[str, list[float]] = collections.defaultdict(list)
    for name, milliseconds in events:
        if not any(word in name for word in _CALLERS):
            totals[re.sub(r"_?[\d.]*$", "", name)].append(milliseconds)
    return {
        name: (sum(each), len(each))
        for name, each in sorted(totals.items(), key=lambda item: -sum(item[1]))
    }


if __name__ == "__main__":
    main()
