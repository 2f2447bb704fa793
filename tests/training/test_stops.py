"""What is kept when a run stops: by Ctrl-C, a loss that is not finite, a deleted picture."""

import contextlib
import ctypes
import dataclasses
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import numpy as np
import pytest
from PIL import Image

from keras_vit import UsageError, _interrupts, runs
from keras_vit._errors import RefusedError
from keras_vit._interrupts import deferred_interrupts
from keras_vit._keras import keras
from keras_vit.data import open_source
from keras_vit.training import Hooks, Recipe, callbacks, loop

TINY = Recipe(
    image_size=16, duration="9 steps", warmup="0 steps", batch_size=4, augment="mild_crop_flip",
    jit=False,
)  # fmt: skip


@pytest.mark.soak(of="resumes")
def test_ctrl_c_in_a_long_evaluation_saves_the_epoch(
    train_tiny, tmp_path, monkeypatch, interruptible
):
    told, messages, saved = Queue(), [], []

    def compiling(self):
        os.kill(os.getpid(), signal.SIGINT)
        messages.append(told.get(timeout=60))
        return evaluate(self)

    evaluate = loop.HeldOut.evaluate
    recipe = dataclasses.replace(TINY, duration="20 steps")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop.HeldOut, "evaluate", compiling)
        train_tiny(recipe, hooks=Hooks(saving=saved.append, stuck=told.put))
    out = tmp_path / "run"
    assert messages == [f"{out} holds the state after 10 of 20 steps; go on with resume=True"]
    assert saved[0] == 10
    assert [record["step"] for record in train_tiny(recipe, resume=True).metrics()] == [10, 20]


@pytest.mark.soak(of="resumes")
def test_a_second_ctrl_c_ends_without_saving_the_state(train_tiny, tmp_path, interruptible):
    def press(*_):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="only the initial weights; resume=True begins"):
        train_tiny(TINY, hooks=Hooks(report=press, saving=press))
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("every", "kept"),
    [
        (None, "{weights} is from before."),
        pytest.param("1 step", "{weights} and {state} are from before.", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_diverges_is_refused_and_keeps_finite_weights(train_tiny, tmp_path, every, kept):
    # The first step has a rate of 0, the second a huge one, and the third finds huge weights.
    changes = {"learning_rate": 1e30, "clip_norm": 0.0, "warmup": "3 steps"}
    with pytest.raises(RefusedError) as refused:
        train_tiny(TINY, **changes, checkpoint_every=every)
    weights, state = tmp_path / "run/weights.npz", tmp_path / "run/checkpoints/step-000000002.npz"
    assert str(refused.value) == (
        "training diverged before step 3: the loss is nan; lower the learning rate. "
        + kept.format(weights=weights, state=state)
    )
    with np.load(weights) as saved:
        assert all(np.isfinite(saved[key]).all() for key in saved.files)


@pytest.mark.slow
def test_a_picture_deleted_during_training_is_named(image_folder, train_tiny):
    source = open_source(image_folder)
    for file in (image_folder / "red").iterdir():
        file.unlink()
    missing = r"training stopped.*red/\d.\w+: expected the file of .*No such file or directory; put"
    with pytest.raises(UsageError, match=missing):
        train_tiny(TINY, source=source)


@pytest.mark.flavours
@pytest.mark.soak(of="resumes")
@pytest.mark.parametrize("ending", ["sys.exit(130)", "raise"])
def test_a_script_that_was_interrupted_ends(tmp_path, command, ending):
    """Pictures that Python decodes: threads of the input wait for it while it ends."""
    rng = np.random.default_rng(0)
    for folder in (tmp_path / "pictures" / "a", tmp_path / "pictures" / "b"):
        folder.mkdir(parents=True)
        for i in range(12):
            pixels = rng.integers(0, 255, (600, 600, 3), np.uint8)
            Image.fromarray(pixels).save(folder / f"{i}.webp")
    script = tmp_path / "script.py"
    script.write_text(f"""
import os, signal, sys
from keras_vit import data, training

def report(progress):
    if progress.step == 3:
        os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
recipe = training.Recipe(image_size=16, duration="60 steps", batch_size=8, jit=False)
hooks = training.Hooks(report=report)
try:
    training.train("ViT_Pico4", data.open_source("pictures"), recipe, "run", hooks=hooks)
except KeyboardInterrupt:
    {ending}
""")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    ended = command(script, cwd=tmp_path, env=environment)
    assert ended.returncode == (130 if "exit" in ending else -signal.SIGINT), ended.stderr[-2000:]
    assert runs.open_run(tmp_path / "run").model().num_classes == 2


def test_an_ignored_interrupt_stays_ignored(interruptible):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with deferred_interrupts() as check:
        os.kill(os.getpid(), signal.SIGINT)
        check()


def test_an_interrupt_waits_for_a_safe_point(interruptible):
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
def test_training_runs_outside_the_main_thread(train_tiny):
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(train_tiny, TINY, duration="1 step").result().metrics()


@pytest.mark.flavours
def test_training_ends_with_the_execution_that_reaches_the_steps():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=4)
    examples = np.ones((8, 2), np.float32), np.ones((8, 1), np.float32)
    # Step 10 is in the middle of the second epoch, and 4 does not divide it.
    model.fit(*examples, batch_size=1, epochs=9, callbacks=[callbacks.Steps(0, 10)], verbose=0)
    assert int(model.optimizer.iterations) == 12


def test_an_interrupt_in_a_long_step_is_noticed_before_it_ends(monkeypatch, interruptible):
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


def test_an_interrupt_that_was_answered_is_not_stuck(monkeypatch, interruptible):
    monkeypatch.setattr(_interrupts, "_STUCK", 60)
    told, before = threading.Event(), set(threading.enumerate())
    with contextlib.suppress(KeyboardInterrupt), deferred_interrupts(told.set) as check:
        [watcher] = set(threading.enumerate()) - before
        os.kill(os.getpid(), signal.SIGINT)
        check()
    watcher.join(50)
    assert not watcher.is_alive()
    assert not told.is_set()
