"""Training: the real loop on real files, its augmentation, and what is checked before it."""

import contextlib
import dataclasses
import json
import shutil
import warnings
from unittest.mock import Mock

import ml_dtypes
import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, data, runs, training
from keras_vit._keras import keras
from keras_vit.evaluation import evaluate
from keras_vit.training import Recipe, loop, prepared
from keras_vit.training.tasks import predicted
from keras_vit.variant_specs import VARIANTS

TINY = Recipe(image_size=16, duration="2 epochs", batch_size=4, augment="mild_crop_flip", jit=False)


@pytest.mark.parametrize(
    ("images", "weights", "name"),
    [
        ("digits", None, "digits"),
        ("digits", "augreg", "digits"),
        ("flower_photos", None, "scratch"),
        ("flower_photos", "augreg", "finetune"),
        ("./digits", None, "scratch"),
        ("cifar10", None, "cifar10"),
        ("tfds:cifar10", "imagenet21k", "finetune-cifar10"),
        ("tfds:tf_flowers", "augreg", "tf_flowers"),
        ("tfds:cifar10", None, "scratch"),
    ],
)
def test_data_and_weights_choose_the_recipe(images, weights, name):
    assert training.default_recipe(images, weights) == name


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
    inputs, targets = data.load(source, held_out, model.preprocessing)
    accuracy = (model.predict(inputs, verbose=0).argmax(-1) == targets).mean()
    assert accuracy == pytest.approx(records[-1]["val_accuracy"], abs=1e-6)


def test_a_spec_and_a_split_that_overlaps_are_refused(train_tiny, tmp_path, source, small_spec):
    with pytest.raises(UsageError, match=r"such as ViT\(spec, .*\. Received: ViTSpec\."):
        train_tiny(TINY, model=small_spec)
    split = data.Split(np.arange(8), np.arange(7, len(source)))
    with pytest.raises(UsageError, match="no image in common.*1 in both, the first is 7"):
        train_tiny(TINY, split=split)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_fine_tuning_starts_from_the_file_and_other_classes(train_tiny, tmp_path, tiny_model):
    file = tmp_path / "seven.npz"
    keras_vit.save_weights(keras_vit.create_model(tiny_model, num_classes=7, image_size=16), file)
    run = train_tiny(TINY, duration="1 step", learning_rate=0.0, warmup="0 steps", weights=file)
    old, new = np.load(file), np.load(run.path / "weights.npz")
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
def test_every_recipe_runs(train_tiny, source, tiny_model):
    recipes = training.RECIPES
    different = {dataclasses.replace(recipe, **SAME): name for name, recipe in recipes.items()}
    changes = {name: SAME[name] for name in ("image_size", "batch_size", "duration", "warmup")}
    for name in different.values():  # one of those that differ in values only
        recipe = recipes[name]
        teacher = None
        if recipe.distillation != "none":
            teacher = training.build(tiny_model, source.labels, Recipe(image_size=16))
        last = train_tiny(recipe, name, teacher=teacher, jit=False, **changes).metrics()[-1]
        assert np.isfinite(last["val_loss"])
        assert last["step"] == 2


@pytest.mark.flavours
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hybrid", "bit", "grey"])
def test_other_models_train_reload_and_are_evaluated(train_tiny, monkeypatch, kind):
    stem = keras_vit.ResNetStem()
    spec = {
        "hybrid": keras_vit.ViTSpec(4, 32, 1, 2, 48, stem=stem, position_embedding="relative"),
        "bit": keras_vit.ResNetSpec((1, 1, 1, 1)),
        "grey": keras_vit.ViTSpec(8, 32, 1, 2, 48, in_channels=1),
    }[kind]
    monkeypatch.setitem(VARIANTS, "R+Test", spec)
    recipe = dataclasses.replace(TINY, image_size=32, duration="2 steps")
    run = train_tiny(recipe, model="R+Test")
    assert run.model().spec == spec
    assert run.model().labels == run.labels == ("blue", "red")
    _, page = evaluate(run)
    assert ("attention on" in page.read_text()) == (kind != "bit")
    # The name of a layer has no "+".
    training.check_settings("none", recipe, "R+Test", training.Saving(run.path, resume=True))


@pytest.mark.flavours
@pytest.mark.slow
def test_compiled_training_equals_uncompiled_training(train_tiny):
    losses = []
    for jit in (True, False):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*ran out of data")
            run = train_tiny(TINY, str(jit), jit=jit, duration="13 steps", augment="none")
        losses.append(run.metrics()[-1]["val_loss"])
        assert [r["step"] for r in run.metrics()] == [10, 13]  # the last epoch is cut short
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert losses[0] < 0.9 * np.log(2)  # the head begins at zero, where the loss is log(2)


@pytest.mark.flavours
@pytest.mark.slow
def test_mixed_precision_leaves_no_trace_and_tensorboard_event_files(train_tiny):
    run = train_tiny(TINY, precision="mixed_bfloat16", duration="2 steps", tensorboard=True)
    kernel = np.load(run.path / "weights.npz")["embedding/kernel"]
    assert (kernel != kernel.astype(ml_dtypes.bfloat16)).any()  # it has learned in float32
    assert keras.layers.Dense(1).compute_dtype == "float32"
    assert run.model().dtype_policy.name == "float32"
    assert list((run.path / "tensorboard").rglob("events.out*"))


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({"model_name": "ViT_B61"}, {}, "unknown model"),
        ({}, {"warmup": "early"}, "must be a number and a unit"),
        ({}, {"dropout": 0.1}, None),
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
    # There is no folder "data".
    arguments = {"data": "data", "model_name": tiny_model, "out": "runs/new"} | changes
    with pytest.raises(UsageError, match=message) if message else contextlib.nullcontext():
        training.check_settings(recipe=dataclasses.replace(TINY, **settings), **arguments)
    assert not (tmp_path / "runs").exists()


class MeanColour:
    """A task whose targets come from the images: the outputs learn their mean red and blue."""

    def targets(self, images, classes):
        import tensorflow as tf

        return tf.reduce_mean(tf.cast(images[..., ::2], tf.float32), [1, 2]) / 255

    def predictions(self, model, pixels):
        return predicted(model, pixels)

    def loss(self, training=True):
        return keras.losses.MeanSquaredError()

    def metrics(self):
        return [keras.metrics.MeanAbsoluteError("error")]


def test_a_task_of_ones_own_learns_from_the_images(train_tiny):
    settings = {"duration": "60 steps", "learning_rate": 3e-3, "augment": "none"}
    first, *_, last = train_tiny(TINY, task=MeanColour(), **settings).metrics()
    assert last["val_error"] < 0.5 * first["val_error"]
    assert last.keys() >= {"loss", "error", "val_loss", "val_error"}


def test_a_run_is_not_overwritten_by_accident(source, tmp_path, tiny_model):
    model = keras_vit.create_model(tiny_model, num_classes=2, image_size=16)
    arguments = (tmp_path / "run", model, source, data.split_source(source), {}, "fresh")
    runs.create_run(*arguments)
    (tmp_path / "run" / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="is a run; choose"):
        runs.create_run(*arguments)
    runs.create_run(*arguments, overwrite=True)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.flavours
def test_every_setting_reaches_the_loop(train_tiny, monkeypatch):
    recipe = Recipe(
        image_size=16, batch_size=4, duration="4 steps", warmup="0 steps", optimizer="sgd",
        momentum=0.7, label_smoothing=0.3, augment="shift", mixup=0.2, cutmix=1.0, erase=0.25,
        dropout=0.2, drop_path=0.1, precision="mixed_bfloat16", jit=True, seed=7,
    )  # fmt: skip
    loops, batches = [], Mock()
    monkeypatch.setattr(prepared.data, "training_batches", batches)
    monkeypatch.setattr(loop.Loop, "run", lambda self, extra: loops.append(self.ready))
    for seed in (7, 7, 8):
        train_tiny(recipe, seed=seed, overwrite=True)
    first, second, other = (
        np.array(each.begun.model.get_layer("encoderblock_0").mlp.dense_0.kernel) for each in loops
    )
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, other)
    model, learner = loops[0].begun.model, loops[0].learner
    assert learner.jit_compile is True
    assert learner.input.dtype == "float32"  # mixed levels are fractions
    assert learner.loss.get_config()["label_smoothing"] == 0.3
    assert float(np.asarray(learner.optimizer.momentum)) == pytest.approx(0.7)
    assert model.get_layer("encoderblock_0").compute_dtype == "bfloat16"
    assert (model.spec.dropout, model.spec.drop_path) == (0.2, 0.1)
    loops[0].batches(4, 0)
    assert batches.call_args.args[3:] == (4, 4, "shift", 7, 0, "all", (0, 1))
    mixed = {"targets": loops[0].task.targets, "mixup": 0.2, "cutmix": 1.0, "erase": 0.25}
    assert batches.call_args.kwargs == mixed


MIXED = {"mixup": 0.2, "cutmix": 1.0, "erase": 0.5, "class_weights": "balanced"}


@pytest.mark.slow
def test_mixed_and_erased_batches_train(train_tiny):
    short = {"duration": "4 steps", "warmup": "1 step"}
    (record,) = train_tiny(TINY, **short, augment="crop_flip", accumulate=2, **MIXED).metrics()
    assert np.isfinite([record["loss"], record["val_loss"]]).all()
    (plain,) = train_tiny(TINY, "plain", **short).metrics()
    assert plain["loss"] != record["loss"]


@pytest.mark.slow
def test_fit_uses_declared_splits_and_says_so(invoke, image_folder, tmp_path, tiny_model):
    root = tmp_path / "parts"
    for part in ("train", "val", "test"):
        shutil.copytree(image_folder, root / part)
    for label in ("blue", "red"):
        (root / "val" / label / "5.png").unlink()
    words = ("--data", root, "--model", tiny_model, "--out", "run", "--image-size", 16, "--no-jit")
    words += ("--batch-size", 4, "--duration", "2 steps", "--warmup", "0 steps", "--held-out", 0.3)
    code, out, error = invoke("train/fit.py", *words, cwd=tmp_path)
    assert code == 0, error
    assert "splits: train 12, validation 10, test 12 (declared by the data; test is not" in out
    assert "warning: --held-out=0.3 is not used: the data declares its splits." in error
    assert "the 12 training images; 10 are held out" in out
    split = json.loads((tmp_path / "run" / "split.json").read_text())
    assert {name.split("/")[0] for name in split["train"]} == {"train"}
    assert {name.split("/")[0] for name in split["held_out"]} == {"val"}
    assert split["rule"] == "declared by the data: train is for training, validation is held out"
    code, out, error = invoke("train/evaluate.py", "--run", "run", cwd=tmp_path)
    assert code == 0, error
