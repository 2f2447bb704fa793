"""metrics.jsonl has a line for each evaluation and one a minute between them."""

from __future__ import annotations

import dataclasses
import os
import signal
from types import SimpleNamespace

import pytest

from keras_vit import runs
from keras_vit.data import open_source
from keras_vit.training import Recipe, Saving, checkpoints, loop, train

RECIPE = Recipe(
    image_size=16, duration="24 steps", warmup="2 steps", batch_size=4, augment="none", jit=False
)
# Epoch, epoch that a line is within, step, steps of the loss, seconds.
WHOLE = [
    (None, 1, 3, 3, 75.0), (None, 1, 6, 6, 150.0), (None, 1, 9, 9, 225.0), (1, None, 10, 10, 250.0),
    (None, 2, 13, 3, 325.0), (None, 2, 16, 6, 400.0), (None, 2, 19, 9, 475.0),
    (2, None, 20, 10, 500.0), (None, 3, 23, 3, 575.0), (3, None, 24, 4, 600.0),
]  # fmt: skip


@pytest.fixture
def stop_after(monkeypatch):
    """A function that lets Ctrl-C end the training after a step; each step takes 25 s."""
    stops = []
    clock = SimpleNamespace(seconds=1e6, monotonic=lambda: clock.seconds)
    original = loop.Steps.on_train_batch_end

    def on_train_batch_end(self, batch, logs=None):
        clock.seconds += 25
        original(self, batch, logs)
        if self.done in stops:
            stops.remove(self.done)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(loop.Steps, "on_train_batch_end", on_train_batch_end)
    monkeypatch.setattr(checkpoints, "time", clock)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield stops.append
    signal.signal(signal.SIGINT, before)


def shown(run):
    names = ("epoch", "within_epoch", "step", "steps", "seconds")
    return [tuple(record.get(name) for name in names) for record in run.log()]


@pytest.mark.flavours
@pytest.mark.slow
def test_an_epoch_longer_than_a_minute_has_a_line_a_minute(
    shared_folder, tiny_model, tmp_path, stop_after
):
    run = train(tiny_model, open_source(shared_folder), RECIPE, tmp_path / "run")
    assert shown(run) == WHOLE
    assert [record["epoch"] for record in run.metrics()] == [1, 2, 3]
    for record in run.log():
        assert ("epoch" in record) == ("val_loss" in record) != ("images_per_second" in record)
        assert record["loss"] > 0
    assert run.log()[0]["images_per_second"] == 3 * 4 / 75
    rates = [record["learning_rate"] for record in run.log()]
    assert rates == sorted(rates, reverse=True)
    assert len(set(rates)) == len(rates)


@pytest.mark.flavours
@pytest.mark.soak(of="resumes")
def test_seconds_and_epochs_go_on_after_a_stop_and_in_a_longer_training(
    shared_folder, tiny_model, tmp_path, stop_after
):
    source, out = open_source(shared_folder), tmp_path / "run"
    stop_after(12)
    with pytest.raises(KeyboardInterrupt):
        train(tiny_model, source, RECIPE, out)
    assert shown(runs.open_run(out)) == WHOLE[:4]
    # A training that has ended can only be made longer if checkpoints are kept.
    run = train(tiny_model, source, RECIPE, Saving(out, resume=True, checkpoint_every="24 steps"))
    assert shown(run) == [
        *WHOLE[:4],
        (None, 2, 15, 3, 375.0), (None, 2, 18, 6, 450.0), (2, None, 20, 8, 500.0), *WHOLE[8:],
    ]  # fmt: skip
    longer = dataclasses.replace(RECIPE, duration="40 steps")
    run = train(tiny_model, source, longer, Saving(out, resume=True))
    assert [(each["epoch"], each["step"], each["seconds"]) for each in run.metrics()] == [
        (1, 10, 250), (2, 20, 500), (3, 24, 600), (4, 30, 750), (5, 40, 1000),
    ]  # fmt: skip
