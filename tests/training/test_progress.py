"""The time left, from the steps and the evaluations so far."""

from __future__ import annotations

import types

import pytest

from keras_vit.training import callbacks
from keras_vit.training.callbacks import Reporter


def test_the_time_left_counts_steps_and_evaluations_and_no_compilation(monkeypatch):
    clock, seen = types.SimpleNamespace(now=0.0), []
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: clock.now)
    plan = types.SimpleNamespace(steps=20, period=5, batch_size=8)
    steps = types.SimpleNamespace(done=0)
    reporter = Reporter(plan, steps, seen.append)
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
