"""Training without classes: the targets by hand, the losses, and what is learned."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

import keras_vit
from keras_vit import UsageError, data
from keras_vit.data.preprocessing import normalise
from keras_vit.specs import Preprocessing
from keras_vit.training import RECIPES, dry_run, masked_tasks
from keras_vit.training.learner import Learner
from keras_vit.training.masked_tasks import MaskedAutoencoding, MaskedPatches
from keras_vit.training.tasks import Normalise

LOSSES = ("masked_colour", "masked_colours", "masked_pixels", "mae")


def test_colours_equal_values_computed_by_hand():
    image = np.zeros((1, 4, 8, 3), np.float32)
    image[0, :, :4] = [255, 128, 31]  # levels 7 (clipped), 4 and 0
    image[0, :2, 4:] = [100, 0, 0]  # the upper half; the mean 50 is level 1
    np.testing.assert_array_equal(
        masked_tasks.colours_of(tf.constant(image), 4, 1), [[[7 + 4 * 8], [1]]]
    )
    cells = np.asarray(masked_tasks.colours_of(tf.constant(image), 4, 4)).reshape(2, 4, 4)
    assert (cells[0] == 7 + 4 * 8).all()
    np.testing.assert_array_equal(cells[1], np.repeat([[3], [3], [0], [0]], 4, axis=1))


@pytest.mark.flavours
def test_the_loss_and_the_accuracy_count_masked_patches_only(rng):
    classes = rng.integers(0, 512, (3, 5, 2))
    values = rng.normal(0, 2, (3, 5, 2 * 512)).astype(np.float32)
    mask = np.float32([[1, 0, 0, 1, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0]])
    log = log_softmax(values.reshape(3, 5, 2, 512).astype(np.float64), -1)
    of_patch = -np.take_along_axis(log, classes[..., None], -1)[..., 0].mean(-1)
    expected = (of_patch * mask).sum(-1) / 2
    predictions = np.concatenate([values, mask[..., None]], -1)
    targets = classes.astype(np.float32)
    np.testing.assert_allclose(masked_tasks.colour_loss(targets, predictions), expected, rtol=1e-5)
    values.reshape(3, 5, 2, 512)[0, 0, 1, classes[0, 0, 1]] = 99  # one of two cells is right
    predictions = np.concatenate([values, mask[..., None]], -1)
    assert np.mean(masked_tasks.colour_accuracy(targets, predictions)) == pytest.approx(1 / 4 / 3)


@pytest.mark.flavours
@pytest.mark.parametrize("how", [{"mean": (10.0, 20.0, 30.0), "scale": 50.0}, {"channels": 1}])
def test_pixels_are_those_of_the_models_input(rng, how):
    pixels = rng.integers(0, 256, (2, 8, 8, 3)).astype(np.uint8)
    preprocessing = Preprocessing(8, 8, **how)
    expected = normalise(pixels, preprocessing)  # (2, 8, 8, channels)
    targets = MaskedPatches(8, preprocessing, "pixels").targets(tf.constant(pixels), None)
    np.testing.assert_allclose(targets, expected.reshape(2, 1, -1), rtol=1e-5)
    for kind in (np.uint8, np.float32):  # mixed images are floats
        inputs = np.asarray(Normalise(preprocessing)(pixels.astype(kind)))
        np.testing.assert_allclose(inputs, expected, rtol=1e-6)


@pytest.mark.flavours
@pytest.mark.parametrize(("task", "masked"), [(MaskedPatches, 4), (MaskedAutoencoding, 6)])
def test_the_last_value_of_a_patch_says_whether_it_counts(rng, task, masked):
    model = keras_vit.ViT(keras_vit.ViTSpec(4, 8, 1, 2, 16), 2, (8, 16))  # 8 patches
    learner = Learner(model, task(4, model.preprocessing))
    images = rng.integers(0, 256, (3, 8, 16, 3), np.uint8)
    mask = np.asarray(learner(images, training=True))[..., -1]
    assert mask.shape == (3, 8)
    assert {*np.unique(mask)} == {0, 1}
    np.testing.assert_array_equal(mask.sum(-1), masked)


MAE = dataclasses.replace(
    RECIPES["mae-cifar10"], image_size=16, duration="30 steps", batch_size=8, jit=False,
    augment="none", decoder_dim=16, decoder_depth=1, decoder_heads=2, warmup="1 step",
)  # fmt: skip


@pytest.mark.flavours
@pytest.mark.parametrize(
    "loss",
    ["mae", *(pytest.param(each, marks=pytest.mark.soak(of="trainings")) for each in LOSSES[:3])],
)
def test_a_training_lowers_the_loss_and_writes_the_encoder(loss, train_tiny):
    run = train_tiny(MAE, loss=loss, learning_rate=1e-2, weight_decay=0.0)
    first, *_, last = run.metrics()
    assert last["val_loss"] < first["val_loss"]
    assert ("val_accuracy" in last) == (loss in ("masked_colour", "masked_colours"))
    model = run.model()
    assert not np.asarray(model.get_layer("head").kernel).any()
    assert np.asarray(model.get_layer("encoderblock_0").mlp.dense_0.bias).any()


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_a_built_model_without_an_answer_for_the_image_is_refused(
    loss, train_tiny, small_spec, tmp_path
):
    spec = dataclasses.replace(small_spec, pooling="none")
    with pytest.raises(UsageError, match="one answer for each image. Received: pooling='none'"):
        train_tiny(MAE, model=keras_vit.ViT(spec, 2, 16), loss=loss)
    assert not (tmp_path / "run" / "recipe.json").exists()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_dry_run_lists_the_layers_that_are_trained(loss, source, tiny_model):
    recipe = dataclasses.replace(MAE, duration="2 steps", loss=loss, decoder_depth=2)
    plan, costs = dry_run(tiny_model, source, recipe)
    assert sum(layer.flops for layer in costs.layers) == costs.forward_flops
    assert 4 * 8 * sum(layer.held for layer in costs.layers) == costs.activations
    vit = keras_vit.create_model(tiny_model, 2, 16)
    if loss == "mae":
        predictor = keras_vit.MaskedAutoencoder(vit, 0.75, 16, 2, 2)
    else:
        predictor = keras_vit.MaskedPatchPredictor(vit, loss.removeprefix("masked_"))
    assert plan.parameters == predictor.count_params()
    assert sum(layer.parameters for layer in costs.layers) == predictor.count_params()
    names = [layer.name for layer in costs.layers]
    assert [names[0], names[-1]] == ["images", "predictions"]
    assert ("decoderblock_0 to 1" in names) == (loss == "mae")
    assert "head" not in names


SHORT = ["--image-size", "16", "--batch-size", "4", "--duration", "2 steps"]
SHORT += ["--augment", "none", "--no-jit"]


def test_the_command_ends_with_the_loss_and_what_to_do_next(
    invoke, image_folder, tiny_model, tmp_path
):
    words = ["--data", image_folder, "--model", tiny_model, "--recipe", "mae-cifar10", *SHORT]
    words += ["--decoder-dim", 16, "--decoder-heads", 2]
    fit = ("train/fit.py", *words)
    code, out, error = invoke(*fit, "--out", "run", "--fewshot", "2", cwd=tmp_path)
    assert (code, error) == (0, "")
    code, dry, error = invoke(*fit, "--dry-run", cwd=tmp_path)
    assert (code, error) == (0, "")
    assert "\ndecoderblock_0 to " in dry
    code, costs, error = invoke("train/profile_model.py", "--run", "run", cwd=tmp_path)
    assert (code, error) == (0, "")
    assert "the run was trained without classes (loss mae), and what that costs is" in costs
    loss, advice = out.splitlines()[-2:]
    assert loss.startswith("held-out loss ")
    assert advice.endswith("--weights run/weights.npz --data FOLDER --out RUN")
    for script in ("train/evaluate.py", "export/to_tflite.py", "train/predict.py"):
        pictures = [image_folder / "red" / "0.jpg"] if "predict" in script else []
        code, out, error = invoke(script, *pictures, "--run", "run", cwd=tmp_path)
        assert code == 2, out
        assert "was trained without classes (loss mae), so its head is all zeros" in error


def test_pictures_without_classes_are_trained_on(invoke, image_folder, tiny_model, tmp_path):
    (image_folder / "red" / "0.jpg").rename(image_folder / "loose.jpg")
    words = ["--data", f"unlabelled:{image_folder}", "--model", tiny_model, "--out", "run", *SHORT]
    code, _, error = invoke("train/fit.py", *words, cwd=tmp_path)
    assert (code, "has one class only, which needs training without classes" in error) == (2, True)
    small = ("--recipe", "masked-patch-cifar10", "--overrides", "depth=2")
    code, out, error = invoke("train/fit.py", *words, *small, "--overwrite", cwd=tmp_path)
    assert (code, error) == (0, "")
    assert "12 images of 1 class" in out
    assert "--weights run/weights.npz --data FOLDER" in out.splitlines()[-1]
    source = data.open_source(f"unlabelled:{image_folder}")
    assert "loose.jpg" in source.ids
    assert source.labels == ("unlabelled",)
    with pytest.raises(UsageError, match=r"takes it as unlabelled:.*red"):
        data.open_source(image_folder / "red")
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match=r"expected pictures. Received: none"):
        data.open_source(f"unlabelled:{tmp_path / 'none'}")
