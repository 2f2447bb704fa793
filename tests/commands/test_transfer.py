"""transfer, and evaluate --weights, as a user runs them on small data sets of TFDS."""

import dataclasses
import json
import re
import shutil
from unittest import mock

import numpy as np
import pytest

import keras_vit
from keras_vit import runs, training
from keras_vit.cli import _arguments, _trials, transfer
from keras_vit.data import open_source, vtab
from keras_vit.specs import Preprocessing
from keras_vit.training import Recipe, trials
from keras_vit.training.transfer_tasks import TASKS
from keras_vit.variant_specs import VARIANTS
from keras_vit.weights import find_weights

COMMAND = "train/transfer.py"
EVERY = [*range(1000)]  # class of ImageNet
QUICK = ("--duration", "4 steps", "--image-size", "16", "--batch-size", "4", "--no-jit")


def coloured(rng, count, classes, **fields):
    """Examples with an image that is brighter for a higher class."""
    labels = [i % classes for i in range(count)]
    pixels = [np.clip(rng.normal(40 * label, 5, (32, 32, 3)), 0, 255) for label in labels]
    return [
        {"image": each.astype("uint8"), "label": label, **fields}
        for each, label in zip(pixels, labels, strict=True)
    ]


def real(examples, *classes):
    """The images of examples as those of ImageNet-ReaL, with the classes of each image."""
    return [
        {"image": each["image"], "file_name": "a", "original_label": 0, "real_label": several}
        for each, several in zip(examples, classes, strict=True)
    ]


@pytest.fixture
def weights(tiny_model, tmp_path):
    """A file of weights of the tiny model, with a head for other classes."""
    model = keras_vit.create_model(tiny_model, 3, 16)
    keras_vit.save_weights(model, tmp_path / "tiny.npz")
    return ("--weights", tmp_path / "tiny.npz", "--model", tiny_model)


@pytest.fixture
def two_tasks(prepare_tfds, monkeypatch, rng):
    """CIFAR-10, and a task of VTAB that has 8 images for training and 4 for validation."""
    monkeypatch.setattr(vtab, "_TRAIN", 8)
    monkeypatch.setattr(vtab, "_VALIDATION", 4)
    cifar = {"train": coloured(rng, 100, 10, id="a"), "test": coloured(rng, 10, 10, id="b")}
    prepare_tfds("cifar10", **cifar)
    parts = {"train": 10, "validation": 6, "test": 5}
    prepare_tfds("dtd", **{name: coloured(rng, n, 3, file_name="c") for name, n in parts.items()})


@pytest.mark.slow
def test_tasks_on_the_disk_are_transferred_and_a_second_call_trains_only_what_is_new(
    done, two_tasks, weights, tmp_path, monkeypatch
):
    words = (*weights, "--tasks", "cifar10,cifar100,vtab-dtd", "--out", "out", *QUICK)
    words += ("--learning-rates", "0.03")
    out, _ = done(COMMAND, *words)
    assert "[2 of 2] vtab-dtd" in out
    assert re.search(r"missing on this machine, .*\n  cifar100: python -c .*'cifar100'", out)
    assert out.endswith("page: out/index.html\n")
    final = runs.open_run(tmp_path / "out/vtab-dtd/final-lr-0.03-seed0")
    assert final.recipe["preset"] == "finetune-vtab"
    assert final.setting("augment") == "resize_crop_flip"
    # What is finished is only read.
    train = mock.Mock(wraps=trials.train)
    monkeypatch.setattr(trials, "train", train)
    done(COMMAND, *words, "1e-9")
    cifar, missing, dtd = json.loads((tmp_path / "out/transfer.json").read_text())["results"]
    trained = [call.args[3].path.name for call in train.call_args_list]
    assert trained[:2] == ["lr-1e-09", "lr-0.03"]
    assert cifar["learning_rate"] == 0.03  # the other one learns nothing
    assert cifar["tried"].keys() == {"1e-09", "0.03"}
    assert "'cifar100'" in missing["missing"]
    assert (cifar["source"], cifar["is_own"]) == ("tfds:cifar10", True)
    assert (dtd["images"], dtd["test_images"], dtd["steps"]) == (12, 5, 4)


@pytest.mark.slow
def test_models_of_imagenet_are_also_judged_on_the_classes_of_real(
    done, weights, prepare_tfds, tmp_path, rng
):
    words = (*weights, "--tasks", "imagenet2012_real", "--out", "out", *QUICK)
    images = coloured(rng, 20, 10, file_name="a")
    prepare_tfds("imagenet2012_real", validation=real(images, *[EVERY, []] * 10))
    out, _ = done(COMMAND, *words, "--dry-run")
    assert "imagenet2012, imagenet2012_real: python -c" in out  # there are no models to judge
    prepare_tfds("imagenet2012", train=images, validation=images[:10])
    out, _ = done(COMMAND, *words, "--dry-run")
    assert re.search(r"imagenet2012_real +20 +the models of imagenet2012 +\n", out)
    done(COMMAND, *words, "--learning-rates", "0.03", "--seeds", "2")
    trained, judged = json.loads((tmp_path / "out/transfer.json").read_text())["results"]
    assert (trained["task"], judged["task"]) == ("imagenet2012", "imagenet2012_real")
    # Every class is right for the half of the images that have classes.
    assert (judged["accuracies"], judged["test_images"], judged["images"]) == ([1.0, 1.0], 10, 20)
    assert "90.72%" in (tmp_path / "out/index.html").read_text()


def test_each_task_has_its_own_splits_settings_and_learning_rates(
    done, two_tasks, weights, monkeypatch
):
    trained = []

    def pretend(trainings, trial, judged_on):
        trained.append((f"{trainings.folder.name}/{trial.name}", trial))
        better = trial.recipe.learning_rate == 0.003 and "seed" not in trial.name
        figures = {"accuracy": 0.9 if better else 0.5, "curve": [{"val_loss": 1.0}]}
        return {**figures, "model": trial.model, "steps": 4, "seconds": 1.0}

    monkeypatch.setattr(_trials.TrialRunner, "run", pretend)
    words = (*weights, "--tasks", "vtab-dtd,cifar10", "--seeds", 2, "--out", "out")
    out, _ = done(COMMAND, *words)
    names = [name for name, _ in trained]
    assert names == [
        *(f"cifar10/lr-{rate:g}" for rate in (0.001, 0.003, 0.01, 0.03)),
        "cifar10/final-lr-0.003-seed0", "cifar10/final-lr-0.003-seed1",
        # With one learning rate there is nothing to compare.
        "vtab-dtd/final-lr-0.01-seed0", "vtab-dtd/final-lr-0.01-seed1",
    ]  # fmt: skip
    of = dict(trained)
    tried, final = of["cifar10/lr-0.03"].split, of["cifar10/final-lr-0.003-seed1"]
    assert tried.held_out.tolist() == [98, 99]  # the last 2% of the training images
    assert final.split.train.tolist() == list(range(100))
    assert final.split.held_out.tolist() == list(range(100, 110))
    assert (final.recipe.duration, final.recipe.warmup) == ("10000 steps", "500 steps")
    assert [of[name].recipe.seed for name in names[-2:]] == [0, 1]
    assert (final.recipe.augment, final.recipe.image_size) == ("crop_flip", 384)
    dtd = of["vtab-dtd/final-lr-0.01-seed0"]
    assert (len(dtd.split.train), len(dtd.split.held_out)) == (12, 5)
    assert (dtd.recipe.duration, dtd.recipe.batch_size) == ("2500 steps", 512)
    assert re.search(r"^cifar10 +0\.003 +50\.00% ± 0\.00% +99\.50%$", out, re.MULTILINE)


def test_only_a_tasks_own_images_and_splits_are_those_of_published_figures():
    own = training.TASKS["cifar10"].is_own
    assert all(map(own, ("tfds:cifar10", "tfds:cifar10/3.0.2", "cifar10", "cifar10:folder")))
    others = ("tfds:cifar10:train[:50%]:test", "tfds:cifar10_corrupted", "digits", "my/cifar10")
    assert not any(map(own, others))
    assert not training.TASKS["imagenet2012"].is_own("imagenet2012")  # only validation images


def test_images_without_their_own_splits_are_divided(image_folder, tmp_path):
    source = open_source(str(image_folder))
    for name in ("cifar10", "vtab-dtd"):
        tried, final = training.TASKS[name].splits(source)
        assert {*tried.train, *tried.held_out} == {*final.train}
        assert not {*final.train} & {*final.held_out}
    for split in ("train", "test"):  # no validation images
        shutil.copytree(image_folder, tmp_path / "divided" / split)
    tried, final = training.TASKS["vtab-dtd"].splits(open_source(str(tmp_path / "divided")))
    assert (len(final.train), len(final.held_out)) == (12, 12)
    assert (len(tried.train), len(tried.held_out)) == (10, 2)  # a tenth, at least one of each class


def read(*words):
    words = [*words, "--weights", "imagenet21k"]
    return _arguments.read(transfer.Arguments, words, transfer.defaults)


def test_given_settings_replace_those_of_every_task():
    task = training.TASKS["cifar10"]
    recipe = read("--duration", "100 steps", "--image-size", "64").recipe(task)
    assert (recipe.duration, recipe.warmup, recipe.image_size) == ("100 steps", "5%", 64)
    recipe = read("--duration", "100 steps", "--warmup", "1 step").recipe(task)
    assert recipe.warmup == "1 step"
    # A value that is the default of --help is given all the same.
    vtab_task = training.TASKS["vtab-clevr-count"]
    assert read("--duration", "500 steps").recipe(vtab_task).duration == "500 steps"
    assert vtab_task.recipe({}).augment == "none"
    assert read("--learning-rate", "0.5").rates(task) == [0.5]
    assert read("--augment", "shift").recipe(vtab_task).augment == "shift"


def test_a_dry_run_lists_tasks_and_what_is_missing(done, two_tasks, weights, tmp_path):
    out, _ = done(COMMAND, *weights, "--dry-run", "--out", "out")
    assert re.search(r"^cifar10 +100 +10 +10000 steps +512 of 384 px +0.001 0.003", out, re.M)
    assert re.search(r"^vtab-clevr-count +missing +2500 steps", out, re.MULTILINE)
    assert re.search(r"^  vtab-clevr-count, vtab-clevr-distance: python -c", out, re.MULTILINE)
    assert not (tmp_path / "out").exists()


def test_nothing_on_the_disk_is_an_error(invoke, weights, tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    words = (*weights, "--tasks", "vtab-kitti-distance")
    code, out, error = invoke(COMMAND, *words, cwd=tmp_path)
    assert code == 2
    assert "t.builder('kitti'" in out
    assert "none of 1 tasks has its images on this machine" in error


PUBLISHED = "imagenet21k+imagenet2012/ViT-B_16-224"


@pytest.fixture
def published(publish, monkeypatch):
    """A small model under the name of a published file for ImageNet; its answer is class 1."""
    small = {"patch_size": 56, "hidden_dim": 24, "depth": 1, "num_heads": 2, "mlp_dim": 32}
    spec = dataclasses.replace(VARIANTS["ViT-B_16"], **small)
    monkeypatch.setitem(VARIANTS, "ViT-B_16", spec)
    entry = find_weights("ViT-B_16", PUBLISHED)
    model = keras_vit.ViT(spec, 1000, 224, preprocessing=entry.preprocessing)
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(0, 0.3, w.shape).astype(np.float32) for w in model.weights])
    model.get_layer("head").bias.assign(100 * np.eye(1000, dtype=np.float32)[1])
    publish(model, entry)
    return model


def test_published_weights_are_held_against_the_catalogue(
    invoke, published, prepare_tfds, tmp_path, rng
):
    prepare_tfds("imagenet2012", validation=coloured(rng, 6, 3, file_name=""))
    words = ("--weights", PUBLISHED, "--data", "imagenet2012")  # a full name needs no --model
    words += ("--batch-size", 4, "--out", "report", "--min-accuracy", 0.5)
    code, out, error = invoke("train/evaluate.py", *words, cwd=tmp_path)
    assert code == 3
    assert "expected an accuracy of 50.00% or more. Received: 33.33%." in error
    assert f"from {PUBLISHED}" in out
    assert "the whole image resized to 224 x 224 (bilinear)" in out
    assert re.search(r"^Accuracy +33\.33% \(top-1\)$", out, re.MULTILINE)
    assert re.search(r"^Published +81\.20%, difference -47\.87 points$", out, re.MULTILINE)
    assert json.loads((tmp_path / "report/report.json").read_text())["images"] == 6
    assert "33.33%" in (tmp_path / "report/index.html").read_text()


def test_a_file_is_judged_on_imagenet_real_and_v2(done, published, prepare_tfds, tmp_path, rng):
    keras_vit.save_weights(published, tmp_path / "own.npz")  # without names of classes
    examples = coloured(rng, 3, 3, file_name="")
    prepare_tfds("imagenet2012_real", validation=real(examples, EVERY, [], EVERY))
    words = ("train/evaluate.py", "--weights", "own.npz", "--data")
    out, error = done(*words, "imagenet2012_real")
    assert "Accuracy  100.00% (the most probable class is one of the image's)" in out
    assert "2 of imagenet2012_real; 1 without a class left out" in out
    assert "warning" not in error
    prepare_tfds("imagenet_v2/matched-frequency", test=examples)
    assert "3 of imagenet_v2" in done(*words, "imagenet_v2")[0]


def test_images_that_the_weights_were_trained_on_are_said(done, trained_run, tmp_path):
    words = ("train/evaluate.py", "--data", "digits", "--weights")
    _, error = done(*words, trained_run.path / "weights.npz")
    seen = len(trained_run.split(trained_run.source()).train)
    expected = f"trained on {seen:,} of the 1,797 images; --run {trained_run.path} takes the others"
    assert expected in error
    shutil.copy(trained_run.path / "weights.npz", tmp_path / "elsewhere.npz")
    assert done(*words, "elsewhere.npz")[1] == ""  # nothing is known of its training


def test_a_run_is_transferred_with_the_hyperparameters_of_its_model(tmp_path):
    usual = VARIANTS["ViT-Pico_4"]
    own = dataclasses.replace(
        usual, depth=2, position_embedding="sincos2d", dropout=0.1, representation_dim=64
    )
    about = {"format": 1, "model": "ViT-Pico_4", "num_classes": 3, "image_size": [32, 32]}
    about |= {"preprocessing": Preprocessing(32, 32).to_dict(), "weights": "fresh"}

    def of_run(spec):
        (tmp_path / "spec.json").write_text(json.dumps({**about, "spec": spec.to_dict()}))
        settings = {"settings": Recipe(image_size=32), "changed": ("image_size",)}
        return transfer.Arguments(run=tmp_path, tasks=("cifar10",), **settings)

    recipe = of_run(own).recipe(TASKS["cifar10"])
    assert recipe.overrides == "depth=2,position_embedding=sincos2d"
    assert recipe.image_size == 32
    facts = transfer._facts(of_run(usual), {}, {}, [])
    assert facts["Settings"] == "those of each task's recipe, except image size 32"
