"""Training: durations, schedule, optimiser, and the real loop on real files."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import warnings

import ml_dtypes
import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, runs, training
from keras_vit._keras import keras
from keras_vit.data import (
    InMemory,
    Source,
    Split,
    load,
    open_source,
    split_source,
    training_batches,
)
from keras_vit.specs import VARIANTS
from keras_vit.training import (
    PRESETS,
    RECIPES,
    Preset,
    Recipe,
    Saving,
    default_recipe,
    loop,
    prepared,
    train,
)
from keras_vit.training.tasks import predicted

TINY = Recipe(image_size=16, duration="2 epochs", batch_size=4, augment="mild_crop_flip", jit=False)


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 0},
        {"image_size": -1},
        {"learning_rate": -1.0},
        {"label_smoothing": 1.0},
        {"held_out": 1.0},
        {"held_out": 0.0},
        {"accumulate": 0},
        {"layer_decay": 0.0},
        {"ema": 1.0},
        {"dropout": 1.0},
        {"optimizer": "adam"},
        {"schedule": "step"},
        {"loss": "hinge"},
        {"class_weights": "Balanced"},
        {"sampling": "balance"},
        {"freeze": "head"},
        {"precision": "mixed_float"},
        {"augment": "flip"},
    ],
)
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


@pytest.mark.flavours
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


def test_a_spec_instead_of_a_model_is_refused(shared_folder, tmp_path, small_spec):
    with pytest.raises(UsageError, match=r"such as ViT\(spec, .*\. Received: ViTSpec\."):
        train(small_spec, open_source(shared_folder), Recipe(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_split_that_holds_out_training_images_is_refused(shared_folder, tmp_path, tiny_model):
    source = open_source(shared_folder)
    split = Split(np.arange(8), np.arange(7, len(source)))
    with pytest.raises(UsageError, match="no image in common.*1 in both, the first is 7"):
        train(tiny_model, source, TINY, tmp_path / "run", split=split)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_fine_tuning_starts_from_the_file_and_other_classes(image_folder, tmp_path, tiny_model):
    pretrained = keras_vit.create_model(tiny_model, num_classes=7, image_size=16)
    keras_vit.save_weights(pretrained, tmp_path / "seven.npz")
    recipe = dataclasses.replace(TINY, duration="1 step", learning_rate=0.0, warmup="0 steps")
    source, out = open_source(image_folder), tmp_path / "run"
    run = train(tiny_model, source, recipe, out, weights=tmp_path / "seven.npz")
    old, new = np.load(tmp_path / "seven.npz"), np.load(run.path / "weights.npz")
    np.testing.assert_array_equal(old["embedding/kernel"], new["embedding/kernel"])
    assert new["head/kernel"].shape == (32, 2)
    assert run.spec["weights"] == "seven.npz"


# Settings that differ between recipes in their values only.
SAME = {
    "image_size": 16, "batch_size": 4, "duration": "2 steps", "warmup": "1 step", "seed": 0,
    "learning_rate": 0.1, "weight_decay": None, "drop_path": 0.0, "dropout": None, "mixup": 0.0,
    "augment": "none",
}  # fmt: skip


@pytest.mark.soak(of="trainings")
def test_every_recipe_runs(image_folder, tmp_path, tiny_model):
    different = {  # one of those that differ in values only
        repr(dataclasses.replace(recipe, **SAME)): (name, recipe)
        for name, recipe in RECIPES.items()
    }
    for name, recipe in different.values():
        changes = {"image_size": 16, "batch_size": 4, "duration": "2 steps", "warmup": "1 step"}
        short = dataclasses.replace(recipe, jit=False, **changes)
        source, teacher = open_source(image_folder), None
        if recipe.distillation != "none":
            teacher = training.build(tiny_model, source.labels, Recipe(image_size=16))
        run = train(tiny_model, source, short, tmp_path / name, teacher=teacher)
        assert np.isfinite(run.metrics()[-1]["val_loss"])
        assert run.metrics()[-1]["step"] == 2


@pytest.mark.flavours
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hybrid", "bit", "grey"])
def test_other_models_train_reload_and_are_evaluated(image_folder, tmp_path, monkeypatch, kind):
    from keras_vit.evaluation import evaluate

    stem = keras_vit.ResNetStem()
    spec = {
        "hybrid": keras_vit.ViTSpec(4, 32, 1, 2, 48, stem=stem, position_embedding="relative"),
        "bit": keras_vit.ResNetSpec((1, 1, 1, 1)),
        "grey": keras_vit.ViTSpec(8, 32, 1, 2, 48, in_channels=1),
    }[kind]
    monkeypatch.setitem(VARIANTS, "R+Test", spec)
    recipe = dataclasses.replace(TINY, image_size=32, duration="2 steps")
    run = train("R+Test", open_source(image_folder), recipe, tmp_path / "run")
    assert run.model().spec == spec
    assert run.model().labels == run.labels == ("blue", "red")
    _, page = evaluate(run)
    assert ("attention on" in page.read_text()) == (kind != "bit")


@pytest.mark.flavours
@pytest.mark.slow
def test_compiled_training_equals_uncompiled_training(image_folder, tmp_path, tiny_model):
    losses = []
    for jit in (True, False):
        recipe = dataclasses.replace(TINY, jit=jit, duration="13 steps", augment="none")
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*ran out of data")
            run = train(tiny_model, open_source(image_folder), recipe, tmp_path / str(jit))
        losses.append(run.metrics()[-1]["val_loss"])
        assert [r["step"] for r in run.metrics()] == [10, 13]  # the last epoch is cut short
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert losses[0] < 0.9 * np.log(2)  # the head begins at zero, where the loss is log(2)


@pytest.mark.flavours
@pytest.mark.slow
def test_mixed_precision_leaves_no_trace(image_folder, tmp_path, tiny_model):
    recipe = dataclasses.replace(TINY, precision="mixed_bfloat16", duration="2 steps")
    run = train(tiny_model, open_source(image_folder), recipe, tmp_path / "run")
    kernel = np.load(run.path / "weights.npz")["embedding/kernel"]
    assert (kernel != kernel.astype(ml_dtypes.bfloat16)).any()  # it has learned in float32
    assert keras.layers.Dense(1).compute_dtype == "float32"
    assert run.model().dtype_policy.name == "float32"


@pytest.mark.slow
def test_tensorboard_writes_event_files(image_folder, tmp_path, tiny_model):
    recipe = dataclasses.replace(TINY, duration="2 steps")
    source = open_source(image_folder)
    run = train(tiny_model, source, recipe, Saving(tmp_path / "run", tensorboard=True))
    assert list((run.path / "tensorboard").rglob("events.out*"))


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({"model_name": "ViT_B61"}, {}, "unknown model"),
        ({}, {"image_size": 20}, "image_size must be a multiple of patch_size=8"),
        ({}, {"duration": "soon"}, "must be a number and a unit"),
        ({}, {"duration": "0 epochs"}, "'0 epochs' is less than one step of training"),
        ({}, {"duration": "1 example"}, "'1 example' is less than one step of training"),
        ({}, {"warmup": "early"}, "must be a number and a unit"),
        ({}, {"dropout": 0.1}, None),
        ({"model_name": "BiT-R50x1"}, {"dropout": 0.1}, "dropout"),
        ({"model_name": "BiT-R50x1"}, {"lora": 8}, "is a ResNet, lora is a setting"),
        ({"weights": "none.npz"}, {}, "none.npz: expected a .npz file"),
        ({"weights": "imagenet22k"}, {}, "'imagenet22k' is neither a file nor published weights"),
        ({"weights": "vit_token.weights.npz"}, {}, "this file is another architecture"),
        ({"out": "file"}, {}, "is a file"),
        ({"out": "data/run"}, {}, "lies inside the data"),
    ],
)
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


class MeanColour:
    """A task whose targets come from the images: the outputs learn their mean colour, 0 to 1."""

    def targets(self, images, classes):
        import tensorflow as tf

        return tf.reduce_mean(tf.cast(images, tf.float32), [1, 2]) / 255

    def predictions(self, model, pixels):
        return predicted(model, pixels)

    def loss(self, training=True):
        return keras.losses.MeanSquaredError()

    def metrics(self):
        return [keras.metrics.MeanAbsoluteError("error")]


def test_a_task_of_ones_own_learns_from_the_images(tiny_model, tmp_path, rng):
    pixels = np.broadcast_to(rng.integers(0, 256, (60, 1, 1, 3)), (60, 8, 8, 3)).astype(np.uint8)
    source = Source(
        name="colours", labels=tuple("abc"), ids=tuple(map(str, range(60))),
        targets=np.arange(60) % 3, image=InMemory(pixels),
    )  # fmt: skip
    recipe = dataclasses.replace(
        TINY, duration="60 steps", batch_size=16, learning_rate=3e-3, augment="none"
    )
    run = train(tiny_model, source, recipe, tmp_path / "run", task=MeanColour())
    first, *_, last = run.metrics()
    assert last["val_error"] < 0.5 * first["val_error"]
    assert last.keys() >= {"loss", "error", "val_loss", "val_error"}


def test_a_run_is_not_overwritten_by_accident(image_folder, tmp_path, tiny_model):
    source = open_source(image_folder)
    model = keras_vit.create_model(tiny_model, num_classes=2, image_size=16)

    def create(name, overwrite=False):
        return runs.create_run(
            tmp_path / name, model, source, split_source(source), {}, "fresh", overwrite=overwrite
        )

    create("run")
    with pytest.raises(UsageError, match="is a run; choose"):
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


@pytest.mark.flavours
def test_every_setting_reaches_the_loop(image_folder, tmp_path, tiny_model, monkeypatch):
    recipe = Recipe(
        image_size=16, batch_size=4, duration="4 steps", warmup="0 steps", optimizer="sgd",
        momentum=0.7, label_smoothing=0.3, augment="shift", dropout=0.2,
        drop_path=0.1, precision="mixed_bfloat16", jit=True, seed=7,
    )  # fmt: skip
    loops = []
    monkeypatch.setattr(loop.Loop, "run", lambda self, extra: loops.append(self.ready))
    source = open_source(image_folder)
    for seed in (7, 7, 8):
        seeded = dataclasses.replace(recipe, seed=seed)
        train(tiny_model, source, seeded, Saving(tmp_path / "run", overwrite=True))
    first, second, other = (
        np.array(each.begun.model.get_layer("encoderblock_0").mlp.dense_0.kernel) for each in loops
    )
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, other)
    model, learner = loops[0].begun.model, loops[0].learner
    assert learner.jit_compile is True
    assert learner.loss.get_config()["label_smoothing"] == 0.3
    assert float(np.asarray(learner.optimizer.momentum)) == pytest.approx(0.7)
    assert model.get_layer("encoderblock_0").compute_dtype == "bfloat16"
    assert (model.spec.dropout, model.spec.drop_path) == (0.2, 0.1)


@pytest.mark.slow
def test_augmentation_and_seed_of_the_recipe_reach_the_loop(
    image_folder, tmp_path, tiny_model, monkeypatch
):
    seen = {}

    def batches(*arguments, **keywords):
        seen["arguments"] = arguments[3:]
        return training_batches(*arguments, **keywords)

    monkeypatch.setattr(prepared.data, "training_batches", batches)
    recipe = dataclasses.replace(
        TINY, augment="shift", seed=9, duration="2 steps", warmup="0 steps"
    )
    train(tiny_model, open_source(image_folder), recipe, tmp_path / "run")
    assert seen["arguments"] == (4, 2, "shift", 9, 0, "all", (0, 1))
