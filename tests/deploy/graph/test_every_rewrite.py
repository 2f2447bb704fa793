"""Every set of rewrites of every reference ViT gives the outputs of a computation in float64.

`test_graph.py` compares the two graphs of a BiT with Keras.
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import keras_vit
from keras_vit._keras import keras
from keras_vit.deploy.graph.graph_options import GraphOptions, InferenceGraph
from keras_vit.deploy.graph.inference import forward, prepare
from keras_vit.deploy.graph.rewrites import REWRITES
from keras_vit.deploy.resolve import parameters_of
from keras_vit.encoder.embedding import TOKENS
from keras_vit.encoder.encode import encode
from keras_vit.encoder.ops import Ops
from keras_vit.encoder.patch_grids import Tokens
from keras_vit.encoder.positions import POSITION_EMBEDDINGS, ROTATIONS

FILES = [
    "vit_token.weights.npz",
    "vit_token_prelogits.weights.npz",
    "timm_token.safetensors",
    "timm_map.safetensors",
    "timm_distilled.safetensors",
    "timm_registers.safetensors",
    "timm_sbb_reg4_gap.safetensors",
    "timm_qk_norm.safetensors",
    "hf_classifier.safetensors",
    "hf_base.safetensors",
    "hf_dinov2_registers.safetensors",
    "hf_dinov2_gated.safetensors",
    "hf_dinov3.safetensors",
    "hf_dinov3_gated.safetensors",
    "timm_dinov3.safetensors",
    "timm_eva02.safetensors",
    "timm_rope_gap.safetensors",
    "hf_clip.safetensors",
    "hf_siglip.safetensors",
    "hf_deit.safetensors",
    "hybrid_stem.weights.npz",
]


class NumPyOps(Ops):
    """The operations in NumPy and float64, with the weights of the Keras model."""

    def __init__(self, spec, weights, grid):
        self.spec = spec
        self.tokens_of_grid = Tokens(grid, spec.prefix_tokens, spec.registers)
        self.weights = {name: array.astype(float) for name, array in weights.items()}

    def dense(self, name, x):
        kernel = self.weights[f"{self.path}{name}/kernel"]
        return x @ kernel + self.weights.get(f"{self.path}{name}/bias", 0)

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.spec.layer_norm_eps)
        gamma, beta = (self.weights[f"{self.path}{name}/{part}"] for part in ("gamma", "beta"))
        return x * gamma + beta

    def scale(self, name, x):
        return x * self.weights[self.path + name]

    def constant(self, name, x):
        return np.repeat(self.weights[self.path + name], len(x), axis=0)

    def tokens(self, x):
        tokens = [self.constant(n, x) for n in TOKENS if self.path + n in self.weights]
        return np.concatenate(tokens, axis=1) if tokens else None

    def positions(self, x):
        kind = POSITION_EMBEDDINGS[self.spec.position_embedding]
        if kind.table is None:
            return None, None
        weights = {weight.name: self.weights[self.path + weight.name] for weight in kind.weights}
        table = kind.table(weights, self.tokens_of_grid, self.spec.hidden_dim, np)
        prefix = self.tokens_of_grid.prefix_positions if kind.prefix_slots else 0
        return table[:, :prefix] if prefix else None, table[:, prefix:]

    def attend(self, query, key, value):
        logits = np.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(self.spec.head_dim)
        scores = np.exp(logits - logits.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        mixed = np.einsum("bhqk,bkhd->bqhd", scores, value)
        return mixed.reshape(*mixed.shape[:2], -1)

    def patches(self, x):
        (rows, columns), size = self.tokens_of_grid.grid, self.spec.patch_size
        x = x.reshape(len(x), rows, size, columns, size, -1).swapaxes(2, 3)
        return x.reshape(len(x), rows * columns, -1)

    def heads(self, x):
        return x.reshape(*x.shape[:2], self.spec.num_heads, -1)

    def rotate(self, x):
        angles = ROTATIONS[self.spec.rotation](self.tokens_of_grid.grid, self.spec.head_dim)
        prefix = self.tokens_of_grid.prefix
        first, second = np.split(x[:, prefix:], 2, axis=-1)
        turned = (first + 1j * second) * np.exp(1j * angles)[:, None]
        patches = np.concatenate([turned.real, turned.imag], axis=-1)
        return np.concatenate([x[:, :prefix], patches], axis=1)

    def activation(self, name, x):
        gates = {
            "tanh": lambda x: 1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
            "erf": lambda x: 1 + np.vectorize(math.erf)(x / math.sqrt(2)),
            "quick": lambda x: 1 + np.tanh(0.851 * x),  # twice the sigmoid of 1.702 x
            "silu": lambda x: 1 + np.tanh(x / 2),
        }
        return x * gates[name](x) / 2

    def tanh(self, x):
        return np.tanh(x)

    def normalized(self, x):
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    def add(self, name, x, y):
        return x + y

    def concat(self, parts, axis=1):
        return np.concatenate(parts, axis=axis)

    def first(self, x, count):
        return x[:, :count]

    def mean(self, x):
        return x.mean(1)

    def flat(self, x):
        return x.reshape(len(x), -1)

    def outputs(self, images):
        x, head = encode(self, images), self.weights
        if "head/kernel" not in head:
            return x
        if not self.spec.distillation_token:
            return self.dense("head", x)
        one, other = np.split(x, 2, axis=-1)
        one = one @ head["head/kernel"] + head["head/bias"]
        other = other @ head["head/distillation_kernel"] + head["head/distillation_bias"]
        return (one + other) / 2


class ReferenceModel(NamedTuple):
    """A reference model, its weights, two images and the outputs for them in float64."""

    model: Any
    weights: dict[str, np.ndarray]
    images: np.ndarray
    outputs: np.ndarray


def reference_of(file, images=None):
    """The reference in a file, for its own images or uint8 pixels."""
    model = keras_vit.model_from_weights(file)
    weights = parameters_of(model)
    if images is None:
        x = images = np.load(file.with_name(f"{file.name.split('.')[0]}.io.npz"))["images"][:2]
    else:
        x = (images - np.float64(model.preprocessing.mean)) / model.preprocessing.scale
    if model.spec.stem:
        x = np.asarray(keras.Model(model.input, model.get_layer("patches").input)(x))
    outputs = NumPyOps(model.spec, weights, model.grid).outputs(x.astype(float))
    return ReferenceModel(model, weights, images, outputs)


def with_feature_map(reference):
    """The reference with the features of patches in place of its outputs."""
    model, weights, images, _ = reference
    patches = encode(NumPyOps(model.spec, weights, model.grid), images.astype(float), as_map=True)
    shape = len(images), *model.grid, model.spec.hidden_dim
    return reference._replace(outputs=patches.reshape(shape))


def assert_every_set_of_rewrites_is_exact(reference, output=None):
    model, weights, images, expected = reference
    without = "uint8_input" if model.spec.stem else "standardised_kernels"
    passes = REWRITES.keys() - {without, "uint8_input" if images.dtype != np.uint8 else ""}
    output = output or ("logits" if model.num_classes else "features")
    for count in range(len(passes) + 1):
        for chosen in itertools.combinations(sorted(passes), count):
            options = GraphOptions(str(images.dtype), output, batch=None, rewrites=chosen)
            how = model.image_size, model.preprocessing, options
            graph = prepare(InferenceGraph(model.spec, dict(weights), *how))
            error = np.abs(forward(graph, images).numpy() - expected).max()
            assert error < 1e-5 * np.abs(expected).max(), (chosen, error)


@pytest.mark.parametrize("name", FILES)
def test_the_operations_in_float64_give_the_outputs_of_the_reference(fixtures, name):
    arrays = np.load(fixtures / f"{name.split('.')[0]}.io.npz")
    [kind, *_] = [each for each in ("logits", "pooled", "pre_logits") if each in arrays]
    outputs = reference_of(fixtures / name).outputs
    np.testing.assert_allclose(outputs, arrays[kind][:2], atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", FILES)
def test_every_set_of_rewrites_gives_them_too(fixtures, name):
    assert_every_set_of_rewrites_is_exact(reference_of(fixtures / name))


# With registers; with a pooling of weights; with a norm after the pooling, which a map has not.
@pytest.mark.parametrize("name", ["hf_dinov2_registers", "timm_map", "timm_sbb_reg4_gap"])
def test_every_set_of_rewrites_gives_feature_maps(fixtures, name):
    reference = with_feature_map(reference_of(fixtures / f"{name}.safetensors"))
    [expected] = reference.model.intermediates("feature_map")(reference.images).values()
    np.testing.assert_allclose(reference.outputs, expected, atol=2e-5)
    assert_every_set_of_rewrites_is_exact(reference, "feature_map")
    model, weights, images, expected = reference
    options = GraphOptions(output="feature_map", batch=None)
    how = model.image_size, model.preprocessing, options
    balanced = prepare(InferenceGraph(model.spec, dict(weights), *how), images)
    found = forward(balanced, images).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_every_set_of_rewrites_gives_them_for_pixels(fixtures, rng):
    pixels = rng.integers(0, 256, (2, 48, 48, 3), dtype=np.uint8)
    assert_every_set_of_rewrites_is_exact(reference_of(fixtures / FILES[0], pixels))


@pytest.mark.parametrize("name", ["hf_clip", "timm_map"])
@pytest.mark.parametrize("classes", [0, 5])
def test_every_set_of_rewrites_gives_them_of_normalised_features(
    fixtures, randomised, tmp_path, rng, name, classes
):
    own = keras_vit.model_from_weights(fixtures / f"{name}.safetensors", 0).spec
    fields = {"normalized_features": True, "projection_dim": own.projection_dim}
    weights = fixtures / f"{name}.safetensors"
    model = randomised(keras_vit.model_from_weights(weights, classes, **fields))
    keras_vit.save_weights(model, tmp_path / "model.npz")
    pixels = rng.integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    reference = reference_of(tmp_path / "model.npz", pixels)
    assert reference.model.spec.normalized_features
    assert_every_set_of_rewrites_is_exact(reference)


def test_every_set_of_rewrites_gives_them_without_biases(randomised, tmp_path, rng):
    biases = dict.fromkeys(("query_bias", "key_bias", "value_bias"), False)
    spec = keras_vit.ViTSpec(8, 48, 1, 3, 64, qk_norm=True, rotation="dinov3", **biases)
    preprocessing = keras_vit.Preprocessing(16, 24)
    model = randomised(keras_vit.ViT(spec, 5, (16, 24), preprocessing=preprocessing))
    keras_vit.save_weights(model, tmp_path / "model.npz")
    pixels = rng.integers(0, 256, (2, 16, 24, 3), dtype=np.uint8)
    assert_every_set_of_rewrites_is_exact(reference_of(tmp_path / "model.npz", pixels))
