"""An imaginary row in each table, added as CONTRIBUTING.md says and used end to end.

Nothing but the row and its function is added: a room with a list of its own fails here.
"""

import contextlib
import dataclasses
import json
import re
import sys
import types

import numpy as np
import pytest

import keras_vit
from keras_vit import data, deploy
from keras_vit.cli import COMMANDS, main
from keras_vit.data.augmentation import AUGMENTATIONS
from keras_vit.data.pipeline import training_batches
from keras_vit.data.sources import SOURCES, Opener
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.graph.rewrites import REWRITES
from keras_vit.deploy.precisions import PRECISIONS, Budget, Precision
from keras_vit.training.recipes import PRESETS, Preset, Recipe
from keras_vit.variant_specs import VARIANTS
from keras_vit.weights import open_checkpoint, parameter_count

TOY = keras_vit.ViTSpec(patch_size=8, hidden_dim=24, depth=2, num_heads=2, mlp_dim=40)


def squares() -> data.Source:
    """Sixteen pictures of two classes."""
    targets = np.arange(16) % 2
    return data.Source(
        name="squares",
        locator="squares",
        labels=("dark", "light"),
        ids=tuple(f"squares/{i}" for i in range(16)),
        targets=targets,
        image=lambda i: np.full((8, 8, 3), 40 + 160 * targets[i], np.uint8),
    )


@pytest.fixture
def toy(trained_like, pictures):
    """A small model, and twelve images for it."""
    return trained_like(keras_vit.ViT(TOY, 3, 16)), pictures(12, (16, 16))


def test_a_variant_is_built_listed_counted_and_recognised(monkeypatch, tmp_path):
    monkeypatch.setitem(VARIANTS, "ViT-Toy_8", TOY)
    model = keras_vit.create_model("vit-toy/8", num_classes=3, image_size=16)
    assert model.name == "ViT-Toy_8"
    assert "ViT-Toy_8" in keras_vit.list_models()
    assert model.count_params() == parameter_count(TOY, 3, 16)
    keras_vit.save_weights(model, tmp_path / "toy.npz")
    with open_checkpoint(tmp_path / "toy.npz") as checkpoint:
        assert checkpoint.variant == "ViT-Toy_8"


@pytest.mark.slow
def test_a_source_and_a_recipe_train_a_run_from_the_command_line(invoke, monkeypatch, tmp_path):
    monkeypatch.setitem(VARIANTS, "ViT-Toy_8", TOY)
    monkeypatch.setitem(SOURCES, "squares", Opener(squares))
    recipe = Recipe(image_size=16, duration="2 steps", batch_size=4, augment="none", jit=False)
    monkeypatch.setitem(PRESETS, "quick", Preset(recipe, model="ViT-Toy_8", data="squares"))
    code, out, error = invoke("train/fit.py", "--data", "squares", cwd=tmp_path)
    assert code == 0, error
    assert "16 images of 2 classes" in out
    code, out, error = invoke("train/evaluate.py", cwd=tmp_path)  # the newest run, its own source
    assert code == 0, error
    assert "ViT-Toy_8, 16 x 16 pixels, 2 classes, trained on squares" in out


def test_an_augmentation_changes_training_images(monkeypatch):
    black = data.Augmentation("makes all pixels black", pixels=lambda image, seed: 0 * image)
    monkeypatch.setitem(AUGMENTATIONS, "black", black)
    preprocessing = keras_vit.Preprocessing(16, 16)
    batches = training_batches(squares(), np.arange(16), preprocessing, 4, 1, "black", 0)
    (images, _), *_ = batches
    assert np.asarray(images).max() == 0


def test_a_precision_is_exported_judged_and_described(monkeypatch, toy, tmp_path):
    row = Precision(
        quantize="half-head",
        name="half-head",
        rules=(("FULLY_CONNECTED", "float16"),),
        budget=Budget(0.9, 0.1, 0.1, None),
        help="Dense kernels in half precision",
        summary="a summary of half-head",
    )
    monkeypatch.setitem(PRECISIONS, "half-head", row)
    model, images = toy
    bundles = deploy.export_bundles(model, tmp_path, ["none", "half-head"], images, threads=[1])
    assert (set(bundles.written), bundles.refused) == ({"float32", "half-head"}, {})
    assert bundles.written["half-head"]["precision"] == "half-head"
    assert "a summary of half-head" in (tmp_path / "card.md").read_text()
    assert deploy.open_bundle(tmp_path / "half-head").predict(images[:1]).shape == (1, 3)


@pytest.mark.slow
def test_a_precision_that_chooses_float_layers_starts_from_its_own_base(monkeypatch, toy, tmp_path):
    row = PRECISIONS["dynamic"].choosing_float_layers("auto-dynamic", "a help", "a summary")
    # A budget so small that most layers must stay in float.
    row = dataclasses.replace(row, budget=Budget(0.0, 1e-3, 1e-3, None))
    monkeypatch.setitem(PRECISIONS, "auto-dynamic", row)
    model, images = toy
    options = {"representative_data": images, "threads": ()}
    found = deploy.export_bundles(model, tmp_path, "auto-dynamic", **options)
    assert found.refused == {}
    recipe = json.loads((tmp_path / "auto-dynamic" / "recipe.json").read_text())
    assert recipe["base"] == "dynamic"
    assert recipe["float_layers"] == found.written["auto-dynamic"]["float_layers"] != []
    options["recipe"] = tmp_path / "auto-dynamic" / "recipe.json"
    again = deploy.export_bundles(model, tmp_path / "again", "auto-dynamic", **options)
    assert again.written["auto-dynamic"]["sha256"] == found.written["auto-dynamic"]["sha256"]


def test_a_rewrite_is_applied_and_can_be_chosen_alone(monkeypatch, toy):
    applied = []

    def reverse_hidden_units(spec, weights, wired, preprocessing):
        applied.append(spec)
        for i in range(spec.depth):
            name = f"encoderblock_{i}/mlp"
            for part in ("dense_0/kernel", "dense_0/bias"):
                weights[f"{name}/{part}"] = weights[f"{name}/{part}"][..., ::-1]
            weights[f"{name}/dense_1/kernel"] = weights[f"{name}/dense_1/kernel"][::-1]

    monkeypatch.setitem(REWRITES, "reverse", reverse_hidden_units)
    model, images = toy
    expected = np.asarray(model(images, training=False))
    for rewrites in ({"reverse"}, set(REWRITES)):
        content = deploy.to_tflite(model, options=GraphOptions(rewrites=frozenset(rewrites)))
        actual = deploy.Runner(content).predict(images)
        np.testing.assert_allclose(actual, expected, atol=2e-5 * np.abs(expected).max())
    assert applied == [TOY, TOY]


@dataclasses.dataclass(frozen=True)
class Arguments:
    times: int = 1
    """How often."""


def test_a_command_is_listed_and_run(monkeypatch, capsys):
    module = types.ModuleType("keras_vit.cli.greet", "Greets.\n")
    module.Arguments, module.run = Arguments, lambda arguments: print("hello " * arguments.times)
    monkeypatch.setitem(sys.modules, "keras_vit.cli.greet", module)
    monkeypatch.setitem(COMMANDS, "greet", "train/greet.py")
    for words, expected in (
        ([], r"greet +Greets\."),
        (["greet", "--help"], r"How often\. \(default: 1\)"),
        (["greet", "--times", "2"], r"^hello hello \n$"),
    ):
        monkeypatch.setattr(sys, "argv", ["/usr/bin/keras-vit", *words])
        with contextlib.suppress(SystemExit):
            main()
        output, error = capsys.readouterr()
        assert not error
        assert re.search(expected, output)
