"""Every set of rewrites of every reference model gives the outputs of a computation in float64."""

import itertools
import math

import numpy as np
import pytest

import keras_vit
from keras_vit.deploy.graph.graph_options import GraphOptions, InferenceGraph
from keras_vit.deploy.graph.inference import forward, prepare
from keras_vit.deploy.graph.rewrites import REWRITES
from keras_vit.deploy.resolve import parameters_of
from keras_vit.encoder.embedding import TOKENS
from keras_vit.encoder.encode import encode
from keras_vit.encoder.ops import Ops
from keras_vit.encoder.patch_grids import Tokens
from keras_vit.encoder.positions import POSITION_EMBEDDINGS

FILES = [
    "vit_token.weights.npz",
    "vit_token_prelogits.weights.npz",
    "timm_token.safetensors",
    "timm_map.safetensors",
    "timm_distilled.safetensors",
    "timm_layer_scale.safetensors",
    "hf_classifier.safetensors",
]
# There are no standardised kernels, and the pixels are floats.
PASSES = sorted(REWRITES.keys() - {"standardised_kernels", "uint8_input"})


class NumPyOps(Ops):
    """The operations in NumPy and float64, with the weights of the Keras model."""

    def __init__(self, spec, weights, grid):
        self.spec, self.tokens_of_grid = spec, Tokens(grid, spec.prefix_tokens)
        self.weights = {name: array.astype(float) for name, array in weights.items()}

    def dense(self, name, x):
        weight = self.weights.get
        return x @ weight(f"{self.path}{name}/kernel") + weight(f"{self.path}{name}/bias")

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
        weights = {weight.name: self.weights[self.path + weight.name] for weight in kind.weights}
        table = kind.table(weights, self.tokens_of_grid, self.spec.hidden_dim, np)
        prefix = self.tokens_of_grid.prefix if kind.prefix_slots else 0
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

    def activation(self, name, x):
        if name == "erf":
            return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
        return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2

    def tanh(self, x):
        return np.tanh(x)

    def add(self, name, x, y):
        return x + y

    def concat(self, parts):
        return np.concatenate(parts, axis=1)

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


@pytest.fixture(params=FILES)
def reference(request, fixtures):
    """A reference model, two images, its outputs in float64 and those of the reference."""
    model = keras_vit.model_from_weights(fixtures / request.param)
    name = request.param.split(".")[0]
    arrays = np.load(fixtures / f"{name}.io.npz")
    images = arrays["images"][:2]
    ops = NumPyOps(model.spec, parameters_of(model), model.grid)
    outputs = ops.outputs(images.astype(float))
    return model, images, outputs, arrays["logits" if model.num_classes else "pooled"][:2]


def test_the_verbs_in_float64_give_the_outputs_of_the_reference(reference):
    _, _, outputs, expected = reference
    np.testing.assert_allclose(outputs, expected, atol=2e-5, rtol=0)


def test_every_set_of_rewrites_gives_them_too(reference):
    model, images, expected, _ = reference
    output, how = "logits" if model.num_classes else "features", model.preprocessing
    for count in range(len(PASSES) + 1):
        for rewrites in itertools.combinations(PASSES, count):
            options = GraphOptions(output=output, batch=None, rewrites=rewrites)
            weights = parameters_of(model)
            graph = InferenceGraph(model.spec, weights, model.image_size, how, options)
            found = forward(prepare(graph), images).numpy()
            error = np.abs(found - expected).max() / np.abs(expected).max()
            assert error < 1e-5, (rewrites, error)
