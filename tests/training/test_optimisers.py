"""Durations, schedules, weight decay and clipping of the optimisers that recipes give."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError
from keras_vit._keras import LEGACY
from keras_vit.training import Recipe
from keras_vit.training.optimisers import Schedule, optimizer
from keras_vit.training.plan import to_steps

TINY = Recipe(image_size=16, duration="2 epochs", batch_size=4, augment="mild_crop_flip", jit=False)


@pytest.mark.parametrize(
    ("duration", "steps"),
    [
        ("3 epochs", 30),
        ("1 epoch", 10),
        ("0.5 epochs", 5),
        ("7 steps", 7),
        ("1 step", 1),
        ("1e3 examples", 16),
        ("10%", 20),
        ("2.5 %", 5),
        (" 0 steps ", 0),
        ("3 epochs, at least 7 steps", 30),
        ("7 steps, at least 3 epochs", 30),
    ],
)
def test_durations_become_steps(duration, steps):
    # 10 whole batches of 64 in 680 examples
    assert to_steps(duration, batch_size=64, num_examples=680, total_steps=200) == steps


@pytest.mark.parametrize(
    "duration", ["", "3", "epochs", "-1 epochs", "inf steps", "3 weeks", "1 step, at least 2"]
)
def test_durations_that_cannot_be_read(duration):
    with pytest.raises(UsageError, match="such as '5 epochs', '5 steps', '5 examples'"):
        to_steps(duration, batch_size=64, num_examples=680)


def test_a_percentage_needs_a_total():
    with pytest.raises(UsageError, match="warmup must be a number and a unit"):
        to_steps("5%", batch_size=64, num_examples=680, field="warmup")


@pytest.mark.flavours
def test_schedule_warms_up_linearly_then_falls_as_a_cosine():
    rate = Schedule("cosine", 0.4, 0.0, warmup_steps=10, total_steps=110)
    actual = [float(rate(step)) for step in (0, 5, 10, 60, 110, 200)]
    assert actual == pytest.approx([0, 0.2, 0.4, 0.2, 0, 0], abs=1e-6)
    assert float(Schedule("cosine", 0.4, 0.0, 0, 100)(0)) == pytest.approx(0.4)


@pytest.mark.flavours
def test_linear_and_constant_schedules():
    rate = Schedule("linear", 0.4, 0.1, warmup_steps=10, total_steps=110)
    actual = [float(rate(step)) for step in (0, 5, 10, 60, 110)]
    assert actual == pytest.approx([0, 0.2, 0.4, 0.25, 0.1], abs=1e-6)
    rate = Schedule("constant", 0.4, 0.0, warmup_steps=4, total_steps=9)
    assert [float(rate(step)) for step in (2, 4, 9)] == pytest.approx([0.2, 0.4, 0.4])


@pytest.mark.flavours
@pytest.mark.parametrize("layer_decay", [1.0, 0.5])
@pytest.mark.parametrize("name", ["adamw", "lion", "lamb", "muon"])
def test_weight_decay_acts_on_kernels_only(small_spec, name, layer_decay):
    if LEGACY and (name in ("lamb", "muon") or layer_decay < 1):
        pytest.skip("tf_keras does not have it")
    model = keras_vit.ViT(small_spec, 5, 16)
    for variable in model.trainable_variables:
        variable.assign(np.ones(variable.shape, np.float32))
    recipe = dataclasses.replace(
        TINY, optimizer=name, weight_decay=0.5, learning_rate=0.1, layer_decay=layer_decay
    )
    built = optimizer(recipe, model, total_steps=1000, warmup_steps=0)
    zeros = [np.zeros(v.shape, np.float32) for v in model.trainable_variables]
    pairs = [(_tensor(z), v) for z, v in zip(zeros, model.trainable_variables, strict=True)]
    built.apply_gradients(pairs)
    decayed = {v.name for v in model.trainable_variables if np.asarray(v).max() < 1}
    assert all("kernel" in name for name in decayed)
    kernels = [v for v in model.trainable_variables if "kernel" in v.name]
    assert len(kernels) == 2 + 2 * 6
    # The patches learn as the block before the first of two, the head two blocks after it.
    rates = {"patch_encoder": layer_decay**3, "encoderblock_0": layer_decay**2} | {
        "encoderblock_1": layer_decay, "head": 1.0,
    }  # fmt: skip
    for kernel in kernels:
        (rate,) = [r for layer, r in rates.items() if layer in getattr(kernel, "path", kernel.name)]
        np.testing.assert_allclose(np.asarray(kernel), 1 - 0.05 * rate, rtol=1e-5)


@pytest.mark.flavours
def test_the_gradient_is_clipped_by_its_global_norm(small_spec):
    model = keras_vit.ViT(small_spec, 5, 16)
    recipe = dataclasses.replace(
        TINY, optimizer="sgd", weight_decay=0.0, momentum=0.0, learning_rate=1.0, clip_norm=1.0
    )
    sgd = optimizer(recipe, model, total_steps=10**6, warmup_steps=0)
    before = [np.asarray(v).copy() for v in model.trainable_variables]
    pairs = [(_tensor(np.full(b.shape, 3.0, np.float32)), v)
             for b, v in zip(before, model.trainable_variables, strict=True)]  # fmt: skip
    sgd.apply_gradients(pairs)
    moved = [np.asarray(v) - b for v, b in zip(model.trainable_variables, before, strict=True)]
    assert np.sqrt(sum((m**2).sum() for m in moved)) == pytest.approx(1, rel=1e-3)


def test_sgd_refuses_weight_decay():
    with pytest.raises(UsageError, match="optimizer='sgd' has no weight decay"):
        Recipe(optimizer="sgd", weight_decay=0.1)


def _tensor(array):
    import tensorflow as tf

    return tf.constant(array)
