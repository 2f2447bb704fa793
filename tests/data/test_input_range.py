"""Images that were not preprocessed are noticed by their values."""

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit.data.input_range import check_inputs
from keras_vit.data.preprocessing import normalise
from keras_vit.deploy.resolve import resolve

SIZE = (12, 16)
IMAGENET = {"mean": (123.675, 116.28, 103.53), "scale": (58.395, 57.12, 57.375)}
SCALINGS = {
    "-1 to 1": keras_vit.Preprocessing(*SIZE),
    "0 to 1": keras_vit.Preprocessing(*SIZE, mean=0, scale=255),
    "0 to 255": keras_vit.Preprocessing(*SIZE, mean=0, scale=1),
    "ImageNet's mean 0 and deviation 1": keras_vit.Preprocessing(*SIZE, **IMAGENET),
}


@pytest.fixture
def levels(rng):
    """Pixels of pictures with black and white in some of them: uint8 (20, 12, 16, 3)."""
    colour, contrast = rng.uniform(60, 190, (20, 1, 1, 3)), rng.uniform(10, 130, (20, 1, 1, 1))
    return np.clip(colour + contrast * rng.normal(size=(20, *SIZE, 3)), 0, 255).astype(np.uint8)


@pytest.fixture
def resized(levels):
    """The same after a resize in floats, which leaves the range of the pixels a little."""
    smooth = (levels + np.roll(levels, 1, axis=2).astype(np.float32)) / 2
    return smooth + 0.1 * (smooth - 127.5)


@pytest.mark.parametrize("kind", ["levels", "resized"])
@pytest.mark.parametrize("needed", SCALINGS)
def test_only_the_models_own_scaling_passes(request, kind, needed):
    images = request.getfixturevalue(kind)
    check_inputs(normalise(images, SCALINGS[needed]), SCALINGS[needed])
    for given in SCALINGS.keys() - {needed}:
        with pytest.raises(UsageError, match=f"as of pixels scaled to {given}; use keras_vit.prep"):
            check_inputs(normalise(images, SCALINGS[given]), SCALINGS[needed])


def test_bright_constant_and_no_images_pass(levels):
    needed = SCALINGS["-1 to 1"]
    bright = normalise(128 + levels // 2, needed)
    assert 0 < bright.min() < bright.max() <= 1
    check_inputs(bright, needed)
    paper = normalise(levels / 6 + 210.3, needed)  # no whole pixels
    check_inputs(paper, needed)
    check_inputs(np.zeros((1, *SIZE, 3), np.float32), needed)
    check_inputs(np.zeros((0, *SIZE, 3), np.float32), needed)


@pytest.mark.parametrize("scaling", sorted(SCALINGS.keys() - {"0 to 255"}))
@pytest.mark.parametrize("needed", ["-1 to 1", "ImageNet's mean 0 and deviation 1"])
def test_images_that_were_scaled_before_are_refused(levels, needed, scaling):
    check_inputs(normalise(np.zeros_like(levels), SCALINGS[needed]), SCALINGS[needed])
    scaled = normalise(levels, SCALINGS[scaling])
    with pytest.raises(UsageError, match="as of images that were scaled before they were preproc"):
        check_inputs(normalise(scaled, SCALINGS[needed]), SCALINGS[needed])


def test_the_scores_to_compare_with_need_preprocessed_images(levels):
    model = keras_vit.ViT_Pico4(3, (12, 16))
    with pytest.raises(UsageError, match="inputs must be preprocessed for the model"):
        deploy.expected_scores(resolve(model), levels.astype(np.float32))


def test_the_message_names_the_preprocessing_of_a_model_that_was_trained_so(levels):
    with pytest.raises(UsageError) as caught:
        check_inputs(levels / np.float32(255), SCALINGS["-1 to 1"], "representative_data")
    assert str(caught.value) == (
        "representative_data must be preprocessed for the model, which takes values from -1 to 1. "
        "Received: 0 to 1, as of pixels scaled to 0 to 1; use keras_vit.preprocess(images, model); "
        "a model that was trained on such values needs its preprocessing first: "
        "model.preprocessing = dataclasses.replace(model.preprocessing, mean=0, scale=255)."
    )


CAFFE = (123.68, 116.779, 103.939), (58.393, 57.12, 57.375)


@pytest.mark.parametrize(("mean", "scale"), [(128, 128), (127, 128), (0, 256), CAFFE])
def test_a_scaling_close_to_a_usual_one_is_not_taken_for_it(resized, mean, scale):
    needed = keras_vit.Preprocessing(*SIZE, mean=mean, scale=scale)
    check_inputs(normalise(resized, needed), needed)


def test_values_around_zero_are_of_no_known_scaling(rng):
    standardised = rng.normal(0, 1, (20, *SIZE, 3)).astype(np.float32)
    with pytest.raises(UsageError, match=r"Received: -[34]\.\d+ to [34]\.\d+; use keras_vit.prep"):
        check_inputs(standardised, SCALINGS["-1 to 1"])


def test_the_message_for_a_grey_model_has_one_mean(levels):
    grey, inputs = keras_vit.Preprocessing(*SIZE, channels=1), levels[..., :1].astype(np.float32)
    with pytest.raises(UsageError, match=r"preprocessing, mean=114\.\d+, scale=57\.\d+\)"):
        check_inputs((inputs - 116.3) / 57.6, grey)
