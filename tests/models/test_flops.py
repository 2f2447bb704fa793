"""Counted operations equal those that XLA counts in the compiled model."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from keras_vit.models.profile import forward_flops
from keras_vit.specs import VARIANTS

_PROGRAM = """
import dataclasses, json
import jax, numpy as np
import keras_vit
from keras_vit.models.profile import profile
from keras_vit.models.pretrained import model_class
from keras_vit.training.costs import training_flops
from keras_vit.training.recipes import Recipe

small = keras_vit.ViTSpec(8, 96, 2, 3, 384)
stem = keras_vit.ResNetStem((1, 1))
cases = {
    "token": (small, (48, 80)),
    "map": (dataclasses.replace(small, pooling="map", representation_dim=64), (48, 48)),
    "none": (dataclasses.replace(small, pooling="none"), (48, 48)),
    "bands": (dataclasses.replace(small, in_channels=5), (48, 48)),
    "distilled": (dataclasses.replace(small, pooling="distilled"), (32, 32)),
    "hybrid": (dataclasses.replace(small, patch_size=4, depth=1, stem=stem), (40, 56)),
    "bit": (keras_vit.ResNetSpec((1, 2, 1, 1)), (70, 96)),
}
found = {}
for name, (spec, size) in cases.items():
    model = model_class(spec)(spec, 5, size)
    images = np.zeros((4, *size, spec.in_channels), np.float32)
    weights = [variable.value for variable in model.trainable_variables]
    others = [variable.value for variable in model.non_trainable_variables]

    def forward(weights):
        return model.stateless_call(weights, others, images, training=True)[0]

    def gradients(weights):
        return jax.grad(lambda weights: forward(weights).sum())(weights)

    xla = [jax.jit(f).lower(weights).cost_analysis()["flops"] for f in (forward, gradients)]
    layers = profile(spec, 5, size)
    counted = [4 * sum(layer.flops for layer in layers), 4 * training_flops(layers, Recipe())]
    found[name] = [a / b for a, b in zip(counted, xla)]
print(json.dumps(found))
"""


@pytest.mark.soak(of="trainings")
def test_operations_are_those_that_xla_counts():
    environment = os.environ | {
        "KERAS_BACKEND": "jax", "TF_USE_LEGACY_KERAS": "0", "JAX_PLATFORMS": "cpu",
    }  # fmt: skip
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    for name, ratios in json.loads(result.stdout.splitlines()[-1]).items():
        # XLA also counts additions and norms, and leaves out the zeros around images.
        assert ratios == pytest.approx([1, 1], abs=0.04), name


@pytest.mark.parametrize(
    ("name", "published"),  # GFLOPs as timm and big_transfer's readers count them: 2 x GMACs
    [("ViT-S_16", 2 * 4.6), ("ViT-B_16", 2 * 17.6), ("ViT-L_16", 2 * 61.6), ("BiT-R50x1", 2 * 4.1)],
)
def test_operations_are_near_the_published_ones(name, published):
    assert sum(forward_flops(VARIANTS[name]).values()) / 1e9 == pytest.approx(published, rel=0.05)
