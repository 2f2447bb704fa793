"""Trains a tiny model with an engine: `python engine_program.py SETTINGS` with JSON settings.

A process of its own is needed, because the number of devices is set before they are used.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import ClassVar

import numpy as np

import keras_vit
from keras_vit._errors import LostProcessError
from keras_vit.data import Source
from keras_vit.specs import VARIANTS
from keras_vit.training import Recipe, loop, open_engine, train

MODEL = "ViT-Test_8"
# Class tokens, several heads and blocks; small enough to be traced in seconds.
SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=16, depth=1, num_heads=2, mlp_dim=24)
STEPS = 20


def pictures(count: int = 53) -> Source:
    """Random pictures of three classes; a fifth of them is no multiple of 2 or 4."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (count, 16, 16, 3), np.uint8)
    return Source(
        name="pictures",
        labels=("a", "b", "c"),
        ids=tuple(map(str, range(count))),
        targets=np.arange(count) % 3,
        image=images.__getitem__,
    )


def recipe_of(**changes) -> Recipe:
    """20 steps of the whole batch in which each gradient is clipped."""
    settings = {
        "image_size": 16, "duration": f"{STEPS} steps", "batch_size": 8, "warmup": "2 steps",
        "learning_rate": 0.01, "clip_norm": 0.05, "augment": "none", "dropout": 0.0, "ema": 0.9,
        "jit": False,
    }  # fmt: skip
    return Recipe(**settings | changes)


class EachLoss(loop.Steps):
    """Collects the loss of each step, which Keras reports as a mean since the epoch's start."""

    pause = 0.0
    losses: ClassVar[list[float]] = []

    def on_train_batch_end(self, batch, logs=None):
        """Adds the loss, and says so for whoever wants to stop the training."""
        super().on_train_batch_end(batch, logs)
        mean = float(logs["loss"])
        self.losses.append(mean * (batch + 1) - self._sum(batch))
        print(f"step {self.done}", file=sys.stderr, flush=True)
        time.sleep(self.pause)

    def _sum(self, batch):
        return sum(self.losses[len(self.losses) - batch :]) if batch else 0.0


def main(out, strategy="one", logical_devices=1, recipe=None, pause=0.0, **options):
    """Trains with a pause after each step; prints the losses and the held-out metrics."""
    VARIANTS[MODEL] = SPEC
    loop.Steps, EachLoss.pause = EachLoss, pause
    engine = open_engine(strategy, logical_devices=logical_devices)
    run = train(MODEL, pictures(), recipe_of(**recipe or {}), out, strategy=engine, **options)
    found = {"replicas": engine.replicas, "process": engine.process, "losses": EachLoss.losses}
    print(json.dumps(found | {"metrics": run.metrics()[-1]}))


if __name__ == "__main__":
    try:
        main(**json.loads(sys.argv[1]))
    except LostProcessError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)  # as the commands do: other processes are not waited for
