"""Training the model that weights hold, of every family, by the recipes of a folder."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError
from keras_vit._keras import LEGACY
from keras_vit.cli import fit
from keras_vit.training import RECIPES, Recipe, Trial, build, run_trial
from keras_vit.training.learner import Learner
from keras_vit.training.optimisers import optimizer
from keras_vit.training.settings import for_weights
from keras_vit.training.tasks import SingleLabel
from keras_vit.training.trainable_variables import adapt

FIXTURES = Path(__file__).parents[1] / "fixtures"
FILES = sorted(file.stem for file in FIXTURES.glob("*.safetensors"))
STILL = Recipe(
    image_size=32, duration="2 steps", batch_size=4, learning_rate=0.0, warmup="0 steps", jit=False
)
# The architecture of no variant, with rates of the training that made it.
SPEC = keras_vit.ViTSpec(
    8, 24, 2, 3, 32, pooling="gap", registers=2, layer_scale=1e-3, dropout=0.1, drop_path=0.2
)


@pytest.fixture
def file(tmp_path):
    keras_vit.save_weights(keras_vit.ViT(SPEC, 7, 32), tmp_path / "seven.npz")
    return tmp_path / "seven.npz"


@pytest.mark.slow
@pytest.mark.skipif(LEGACY, reason="LoRA needs Keras 3")
@pytest.mark.parametrize("name", FILES)
def test_every_family_is_trained_by_the_recipes_of_a_folder(name, rng):
    file = FIXTURES / f"{name}.safetensors"
    images = rng.integers(0, 256, (4, 48, 48, 3), np.uint8)
    targets = np.eye(3, dtype=np.float32)[rng.integers(0, 3, 4)]
    expected = keras_vit.model_from_weights(file, 3, 48, dense_head="none")
    inputs = keras_vit.preprocess(list(images), expected)
    features = np.asarray(expected.intermediates("pre_logits")(inputs)["pre_logits"])
    for kind, moves in {
        "finetune": "",
        "lora": "lora_kernel_b|head",
        "linear-probe": "head",
    }.items():
        recipe = dataclasses.replace(for_weights(RECIPES[kind], file), image_size=48)
        model = build(None, ("a", "b", "c"), recipe, file)
        np.testing.assert_array_equal(inputs, keras_vit.preprocess(list(images), model))
        actual = model.intermediates("pre_logits")(inputs)["pre_logits"]
        np.testing.assert_allclose(actual, features, atol=1e-6)
        # With zeros in the head no gradient would reach the body.
        kernel = model.get_layer("head").kernel
        kernel.assign(0.1 * rng.normal(size=kernel.shape))
        adapt(model, recipe)
        learner, task = Learner(model, SingleLabel(3)), SingleLabel(3)
        before = {each.path: np.array(each) for each in learner.variables}
        settings = dataclasses.replace(recipe, schedule="constant")
        learner.compile(optimizer(settings, model, 10, 0), task.loss(), run_eagerly=True)
        assert np.isfinite(learner.train_on_batch(images, targets))
        changed = {v.path for v in learner.variables if not np.array_equal(v, before[v.path])}
        gated = model.spec.mlp_kind != "plain" and kind != "linear-probe"
        assert any("/gate/" in path for path in changed) == gated
        assert changed == {
            path
            for path in before
            if any(part in path for part in moves.split("|")) and "seed" not in path
        }


def test_a_run_of_no_variant_is_that_of_the_file(train_tiny, file, source):
    run = train_tiny(STILL, model=None, weights=file)
    # The rates are the recipe's.
    assert run.model().spec == dataclasses.replace(SPEC, dropout=0.0, drop_path=0.0)
    old, new = np.load(file), np.load(run.path / "weights.npz")
    assert [name for name in old if name not in new] == []
    for name in old:
        if not name.startswith("head"):
            np.testing.assert_array_equal(old[name], new[name])
    assert new["head/kernel"].shape == (24, 2)
    begun = json.loads((run.path / "recipe.json").read_text())
    assert (begun["model"], begun["weights"]) == (None, str(file))
    changes = {"overrides": "activation=quick", "drop_path": 0.1}
    spec = train_tiny(STILL, "two", None, weights=file, **changes).model().spec
    assert (spec.activation, spec.drop_path) == ("quick", 0.1)


def test_heads_that_a_file_does_not_state_are_overrides(tmp_path):
    shutil.copy(FIXTURES / "timm_deit3.safetensors", tmp_path / "alone.safetensors")
    with pytest.raises(UsageError, match="num_heads"):
        build(None, ("a", "b"), STILL, tmp_path / "alone.safetensors")
    recipe = dataclasses.replace(STILL, overrides="num_heads=2")
    assert build(None, ("a", "b"), recipe, tmp_path / "alone.safetensors").spec.num_heads == 2


def test_a_run_goes_on_with_the_model_of_its_weights(train_tiny, file, source):
    train_tiny(STILL, model=None, weights=file, dies_after=1, checkpoint_every="1 step")
    assert train_tiny(STILL, model=None, resume=True).metrics()[-1]["step"] == 2


def test_a_trial_has_the_model_of_its_weights(source, file, tmp_path):
    split = keras_vit.data.split_source(source)
    trial = Trial("one", None, STILL, split, str(file))
    result = run_trial(trial, source, tmp_path, lambda run: {"spec": run.model().spec.registers})
    assert (result["model"], result["spec"]) == (None, 2)
    assert run_trial(trial, source, tmp_path, None) == result


def test_the_image_size_of_a_file_is_the_recipes_where_it_is_usual(tmp_path):
    recipe = Recipe(image_size=224, dropout=0.1)

    def size(spec, own):
        keras_vit.save_weights(keras_vit.models.pretrained.model_class(spec)(spec, 2, own), file)
        return for_weights(recipe, file).image_size

    file = tmp_path / "w.npz"
    assert size(SPEC, 16) == 16
    assert size(SPEC, 256) == 224
    assert size(dataclasses.replace(SPEC, patch_size=15), 240) == 210
    assert size(keras_vit.ResNetSpec((1, 1)), 64) == 64
    assert for_weights(recipe, file).dropout is None
    assert for_weights(Recipe(image_size=384), file).image_size == 384


@pytest.mark.parametrize(
    ("data", "weights", "model", "size"),
    [
        ("photos", "augreg", "ViT_Ti16", 224),
        ("photos", "AugReg", "ViT_Ti16", 224),
        ("photos", "facebook/dinov2-small", None, 224),
        ("photos", "hf://OWNER/NAME", None, 224),
        ("digits", "facebook/dinov2-small", None, 98),  # seven patches of 14 pixels
        ("digits", None, "ViT_Pico4", 32),
    ],
)
def test_weights_choose_the_model_and_its_size(data, weights, model, size):
    found = fit.defaults({"data": data, "weights": weights})
    assert (found["model"], found["settings"].image_size) == (model, size)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"model": None},
            "with weights it may be None, for the model that they hold. Received: No",
        ),
        ({"model": None, "weights": "absent.npz"}, "absent.npz: expected a .npz file of weights"),
        ({"model": None, "drop_path": 2.0}, "drop_path"),
    ],
)
def test_what_cannot_be_the_model_is_refused(arguments, message, train_tiny):
    with pytest.raises(UsageError, match=message):
        train_tiny(STILL, **arguments)


def test_commands_train_the_model_of_a_file(invoke, image_folder, file, tmp_path):
    short = ("--duration", "2 steps", "--batch-size", 4, "--no-jit", "--data", image_folder)
    words = ("--weights", file, *short)
    code, out, error = invoke("train/fit.py", *words, "--out", "run", cwd=tmp_path)
    assert code == 0, error
    assert "recipe finetune; reading" in out
    spec = json.loads((tmp_path / "run" / "spec.json").read_text())
    assert spec["image_size"] == [32, 32]
    assert spec["spec"]["registers"] == 2
    code, out, error = invoke(
        "train/sweep.py", "--run", "run", "--learning-rates", "0.1", cwd=tmp_path
    )
    assert code == 0, error
    code, _, error = invoke("train/compare.py", "--run", "run", cwd=tmp_path)
    assert code == 2
    assert "give --models" in error
