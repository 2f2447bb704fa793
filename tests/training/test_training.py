"""Training: durations, schedule, optimiser, and the real loop on real files."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, evaluation, runs, training
from keras_vit._errors import RefusedError
from keras_vit._interrupts import deferred_interrupts
from keras_vit._keras import keras
from keras_vit.data import Source, load, open_source, split_source, training_batches
from keras_vit.specs import VARIANTS
from keras_vit.training import PRESETS, RECIPES, Preset, Recipe, default_recipe, fit, train
from keras_vit.training.callbacks import StopAfter
from keras_vit.training.durations import to_steps
from keras_vit.training.optimisers import optimizer, schedule

TINY = Recipe(image_size=16, duration="2 epochs", batch_size=4, augment="mild_crop_flip", jit=False)


@pytest.mark.parametrize(
    ("duration", "steps"),
    [
        ("3 epochs", 30),
        ("1 epoch", 10),
        ("0.5 epochs", 5),
        ("7 steps", 7),
        ("1 step", 1),
        ("1e3 examples", 16),
        ("10%", 20),
        ("2.5 %", 5),
        (" 0 steps ", 0),
    ],
)
@pytest.mark.once
def test_durations_become_steps(duration, steps):
    # 10 whole batches of 64 in 680 examples
    assert to_steps(duration, batch_size=64, num_examples=680, total_steps=200) == steps


@pytest.mark.parametrize("duration", ["", "3", "epochs", "-1 epochs", "inf steps", "3 weeks"])
@pytest.mark.once
def test_durations_that_cannot_be_read(duration):
    with pytest.raises(UsageError, match="such as '5 epochs', '5 steps', '5 examples'"):
        to_steps(duration, batch_size=64, num_examples=680)


def test_a_percentage_needs_a_total():
    with pytest.raises(UsageError, match="a duration is a number and a unit"):
        to_steps("5%", batch_size=64, num_examples=680)


def test_schedule_warms_up_linearly_then_falls_as_a_cosine():
    rate = schedule(0.4, total_steps=110, warmup_steps=10)
    actual = [float(rate(step)) for step in (0, 5, 10, 60, 110)]
    assert actual == pytest.approx([0, 0.2, 0.4, 0.2, 0], abs=1e-6)
    assert float(schedule(0.4, 100, 0)(0)) == pytest.approx(0.4)


def test_warmup_must_be_shorter_than_training():
    with pytest.raises(UsageError, match="shorter than training, 10 steps. Received: 10"):
        schedule(0.1, 10, 10)


def test_weight_decay_acts_on_kernels_only(small_spec):
    model = keras_vit.ViT(small_spec, 5, 16)
    for variable in model.trainable_variables:
        variable.assign(np.ones(variable.shape, np.float32))
    recipe = dataclasses.replace(TINY, weight_decay=0.5, learning_rate=0.1, warmup="0 steps")
    adamw = optimizer(recipe, model, total_steps=1000, warmup_steps=0)
    zeros = [np.zeros(v.shape, np.float32) for v in model.trainable_variables]
    pairs = [(_tensor(z), v) for z, v in zip(zeros, model.trainable_variables, strict=True)]
    adamw.apply_gradients(pairs)
    decayed = {v.name for v in model.trainable_variables if np.asarray(v).max() < 1}
    assert all("kernel" in name for name in decayed)
    kernels = [v for v in model.trainable_variables if "kernel" in v.name]
    assert len(kernels) == 2 + 2 * 6
    for kernel in kernels:
        np.testing.assert_allclose(np.asarray(kernel), 0.95, rtol=1e-5)


def test_the_gradient_is_clipped_by_its_global_norm(small_spec):
    model = keras_vit.ViT(small_spec, 5, 16)
    recipe = dataclasses.replace(
        TINY, optimizer="sgd", weight_decay=0.0, momentum=0.0, learning_rate=1.0, clip_norm=1.0
    )
    sgd = optimizer(recipe, model, total_steps=10**6, warmup_steps=0)
    before = [np.asarray(v).copy() for v in model.trainable_variables]
    pairs = [(_tensor(np.full(b.shape, 3.0, np.float32)), v)
             for b, v in zip(before, model.trainable_variables, strict=True)]  # fmt: skip
    sgd.apply_gradients(pairs)
    moved = [np.asarray(v) - b for v, b in zip(model.trainable_variables, before, strict=True)]
    assert np.sqrt(sum((m**2).sum() for m in moved)) == pytest.approx(1, rel=1e-3)


def test_sgd_refuses_adamws_decay(small_spec):
    with pytest.raises(UsageError, match="with optimizer='sgd' set it to 0"):
        optimizer(
            dataclasses.replace(TINY, optimizer="sgd"), keras_vit.ViT(small_spec, 2, 16), 9, 1
        )


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 0},
        {"image_size": -1},
        {"learning_rate": -1.0},
        {"label_smoothing": 1.0},
        {"held_out": 1.0},
        {"dropout": 1.0},
    ],
)
@pytest.mark.once
def test_recipes_refuse(change):
    with pytest.raises(UsageError, match=next(iter(change))):
        Recipe(**change)


@pytest.mark.parametrize(
    ("data", "weights", "name"),
    [
        ("digits", None, "digits"),
        ("digits", "augreg", "digits"),
        ("flower_photos", None, "scratch"),
        ("flower_photos", "augreg", "finetune"),
        ("./digits", None, "scratch"),
    ],
)
def test_data_and_weights_choose_the_recipe(data, weights, name):
    assert default_recipe(data, weights) == name


def test_a_recipe_is_added_by_a_row(monkeypatch):
    row = Preset(Recipe(duration="7 steps"), model="ViT_S16", data="stripes")
    monkeypatch.setattr("keras_vit.training.recipes.PRESETS", {**PRESETS, "stripes": row})
    assert default_recipe("stripes") == default_recipe("stripes", "augreg") == "stripes"
    assert default_recipe("digits") == "digits"


def test_every_recipe_has_a_known_model():
    assert [keras_vit.specs.find_variant(preset.model) for preset in PRESETS.values()] == [
        "ViT-Pico_4",
        "ViT-Ti_16",
        "ViT-Ti_16",
    ]


def test_run_folder_holds_everything_and_gives_the_trained_model(trained_run):
    run = runs.open_run(trained_run.path)
    assert run.spec["model"] == "ViT-Test_8"
    assert run.recipe["recipe"]["duration"] == "3 epochs"
    assert {"keras_vit", "tensorflow", "numpy", "backend"} <= run.recipe["versions"].keys()
    records = run.metrics()
    assert [r["epoch"] for r in records] == [1, 2, 3]
    assert records[-1]["step"] == 3 * (1438 // 128)
    assert records[-1]["loss"] < records[0]["loss"]
    assert records[-1]["learning_rate"] == pytest.approx(0, abs=1e-5)
    source = run.source()
    held_out = run.split(source).held_out
    model = run.model()
    inputs, targets = load(source, held_out, model.preprocessing)
    accuracy = (model.predict(inputs, verbose=0).argmax(-1) == targets).mean()
    assert accuracy == pytest.approx(records[-1]["val_accuracy"], abs=1e-6)


@pytest.mark.once
def test_the_same_seed_gives_the_same_run(image_folder, tmp_path, tiny_model):
    recipe = dataclasses.replace(TINY, seed=5, dropout=0.1, drop_path=0.1)
    source = open_source(image_folder)
    first, second, other = (
        np.load(train(source, recipe, tiny_model, tmp_path / name).path / "weights.npz")
        for name, recipe in (
            ("first", recipe),
            ("second", recipe),
            ("other", dataclasses.replace(recipe, seed=6)),
        )
    )
    for key in first.files:
        np.testing.assert_array_equal(first[key], second[key])
    # Training moves a weight by less than 0.01; the initial weights have a deviation of 0.07.
    assert np.abs(first["embedding/kernel"] - other["embedding/kernel"]).mean() > 0.03


@pytest.mark.once
def test_fine_tuning_starts_from_the_file_and_other_classes(image_folder, tmp_path, tiny_model):
    pretrained = keras_vit.create_model(tiny_model, num_classes=7, image_size=16)
    keras_vit.save_weights(pretrained, tmp_path / "seven.npz")
    recipe = dataclasses.replace(TINY, duration="1 step", learning_rate=0.0, warmup="0 steps")
    source, out = open_source(image_folder), tmp_path / "run"
    run = train(source, recipe, tiny_model, out, weights=tmp_path / "seven.npz")
    old, new = np.load(tmp_path / "seven.npz"), np.load(run.path / "weights.npz")
    np.testing.assert_array_equal(old["embedding/kernel"], new["embedding/kernel"])
    assert new["head/kernel"].shape == (32, 2)
    assert run.spec["weights"] == "seven.npz"


@pytest.mark.slow
@pytest.mark.once
def test_every_recipe_runs(image_folder, tmp_path, tiny_model):
    for name, recipe in RECIPES.items():
        changes = {"image_size": 16, "batch_size": 4, "duration": "2 steps", "warmup": "1 step"}
        short = dataclasses.replace(recipe, jit=False, **changes)
        run = train(open_source(image_folder), short, tiny_model, tmp_path / name)
        assert np.isfinite(run.metrics()[-1]["val_loss"])
        assert run.metrics()[-1]["step"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hybrid", "bit"])
def test_resnets_train_reload_and_are_evaluated(image_folder, tmp_path, monkeypatch, kind):
    from keras_vit.evaluation import evaluate

    stem = keras_vit.ResNetStem()
    spec = {
        "hybrid": keras_vit.ViTSpec(4, 32, 1, 2, 48, stem=stem, position_embedding="relative"),
        "bit": keras_vit.ResNetSpec((1, 1, 1, 1)),
    }[kind]
    monkeypatch.setitem(VARIANTS, "R+Test", spec)
    recipe = dataclasses.replace(TINY, image_size=32, duration="2 steps")
    run = train(open_source(image_folder), recipe, "R+Test", tmp_path / "run")
    assert run.model().spec == spec
    assert run.model().labels == run.labels == ("blue", "red")
    _, page = evaluate(run)
    assert ("attention on" in page.read_text()) == (kind == "hybrid")


@pytest.mark.slow
def test_compiled_training_equals_uncompiled_training(image_folder, tmp_path, tiny_model):
    losses = []
    for jit in (True, False):
        recipe = dataclasses.replace(TINY, jit=jit, duration="13 steps", augment="none")
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*ran out of data")
            run = train(open_source(image_folder), recipe, tiny_model, tmp_path / str(jit))
        losses.append(run.metrics()[-1]["val_loss"])
        assert [r["step"] for r in run.metrics()] == [10, 13]  # the last epoch is cut short
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert losses[0] < 0.9 * np.log(2)  # the head begins at zero, where the loss is log(2)


def test_mixed_precision_leaves_no_trace(image_folder, tmp_path, tiny_model):
    recipe = dataclasses.replace(TINY, precision="mixed_bfloat16", duration="2 steps")
    run = train(open_source(image_folder), recipe, tiny_model, tmp_path / "run")
    kernel = np.load(run.path / "weights.npz")["embedding/kernel"]
    assert (kernel != kernel.astype(ml_dtypes.bfloat16)).any()  # it has learned in float32
    assert keras.layers.Dense(1).compute_dtype == "float32"
    assert run.model().dtype_policy.name == "float32"


@pytest.mark.slow
@pytest.mark.once
def test_tensorboard_writes_event_files(image_folder, tmp_path, tiny_model):
    recipe = dataclasses.replace(TINY, duration="2 steps")
    source = open_source(image_folder)
    run = train(source, recipe, tiny_model, tmp_path / "run", tensorboard=True)
    assert list((run.path / "tensorboard").rglob("events.out*"))


def imbalanced(counts, colours=((200, 30, 30), (30, 200, 30), (30, 30, 200))):
    """Images in memory: `counts[i]` images of class i, all of one colour."""
    targets = np.repeat(np.arange(len(counts)), counts)
    return Source(
        name="colours",
        labels=tuple("abc"[: len(counts)]),
        ids=tuple(f"{target}/{i}" for i, target in enumerate(targets)),
        targets=targets,
        image=lambda i: np.full((8, 8, 3), colours[targets[i]], np.uint8),
    )


def test_balanced_weights_equal_those_of_scikit_learn():
    from sklearn.utils.class_weight import compute_class_weight

    targets = np.repeat([0, 1, 2], [30, 5, 1])
    actual = training.balanced_weights(targets, 3)
    expected = compute_class_weight("balanced", classes=np.arange(3), y=targets)
    np.testing.assert_allclose([actual[i] for i in range(3)], expected)
    assert np.mean([actual[target] for target in targets]) == pytest.approx(1)


@pytest.mark.parametrize("kind", [pytest.param("none", marks=pytest.mark.slow), "balanced"])
def test_class_weights_scale_the_training_loss_and_not_the_validation(tiny_model, tmp_path, kind):
    # The head starts at zero, so without class weights the loss of each image is log(classes).
    source = imbalanced((20, 5, 2))
    recipe = dataclasses.replace(
        TINY, duration="1 step", warmup="0 steps", learning_rate=0.0, batch_size=8,
        augment="none", class_weights=kind, label_smoothing=0.1,
    )  # fmt: skip
    run = train(source, recipe, tiny_model, tmp_path / "run")
    split = split_source(source, recipe.held_out)
    model = run.model()
    batches = training_batches(source, split.train, model.preprocessing, 8, 1, "none", recipe.seed)
    (_, targets), *_ = batches.as_numpy_iterator()
    weights = training.balanced_weights(source.targets[split.train], 3)
    mean = np.mean([weights[target] for target in targets]) if kind == "balanced" else 1.0
    assert kind == "none" or abs(mean - 1) > 0.05
    record = run.metrics()[-1]
    assert record["loss"] == pytest.approx(np.log(3) * mean, rel=1e-5)
    assert record["val_loss"] == pytest.approx(np.log(3), rel=1e-5)


@pytest.mark.once
@pytest.mark.slow
def test_balanced_classes_let_a_rare_class_be_learned(tiny_model, tmp_path):
    # The two colours are so similar that a short training predicts only the frequent class.
    source = imbalanced((60, 5), colours=((120, 120, 120), (130, 120, 120)))
    recalls = {}
    for kind in ("none", "balanced"):
        recipe = dataclasses.replace(
            TINY, duration="12 steps", batch_size=16, augment="none", class_weights=kind
        )
        run = train(source, recipe, tiny_model, tmp_path / kind)
        recalls[kind] = evaluation.held_out_report(run, source).classes[1]["recall"]
    assert recalls == {"none": 0.0, "balanced": 1.0}


def test_the_warning_of_strong_imbalance_has_advice():
    warning = training.imbalance_warning(("common", "rare"), (1200, 120))
    assert "common has 1,200 images, rare 120" in warning
    assert warning.endswith("train with balanced class weights.")
    assert training.imbalance_warning(("common", "rare"), (1199, 120)) is None


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({"model_name": "ViT_B61"}, {}, "unknown model"),
        ({}, {"image_size": 20}, "image_size must be a multiple of patch_size=8"),
        ({}, {"duration": "soon"}, "a duration is a number and a unit"),
        ({}, {"duration": "0 epochs"}, "'0 epochs' is less than one step of training"),
        ({}, {"duration": "1 example"}, "'1 example' is less than one step of training"),
        ({}, {"warmup": "early"}, "a duration is a number and a unit"),
        ({}, {"dropout": 0.1}, None),
        ({"model_name": "BiT-R50x1"}, {"dropout": 0.1}, "dropout"),
        ({"weights": "none.npz"}, {}, "none.npz: expected a .npz file"),
        ({"weights": "imagenet22k"}, {}, "'imagenet22k' is neither a file nor published weights"),
        ({"weights": "vit_token.weights.npz"}, {}, "this file is another architecture"),
        ({"out": "file"}, {}, "is a file"),
        ({"out": "data/run"}, {}, "lies inside the data"),
    ],
)
@pytest.mark.once
def test_settings_are_checked_without_the_images(
    tiny_model, tmp_path, fixtures, monkeypatch, changes, settings, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    shutil.copy(fixtures / "vit_token.weights.npz", tmp_path)
    arguments = {
        "data": "data",  # there is no such folder
        "recipe": dataclasses.replace(TINY, **settings),
        "model_name": tiny_model,
        "out": "runs/new",
    }
    outcome = pytest.raises(UsageError, match=message) if message else contextlib.nullcontext()
    with outcome:
        training.check_settings(**(arguments | changes))
    assert not (tmp_path / "runs").exists()


def test_a_run_is_not_overwritten_by_accident(image_folder, tmp_path, tiny_model):
    source = open_source(image_folder)
    model = keras_vit.create_model(tiny_model, num_classes=2, image_size=16)

    def create(name, overwrite=False):
        return runs.create_run(
            tmp_path / name, model, source, split_source(source), {}, "fresh", overwrite=overwrite
        )

    create("run")
    with pytest.raises(UsageError, match="is a run already"):
        create("run")
    (tmp_path / "run" / "metrics.jsonl").write_text("{}\n")
    create("run", overwrite=True)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="is not empty and is not a run"):
        create("mine", overwrite=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        create("file", overwrite=True)


def test_every_setting_reaches_the_loop(image_folder, tmp_path, tiny_model, monkeypatch):
    recipe = Recipe(
        image_size=16, batch_size=4, duration="4 steps", warmup="0 steps", optimizer="sgd",
        weight_decay=0.0, momentum=0.7, label_smoothing=0.3, augment="shift", dropout=0.2,
        drop_path=0.1, precision="mixed_bfloat16", jit=True, seed=7,
    )  # fmt: skip
    seen = {}
    monkeypatch.setattr(fit, "_fit", lambda model, *rest: seen.update(model=model))
    source = open_source(image_folder)
    train(source, recipe, tiny_model, tmp_path / "run")
    model = seen["model"]
    assert model.jit_compile is True
    assert model.loss.get_config()["label_smoothing"] == 0.3
    assert float(np.asarray(model.optimizer.momentum)) == pytest.approx(0.7)
    assert model.get_layer("encoderblock_0").compute_dtype == "bfloat16"
    assert (model.spec.dropout, model.spec.drop_path) == (0.2, 0.1)


@pytest.mark.once
def test_augmentation_and_seed_of_the_recipe_reach_the_loop(
    image_folder, tmp_path, tiny_model, monkeypatch
):
    seen = {}

    def batches(*arguments):
        seen["arguments"] = arguments[3:]
        return training_batches(*arguments)

    monkeypatch.setattr(fit, "training_batches", batches)
    recipe = dataclasses.replace(
        TINY, augment="shift", seed=9, duration="2 steps", warmup="0 steps"
    )
    train(open_source(image_folder), recipe, tiny_model, tmp_path / "run")
    assert seen["arguments"] == (4, 2, "shift", 9)


def test_an_interrupt_within_an_epoch_saves_what_was_learned(
    image_folder, tmp_path, tiny_model, monkeypatch
):
    @contextlib.contextmanager
    def after_three_steps():
        steps = iter([None, None, KeyboardInterrupt])

        def check():
            if next(steps):
                raise KeyboardInterrupt

        yield check

    monkeypatch.setattr(fit, "deferred_interrupts", after_three_steps)
    recipe = dataclasses.replace(TINY, duration="9 steps", warmup="0 steps")
    with pytest.raises(KeyboardInterrupt):
        train(open_source(image_folder), recipe, tiny_model, tmp_path / "run")
    run = runs.open_run(tmp_path / "run")
    assert run.metrics() == []
    assert np.asarray(run.model().get_layer("head").kernel).any()


def test_a_run_that_diverges_is_refused_and_keeps_finite_weights(
    image_folder, tmp_path, tiny_model
):
    recipe = dataclasses.replace(
        TINY, learning_rate=1e30, clip_norm=0.0, duration="20 steps", warmup="0 steps"
    )
    with pytest.raises(RefusedError, match="training diverged in epoch 1: the loss is nan"):
        train(open_source(image_folder), recipe, tiny_model, tmp_path / "run")
    weights = np.load(tmp_path / "run" / "weights.npz")
    assert all(np.isfinite(weights[key]).all() for key in weights.files)


def test_a_picture_deleted_during_training_is_named(image_folder, tmp_path, tiny_model):
    source = open_source(image_folder)
    for file in (image_folder / "red").iterdir():
        file.unlink()
    recipe = dataclasses.replace(TINY, duration="9 steps", warmup="0 steps")
    with pytest.raises(UsageError, match=r"training stopped.*FileNotFoundError.*red"):
        train(source, recipe, tiny_model, tmp_path / "run")


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


@pytest.mark.once
def test_training_runs_outside_the_main_thread(image_folder, tmp_path, tiny_model):
    recipe = dataclasses.replace(TINY, duration="1 step", warmup="0 steps")
    with ThreadPoolExecutor(1) as pool:
        arguments = (open_source(image_folder), recipe, tiny_model, tmp_path / "run")
        assert pool.submit(train, *arguments).result().metrics()


def test_metrics_ignore_an_incomplete_last_line(trained_run, tmp_path):
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"epoch": 1}) + '\n{"epoch": 2, "lo')
    torn = dataclasses.replace(trained_run, path=tmp_path)
    assert torn.metrics() == [{"epoch": 1}]


def _tensor(array):
    import tensorflow as tf

    return tf.constant(array)


@pytest.mark.parametrize("per_execution", [1, 4])
def test_training_ends_with_the_execution_that_reaches_the_steps(per_execution):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=per_execution)
    examples = np.ones((8, 2), np.float32), np.ones((8, 1), np.float32)
    # With 8 steps in an epoch, step 10 is in the middle of the second epoch, and 4 does not divide
    # it.
    model.fit(*examples, batch_size=1, epochs=9, callbacks=[StopAfter(10)], verbose=0)
    assert int(model.optimizer.iterations) == {1: 10, 4: 12}[per_execution]
