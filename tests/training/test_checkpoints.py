"""A training that was stopped goes on bit for bit."""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, runs
from keras_vit._interrupts import Terminated
from keras_vit._keras import LEGACY, keras
from keras_vit.data import open_source
from keras_vit.specs import VARIANTS
from keras_vit.training import Hooks, Recipe, Saving, check_settings, loop, train
from keras_vit.training import run as training_run
from keras_vit.training.checkpoints import Checkpoints
from keras_vit.training.plan import CHECKPOINT_EVERY, Every, interval

RECIPE = Recipe(
    image_size=16, duration="24 steps", warmup="2 steps", batch_size=4, dropout=0.1, drop_path=0.1,
    augment="mild_crop_flip", ema=0.9, jit=False,
)  # fmt: skip


def weights(run, name="weights.npz"):
    return (run.path / name).read_bytes()


def stop_after(monkeypatch, steps, kind=KeyboardInterrupt):
    """Lets the training be stopped after so many steps, as if by a signal."""
    original = loop.Steps.on_train_batch_end

    def stopping(self, batch, logs=None):
        original(self, batch, logs)
        if self.done == steps:
            os.kill(os.getpid(), signal.SIGTERM if kind is Terminated else signal.SIGINT)

    monkeypatch.setattr(loop.Steps, "on_train_batch_end", stopping)


@pytest.fixture(autouse=True)
def _interruptible():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def source(shared_folder):
    return open_source(shared_folder)


@pytest.fixture(scope="module")
def whole(source, tiny_model, tmp_path_factory):
    """An uninterrupted run."""
    return train(tiny_model, source, RECIPE, tmp_path_factory.mktemp("runs") / "whole")


@pytest.mark.flavours
@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        (Terminated, 10),
        *(
            pytest.param(kind, steps, marks=pytest.mark.soak(of="resumes"))
            for kind, steps in ((Terminated, 3), (KeyboardInterrupt, 10), (KeyboardInterrupt, 17))
        ),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    source, whole, tmp_path, tiny_model, monkeypatch, kind, steps
):
    with monkeypatch.context() as patch:
        stop_after(patch, steps, kind)
        with pytest.raises(kind, match=f"holds the state after {steps} of 24 steps"):
            train(tiny_model, source, RECIPE, tmp_path / "run")
    resumed = train(tiny_model, source, RECIPE, Saving(tmp_path / "run", resume=True))
    assert weights(resumed) == weights(whole)
    assert weights(resumed, "weights_ema.npz") == weights(whole, "weights_ema.npz")
    assert weights(whole) != weights(whole, "weights_ema.npz")
    last, expected = resumed.metrics()[-1], whole.metrics()[-1]
    assert last["step"] == expected["step"] == 24
    assert last["val_loss"] == expected["val_loss"]


@pytest.mark.flavours
@pytest.mark.soak(of="resumes")
@pytest.mark.parametrize("steps", [10, 20, 24])
def test_an_epoch_that_was_stopped_in_its_evaluation_is_evaluated_when_resumed(
    source, whole, tmp_path, tiny_model, monkeypatch, steps
):
    def stopping(self, epoch, logs=None):
        assert not self.model.stop_training or steps == 24
        if min(24, 10 * (epoch + 1)) == steps:
            os.kill(os.getpid(), signal.SIGINT)
        evaluate(self, epoch, logs)

    evaluate = loop.Evaluation.on_epoch_end
    with monkeypatch.context() as patch:
        patch.setattr(loop.Evaluation, "on_epoch_end", stopping)
        with pytest.raises(KeyboardInterrupt, match=f"holds the state after {steps} of 24 steps"):
            train(tiny_model, source, RECIPE, tmp_path / "run")
    resumed = train(tiny_model, source, RECIPE, Saving(tmp_path / "run", resume=True))
    assert weights(resumed) == weights(whole)
    shown = [
        [(each["step"], each["val_loss"]) for each in run.metrics()] for run in (resumed, whole)
    ]
    assert shown[0] == shown[1]
    assert len(shown[0]) == 3


@pytest.mark.soak(of="resumes")
def test_checkpoints_of_an_epochs_end_come_after_its_metrics(
    source, tmp_path, tiny_model, monkeypatch
):
    def killed(self, *arguments):
        raise RuntimeError("killed")

    monkeypatch.setattr(loop.RunWriter, "on_epoch_end", killed)
    with pytest.raises(RuntimeError, match="killed"):
        train(tiny_model, source, RECIPE, Saving(tmp_path / "run", checkpoint_every="5 steps"))
    names = [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()]
    assert names == ["step-000000005.npz"]


@pytest.mark.slow
def test_a_longer_training_goes_on_and_other_changes_are_refused(source, tmp_path, tiny_model):
    short = dataclasses.replace(RECIPE, duration="6 steps")
    train(tiny_model, source, short, Saving(tmp_path / "run", checkpoint_every="2 steps", keep=2))
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["step-000000004.npz", "step-000000006.npz"]
    for name in names:
        with np.load(tmp_path / "run" / "checkpoints" / name, allow_pickle=False) as file:
            assert all(file[key].dtype != object for key in file.files)
    changed = dataclasses.replace(short, learning_rate=0.5)
    with pytest.raises(UsageError, match=r"own settings. Received: learning_rate=0.5, was 0.001"):
        train(tiny_model, source, changed, Saving(tmp_path / "run", resume=True))
    with pytest.raises(UsageError, match="its own model, ViT-Test.* Received: ViT-Pico_4"):
        train("ViT_Pico4", source, short, Saving(tmp_path / "run", resume=True))
    swapped = dataclasses.replace(source, targets=1 - source.targets)
    with pytest.raises(UsageError, match="images have other classes than when .*run was trained"):
        train(tiny_model, swapped, short, Saving(tmp_path / "run", resume=True))
    longer = train(tiny_model, source, RECIPE, Saving(tmp_path / "run", resume=True))
    assert longer.metrics()[-1]["step"] == 24
    assert runs.open_run(longer.path).setting("duration") == "24 steps"


def test_a_run_without_checkpoints_or_with_other_settings_is_not_resumed(
    source, whole, tmp_path, tiny_model
):
    with pytest.raises(
        UsageError, match=r"has ended.* overwrite=True, or .* weights=.*weights\.npz"
    ):
        train(tiny_model, source, RECIPE, Saving(whole.path, resume=True))
    changed = dataclasses.replace(RECIPE, seed=1)
    with pytest.raises(UsageError, match="own settings. Received: seed=1, was 0"):
        check_settings("no such folder", changed, tiny_model, Saving(whole.path, resume=True))
    with pytest.raises(UsageError, match="expected a run folder"):
        check_settings("no such folder", RECIPE, tiny_model, Saving(tmp_path / "none", resume=True))


@pytest.mark.slow
@pytest.mark.parametrize("every", ["5 minutes", "10 steps"])
def test_a_training_that_was_killed_goes_on_from_its_last_checkpoint_or_begins_again(
    source, whole, tmp_path, tiny_model, every
):
    def killed(progress):
        if progress.step == 12:
            raise RuntimeError("killed")

    out = tmp_path / "run"
    with pytest.raises(RuntimeError, match="killed"):
        saving = Saving(out, checkpoint_every=every, preset="scratch")
        train(tiny_model, source, RECIPE, saving, hooks=Hooks(report=killed))
    assert [record["step"] for record in runs.open_run(out).metrics()] == [10]
    assert len(list(out.glob("checkpoints/*"))) == (every == "10 steps")
    run = train(tiny_model, source, RECIPE, Saving(out, resume=True))
    assert weights(run) == weights(whole)
    assert [record["step"] for record in run.metrics()] == [10, 20, 24]
    assert run.recipe["preset"] == "scratch"


@pytest.mark.slow
def test_a_hybrid_is_resumed_by_its_name(source, tmp_path, monkeypatch):
    stem = keras_vit.ResNetStem()
    spec = keras_vit.ViTSpec(4, 32, 1, 2, 48, stem=stem)
    monkeypatch.setitem(VARIANTS, "R+Test", spec)
    recipe = dataclasses.replace(RECIPE, duration="2 steps", warmup="0 steps")
    train("R+Test", source, recipe, Saving(tmp_path / "run", checkpoint_every="1 step"))
    longer = dataclasses.replace(recipe, duration="3 steps")
    run = train("R+Test", source, longer, Saving(tmp_path / "run", resume=True))
    assert run.metrics()[-1]["step"] == 3


@pytest.mark.soak(of="resumes")
def test_a_run_is_saved_when_a_resumed_training_is_stopped_before_its_first_step(
    source, whole, tmp_path, tiny_model, monkeypatch
):
    run = tmp_path / "run"
    shutil.copytree(whole.path, run)
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        with pytest.raises(KeyboardInterrupt):
            train(tiny_model, source, RECIPE, Saving(run, overwrite=True))

    def stopped(self, callbacks):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop.Loop, "_fit", stopped)
    with pytest.raises(KeyboardInterrupt, match="holds the state after 1 of 24 steps"):
        train(tiny_model, source, RECIPE, Saving(run, resume=True))


def test_ctrl_c_before_the_first_step_says_what_the_folder_holds(source, tmp_path, tiny_model):
    def pressed(plan):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="only the initial weights; resume=True begins"):
        train(tiny_model, source, RECIPE, tmp_path / "run", hooks=Hooks(started=pressed))


@pytest.mark.soak(of="resumes")
def test_a_resumed_run_is_saved_as_often_as_before(source, tmp_path, tiny_model):
    short = dataclasses.replace(RECIPE, duration="4 steps")
    train(tiny_model, source, short, Saving(tmp_path / "run", checkpoint_every="3 steps"))
    run = train(tiny_model, source, RECIPE, Saving(tmp_path / "run", resume=True, keep=99))
    steps = [int(path.stem[5:]) for path in (run.path / "checkpoints").iterdir()]
    assert sorted(steps) == [3, 4, 7, 10, 13, 16, 19, 22, 24]


def test_a_resumed_training_only_becomes_longer(whole, tmp_path, tiny_model):
    run = shutil.copytree(whole.path, tmp_path / "run")
    shorter, longer = (dataclasses.replace(RECIPE, duration=f"{n} steps") for n in (23, 25))
    check_settings("no such folder", shorter, tiny_model, Saving(run, resume=True))  # no checkpoint
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "step-000000024.npz").touch()
    with pytest.raises(UsageError, match="run of 24 steps. Received: a duration of 23 steps"):
        check_settings("no such folder", shorter, tiny_model, Saving(run, resume=True))
    check_settings("no such folder", longer, tiny_model, Saving(run, resume=True))


@pytest.mark.flavours
def test_a_run_of_another_flavour_of_keras_is_refused_before_the_images_are_read(
    whole, tmp_path, tiny_model
):
    run = shutil.copytree(whole.path, tmp_path / "run")
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "step-000000024.npz").touch()
    check_settings("no such folder", RECIPE, tiny_model, Saving(run, resume=True))
    content = json.loads((run / "recipe.json").read_text())
    other = "keras" if LEGACY else "tf_keras"
    content["versions"]["keras_flavour"] = other
    (run / "recipe.json").write_text(json.dumps(content))
    match = "with Keras 3, .*strategy='one'" if LEGACY else "with tf_keras, .*strategy='mirrored'"
    with pytest.raises(UsageError, match=match):
        check_settings("no such folder", RECIPE, tiny_model, Saving(run, resume=True))
    del content["versions"]  # an older run
    (run / "recipe.json").write_text(json.dumps(content))
    check_settings("no such folder", RECIPE, tiny_model, Saving(run, resume=True))


def test_resume_and_overwrite_exclude_each_other(source, tmp_path, tiny_model):
    with pytest.raises(UsageError, match="leave one of them out"):
        train(tiny_model, source, RECIPE, Saving(tmp_path / "run", resume=True, overwrite=True))


def test_no_run_is_written_inside_another(source, whole, tiny_model):
    inner = whole.path / "more" / "run"
    with pytest.raises(UsageError, match="lies inside the run"):
        train(tiny_model, source, RECIPE, inner)
    assert not inner.parent.exists()


@pytest.mark.slow
def test_a_damaged_checkpoint_leaves_the_one_before(source, whole, tmp_path, tiny_model):
    run = train(tiny_model, source, RECIPE, Saving(tmp_path / "run", checkpoint_every="8 steps"))
    newest = sorted((run.path / "checkpoints").iterdir())[-1]
    content = newest.read_bytes()
    for spoiled in (content[:1000], b"", with_overlaps(content)):
        newest.write_bytes(spoiled)
        resumed = train(tiny_model, source, RECIPE, Saving(run.path, resume=True))
        assert weights(resumed) == weights(whole)
        newest.with_suffix(".damaged").unlink()


def with_overlaps(content):
    """An archive whose members are each listed six times."""
    file = io.BytesIO(content)
    with zipfile.ZipFile(file, "a") as archive:
        archive.filelist.extend(5 * archive.filelist)
        archive._didModify = True
    return file.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["damaged", "deleted"])
def test_a_run_whose_checkpoints_are_lost_never_begins_again_by_itself(
    source, tmp_path, tiny_model, lost
):
    def killed(progress):
        if progress.step == 18:
            raise RuntimeError("killed")

    out = tmp_path / "run"
    with pytest.raises(RuntimeError, match="killed"):
        train(
            tiny_model,
            source,
            RECIPE,
            Saving(out, checkpoint_every="4 steps"),
            hooks=Hooks(report=killed),
        )
    for path in (out / "checkpoints").iterdir():
        path.write_bytes(b"") if lost == "damaged" else path.unlink()
    before = (out / "weights.npz").read_bytes()
    message = {"damaged": "can be read", "deleted": "has no checkpoint to resume from"}[lost]
    for _ in range(2):
        with pytest.raises(UsageError, match=message):
            train(tiny_model, source, RECIPE, Saving(out, resume=True))
    assert (out / "weights.npz").read_bytes() == before
    assert [record["step"] for record in runs.open_run(out).metrics()] == [10]


def test_a_checkpoint_of_a_newer_keras_vit_is_refused(tmp_path):
    about = np.frombuffer(b'{"format": 2, "step": 1, "names": []}', np.uint8)
    np.savez(tmp_path / "step-000000001.npz", about=about)
    with pytest.raises(UsageError, match="expected format 1. Received: 2; install the keras_vit"):
        Checkpoints(tmp_path, learner=None).restore()


def test_whoever_waits_for_a_checkpoint_does_not_wait_for_an_older_one(tmp_path, monkeypatch):
    learner = keras.Sequential([keras.Input((5,)), keras.layers.Dense(5)])
    learner.compile("adam", "mse")
    learner.optimizer.build(learner.trainable_variables)
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


def test_by_default_states_are_saved_and_removed_when_the_training_has_ended(
    source, whole, tmp_path, tiny_model, monkeypatch
):
    assert not (whole.path / "checkpoints").exists()

    def killed(progress):
        if progress.step == 18:
            raise RuntimeError("killed")

    monkeypatch.setattr(training_run, "CHECKPOINT_EVERY", "7 steps")
    with pytest.raises(RuntimeError, match="killed"):
        train(tiny_model, source, RECIPE, tmp_path / "run", hooks=Hooks(report=killed))
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["step-000000007.npz", "step-000000014.npz"]
    run = train(tiny_model, source, RECIPE, Saving(tmp_path / "run", resume=True))
    assert weights(run) == weights(whole)
    assert not (run.path / "checkpoints").exists()


def test_states_that_were_asked_for_stay_when_a_run_goes_on(source, tmp_path, tiny_model):
    short = dataclasses.replace(RECIPE, duration="4 steps")
    run = train(tiny_model, source, short, Saving(tmp_path / "run", keep=1))
    for recipe, last in ((short, 4), (dataclasses.replace(RECIPE, duration="6 steps"), 6)):
        train(tiny_model, source, recipe, Saving(run.path, resume=True))
        names = [path.name for path in (run.path / "checkpoints").iterdir()]
        assert names == [f"step-{last:09}.npz"]


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path):
    learner = keras.Sequential([keras.Input((50,)), keras.layers.Dense(50)])
    learner.compile("adam", "mse")
    learner.optimizer.build(learner.trainable_variables)
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
def test_a_checkpoint_holds_the_loss_scale_of_float16(source, tmp_path, tiny_model, monkeypatch):
    recipe = dataclasses.replace(RECIPE, precision="mixed_float16", ema=0.0, duration="8 steps")
    scales = []

    def noted(self, *arguments):
        original(self, *arguments)
        optimizer = self.ready.learner.optimizer
        if LEGACY:
            scales.append((float(optimizer.loss_scale), int(optimizer.dynamic_counter)))
        else:
            scales.append((float(optimizer.dynamic_scale), int(optimizer.step_counter)))

    original = loop.Loop.run
    monkeypatch.setattr(loop.Loop, "run", noted)
    train(tiny_model, source, recipe, Saving(tmp_path / "run", checkpoint_every="4 steps"))
    train(tiny_model, source, recipe, Saving(tmp_path / "run", resume=True))
    assert scales[0] == scales[1]
    assert scales[0][1] == 8  # steps without an overflow


@pytest.mark.slow
def test_only_one_training_writes_a_folder(source, tmp_path, tiny_model):
    from keras_vit import _files

    program = (
        "import sys, time; from keras_vit import _files\n"
        "with _files.locked(sys.argv[1]): print('locked', flush=True); time.sleep(60)"
    )
    arguments = [sys.executable, "-c", program, tmp_path / "run"]
    assert not _files.is_locked(tmp_path / "run")
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        assert _files.is_locked(tmp_path / "run")
        with pytest.raises(UsageError, match="another process is writing .*run"):
            train(tiny_model, source, RECIPE, Saving(tmp_path / "run", overwrite=True))
        other.kill()
    assert not _files.is_locked(tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with (
        _files.locked(tmp_path / "run"),
        pytest.raises(UsageError, match="another process is writing .*link"),
        _files.locked(tmp_path / "link"),
    ):
        pass


def test_a_file_system_without_locks_has_none(tmp_path, monkeypatch):
    import fcntl

    from keras_vit import _files

    def unsupported(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

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
