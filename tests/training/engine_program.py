"""Trains a tiny model with an engine: `python engine_program.py SETTINGS` with JSON settings.

A process of its own is needed, because the number of devices is set before they are used.
"""

import json
import os
import sys
import time
from typing import ClassVar

import numpy as np

import keras_vit
from keras_vit._errors import LostProcessError
from keras_vit._interrupts import TERMINATED, Terminated
from keras_vit._keras import backend
from keras_vit.data import Source
from keras_vit.training import Recipe, Saving, loop, open_engine, train
from keras_vit.training.callbacks import sync, value_of
from keras_vit.variant_specs import VARIANTS

MODEL = "ViT-Test_8"
# Class tokens, several heads and blocks; small enough to be traced in seconds.
SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=16, depth=1, num_heads=2, mlp_dim=24)
STEPS = 20


def pictures(count: int = 53) -> Source:
    """Random pictures of three classes; a fifth of them is no multiple of 2 or 4."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (count, 16, 16, 3), np.uint8)
    return Source(
        name="pictures", labels=("a", "b", "c"), ids=tuple(map(str, range(count))),
        targets=np.arange(count) % 3, image=images.__getitem__,
    )  # fmt: skip


def recipe_of(**changes) -> Recipe:
    """20 steps of the whole batch in which each gradient is clipped."""
    settings = {
        "image_size": 16, "duration": f"{STEPS} steps", "batch_size": 8, "warmup": "2 steps",
        "learning_rate": 0.01, "clip_norm": 0.05, "augment": "none", "dropout": 0.0, "ema": 0.9,
        # On JAX, as in `fit`: without it Keras compiles nothing there.
        "jit": backend() == "jax",
    }  # fmt: skip
    return Recipe(**settings | changes)


class EachLoss(loop.Steps):
    """Collects the loss of each step, which Keras reports as a mean since the epoch's start.

    Also the norm of the gradient that AdamW received, as its first moment shows.
    """

    pause = 0.0
    losses: ClassVar[list[float]] = []
    norms: ClassVar[list[float]] = []
    _moment = 0.0

    def on_train_batch_end(self, batch, logs=None):
        """Adds the loss, and says so for whoever wants to stop the training."""
        super().on_train_batch_end(batch, logs)
        mean = float(logs["loss"])
        self.losses.append(mean * (batch + 1) - sum(self.losses[len(self.losses) - batch :]))
        sync(self.model)
        adam = self.model.optimizer
        moment = np.concatenate([np.ravel(value_of(each)) for each in adam._momentums])
        gradient = (moment - adam.beta_1 * self._moment) / (1 - adam.beta_1)
        self._moment = moment
        self.norms.append(float(np.linalg.norm(gradient)))
        print(f"step {self.done}", file=sys.stderr, flush=True)
        time.sleep(self.pause)


def main(out, strategy="one", logical_devices=1, recipe=None, pause=0.0, **options):
    """Trains with a pause after each step; prints the losses and the held-out metrics."""
    VARIANTS[MODEL] = SPEC
    loop.Steps, EachLoss.pause = EachLoss, pause
    engine = open_engine(strategy, logical_devices=logical_devices)
    saving = Saving(out, **options)
    run = train(MODEL, pictures(), recipe_of(**recipe or {}), saving, strategy=engine)
    found = {"replicas": engine.replicas, "process": engine.process, "metrics": run.metrics()[-1]}
    print(json.dumps(found | {"losses": EachLoss.losses, "norms": EachLoss.norms}))


if __name__ == "__main__":
    try:
        main(**json.loads(sys.argv[1]))
    except (LostProcessError, Terminated) as error:
        print(error, file=sys.stderr, flush=True)
        # As the commands do: other processes are not waited for.
        os._exit(TERMINATED if isinstance(error, Terminated) else 1)
