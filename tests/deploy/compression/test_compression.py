"""Compression: rounding equals that of the files, kernels are read back, settings are checked."""

import dataclasses
import importlib
import re
import sys

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit._keras import keras
from keras_vit.deploy import compression
from keras_vit.deploy.compression import Compressed, Compression, rounding
from keras_vit.deploy.compression.dense_layers import fold_norms
from keras_vit.deploy.resolve import parameters_of

# Heads of 8, whose 1/sqrt is no power of two; MLPs of 48, which blocks of 32 do not divide.
SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=32, depth=2, num_heads=4, mlp_dim=48)


@pytest.fixture
def model(randomised):
    return randomised(keras_vit.ViT(SPEC, 5, (16, 24)))


def kernels_of(model):
    """Kernels by layer, as files have them: outputs first, the query's over sqrt(head_dim)."""
    found = {
        path.removesuffix("/kernel"): value.T
        for path, value in parameters_of(model).items()
        if path.endswith("/kernel")
    }
    root = np.float32(SPEC.head_dim**0.5)
    return {k: v / root if k.endswith("query") else v for k, v in found.items()}


@pytest.mark.flavours
@pytest.mark.parametrize("quantize", ["int8", "int4"])
def test_a_kernel_is_rounded_as_the_file_rounds_it(model, inputs, quantize):
    wanted = Compression("qat", quantize)
    folded = fold_norms(model)
    content = compression.compressed_file(Compressed(folded, wanted, {}), inputs)
    found = {kernel.layer: kernel for kernel in compression.stored_kernels(content)}
    expected = kernels_of(folded)
    assert found.keys() == expected.keys()
    bits = {name: rounding.kernel_bits(quantize, k.shape[1]) for name, k in expected.items()}
    assert set(bits.values()) == ({4, 8} if quantize == "int4" else {8})
    for name, kernel in expected.items():
        rounded = np.asarray(rounding.round_kernel(kernel.T, bits[name])).T
        np.testing.assert_allclose(found[name].values, rounded, rtol=1e-6, atol=1e-9)
        assert found[name].distinct <= 2 ** bits[name] - 1
        assert np.abs(rounded - kernel).max() > 1e-4  # there was something to round


@pytest.mark.flavours
def test_rounding_with_a_factor_rounds_the_product(rng):
    kernel = rng.normal(0, 1, (64, 6)).astype(np.float32)
    product = np.asarray(rounding.round_kernel(kernel * np.float32(0.3), 4))
    np.testing.assert_allclose(rounding.round_kernel(kernel, 4, 0.3) * 0.3, product, rtol=1e-6)


@pytest.mark.parametrize("quantize", ["dynamic", "int4", "int8"])
def test_activations_are_rounded_as_the_runtime_rounds_them(rng, quantize):
    dense = keras.layers.Dense(8)
    model = keras.Sequential([keras.Input((4, 6, 64)), dense])
    dense.set_weights([rng.normal(0, 1, (64, 8)), rng.normal(0, 1, 8)])
    x = rng.normal(0.3, 1, (1, 4, 6, 64)).astype(np.float32)
    found = deploy.Runner(deploy.to_tflite(model, quantize, x))(x)
    kernel, bias = (np.asarray(w) for w in (dense.kernel, dense.bias))
    rounded = np.asarray(rounding.round_kernel(kernel, rounding.kernel_bits(quantize, 64)))
    exact = x @ kernel + bias
    if quantize != "int8":
        expected = np.asarray(rounding.round_tokens(x)) @ rounded + bias
        np.testing.assert_allclose(found, expected, atol=1e-5)
    else:
        wider = np.float32(1 + 2**-10)  # than measured
        low, high = wider * exact.min(), wider * exact.max()
        read = np.asarray(rounding.round_to_range(x, wider * x.min(), wider * x.max()))
        expected = np.asarray(rounding.round_to_range(read @ rounded + bias, low, high))
        step = (high - low) / 255
        assert (np.abs(found - expected) < 0.1 * step).mean() > 0.98  # ties of the bias apart
        np.testing.assert_allclose(found, expected, atol=1.01 * step)
    assert np.abs(exact - found).max() > 1e-2


@pytest.mark.flavours
def test_a_range_has_256_steps_and_includes_zero(rng):
    x = rng.normal(0, 1, 1000).astype(np.float32)
    steps = np.asarray(rounding.round_to_range(x, -0.3, 1.0)) / (1.3 / 255)
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-4)
    assert (np.rint(steps.min()), np.rint(steps.max())) == (-59, 196)


@pytest.mark.flavours
def test_gradients_pass_the_rounding(rng):
    import tensorflow as tf

    kernel = tf.constant(rng.normal(0, 1, (32, 4)), tf.float32)
    everywhere = np.ones((32, 4), bool)
    for function, passed in (
        (lambda x: rounding.round_kernel(x, rounding.kernel_bits("int4", 32)), everywhere),
        (rounding.round_tokens, everywhere),
        (lambda x: rounding.round_to_range(x, -1.0, 0.5), (kernel >= -1) & (kernel <= 0.5)),
    ):
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            result = tf.reduce_sum(function(kernel))
        np.testing.assert_array_equal(tape.gradient(result, kernel), passed)


# Without biases, the shifts become those of keys, which have an effect if keys turn.
FOLDED = {name: {"pooling": name} for name in ("token", "map", "distilled")} | {
    "eva02": {
        **{"rotation": "eva02", "mlp_kind": "gated_norm", "activation": "silu"},
        **dict.fromkeys(("query_bias", "key_bias", "value_bias"), False),
    }
}


@pytest.mark.flavours
@pytest.mark.parametrize("kind", FOLDED)
def test_folded_norms_change_nothing(randomised, inputs, kind):
    spec = dataclasses.replace(SPEC, **FOLDED[kind])
    model = randomised(keras_vit.ViT(spec, 5, (16, 24)))
    folded = fold_norms(model)
    expected = deploy.predict(model, inputs)
    np.testing.assert_allclose(deploy.predict(folded, inputs), expected, atol=1e-5)
    weights = parameters_of(folded)
    norms = {path: w for path, w in weights.items() if path.endswith(("gamma", "beta"))}
    if kind == "distilled":  # two classifiers read the last norm, and they are not compressed
        del norms["encoder_norm/gamma"], norms["encoder_norm/beta"]
    for path, values in norms.items():
        np.testing.assert_array_equal(values, float(path.endswith("gamma")))


@pytest.mark.soak(of="compression")
@pytest.mark.parametrize("quantize", ["none", "float16", "int4"])
def test_zeros_and_distinct_values_are_counted_in_the_file(model, inputs, quantize):
    model = fold_norms(model)
    for variable in model.weights:
        if variable.shape == (32, 48):  # one layer of each block
            variable.assign(np.where(np.arange(48) % 4 < 3, 0, np.sign(variable)))
    pruned = Compressed(model, Compression("prune", quantize), {})
    content = compression.compressed_file(pruned, inputs)
    made = [k for k in compression.summary(content)["kernels"] if "dense_0" in k["layer"]]
    assert [(k["layer"], k["sparsity"], k["distinct"]) for k in made] == [
        (f"encoderblock_{i}/mlp/dense_0", 0.75, 3) for i in (0, 1)
    ]
    sizes = [kernel.numbers.size for kernel in compression.stored_kernels(content)]
    assert sum(sizes) == sum(k.size for k in kernels_of(model).values())
    assert compression.summary(content)["deflated"] < len(content)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"method": "shrink"}, "unknown method 'shrink'; choose one of qat, prune, cluster"),
        ({"method": "cluster+qat"}, "unknown method 'cluster+qat'"),
        ({"method": "qat"}, "qat trains for a file of one of dynamic, int8, int4. Received: "),
        ({"method": "prune", "quantize": "int3"}, "unknown quantize='int3'"),
        ({"method": "prune", "sparsity": 1}, "sparsity must lie in [0, 1). Received: sparsity=1"),
        ({"method": "prune", "pattern": "4:2"}, "pattern must be one of 2:4. Received: '4:2'"),
        ({"method": "prune", "pattern": "2:4", "sparsity": 0.7}, "Received: sparsity=0.7; leave"),
        ({"method": "cluster", "clusters": 1}, "clusters must be 2 to 256. Received: clusters=1"),
        ({"method": "prune+cluster", "clusters": 2}, "clusters must be 3 to 256"),
    ],
)
def test_invalid_settings_are_refused(fields, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        Compression(**fields)


def test_a_bit_is_refused():
    bit = keras_vit.BiT(keras_vit.ResNetSpec((1, 1, 1, 1)), 5, 32)
    with pytest.raises(UsageError, match="compression is for the Dense layers of Vision"):
        compression.compress(bit, Compression("prune"), lambda model, callbacks: None, 1)


@pytest.mark.parametrize(
    ("legacy", "error", "message"),
    [
        (False, UsageError, "set TF_USE_LEGACY_KERAS=1 before Python starts"),
        (True, ImportError, r"pip install 'keras_vit\[compress\]'"),
    ],
)
def test_missing_packages_are_named(monkeypatch, legacy, error, message):
    name = "keras_vit.deploy.compression.stages"
    monkeypatch.setattr("keras_vit._keras.LEGACY", legacy)
    monkeypatch.setitem(sys.modules, "tensorflow_model_optimization", None)
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(error, match=message):
        importlib.import_module(name)
