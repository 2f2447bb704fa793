"""Fixtures for runs of a tiny model: begun in a line, and ended by a signal or an error."""

import os
import signal
from dataclasses import fields, replace

import pytest


@pytest.fixture(scope="module")
def source(shared_folder):
    """Twelve pictures, red and blue."""
    from keras_vit.data import open_source

    return open_source(shared_folder)


@pytest.fixture
def train_tiny(source, tiny_model, tmp_path):
    """Trains the tiny model on the pictures of `source` and returns the run, in the folder "run".

    Options are fields of the recipe that change, those of `Saving`, arguments of `train`, or
    `dies_after`: a number of steps.
    """
    from keras_vit.training import Hooks, Recipe, Saving, train

    def begin(
        recipe, out="run", model=tiny_model, source=source, dies_after=None, task=None, **options
    ):
        changes, kept = (
            {field.name: options.pop(field.name) for field in fields(kind) if field.name in options}
            for kind in (Recipe, Saving)
        )
        recipe, saving = replace(recipe, **changes), Saving(tmp_path / out, **kept)
        if dies_after is None:
            return train(model, source, recipe, saving, task=task, **options)

        def die(progress):
            if progress.step == dies_after:
                raise RuntimeError("killed")

        with pytest.raises(RuntimeError, match="killed"):
            train(model, source, recipe, saving, task=task, hooks=Hooks(report=die), **options)

    return begin


@pytest.fixture
def interruptible():
    """Ctrl-C raises, also in a test suite in the background, which inherits an ignored SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def signal_after(monkeypatch, interruptible):
    """A function of a number of steps and a signal, which comes once, after that step."""
    from keras_vit.training import loop

    def on_train_batch_end(self, batch, logs=None):
        original(self, batch, logs)
        if self.done in signals:
            os.kill(os.getpid(), signals.pop(self.done))

    signals, original = {}, loop.Steps.on_train_batch_end
    monkeypatch.setattr(loop.Steps, "on_train_batch_end", on_train_batch_end)
    return signals.__setitem__
