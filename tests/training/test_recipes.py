"""Recipes: their figures are those of the sources, and what is wrong is found without images."""

import dataclasses
import json
from contextlib import nullcontext

import pytest

import keras_vit
from keras_vit import UsageError
from keras_vit.cli import _arguments, fit
from keras_vit.specs import VARIANTS, find_variant
from keras_vit.training.plan import plan_of, to_steps
from keras_vit.training.prepared import build
from keras_vit.training.recipes import PRESETS, Recipe
from keras_vit.training.recipes.from_scratch import AUGREG
from keras_vit.training.settings import (
    adapted,
    check_recipe,
    differences,
    in_usual_size,
    spec_fields,
)


@pytest.mark.parametrize("name", sorted({*[*PRESETS][::5], "finetune", "lora"}))
def test_a_recipe_fits_its_model_and_says_what_it_reproduces(name):
    preset = PRESETS[name]
    check_recipe(preset.recipe, preset.model)
    for text in (preset.title, preset.source, preset.expected, preset.cost, preset.family):
        assert text
    assert preset.evidence in ("published", "measured here", "measured here: not yet")


# The tables of the paper: steps, warmup, peak learning rate, images of a batch.
@pytest.mark.parametrize(
    ("name", "steps", "warmup", "rate"),
    [
        ("finetune-imagenet", 20_000, 500, 0.03),
        ("finetune-cifar10", 10_000, 500, 0.01),
        ("finetune-cifar100", 10_000, 500, 0.01),
        ("finetune-pets", 500, 100, 0.01),
        ("finetune-flowers", 500, 100, 0.01),
        ("finetune-vtab", 2_500, 500, 0.01),
    ],
)
def test_table_4_of_the_paper(name, steps, warmup, rate):
    preset = PRESETS[name]
    recipe, counts = preset.recipe, {"batch_size": 512, "num_examples": 10**6}
    assert to_steps(recipe.duration, **counts) == steps
    assert to_steps(recipe.warmup, **counts) == warmup
    assert (recipe.batch_size, recipe.image_size, recipe.optimizer) == (512, 384, "sgd")
    assert (recipe.momentum, recipe.clip_norm, recipe.weight_decay) == (0.9, 1.0, None)
    assert (recipe.learning_rate, recipe.schedule) == (rate, "cosine")
    assert preset.weights
    assert rate in preset.learning_rates


@pytest.mark.parametrize(
    ("name", "epochs", "rate", "schedule", "decay", "dropout", "loss"),
    [
        ("pretrain-jft-B", 7, 8e-4, "linear", 0.1, 0.0, "sigmoid"),
        ("pretrain-jft-L_32", 7, 6e-4, "linear", 0.1, 0.0, "sigmoid"),
        ("pretrain-jft-L_16", 14, 4e-4, "linear", 0.1, 0.0, "sigmoid"),
        ("pretrain-jft-H_14", 14, 3e-4, "linear", 0.1, 0.0, "sigmoid"),
        ("pretrain-jft-R50_L_32", 7, 2e-4, "linear", 0.1, 0.0, "sigmoid"),
        ("pretrain-i21k-B", 90, 1e-3, "linear", 0.03, 0.1, "sigmoid"),
        ("pretrain-i21k-L-30ep", 30, 1e-3, "linear", 0.03, 0.1, "sigmoid"),
        ("pretrain-i1k", 300, 3e-3, "cosine", 0.3, 0.1, "softmax"),
    ],
)
def test_table_3_of_the_paper(name, epochs, rate, schedule, decay, dropout, loss):
    recipe = PRESETS[name].recipe
    assert recipe.duration == f"{epochs} epochs"
    assert (recipe.batch_size, recipe.warmup, recipe.image_size) == (4096, "10000 steps", 224)
    assert (recipe.learning_rate, recipe.schedule, recipe.loss) == (rate, schedule, loss)
    assert (recipe.weight_decay, recipe.dropout, recipe.clip_norm) == (decay, dropout, 1.0)
    assert recipe.end_learning_rate == (1e-5 if schedule == "linear" else 0.0)
    assert recipe.head_bias == (-10.0 if loss == "sigmoid" else 0.0)


# big_vision's vit_s16_i1k.py, and Model Garden's deit_imagenet_pretrain at batch 1,024.
def test_big_visions_and_deits_constants():
    s16, deit = PRESETS["s16-i1k-90ep"].recipe, PRESETS["deit"].recipe
    assert (s16.batch_size, s16.learning_rate, s16.warmup) == (1024, 1e-3, "10000 steps")
    # Decay of 1e-4 is not multiplied by the peak learning rate there.
    assert s16.weight_decay * s16.learning_rate == pytest.approx(1e-4)
    assert (s16.clip_norm, s16.mixup, s16.augment) == (1.0, 0.2, "randaugment_2_10")
    assert (s16.position_embedding, s16.representation) == ("sincos2d", True)
    assert (deit.batch_size, deit.learning_rate, deit.warmup) == (1024, 0.002, "5 epochs")
    assert (deit.weight_decay, deit.clip_norm, deit.drop_path) == (0.05, 0.0, 0.1)
    assert (deit.mixup, deit.cutmix, deit.label_smoothing) == (0.8, 1.0, 0.1)
    assert (deit.augment, deit.representation) == ("randaugment_deit", True)
    assert not PRESETS["deit-distilled"].recipe.representation


def test_augregs_grid_is_whole():
    assert len(AUGREG) == 3 * 7 * 2 * 2
    preset = AUGREG["augreg-i21k-300ep-lr_0.001-aug_medium2-wd_0.03-do_0.1-sd_0.1"]
    recipe = preset.recipe
    assert (recipe.mixup, recipe.weight_decay, recipe.dropout) == (0.5, 0.03, 0.1)
    assert (recipe.drop_path, recipe.duration) == (0.1, "300 epochs")
    assert preset.data == "tfds:imagenet21k"


VIT, BIT = "ViT_Ti16", "BiT_R50x1"


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
        ({"distillation_token": True}, BIT, "distillation_token is a setting"),
        (
            {"distillation_token": True, "representation": True},
            VIT,
            "two classifiers and no representation",
        ),
        ({"overrides": "pooling=none"}, VIT, "one answer for each image. .* pooling='none'"),
        ({"loss": "sigmoid", "overrides": "pooling=none"}, VIT, "choose one of token, gap"),
        ({"loss": "mae"}, BIT, "need a ViT without a stem.* Received: BiT-R50x1"),
        ({"loss": "masked_colour"}, "R50_ViT_B16", "need a ViT without a stem"),
        ({"loss": "mae", "decoder_dim": 30}, VIT, "a multiple of 4 and of decoder_heads"),
        ({"loss": "mae", "decoder_dim": 520}, None, "decoder_dim=520, decoder_heads=16"),
        ({"loss": "mae", "position_embedding": "relative"}, VIT, "such as learned or sincos"),
        ({"loss": "mae", "image_size": 16}, VIT, "images of two patches or more"),
        (
            {"loss": "masked_colours", "overrides": "patch_size=14"},
            VIT,
            "4 x 4 cells. Received: patch_size=14",
        ),
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


WRONG = {
    "batch_size": 0, "image_size": -1, "learning_rate": -1.0, "label_smoothing": 1.0,
    "accumulate": 0, "steps_per_execution": 0, "layer_decay": 0.0, "ema": 1.0, "dropout": 1.0,
    "lora": -1, "optimizer": "adam", "schedule": "step", "precision": "mixed_float",
    "class_weights": "Balanced", "sampling": "balance", "freeze": "head",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_with_its_name(name):
    with pytest.raises(UsageError, match=name):
        Recipe(**{name: WRONG[name]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
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


def test_a_resnet_trains_without_the_settings_of_transformers():
    recipe = PRESETS["scratch"].recipe
    assert adapted(recipe, "ViT_B16") == recipe
    check_recipe(adapted(recipe, "BiT_R50x1"), "BiT_R50x1")


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
    how = build("ViT_Pico4", ("a", "b"), Recipe(image_size=32)).preprocessing
    assert how.interpolation == "bilinear"
    recipe = Recipe(image_size=32, interpolation="mediapipe")
    changed = build("ViT_Pico4", ("a", "b"), recipe).preprocessing
    assert changed == dataclasses.replace(how, interpolation="mediapipe")


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


def test_fit_takes_augmentations_and_their_numbers():
    def settings(*words):
        return _arguments.read(fit.Arguments, words, fit.defaults).settings

    chosen = settings("--augment", "randaugment_2_10", "--mixup", "0.2", "--erase", "0.25")
    assert (chosen.augment, chosen.mixup, chosen.erase) == ("randaugment_2_10", 0.2, 0.25)
    with pytest.raises(UsageError, match="--augment.*three_augment"):
        settings("--augment", "twirl")
    with pytest.raises(UsageError, match="--erase must lie in"):
        settings("--erase", "1.5")


def test_a_recipe_brings_its_own_data():
    assert fit.defaults({"recipe": "cifar10"})["data"] == "cifar10"
    assert fit.defaults({"recipe": "finetune-pets"})["data"] == "tfds:oxford_iiit_pet"
    assert fit.defaults({"recipe": "cifar10", "data": "tfds:cifar10"})["data"] == "tfds:cifar10"
    assert fit.defaults({})["data"] == "digits"
    with pytest.raises(UsageError, match="--recipe scratch is for any images; give yours: --data"):
        fit.Arguments(recipe="scratch", data=fit.defaults({"recipe": "scratch"})["data"])


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
