"""A token that is much larger than the others, as in trained ViTs, and what refusals say of it."""

import re

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit.deploy.judge.heavy_tokens import heavy_token
from keras_vit.deploy.resolve import resolve


@pytest.fixture(scope="module")
def heavy(trained_like, pictures):
    """A model whose second register is heavy, its images and a converter."""
    spec = keras_vit.ViTSpec(8, 48, 2, 3, 64, registers=2, layer_scale=0.1)
    model = trained_like(keras_vit.ViT(spec, 10, (16, 24)))
    registers = model.get_layer("patch_encoder").register_tokens
    array = np.array(registers)
    array[0, 1, 5] = 400
    registers.assign(array)
    images = pictures(32, (16, 24))
    return model, images, deploy.Converter(resolve(model), ["int8", "int8-full"], images[8:])


def test_a_heavy_token_is_named_with_its_norm(heavy, sample):
    _, images, converter = heavy
    norm, token, times = heavy_token(converter.float_file("int8-full"), images[:2])
    assert re.fullmatch(r"encoderblock_[01]/norm_(attention|mlp)", norm)
    assert token == 2  # after the class token and the other register
    assert 100 < times < 400**2
    assert heavy_token(sample.converter.float_file("int8-full"), sample.images[:2]) is None


def test_full_integers_are_refused_with_this_reason_and_int8_is_not(heavy):
    model, images, converter = heavy
    reference = deploy.Reference(images[:8], np.asarray(model(images[:8], training=False)))
    deploy.check(deploy.judge_file(converter.made("int8"), reference))
    reason = r"The mean square of token 2 \(learned tokens come first\) in .*/norm_attention is "
    with pytest.raises(deploy.ParityError, match=f"{reason}.* times .*; take int8 or dynamic"):
        deploy.check(deploy.judge_file(converter.made("int8-full"), reference))


def test_nothing_is_said_of_tokens_where_they_are_not_the_reason(heavy, sample):
    model, images, converter = heavy
    wrong = -np.asarray(model(images[:8], training=False))
    int8 = converter.made("int8"), deploy.Reference(images[:8], wrong)
    full = sample.converter.made("int8-full"), deploy.Reference(sample.images, -sample.expected)
    for made, reference in (int8, full):
        with pytest.raises(deploy.ParityError) as error:
            deploy.check(deploy.judge_file(made, reference))
        assert "This file was not written" in str(error.value)
        assert "mean square" not in str(error.value)
