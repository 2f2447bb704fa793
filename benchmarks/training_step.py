"""Times a training step of libraries in turn: AdamW, clipping by the global norm.

    python train/benchmark.py --peers keras_vit kerashub transformers --models S16 --batch-sizes 8

Each library runs in a process of its own and makes a step when it is told to, so that all of them
meet the same changes of the machine's speed. Figures are medians over the rounds, ratios those
of each round. Seconds of processor time tell more than seconds on a busy machine.

With --peak, the model FLOP utilisation is printed too: the operations of a training step, those of
the forward and the backward pass, a second, relative to the peak. What --remat computes again is
not counted. Every step waits for its loss, so training itself is at least as fast.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# (hidden_dim, depth, num_heads, mlp_dim) with patches of 16 pixels, images of 224
SIZES = {
    "Ti16": (192, 12, 3, 768),
    "S16": (384, 12, 6, 1536),
    "B16": (768, 12, 12, 3072),
    "L16": (1024, 24, 16, 4096),
}
CLASSES, SIDE = 1000, 224
RATE, DECAY, CLIP = 1e-3, 0.05, 1.0
PRECISIONS = ("float32", "mixed_bfloat16")

Step = Callable[[], float]  # makes a step and returns its loss


def keras_vit_step(size: str, batch: int, precision: str, jit: bool, **settings: Any) -> Step:
    import keras_vit
    from keras_vit.training import Recipe
    from keras_vit.training.learner import Learner
    from keras_vit.training.optimisers import optimizer
    from keras_vit.training.tasks import SingleLabel
    from keras_vit.training.trainable_variables import adapt

    model = keras_vit.create_model(_variant(size), CLASSES, SIDE, dropout=0.0, dtype=precision)
    recipe = Recipe(
        learning_rate=RATE, weight_decay=DECAY, clip_norm=CLIP, schedule="constant",
        precision=precision, **settings,
    )  # fmt: skip
    adapt(model, recipe)
    task = SingleLabel(CLASSES)
    learner = Learner(model, task, recipe.accumulate or 1)
    learner.compile(optimizer(recipe, model, 10**6, 0), task.loss(), jit_compile=jit)
    return _keras_step(learner, np.uint8, batch, one_hot=True)


def kerashub_step(size: str, batch: int, precision: str, jit: bool) -> Step:
    import keras
    import keras_hub

    keras.config.set_dtype_policy(precision)
    width, depth, heads, mlp = SIZES[size]
    backbone = keras_hub.models.ViTBackbone(
        image_shape=(SIDE, SIDE, 3), patch_size=(16, 16), num_layers=depth, num_heads=heads,
        hidden_dim=width, mlp_dim=mlp, dropout_rate=0.0, attention_dropout=0.0,
    )  # fmt: skip
    model = keras_hub.models.ViTImageClassifier(
        backbone, num_classes=CLASSES, pooling="token", preprocessor=None
    )
    model.compile(
        keras.optimizers.AdamW(RATE, weight_decay=DECAY, global_clipnorm=CLIP),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit,
    )
    return _keras_step(model, np.float32, batch, one_hot=False)


def _keras_step(model: Any, dtype: Any, batch: int, one_hot: bool) -> Step:
    import keras

    images, classes = _data(batch)
    images = images.astype(dtype)
    targets = np.eye(CLASSES, dtype=np.float32)[classes] if one_hot else classes
    model.optimizer.build(model.trainable_variables)
    if keras.backend.backend() == "jax":
        import jax

        on_device = jax.device_put((images, targets))  # training puts them there during other steps
        # KerasHub also gives an accuracy.
        return lambda: float(np.ravel(model.train_on_batch(*on_device))[0])
    import tensorflow as tf

    data = tf.data.Dataset.from_tensors((images, targets)).repeat()
    iterator = iter(data.prefetch(2))
    model.make_train_function()
    return lambda: float(model.train_function(iterator)["loss"])


def transformers_step(size: str, batch: int, precision: str, jit: bool) -> Step:
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    width, depth, heads, mlp = SIZES[size]
    config = ViTConfig(
        hidden_size=width, num_hidden_layers=depth, num_attention_heads=heads,
        intermediate_size=mlp, image_size=SIDE, patch_size=16, num_labels=CLASSES,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model = ViTForImageClassification(config).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    images, classes = _data(batch)
    pixels = torch.tensor(images.transpose(0, 3, 1, 2)).float() / 127.5 - 1.0
    labels = torch.tensor(classes)

    def step() -> float:
        optimiser.zero_grad()
        loss = model(pixels, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        return loss.item()

    return step


# Name: the packages that it needs, and its step.
PEERS: dict[str, tuple[tuple[str, ...], Callable[[str, int, str, bool], Step]]] = {
    "keras_vit": (("keras_vit",), keras_vit_step),
    "keras_vit_remat": (("keras_vit",), functools.partial(keras_vit_step, remat=True)),
    "keras_vit_accumulate_4": (("keras_vit",), functools.partial(keras_vit_step, accumulate=4)),
    "kerashub": (("keras_hub",), kerashub_step),
    "transformers": (("transformers", "torch"), transformers_step),
}


def image_flops(size: str) -> int:
    """Operations of a training step for an image, whichever library makes it."""
    from keras_vit.models.profile import profile
    from keras_vit.training import Recipe
    from keras_vit.training.costs import training_flops
    from keras_vit.variant_specs import VARIANTS

    return training_flops(profile(VARIANTS[_variant(size)], CLASSES, SIDE), Recipe())


def _variant(size: str) -> str:
    return f"ViT-{size.replace('16', '_16')}"


def _data(batch: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (batch, SIDE, SIDE, 3), np.uint8)
    return images, rng.integers(0, CLASSES, batch)


def work(peer: str, size: str, precision: str, batch: int, threads: int, jit: bool) -> None:
    """A worker: makes a step for each line of standard input and answers with a line of JSON."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not be taken for an answer
    if peer != "transformers" and os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    step = PEERS[peer][1](size, batch, precision, jit)
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        loss = step()
        answer = {
            "wall": time.perf_counter() - wall,
            "cpu": time.process_time() - cpu,
            "loss": loss,
            "memory": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }
        print(json.dumps(answer), file=answers, flush=True)


class Worker:
    """A process that makes steps of one peer."""

    def __init__(self, peer: str, size: str, precision: str, batch: int, threads: int, jit: bool):
        arguments = [peer, size, precision, str(batch), str(threads), str(int(jit))]
        count = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | count | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip

    def step(self) -> dict[str, float]:
        """Makes a step: its seconds, its loss and the largest memory so far in bytes."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"a worker ended with code {self._process.wait()}")
        return json.loads(answer)

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()


def compare(
    peers: list[str], size: str, precision: str, batch: int, rounds: int, threads: int, jit: bool
) -> dict[str, dict[str, float]]:
    """The figures of each peer: images a second, ratios to the first peer, memory, losses."""
    workers = {peer: Worker(peer, size, precision, batch, threads, jit) for peer in peers}
    first = {peer: worker.step() for peer, worker in workers.items()}  # which compiles it
    for worker in workers.values():
        worker.step()
    steps: dict[str, list[dict[str, float]]] = {peer: [] for peer in peers}
    for _ in range(rounds):
        for peer, worker in workers.items():
            steps[peer].append(worker.step())
    for worker in workers.values():
        worker.close()
    found = {}
    for peer in peers:
        row = {"memory": steps[peer][-1]["memory"], "first_loss": first[peer]["loss"]}
        for clock in ("wall", "cpu"):
            seconds = [step[clock] for step in steps[peer]]
            reference = [step[clock] for step in steps[peers[0]]]
            row[f"images_per_{clock}_second"] = batch / statistics.median(seconds)
            row[f"{clock}_ratio"] = statistics.median(
                a / b for a, b in zip(seconds, reference, strict=True)
            )
        found[peer] = row
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    libraries = ["keras_vit", "kerashub", "transformers"]
    for name, metavar, choices, kind, default in (
        ("peers", "PEER", list(PEERS), str, libraries),
        ("models", "MODEL", list(SIZES), str, ["S16", "B16"]),
        ("batch-sizes", "SIZE", None, int, [8, 32]),
    ):
        text = f"{'of ' + ', '.join(choices) + ' ' if choices else ''}(default: %(default)s)"
        parser.add_argument(
            f"--{name}", nargs="+", metavar=metavar, choices=choices, type=kind, default=default,
            help=text,
        )  # fmt: skip
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="float32",
        help="PyTorch has float32 only (default: float32)",
    )  # fmt: skip
    parser.add_argument(
        "--peak", type=float, metavar="TFLOPS",
        help="the accelerator's peak in this precision, for the column MFU (default: none)",
    )  # fmt: skip
    cores = os.cpu_count()
    parser.add_argument("--rounds", type=int, default=10, help="(default: 10)")
    parser.add_argument("--threads", type=int, default=cores, help=f"(default: {cores}, all)")
    parser.add_argument("--no-jit", action="store_true", help="no XLA in keras_vit and KerasHub")
    parser.add_argument("--json", type=Path, help="a file for the figures (default: none)")
    arguments = parser.parse_args()
    if arguments.peak is not None and arguments.peak <= 0:
        parser.error(f"--peak must be positive. Received: {arguments.peak:g}")
    peers = []
    for peer in arguments.peers:
        reason = _reason_to_leave_out(peer, arguments.precision)
        if reason:
            print(f"{peer}: left out, {reason}")
        else:
            peers.append(peer)
    if not peers:
        parser.error("none of --peers can be timed")
    flops = {size: image_flops(size) for size in arguments.models} if arguments.peak else {}
    table = {}
    print(f"{'':24} images/s        to {peers[0]}        memory")
    print(f"{'':24} wall    cpu     wall    cpu     GB{'      MFU' if arguments.peak else ''}")
    for size in arguments.models:
        for batch in arguments.batch_sizes:
            found = compare(
                peers, size, arguments.precision, batch, arguments.rounds, arguments.threads,
                not arguments.no_jit,
            )  # fmt: skip
            table[f"{size} batch {batch}"] = found
            for peer, row in found.items():
                if arguments.peak:
                    used = flops[size] * row["images_per_wall_second"]
                    row["mfu"] = used / (1e12 * arguments.peak)
                print(_line(size, batch, peer, row), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(table, indent=1), encoding="utf-8")


def _reason_to_leave_out(peer: str, precision: str) -> str:
    """Why a peer cannot be timed; empty if it can."""
    if peer == "transformers" and precision != "float32":
        return f"its step is in float32 only. Received: --precision {precision}"
    missing = [name for name in PEERS[peer][0] if importlib.util.find_spec(name) is None]
    return f"{' and '.join(missing)} not installed" if missing else ""


def _line(size: str, batch: int, peer: str, row: dict[str, float]) -> str:
    utilisation = f" {row['mfu']:8.2%}" if "mfu" in row else ""
    return (
        f"{size:4} {batch:3} {peer:14} "
        f"{row['images_per_wall_second']:7.2f} {row['images_per_cpu_second']:7.2f} "
        f"{1 / row['wall_ratio']:7.2f} {1 / row['cpu_ratio']:7.2f} "
        f"{row['memory'] / 1e9:7.2f}{utilisation}"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        name, model, precision, *numbers = sys.argv[2:]
        work(name, model, precision, *map(int, numbers))
    else:
        main()
