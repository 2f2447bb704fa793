"""Variations of models: what they set, and that a comparison trains each of them."""

import dataclasses
import json

import pytest

from keras_vit import UsageError, runs
from keras_vit.cli import compare
from keras_vit.models.profile import forward_flops
from keras_vit.training import Recipe
from keras_vit.training.ablations import ABLATIONS, overridden, varied
from keras_vit.training.prepared import build
from keras_vit.variant_specs import VARIANTS

PICO = VARIANTS["ViT-Pico_4"]


def test_fields_of_the_recipe_and_of_the_model_are_set():
    recipe = varied(Recipe(overrides="pooling=map"), "learning_rate=0.5, depth=2,jit=false")
    assert (recipe.learning_rate, recipe.jit) == (0.5, False)
    assert recipe.overrides == "pooling=map,depth=2"
    assert overridden(PICO, recipe.overrides) == {"pooling": "map", "depth": 2}
    model = build("ViT_Pico4", ("a", "b"), Recipe(image_size=32, overrides=recipe.overrides))
    assert (model.spec.pooling, model.spec.depth) == ("map", 2)


@pytest.mark.parametrize(
    ("variation", "message"),
    [
        ("gap", r"expected NAME=VALUE.* Received: 'gap'"),
        ("poling=gap", "a ViT has no field 'poling'; did you mean pooling"),
        ("stem=none", "overrides cannot set the stem"),
        ("position_embedding=3d", "position_embedding must be one of"),
    ],
)
def test_what_cannot_be_varied_is_refused(variation, message):
    for recipe in (Recipe(overrides=variation), None):
        with pytest.raises(UsageError, match=message):
            build("ViT_Pico4", ("a", "b"), recipe or varied(Recipe(), variation))


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_variation_of_an_ablation_can_be_built(name):
    variations = ABLATIONS[name](PICO)
    assert len(variations) >= 3
    recipes = [varied(Recipe(image_size=32), variation) for variation in variations]
    specs = {build("ViT_Pico4", ("a", "b"), recipe).spec for recipe in recipes}
    assert len(specs) == len(variations)
    assert PICO in specs  # the model itself is one of them


@pytest.mark.parametrize(("model", "size"), [("ViT-Pico_4", 32), ("ViT-B_16", 224)])
def test_depths_have_about_as_many_operations(model, size):
    usual = VARIANTS[model]
    base = sum(forward_flops(usual, 10, size).values())
    for variation in ABLATIONS["depth"](usual):
        spec = dataclasses.replace(usual, **overridden(usual, variation))
        assert sum(forward_flops(spec, 10, size).values()) == pytest.approx(base, rel=0.1)


def test_poolings_are_varied_except_those_that_need_a_teacher_or_have_no_single_prediction():
    found = ABLATIONS["pooling"](VARIANTS["ViT-Pico_4"])
    names = ("token", "gap", "token_gap", "token_mean", "map")
    assert found == [f"pooling={name}" for name in names]


@pytest.mark.soak(of="trainings")
def test_a_comparison_trains_and_names_each_variation(invoke, image_folder, tiny_model, tmp_path):
    words = ("--data", image_folder, "--out", "out", "--models", tiny_model, "--image-size", "16")
    words += ("--duration", "2 steps", "--batch-size", "4", "--no-jit", "--augment", "none")
    code, _, error = invoke("train/compare.py", *words, "--ablation", "pooling", cwd=tmp_path)
    assert code == 0, error
    results = json.loads((tmp_path / "out/compare.json").read_text())["results"]
    assert [each["model"] for each in results] == ABLATIONS["pooling"](VARIANTS["ViT-Pico_4"])
    for result in results:
        run = runs.open_run(tmp_path / "out/trials" / result["name"])
        assert f"pooling={run.model().spec.pooling}" == result["model"]
    page = (tmp_path / "out/index.html").read_text()
    assert f"Variations of {tiny_model} on pictures" in page
    assert "the mean of a row" in page


def test_the_facts_of_a_comparison_are_true_of_every_trial(shared_folder):
    settings = Recipe(image_size=16, duration="4 steps", batch_size=4, augment="none")
    given = {"data": str(shared_folder), "models": ("ViT_Pico4",), "settings": settings}

    def facts(*variations):
        arguments = compare.Arguments(**given, variations=variations)
        images = arguments.images()
        return compare._facts(arguments, *images, compare._trials_of(arguments, *images), [])

    same = facts("pooling=token", "pooling=gap")
    assert same["Budget"] == "4 steps of 4 images for every model, fraction and seed"
    assert same["Recipe"] == "scratch: adamw, learning rate 0.001, cosine, augmentation none"
    assert "Weights" not in same
    other = facts("batch_size=2", "learning_rate=0.01,ema=0.9,augment=shift")
    assert other["Budget"] == "duration 4 steps, batch size varied"
    assert other["Recipe"] == "scratch: adamw, learning rate varied, cosine, augment varied"
    assert other["Weights"] == "ema varied: their average, or the last ones where it is 0"
    assert facts("duration=8 steps", "depth=1")["Budget"] == "duration varied, batch size 4"
    assert facts("ema=0.9")["Weights"] == "their average with momentum 0.9"


def test_wrong_variations_are_one_line(invoke, tmp_path):
    for words, message in (
        (("--ablation", "pooling", "--variations", "depth=2"), "expected --ablation or"),
        (("--variations", "held_out=0.5"), "--variations cannot set which images are held out"),
        (("--variations", "seed=3"), "--variations cannot set the seed; use --seeds"),
        (("--variations", "depth=2,depth=3"), "expected each name once"),
        (("--variations", "loss=mae"), "accuracies need training with classes"),
        (("--recipe", "mae-cifar10", "--data", "digits"), "accuracies need training with classes"),
        (("--variations", "width=2"), "ViT-Pico_4 width=2: a ViT has no field 'width'"),
        (("--ablation", "depth", "--models", "BiT_R50x1"), "--ablation is for Vision Transform"),
    ):
        models = () if "--models" in words else ("--models", "ViT_Pico4")
        code, _, error = invoke("train/compare.py", *models, *words, cwd=tmp_path)
        assert (code, len(error.splitlines())) == (2, 1), error
        assert message in error
