"""Recipes: their figures are those of the sources, and what is wrong is found without images."""

import dataclasses
import json
from contextlib import nullcontext

import pytest

import keras_vit
from keras_vit import UsageError
from keras_vit.cli import fit
from keras_vit.training.plan import plan_of
from keras_vit.training.prepared import build
from keras_vit.training.recipes import PRESETS, Recipe
from keras_vit.training.recipes.from_scratch import AUGREG
from keras_vit.training.settings import (
    check_recipe,
    differences,
    in_usual_size,
    spec_fields,
)
from keras_vit.variant_specs import VARIANTS, find_variant


@pytest.mark.parametrize("name", sorted({*[*PRESETS][::5], "finetune", "lora"}))
def test_a_recipe_fits_its_model_and_says_what_it_reproduces(name):
    preset = PRESETS[name]
    check_recipe(preset.recipe, preset.model)
    for text in (preset.title, preset.source, preset.expected, preset.cost, preset.family):
        assert text
    assert preset.evidence in ("published", "measured here", "measured here: not yet")


# Tables 4 and 3 of the paper. The crop of table 4 is that of the official code.
FINETUNED = {
    "batch_size": 512, "image_size": 384, "optimizer": "sgd", "momentum": 0.9, "clip_norm": 1.0,
    "weight_decay": None, "schedule": "cosine", "warmup": "500 steps",
}  # fmt: skip
FEW_STEPS = {**FINETUNED, "warmup": "100 steps"}
JFT = {
    "batch_size": 4096, "image_size": 224, "warmup": "10000 steps", "schedule": "linear",
    "end_learning_rate": 1e-5, "loss": "sigmoid", "head_bias": -10.0, "weight_decay": 0.1,
    "dropout": 0.0, "clip_norm": 1.0,
}  # fmt: skip
I21K = {**JFT, "weight_decay": 0.03, "dropout": 0.1}
SOFTMAX = {"schedule": "cosine", "end_learning_rate": 0.0, "loss": "softmax", "head_bias": 0.0}
I1K = {**JFT, **SOFTMAX, "weight_decay": 0.3, "dropout": 0.1}
# big_vision's vit_s16_i1k.py, where decay of 1e-4 is not multiplied by the peak learning rate.
S16 = {
    "batch_size": 1024, "warmup": "10000 steps", "weight_decay": pytest.approx(0.1),
    "clip_norm": 1.0, "mixup": 0.2, "augment": "randaugment_2_10",
    "position_embedding": "sincos2d", "representation": True,
}  # fmt: skip
# Model Garden's deit_imagenet_pretrain at batch 1,024.
DEIT = {
    "batch_size": 1024, "warmup": "5 epochs", "weight_decay": 0.05, "clip_norm": 0.0,
    "drop_path": 0.1, "mixup": 0.8, "cutmix": 1.0, "label_smoothing": 0.1,
    "augment": "randaugment_deit", "representation": True,
}  # fmt: skip
A_CELL = "augreg-i21k-300ep-lr_0.001-aug_medium2-wd_0.03-do_0.1-sd_0.1"
OF_ITS_NAME = {"mixup": 0.5, "weight_decay": 0.03, "dropout": 0.1, "drop_path": 0.1}


@pytest.mark.parametrize(
    ("name", "figures", "duration", "rate"),
    [
        ("finetune-imagenet", FINETUNED, "20000 steps", 0.03),
        ("finetune-cifar10", FINETUNED, "10000 steps", 0.01),
        ("finetune-cifar100", FINETUNED, "10000 steps", 0.01),
        ("finetune-pets", FEW_STEPS, "500 steps", 0.01),
        ("finetune-flowers", FEW_STEPS, "500 steps", 0.01),
        ("finetune-vtab", FINETUNED, "2500 steps", 0.01),
        ("pretrain-jft-B", JFT, "7 epochs", 8e-4),
        ("pretrain-jft-L_32", JFT, "7 epochs", 6e-4),
        ("pretrain-jft-L_16", JFT, "14 epochs", 4e-4),
        ("pretrain-jft-H_14", JFT, "14 epochs", 3e-4),
        ("pretrain-jft-R50_L_32", JFT, "7 epochs", 2e-4),
        ("pretrain-i21k-B", I21K, "90 epochs", 1e-3),
        ("pretrain-i21k-L-30ep", I21K, "30 epochs", 1e-3),
        ("pretrain-i1k", I1K, "300 epochs", 3e-3),
        ("s16-i1k-90ep", S16, "90 epochs", 1e-3),
        ("deit", DEIT, "300 epochs", 0.002),
        (A_CELL, OF_ITS_NAME, "300 epochs", 0.001),
    ],
)
def test_a_recipe_has_the_figures_of_its_source(name, figures, duration, rate):
    preset = PRESETS[name]
    expected = {**figures, "duration": duration, "learning_rate": rate}
    assert {field: getattr(preset.recipe, field) for field in expected} == expected
    if name.startswith("finetune"):
        assert preset.weights
        assert rate in preset.learning_rates


def test_augregs_grid_is_whole():
    assert len(AUGREG) == 3 * 7 * 2 * 2
    assert AUGREG[A_CELL].data == "tfds:imagenet21k"


VIT, BIT = "ViT_Ti16", "BiT_R50x1"
TOKEN, COLOURS = {"distillation_token": True}, {"loss": "masked_colours"}


@pytest.mark.parametrize(
    ("changes", "model", "message"),
    [
        ({"warmup": "100%"}, None, "warmup must be shorter than training, duration='3 epochs'"),
        ({"warmup": "3 epochs"}, None, "warmup must be shorter than training"),
        ({"duration": "5 steps", "warmup": "5 steps"}, None, "warmup must be shorter"),
        ({"duration": "640 examples", "warmup": "10 steps"}, None, "warmup must be shorter"),
        ({"warmup": "soon"}, None, "warmup must be a number and a unit"),
        ({"duration": "soon"}, None, "duration must be a number and a unit"),
        ({"duration": "0 epochs"}, None, "'0 epochs' is less than one step of training"),
        ({"duration": "1 example"}, None, "'1 example' is less than one step of training"),
        ({"image_size": 100}, VIT, "image_size must be a multiple of patch_size=16"),
        ({"drop_path": 0.1}, BIT, "drop_path is a setting of Vision Transformers"),
        ({"layer_decay": 0.9}, BIT, "layer_decay is a setting of Vision Transformers"),
        ({"position_embedding": "sincos2d"}, BIT, "position_embedding is a setting"),
        (TOKEN, BIT, "distillation_token is a setting"),
        ({**TOKEN, "representation": True}, VIT, "two classifiers and no representation"),
        ({"overrides": "pooling=none"}, VIT, "one answer for each image. .* pooling='none'"),
        ({"loss": "sigmoid", "overrides": "pooling=none"}, VIT, "choose one of token, gap"),
        ({"loss": "mae"}, BIT, "need a ViT without a stem.* Received: BiT-R50x1"),
        ({"loss": "masked_colour"}, "R50_ViT_B16", "need a ViT without a stem"),
        ({"loss": "mae", "decoder_dim": 30}, VIT, "a multiple of 4 and of decoder_heads"),
        ({"loss": "mae", "decoder_dim": 520}, None, "decoder_dim=520, decoder_heads=16"),
        ({"loss": "mae", "position_embedding": "relative"}, VIT, "such as learned or sincos"),
        ({"loss": "mae", "image_size": 16}, VIT, "images of two patches or more"),
        ({**COLOURS, "overrides": "patch_size=14"}, VIT, "4 x 4 cells. Received: patch_size=14"),
        ({"loss": "mae", "overrides": "pooling=none"}, VIT, None),  # has no answer anyway
        ({"overrides": "pooling=distilled"}, VIT, None),  # the mean of both classifiers
        # What depends on the number of images is not refused yet.
        ({"warmup": "500 steps"}, None, None),
        ({"duration": "10 steps", "warmup": "2 epochs"}, None, None),
        ({"duration": "100 examples", "warmup": "1 epoch"}, None, None),
    ],
)
def test_a_recipe_is_checked_before_the_images_are_known(changes, model, message):
    recipe = dataclasses.replace(Recipe(duration="3 epochs"), **changes)
    with pytest.raises(UsageError, match=message) if message else nullcontext():
        check_recipe(recipe, model)


WRONG_VALUES = {
    "batch_size": 0, "image_size": -1, "learning_rate": -1.0, "label_smoothing": 1.0,
    "accumulate": 0, "steps_per_execution": 0, "layer_decay": 0.0, "ema": 1.0, "dropout": 1.0,
    "lora": -1, "optimizer": "adam", "schedule": "step", "precision": "mixed_float",
    "class_weights": "Balanced", "sampling": "balance", "freeze": "head",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({name: value}, name) for name, value in WRONG_VALUES.items()),
        ({"optimizer": "sgd", "weight_decay": 0.1}, "optimizer='sgd' has no weight decay"),
        ({"loss": "bert"}, "loss must be one of"),
        ({"loss": "mae", "mixup": 0.2}, "mixup is for training with classes"),
        ({"loss": "mae", "label_smoothing": 0.1}, "label_smoothing is for training with classes"),
        ({"loss": "mae", "lora": 4}, "lora is for training with classes"),
        ({"lora": 2, "freeze": "body"}, "leave freeze out"),
        ({"augment": "twirl"}, "augment must be one of none, shift.*'twirl'"),
        ({"distillation": "soft", "loss": "sigmoid"}, "distillation needs loss='softmax'"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"interpolation": "area"}, "interpolation must be one of nearest"),
        ({"crop": 1.5}, r"crop must lie in \(0, 1\]. Received: crop=1.5"),
        ({"in_channels": 4}, "in_channels must be 3 or 1, because images are pict"),
    ],
)
def test_a_wrong_setting_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        Recipe(**changes)


@pytest.mark.parametrize("field", ["masked", "held_out"])
@pytest.mark.parametrize("value", [0, 1, 1.2, -0.5, float("nan")])
def test_a_fraction_that_is_all_or_nothing_is_refused_with_one_message(field, value):
    expected = rf"^{field} must (lie in \(0, 1\)|be a number)\. Received: {field}={value}\.$"
    with pytest.raises(UsageError, match=expected):
        Recipe(loss="mae", **{field: value})


def test_a_warmup_that_is_too_long_for_few_images_says_what_to_do(small_spec):
    model = keras_vit.ViT(small_spec, 3, 16)
    recipe = Recipe(batch_size=4096, duration="800 epochs", warmup="40 epochs")
    message = (
        "warmup must be shorter than training. Received: warmup='40 epochs' and duration='800 "
        "epochs', which are 1 and 1 steps with 6 training images and batch_size=4096; use a "
        "smaller batch_size, a longer duration or a shorter warmup."
    )
    with pytest.raises(UsageError) as error:
        plan_of(recipe, model, 6, 1)
    assert str(error.value) == message
    plan = plan_of(dataclasses.replace(recipe, batch_size=2), model, 6, 1)
    assert (plan.warmup, plan.steps) == (120, 2400)


def test_models_of_small_images_are_trained_in_their_usual_size():
    recipe = PRESETS["scratch"].recipe
    large = PRESETS["finetune"].recipe
    for models in (["ViT_Pico4"], ["ViT_Pico4", "BiT_R8x1"]):
        assert in_usual_size(recipe, models) == recipe
        assert in_usual_size(large, models).image_size == 64
    # At least 7 x 7 patches.
    for models, size in ((["ViT_B16"], 112), (["ViT_Pico4", "ViT_H14"], 98), (["ViT_B8"], 64)):
        assert in_usual_size(recipe, models).image_size == size
    assert in_usual_size(large, ["ViT_B32"]).image_size == 224


def test_the_settings_of_a_model_are_those_of_the_recipe():
    preset = PRESETS["s16-i1k-90ep"]
    spec = VARIANTS[find_variant(preset.model)]
    assert spec.pooling == "gap"
    fields = spec_fields(preset.recipe, spec)
    assert fields == {"representation_dim": 384, "position_embedding": "sincos2d"}
    fields = spec_fields(PRESETS["pretrain-i21k-B"].recipe, VARIANTS["ViT-B_16"])
    assert fields == {"representation_dim": 768, "dropout": 0.1}
    fields = spec_fields(PRESETS["deit-distilled"].recipe, VARIANTS["ViT-S_16"])
    assert fields == {"pooling": "distilled", "drop_path": 0.1}


def test_a_recipe_chooses_the_resize():
    preprocessing = build("ViT_Pico4", ("a", "b"), Recipe(image_size=32)).preprocessing
    assert preprocessing.interpolation == "bilinear"
    for setting in ({"interpolation": "mediapipe"}, {"crop": 1.0}):
        changed = build("ViT_Pico4", ("a", "b"), Recipe(image_size=32, **setting)).preprocessing
        assert changed == dataclasses.replace(preprocessing, **setting)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_the_loss_says_what_logits_mean(loss):
    assert build("ViT_Pico4", ("a", "b"), Recipe(image_size=32, loss=loss)).head_activation == loss
    assert build("BiT_R8x1", ("a", "b"), Recipe(image_size=32, loss=loss))


@pytest.mark.parametrize("model", ["ViT_Pico4", "BiT_R8x1"])
def test_a_recipe_chooses_the_channels(model):
    built = build(model, ("a", "b"), Recipe(image_size=32, in_channels=1))
    assert (built.spec.in_channels, built.preprocessing.channels) == (1, 1)
    with pytest.raises(UsageError, match="ViT-Pico_4 with in_channels=4; give it float inputs"):
        build("ViT_Pico4", ("a", "b"), Recipe(image_size=32, overrides="in_channels=4"))


def test_settings_that_differ_are_named_with_their_values_before():
    before = {"jit": True, "seed": 0, "augment": "none", "remat": False}
    now = {"jit": False, "seed": 1, "augment": "none", "remat": True}
    expected = "jit=False, was jit=True, seed=1, was 0, remat=True, was remat=False"
    assert differences(now, before) == expected
    assert differences(before, before) == ""


def test_fit_describes_each_augmentation_and_names_all(invoke, tmp_path):
    _, out, _ = invoke("train/fit.py", "--help", cwd=tmp_path)
    text = " ".join(out.split())
    assert "mild_crop_flip: mirrors and keeps at least half of the area" in text
    assert "randaugment_2_15: crop_flip and 2 operations of magnitude 15" in text
    code, _, error = invoke("train/fit.py", "--augment", "twirl", cwd=tmp_path)
    assert code == 2
    assert "--augment" in error
    assert "three_augment" in error


def test_a_recipe_brings_its_own_data():
    assert fit.defaults({"recipe": "cifar10"})["data"] == "cifar10"
    assert fit.defaults({"recipe": "finetune-pets"})["data"] == "tfds:oxford_iiit_pet"
    assert fit.defaults({"recipe": "cifar10", "data": "tfds:cifar10"})["data"] == "tfds:cifar10"
    assert fit.defaults({})["data"] == "digits"


@pytest.mark.parametrize("stored", [{"preset": "scratch"}, {"preset": None}, {}])
def test_a_resumed_run_has_its_own_recipe(tmp_path, stored):
    recipe = dataclasses.replace(PRESETS["scratch"].recipe, learning_rate=0.5, accumulate=1)
    begun = {"data": "digits", "model": "ViT-S_16", "recipe": dataclasses.asdict(recipe)}
    (tmp_path / "recipe.json").write_text(json.dumps({"format": 1, **begun, **stored}))
    given = {"out": tmp_path, "resume": True}
    expected = {"data": "digits", "model": "ViT-S_16", "settings": recipe}
    assert fit.defaults(given) == {**expected, "recipe": stored.get("preset") or ""}
    # Another recipe brings its settings, but the data and the model are still those of the run.
    for name in ("scratch", "digits"):
        found = fit.defaults({**given, "recipe": name})
        own = in_usual_size(PRESETS[name].recipe, ["ViT_S16"])  # 7 x 7 patches
        changes = {} if name == stored.get("preset") else {"settings": own}
        assert found == {**expected, "recipe": name, **changes}


@pytest.mark.parametrize(
    ("steps", "examples", "held_out", "period"),
    [
        (500, 400, 100, 100),  # an epoch
        (500, 30, 10, 10),  # several epochs of 7 steps
        (800, 30, 10, 16),  # 50 lines
        (5000, 30, 10, 20),
        (500, 80, 90, 23),  # as many images as are held out
        (500, 80, 9000, 500),  # no more than the training
    ],
)
def test_evaluation_takes_less_time_than_training(small_spec, steps, examples, held_out, period):
    recipe = Recipe(batch_size=4, duration=f"{steps} steps")
    model = keras_vit.ViT(small_spec, 3, 16)
    assert plan_of(recipe, model, examples, held_out).period == period
