"""What is kept when a training stops: by Ctrl-C, a loss that is not finite, a deleted picture."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from keras_vit import UsageError, _interrupts, runs
from keras_vit._errors import RefusedError
from keras_vit._interrupts import deferred_interrupts
from keras_vit._keras import keras
from keras_vit.data import open_source
from keras_vit.training import Hooks, Recipe, Saving, loop, train
from keras_vit.training.callbacks import Steps
from keras_vit.training.checkpoints import Checkpoints
from keras_vit.training.loop import HeldOut

TINY = Recipe(image_size=16, duration="2 epochs", batch_size=4, augment="mild_crop_flip", jit=False)


@pytest.mark.flavours
@pytest.mark.slow
def test_an_interrupt_within_an_epoch_saves_what_was_learned(
    image_folder, tmp_path, tiny_model, monkeypatch
):
    @contextlib.contextmanager
    def after_three_steps(stuck, terminate):
        steps = iter([None, None, KeyboardInterrupt])

        def check():
            if next(steps):
                raise KeyboardInterrupt

        yield check

    monkeypatch.setattr(loop, "deferred_interrupts", after_three_steps)
    recipe = dataclasses.replace(TINY, duration="9 steps", warmup="0 steps")
    with pytest.raises(KeyboardInterrupt):
        train(tiny_model, open_source(image_folder), recipe, tmp_path / "run")
    run = runs.open_run(tmp_path / "run")
    assert run.metrics() == []
    assert np.asarray(run.model().get_layer("head").kernel).any()


@pytest.mark.soak(of="resumes")
@pytest.mark.usefixtures("_interruptible")
def test_ctrl_c_in_a_long_evaluation_saves_the_epoch(
    image_folder, tmp_path, tiny_model, monkeypatch
):
    told, messages = threading.Event(), []

    def stuck(message):
        messages.append(message)
        told.set()

    def compiling(self):
        os.kill(os.getpid(), signal.SIGINT)
        assert told.wait(60)
        return evaluate(self)

    evaluate = HeldOut.evaluate
    monkeypatch.setattr(HeldOut, "evaluate", compiling)
    recipe = dataclasses.replace(TINY, duration="20 steps", warmup="0 steps")
    out, saved = tmp_path / "run", []
    with pytest.raises(KeyboardInterrupt):
        train(
            tiny_model,
            open_source(image_folder),
            recipe,
            out,
            hooks=Hooks(saving=saved.append, stuck=stuck),
        )
    assert messages == [f"{out} holds the state after 10 of 20 steps; go on with resume=True"]
    assert saved[0] == 10
    monkeypatch.setattr(HeldOut, "evaluate", evaluate)
    run = train(tiny_model, open_source(image_folder), recipe, Saving(out, resume=True))
    assert [record["step"] for record in run.metrics()] == [10, 20]


@pytest.mark.soak(of="resumes")
@pytest.mark.usefixtures("_interruptible")
def test_a_second_ctrl_c_ends_without_saving_the_state(image_folder, tmp_path, tiny_model):
    def press(*_):
        os.kill(os.getpid(), signal.SIGINT)

    recipe = dataclasses.replace(TINY, duration="9 steps", warmup="0 steps")
    with pytest.raises(KeyboardInterrupt, match="only the initial weights; resume=True begins"):
        train(
            tiny_model,
            open_source(image_folder),
            recipe,
            tmp_path / "run",
            hooks=Hooks(report=press, saving=press),
        )
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_run_that_diverges_is_refused_and_keeps_finite_weights(
    image_folder, tmp_path, tiny_model
):
    recipe = dataclasses.replace(
        TINY, learning_rate=1e30, clip_norm=0.0, duration="20 steps", warmup="0 steps"
    )
    with pytest.raises(RefusedError) as refused:
        train(tiny_model, open_source(image_folder), recipe, tmp_path / "run")
    weights = tmp_path / "run" / "weights.npz"
    assert str(refused.value) == (
        "training diverged before step 2: the loss is nan; lower the learning rate. "
        f"{weights} is from before."
    )
    with np.load(weights) as saved:
        assert all(np.isfinite(saved[key]).all() for key in saved.files)


@pytest.mark.slow
def test_a_checkpoint_of_a_run_that_diverges_never_replaces_a_good_one(
    image_folder, tmp_path, tiny_model, monkeypatch
):
    def poisoned(self, step):
        if step == 3:
            kernel = self._learner.trainable_variables[0]
            kernel.assign(np.full(kernel.shape, np.nan, np.float32))
        self.save(step)

    monkeypatch.setattr(Checkpoints, "maybe_save", poisoned)
    recipe = dataclasses.replace(TINY, duration="9 steps", warmup="0 steps")
    with pytest.raises(RefusedError, match="before step 3: not all weights are finite; .*step-"):
        train(tiny_model, open_source(image_folder), recipe, tmp_path / "run")
    assert runs.open_run(tmp_path / "run").metrics() == []
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["step-000000001.npz", "step-000000002.npz"]


@pytest.mark.slow
def test_a_picture_deleted_during_training_is_named(image_folder, tmp_path, tiny_model):
    source = open_source(image_folder)
    for file in (image_folder / "red").iterdir():
        file.unlink()
    recipe = dataclasses.replace(TINY, duration="9 steps", warmup="0 steps")
    missing = r"training stopped.*red/\d.\w+: expected the file of .*No such file or directory; put"
    with pytest.raises(UsageError, match=missing):
        train(tiny_model, source, recipe, tmp_path / "run")


@pytest.mark.flavours
@pytest.mark.soak(of="resumes")
@pytest.mark.parametrize("ending", ["sys.exit(130)", "raise"])
def test_a_script_that_was_interrupted_ends(tmp_path, ending):
    """Pictures that Python decodes: threads of the input wait for it while it ends."""
    rng = np.random.default_rng(0)
    for name in "ab":
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for i in range(12):
            picture = Image.fromarray(rng.integers(0, 255, (600, 600, 3), np.uint8))
            picture.save(tmp_path / "pictures" / name / f"{i}.webp")
    script = tmp_path / "script.py"
    script.write_text(f"""
import os, signal, sys
import keras_vit
from keras_vit import data, training

signal.signal(signal.SIGINT, signal.default_int_handler)
recipe = training.Recipe(
    image_size=16, duration="60 steps", warmup="0 steps", batch_size=8, augment="none", jit=False,
)
spec = keras_vit.ViTSpec(patch_size=8, hidden_dim=16, depth=1, num_heads=2, mlp_dim=32)

def report(progress):
    if progress.step == 3:
        os.kill(os.getpid(), signal.SIGINT)

try:
    training.train(
        keras_vit.ViT(spec, 2, 16), data.open_source("pictures"), recipe, "run",
        hooks=training.Hooks(report=report),
    )
except KeyboardInterrupt:
    {ending}
""")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, timeout=180,
        capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == (130 if "exit" in ending else -signal.SIGINT), ended.stderr[-2000:]
    assert runs.open_run(tmp_path / "run").model().num_classes == 2


@pytest.fixture
def _interruptible():
    # A test suite that runs in the background inherits an ignored SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_ignored_interrupt_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with deferred_interrupts() as check:
        os.kill(os.getpid(), signal.SIGINT)
        check()


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_waits_for_a_safe_point():
    with deferred_interrupts() as check:
        check()
        with contextlib.suppress(BaseException):  # like code that calls Python and drops errors
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            check()
        with pytest.raises(KeyboardInterrupt):  # the second raises at once
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_training_runs_outside_the_main_thread(image_folder, tmp_path, tiny_model):
    recipe = dataclasses.replace(TINY, duration="1 step", warmup="0 steps")
    with ThreadPoolExecutor(1) as pool:
        arguments = (tiny_model, open_source(image_folder), recipe, tmp_path / "run")
        assert pool.submit(train, *arguments).result().metrics()


def test_metrics_ignore_an_incomplete_last_line(trained_run, tmp_path):
    (tmp_path / "metrics.jsonl").write_text(
        json.dumps({"epoch": 1, "step": 2}) + '\n{"epoch": 2, "lo'
    )
    torn = dataclasses.replace(trained_run, path=tmp_path)
    assert torn.metrics() == [{"epoch": 1, "step": 2}]


@pytest.mark.flavours
@pytest.mark.parametrize("per_execution", [1, 4])
def test_training_ends_with_the_execution_that_reaches_the_steps(per_execution):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=per_execution)
    examples = np.ones((8, 2), np.float32), np.ones((8, 1), np.float32)
    # With 8 steps in an epoch, step 10 is in the middle of the second epoch, and 4 does not divide
    # it.
    model.fit(*examples, batch_size=1, epochs=9, callbacks=[Steps(0, 10)], verbose=0)
    assert int(model.optimizer.iterations) == {1: 10, 4: 12}[per_execution]


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_in_a_long_step_is_noticed_before_it_ends(monkeypatch):
    # A step is one call into C, in which Python runs no signal handler: a lock that is taken.
    libc, lock, told = ctypes.CDLL(None), ctypes.create_string_buffer(64), []
    libc.pthread_mutex_lock(lock)

    def stuck():
        told.append(True)
        libc.pthread_mutex_unlock(lock)

    monkeypatch.setattr(_interrupts, "_STUCK", 0.1)
    never_told = threading.Timer(60, libc.pthread_mutex_unlock, (lock,))
    never_told.start()
    with deferred_interrupts(stuck):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        libc.pthread_mutex_lock(lock)  # the step
        never_told.cancel()
    assert told


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_that_was_answered_is_not_stuck(monkeypatch):
    monkeypatch.setattr(_interrupts, "_STUCK", 60)
    told, before = threading.Event(), set(threading.enumerate())
    with contextlib.suppress(KeyboardInterrupt), deferred_interrupts(told.set) as check:
        [watcher] = set(threading.enumerate()) - before
        os.kill(os.getpid(), signal.SIGINT)
        check()
    watcher.join(50)
    assert not watcher.is_alive()
    assert not told.is_set()
