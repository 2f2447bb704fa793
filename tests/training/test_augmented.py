"""Training with every kind of augmentation, and on data with declared splits."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest

from keras_vit import UsageError
from keras_vit.data import open_source
from keras_vit.training import Recipe, train

TINY = Recipe(image_size=16, duration="4 steps", batch_size=4, warmup="1 steps", jit=False)
MIXED = {"mixup": 0.2, "cutmix": 1.0, "erase": 0.5, "class_weights": "balanced"}


@pytest.mark.slow
def test_mixed_and_erased_batches_train(image_folder, tmp_path, tiny_model):
    recipe = dataclasses.replace(TINY, augment="crop_flip", accumulate=2, **MIXED)
    run = train(tiny_model, open_source(image_folder), recipe, tmp_path / "run")
    (record,) = run.metrics()
    assert np.isfinite([record["loss"], record["val_loss"]]).all()
    plain = train(tiny_model, open_source(image_folder), TINY, tmp_path / "plain")
    assert plain.metrics()[0]["loss"] != record["loss"]


@pytest.mark.slow
def test_fit_takes_augmentations_and_their_numbers(invoke, image_folder, tmp_path, tiny_model):
    options = ("--data", image_folder, "--model", tiny_model, "--image-size", 16, "--no-jit")
    options += ("--duration", "2 steps", "--warmup", "0 steps", "--batch-size", 4, "--out", "run")
    chosen = ("--augment", "randaugment_2_10", "--mixup", 0.2, "--erase", 0.25)
    code, _, error = invoke("train/fit.py", *options, *chosen, cwd=tmp_path)
    assert code == 0, error
    recipe = json.loads((tmp_path / "run" / "recipe.json").read_text())["recipe"]
    assert (recipe["augment"], recipe["mixup"]) == ("randaugment_2_10", 0.2)
    code, _, error = invoke("train/fit.py", *options, "--augment", "twirl", cwd=tmp_path)
    assert code == 2
    assert "--augment" in error
    assert "three_augment" in error
    code, _, error = invoke("train/fit.py", *options, "--erase", 1.5, cwd=tmp_path)
    assert code == 2
    assert "--erase must lie in" in error


def test_the_help_describes_each_augmentation(invoke, tmp_path):
    code, out, _ = invoke("train/fit.py", "--help", cwd=tmp_path)
    assert code == 0
    text = " ".join(out.split())
    assert "mild_crop_flip: mirrors and keeps at least half of the area" in text
    assert "randaugment_2_15: crop_flip and 2 operations of magnitude 15" in text


def test_an_unknown_augmentation_is_refused():
    with pytest.raises(UsageError, match="augment must be one of none, shift.*'twirl'"):
        Recipe(augment="twirl")


@pytest.mark.slow
def test_fit_uses_declared_splits_and_says_so(invoke, image_folder, tmp_path, tiny_model):
    root = tmp_path / "parts"
    for part in ("train", "val", "test"):
        shutil.copytree(image_folder, root / part)
    for label in ("blue", "red"):
        (root / "val" / label / "5.png").unlink()
    options = ("--model", tiny_model, "--image-size", 16, "--no-jit", "--duration", "2 steps")
    code, out, error = invoke(
        "train/fit.py", "--data", root, *options, "--warmup", "0 steps", "--batch-size", 4,
        "--held-out", 0.3, "--out", "run", cwd=tmp_path,
    )  # fmt: skip
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
