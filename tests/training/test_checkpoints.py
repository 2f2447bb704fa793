"""A training that was stopped goes on bit for bit."""

import dataclasses
import errno
import fcntl
import io
import json
import os
import resource
import shutil
import signal
import threading
import time
import zipfile
from unittest.mock import Mock

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, _files, runs
from keras_vit._errors import RefusedError
from keras_vit._interrupts import Terminated
from keras_vit._keras import LEGACY, keras
from keras_vit.training import Hooks, Recipe, Saving, check_settings, loop, train
from keras_vit.training import run as training_run
from keras_vit.training.checkpoints import Checkpoints
from keras_vit.training.plan import CHECKPOINT_EVERY, Every, interval

RECIPE = Recipe(
    image_size=16, duration="24 steps", warmup="2 steps", batch_size=4, dropout=0.1, drop_path=0.1,
    augment="mild_crop_flip", ema=0.9, jit=False,
)  # fmt: skip
SOAK = pytest.mark.soak(of="resumes")


def weights(run):
    return [(run.path / name).read_bytes() for name in ("weights.npz", "weights_ema.npz")]


def checkpoints_of(run):
    return sorted(int(path.stem[5:]) for path in (run / "checkpoints").glob("*"))


def evaluated(run):
    return [(record["step"], record["val_loss"]) for record in run.metrics()]


def check(run, model=None, **changes):
    """Checks the settings of a run that goes on, without the images."""
    recipe = dataclasses.replace(RECIPE, **changes)
    check_settings("no such folder", recipe, model, Saving(run, resume=True))


@pytest.fixture(scope="module")
def whole(source, tiny_model, tmp_path_factory):
    """An uninterrupted run."""
    return train(tiny_model, source, RECIPE, tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture
def kept(whole, tmp_path):
    """The folder of a run that has a checkpoint of its last step, an empty one."""
    run = shutil.copytree(whole.path, tmp_path / "kept")
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "step-000000024.npz").touch()
    return run


@pytest.fixture
def learner():
    """A layer with an optimiser that has begun."""
    learner = keras.Sequential([keras.Input((50,)), keras.layers.Dense(50)])
    learner.compile("adam", "mse")
    learner.optimizer.build(learner.trainable_variables)
    return learner


@pytest.mark.flavours
@pytest.mark.parametrize(
    ("name", "where", "steps"),
    [
        ("SIGTERM", "step", 10),
        pytest.param("SIGTERM", "step", 3, marks=SOAK),
        pytest.param("SIGINT", "step", 10, marks=SOAK),
        pytest.param("SIGINT", "step", 17, marks=SOAK),
        pytest.param("SIGINT", "evaluation", 10, marks=SOAK),
        pytest.param("SIGINT", "evaluation", 20, marks=SOAK),
        pytest.param("SIGINT", "evaluation", 24, marks=SOAK),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    train_tiny, whole, tmp_path, signal_after, interruptible, name, where, steps
):
    number = signal.Signals[name]

    def report(progress):
        if where == "evaluation" and progress.evaluated and progress.step == steps:
            os.kill(os.getpid(), number)

    if where == "step":
        signal_after(steps, number)
    kind = Terminated if number == signal.SIGTERM else KeyboardInterrupt
    with pytest.raises(kind, match=f"holds the state after {steps} of 24 steps"):
        train_tiny(RECIPE, hooks=Hooks(report=report))
    assert np.asarray(runs.open_run(tmp_path / "run").model().get_layer("head").kernel).any()
    resumed = train_tiny(RECIPE, resume=True)
    assert weights(resumed) == weights(whole)
    assert len(set(weights(whole))) == 2
    assert evaluated(resumed) == evaluated(whole)
    assert [step for step, _ in evaluated(whole)] == [10, 20, 24]


@pytest.mark.flavours
@SOAK
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"lora": 2}, marks=pytest.mark.skipif(LEGACY, reason="LoRA needs Keras 3")),
        {"freeze": "body"},
        {"loss": "mae", "decoder_dim": 16, "decoder_depth": 1, "decoder_heads": 2},
        {"distillation": "soft"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_whatever_is_trained_goes_on_bit_for_bit(train_tiny, source, randomised, changes):
    recipe = dataclasses.replace(RECIPE, duration="6 steps", **changes)
    teacher = None
    if "distillation" in changes:
        teacher = randomised(keras_vit.ViT(keras_vit.ViTSpec(8, 24, 1, 3, 32), 2, 24))
    run = train_tiny(recipe, checkpoint_every="3 steps", teacher=teacher)
    expected = weights(run)
    (run.path / "checkpoints" / "step-000000006.npz").unlink()
    resumed = train_tiny(recipe, resume=True, teacher=teacher)
    assert weights(resumed) == expected
    assert resumed.model().trainable_variables


@SOAK
def test_checkpoints_of_an_epochs_end_come_after_its_metrics(train_tiny, tmp_path, monkeypatch):
    killed = Mock(side_effect=RuntimeError("killed"))
    monkeypatch.setattr(loop.RunWriter, "on_epoch_end", killed)
    with pytest.raises(RuntimeError, match="killed"):
        train_tiny(RECIPE, checkpoint_every="5 steps")
    assert checkpoints_of(tmp_path / "run") == [5]


@pytest.mark.slow
def test_a_longer_training_goes_on_as_before_with_its_own_images(train_tiny, source):
    run = train_tiny(RECIPE, duration="6 steps", checkpoint_every="2 steps", keep=2)
    assert checkpoints_of(run.path) == [4, 6]
    swapped = dataclasses.replace(source, targets=1 - source.targets)
    with pytest.raises(UsageError, match="images have other classes than when .*run was trained"):
        train_tiny(RECIPE, source=swapped, resume=True)
    longer = train_tiny(RECIPE, resume=True, keep=99)
    assert longer.metrics()[-1]["step"] == 24
    assert longer.setting("duration") == "24 steps"
    assert checkpoints_of(run.path) == [4, *range(6, 25, 2)]


def test_what_cannot_go_on_is_refused(train_tiny, whole, tmp_path):
    ended = r"has ended.* overwrite=True, or .* weights=.*weights\.npz"
    with pytest.raises(UsageError, match=ended):
        train_tiny(RECIPE, whole.path, resume=True)
    for changes, expected in (
        ({"seed": 1}, "seed=1, was 0"),
        ({"learning_rate": 0.5}, "learning_rate=0.5, was 0.001"),
    ):
        with pytest.raises(UsageError, match=f"own settings. Received: {expected}"):
            check(whole.path, **changes)
    with pytest.raises(UsageError, match="its own model, ViT-Test.* Received: ViT-Pico_4"):
        check(whole.path, "ViT_Pico4")
    with pytest.raises(UsageError, match="expected a run folder"):
        check(tmp_path / "none")
    with pytest.raises(UsageError, match="leave one of them out"):
        train_tiny(RECIPE, resume=True, overwrite=True)
    with pytest.raises(UsageError, match="lies inside the run"):
        train_tiny(RECIPE, whole.path / "more" / "run")
    assert not (whole.path / "more").exists()


@SOAK
def test_a_run_is_saved_when_a_resumed_training_is_stopped_before_its_first_step(
    train_tiny, signal_after, monkeypatch
):
    signal_after(1, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train_tiny(RECIPE)
    monkeypatch.setattr(loop.Loop, "_fit", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt, match="holds the state after 1 of 24 steps"):
        train_tiny(RECIPE, resume=True)


def test_ctrl_c_before_the_first_step_says_what_the_folder_holds(train_tiny, interruptible):
    hooks = Hooks(started=lambda plan: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt, match="only the initial weights; resume=True begins"):
        train_tiny(RECIPE, hooks=hooks)


def test_a_resumed_training_only_becomes_longer(whole, kept):
    check(whole.path, duration="23 steps")  # it has no checkpoint
    check(kept, duration="25 steps")
    with pytest.raises(UsageError, match="run of 24 steps. Received: a duration of 23 steps"):
        check(kept, duration="23 steps")


@pytest.mark.flavours
def test_a_run_of_another_flavour_of_keras_is_refused_before_the_images_are_read(kept):
    check(kept)
    content = json.loads((kept / "recipe.json").read_text())
    content["versions"]["keras_flavour"] = "keras" if LEGACY else "tf_keras"
    (kept / "recipe.json").write_text(json.dumps(content))
    match = "with Keras 3, .*strategy='one'" if LEGACY else "with tf_keras, .*strategy='mirrored'"
    with pytest.raises(UsageError, match=match):
        check(kept)
    del content["versions"]  # an older run
    (kept / "recipe.json").write_text(json.dumps(content))
    check(kept)


@pytest.mark.slow
def test_a_damaged_checkpoint_leaves_the_one_before(train_tiny, whole):
    run = train_tiny(RECIPE, checkpoint_every="8 steps")
    newest = max((run.path / "checkpoints").iterdir())
    content = newest.read_bytes()
    listed_six_times = io.BytesIO(content)
    with zipfile.ZipFile(listed_six_times, "a") as archive:
        archive.filelist *= 6
        archive._didModify = True
    for spoiled in (content[:1000], b"", listed_six_times.getvalue()):
        newest.write_bytes(spoiled)
        assert weights(train_tiny(RECIPE, resume=True)) == weights(whole)
        newest.with_suffix(".damaged").unlink()


@pytest.mark.slow
def test_a_run_whose_checkpoints_are_lost_never_begins_again_by_itself(train_tiny, tmp_path):
    train_tiny(RECIPE, dies_after=18, checkpoint_every="4 steps")
    run = runs.open_run(tmp_path / "run")
    before = weights(run)
    for path in (run.path / "checkpoints").iterdir():
        path.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(UsageError, match="can be read"):
            train_tiny(RECIPE, resume=True)
    shutil.rmtree(run.path / "checkpoints")
    for _ in range(2):
        with pytest.raises(UsageError, match="has no checkpoint to resume from"):
            train_tiny(RECIPE, resume=True)
    assert weights(run) == before
    assert [record["step"] for record in run.metrics()] == [10]


def test_a_checkpoint_of_a_newer_keras_vit_is_refused(tmp_path):
    about = np.frombuffer(b'{"format": 2, "step": 1, "names": []}', np.uint8)
    np.savez(tmp_path / "step-000000001.npz", about=about)
    with pytest.raises(UsageError, match="expected format 1. Received: 2; install the keras_vit"):
        Checkpoints(tmp_path, learner=None).restore()


def test_whoever_waits_for_a_checkpoint_does_not_wait_for_an_older_one(
    learner, tmp_path, monkeypatch
):
    checkpoints = Checkpoints(tmp_path, learner)
    begun, go_on = threading.Event(), threading.Event()
    write_array = np.lib.format.write_array

    def slow(stream, array, **options):
        write_array(stream, array, **options)
        begun.set()
        go_on.wait(10)  # a slow disk; the second checkpoint finds it fast

    monkeypatch.setattr(np.lib.format, "write_array", slow)
    checkpoints.save(1, wait=False)
    assert begun.wait(60)
    threading.Timer(0.2, go_on.set).start()
    checkpoints.save(2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000002.npz"]
    written = checkpoints.saved()[0].stat().st_mtime_ns
    checkpoints.save(2)  # there is one of this step
    assert checkpoints.saved()[0].stat().st_mtime_ns == written


def test_a_checkpoint_is_written_before_a_step_that_would_end_too_late(tmp_path, monkeypatch):
    now, saved = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    checkpoints = Checkpoints(tmp_path, learner=None, every=Every(seconds=300))

    def save(step, wait):
        saved.append(step)
        checkpoints._saved = now[0]

    monkeypatch.setattr(checkpoints, "save", save)
    for step in range(1, 9):
        now[0] += 70
        checkpoints.maybe_save(step)
    assert saved == [4, 8]  # after 280 seconds, because the next step ends after 350


@pytest.mark.parametrize(
    ("every", "dies_after", "saved"),
    [("7 steps", 18, [7, 14]), pytest.param("13 steps", 12, [], marks=pytest.mark.slow)],
)
def test_a_killed_training_goes_on_after_its_last_state_or_begins_again_and_leaves_none(
    train_tiny, whole, tmp_path, monkeypatch, every, dies_after, saved
):
    monkeypatch.setattr(training_run, "CHECKPOINT_EVERY", every)
    train_tiny(RECIPE, dies_after=dies_after, preset="scratch")
    assert checkpoints_of(tmp_path / "run") == saved
    assert [record["step"] for record in runs.open_run(tmp_path / "run").metrics()] == [10]
    run = train_tiny(RECIPE, resume=True)
    assert weights(run) == weights(whole)
    assert evaluated(run) == evaluated(whole)
    assert not (run.path / "checkpoints").exists()
    assert run.recipe["preset"] == "scratch"


def test_states_that_were_asked_for_stay_when_a_run_goes_on(train_tiny):
    run = train_tiny(RECIPE, duration="4 steps", keep=1)
    for steps in (4, 6):
        train_tiny(RECIPE, duration=f"{steps} steps", resume=True)
        assert checkpoints_of(run.path) == [steps]


def test_a_state_that_is_not_finite_never_replaces_a_good_one(learner, tmp_path):
    checkpoints = Checkpoints(tmp_path, learner)
    checkpoints.save(1)
    learner.set_weights([np.full_like(array, np.nan) for array in learner.get_weights()])
    with pytest.raises(RefusedError, match="before step 2: not all weights are finite"):
        checkpoints.save(2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001.npz"]


def test_a_full_disk_keeps_the_checkpoint_before(learner, tmp_path):
    checkpoints = Checkpoints(tmp_path, learner)
    checkpoints.save(1)
    saved = learner.get_weights()
    learner.set_weights([array + 1 for array in saved])
    # A limit on the size of files acts like a full disk.
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(OSError, match=r"step-000000002\.npz could not be written: File too"):
            checkpoints.save(2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001.npz"]
    assert checkpoints.restore() == 1
    np.testing.assert_array_equal(learner.get_weights()[0], saved[0])


@pytest.mark.flavours
@pytest.mark.slow
def test_a_checkpoint_holds_the_loss_scale_of_float16(train_tiny, monkeypatch):
    recipe = dataclasses.replace(RECIPE, precision="mixed_float16", ema=0.0, duration="8 steps")
    scales = []

    def noted(self, *arguments):
        original(self, *arguments)
        optimizer = self.ready.learner.optimizer
        names = ("loss_scale", "dynamic_counter") if LEGACY else ("dynamic_scale", "step_counter")
        scales.append([float(getattr(optimizer, name)) for name in names])

    original = loop.Loop.run
    monkeypatch.setattr(loop.Loop, "run", noted)
    train_tiny(recipe, checkpoint_every="4 steps")
    train_tiny(recipe, resume=True)
    assert scales[0] == scales[1]
    assert scales[0][1] == 8  # steps without an overflow


def test_only_one_training_writes_a_folder(train_tiny, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path / "run")
    assert not _files.is_locked(tmp_path / "run")
    with _files.locked(tmp_path / "run"):
        assert _files.is_locked(tmp_path / "run")
        with pytest.raises(UsageError, match="another process is writing .*run"):
            train_tiny(RECIPE, overwrite=True)
        with (
            pytest.raises(UsageError, match="another process is writing .*link"),
            _files.locked(tmp_path / "link"),
        ):
            pass
    assert not _files.is_locked(tmp_path / "run")
    # A file system without locks has none.
    unsupported = Mock(side_effect=OSError(errno.ENOLCK, "No locks available"))
    monkeypatch.setattr(fcntl, "flock", unsupported)
    with _files.locked(tmp_path / "run"), _files.locked(tmp_path / "run"):
        pass


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CHECKPOINT_EVERY, Every(seconds=300)),  # five minutes unless another is asked for
        ("1 hour", Every(seconds=3600)),
        ("5minutes", Every(seconds=300)),
        ("0.5 seconds", Every(seconds=0.5)),
        ("7 steps", Every(steps=7)),
        ("2 epochs", Every(steps=20)),
        ("1 example", Every(steps=1)),  # less than a step, but not nothing
        ("5%", Every(steps=50)),
    ],
)
def test_intervals(text, expected):
    counts = {"batch_size": 10, "num_examples": 100, "total_steps": 1000}
    assert interval(text, **counts) == expected


@pytest.mark.parametrize(
    "text",
    ["soon", "0 minutes", "-1 hours", "x minutes", "", "0 steps", "0.0 epochs", "0 examples"],
)
def test_intervals_that_cannot_be_read(text):
    with pytest.raises(UsageError, match="checkpoint_every must be a number and a unit"):
        interval(text, batch_size=1, num_examples=1)
