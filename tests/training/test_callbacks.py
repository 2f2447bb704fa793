"""The time left, and metrics.jsonl: a line for each evaluation and one a minute between them."""

import signal
from types import SimpleNamespace

import pytest

from keras_vit import runs
from keras_vit.training import Recipe, callbacks, checkpoints, loop

RECIPE = Recipe(
    image_size=16, duration="24 steps", warmup="2 steps", batch_size=4, augment="none", jit=False
)
# Epoch, epoch that a line is within, step, steps of the loss, seconds.
WHOLE = [
    (None, 1, 3, 3, 75.0), (None, 1, 6, 6, 150.0), (None, 1, 9, 9, 225.0), (1, None, 10, 10, 250.0),
    (None, 2, 13, 3, 325.0), (None, 2, 16, 6, 400.0), (None, 2, 19, 9, 475.0),
    (2, None, 20, 10, 500.0), (None, 3, 23, 3, 575.0), (3, None, 24, 4, 600.0),
]  # fmt: skip


def test_the_time_left_counts_steps_and_evaluations_and_no_compilation(monkeypatch):
    clock, seen = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: clock.now)
    plan = SimpleNamespace(steps=20, period=5, batch_size=8)
    steps = SimpleNamespace(done=0)
    reporter = callbacks.Reporter(plan, steps, seen.append)
    for seconds in ((60, 2, 2, 2, 2), (2, 2, 2, 2, 2)):  # the first step is compiled
        for each in seconds:
            reporter.on_train_batch_begin(0)
            clock.now += each
            steps.done += 1
            reporter.on_train_batch_end(0)
        clock.now += 40 if steps.done == 5 else 10  # the first evaluation is compiled, too
        reporter.set_params({"steps": 4})
        reporter.on_test_batch_end(2)
        assert seen.pop().evaluated == 0.75
        reporter.on_epoch_end(0, {"loss": 1.0})
    assert (seen[0].images_per_second, seen[0].seconds_left) == (None, None)
    assert seen[4].seconds_left == pytest.approx(15 * 2)
    assert seen[5].metrics == {"loss": 1.0}
    assert seen[5].seconds_left == pytest.approx(15 * 2)  # one evaluation says nothing yet
    assert seen[-1].images_per_second == pytest.approx(4)
    assert seen[-1].seconds_left == pytest.approx(10 * 2 + 2 * 10)
    steps.done = 20
    reporter.on_train_batch_begin(0)
    reporter.on_train_batch_end(0)
    assert seen[-1].seconds_left == 0


@pytest.fixture
def steps_of_25_seconds(monkeypatch):
    """A clock that only steps of training move."""

    def on_train_batch_end(self, batch, logs=None):
        clock.seconds += 25
        original(self, batch, logs)

    clock = SimpleNamespace(seconds=1e6, monotonic=lambda: clock.seconds)
    original = loop.Steps.on_train_batch_end
    monkeypatch.setattr(loop.Steps, "on_train_batch_end", on_train_batch_end)
    monkeypatch.setattr(checkpoints, "time", clock)


def shown(run):
    names = ("epoch", "within_epoch", "step", "steps", "seconds")
    return [tuple(record.get(name) for name in names) for record in run.log()]


@pytest.mark.flavours
@pytest.mark.slow
@pytest.mark.usefixtures("steps_of_25_seconds")
def test_an_epoch_longer_than_a_minute_has_a_line_a_minute(train_tiny):
    run = train_tiny(RECIPE)
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
@pytest.mark.usefixtures("steps_of_25_seconds")
def test_seconds_and_epochs_go_on_after_a_stop_and_in_a_longer_training(
    train_tiny, tmp_path, signal_after
):
    signal_after(12, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train_tiny(RECIPE)
    assert shown(runs.open_run(tmp_path / "run")) == WHOLE[:4]
    # A training that has ended can only be made longer if checkpoints are kept.
    run = train_tiny(RECIPE, resume=True, checkpoint_every="24 steps")
    assert shown(run) == [
        *WHOLE[:4],
        (None, 2, 15, 3, 375.0), (None, 2, 18, 6, 450.0), (2, None, 20, 8, 500.0), *WHOLE[8:],
    ]  # fmt: skip
    run = train_tiny(RECIPE, duration="40 steps", resume=True)
    assert [(each["epoch"], each["step"], each["seconds"]) for each in run.metrics()] == [
        (1, 10, 250), (2, 20, 500), (3, 24, 600), (4, 30, 750), (5, 40, 1000),
    ]  # fmt: skip
