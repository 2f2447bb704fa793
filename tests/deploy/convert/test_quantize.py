"""Precisions: which operators stay in float, accuracy, size and runtime of the files."""

from collections import defaultdict

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy import PRECISIONS, Runner, precision_of
from keras_vit.deploy.compression.file_kernels import stored_kernels
from keras_vit.deploy.convert.quantize import for_runtime, measured_ranges, quantized
from keras_vit.deploy.resolve import resolve
from keras_vit.tflite.flatbuffer import read_graph
from keras_vit.tflite.runtimes import needed_version, runtime_floor

# For each precision the smallest cosine with Keras' logits, the largest fraction of the float32
# file's size, and the oldest runtime.
EXPECTED = {
    "none": (0.9999999, 1.0, "2.9.0"),
    "float16": (0.999999, 0.6, "2.9.0"),
    "dynamic": (0.999, 0.35, "2.17.0"),
    "int8": (0.997, 0.35, "2.9.0"),
    "int8-full": (0.997, 0.35, "2.9.0"),
    "int16x8": (0.998, 0.35, "LiteRT 1.3.0"),
    "int4": (0.88, 0.2, "LiteRT 2.1.0"),
    "auto": (0.997, 0.35, "2.9.0"),
}
# Operators that cost a vision transformer too much accuracy in int8.
DELICATE = {"SOFTMAX", "GELU", "RSQRT", "MEAN", "MUL", "ADD", "BATCH_MATMUL"}


def types(graph):
    """The types of the inputs and outputs of operators, without their weights and arguments."""
    found = defaultdict(set)
    for operator in graph.operators:
        tensors = [t for t in graph.read(operator) if not t.constant] + graph.written(operator)
        found[operator.name] |= {tensor.dtype for tensor in tensors}
    return dict(found)


def kernels(graph):
    return [graph.read(op)[1] for op in graph.operators if op.name == "FULLY_CONNECTED"]


@pytest.mark.parametrize("quantize", PRECISIONS)
def test_each_precision_is_accurate_and_small(sample, quantize):
    cosine, fraction, runtime = EXPECTED[quantize]
    found = sample.exported(quantize)
    assert found.verdict.cosine > cosine
    assert len(found.content) <= fraction * len(sample.file("none"))
    assert found.inspection.runtime == runtime


def test_int8_keeps_sensitive_operators_in_float_and_is_one_partition(sample):
    graph = read_graph(sample.file("int8"))
    found = types(graph)
    assert all(found[name] == {"float32"} for name in DELICATE)
    assert found["FULLY_CONNECTED"] == {"int8"}
    assert {graph.tensors[i].dtype for i in graph.inputs + graph.outputs} == {"float32"}
    found = sample.exported("int8").inspection
    assert (found.partitions, found.undelegated) == (1, ())


def test_dynamic_quantises_only_weights_and_activations_at_run_time(sample):
    graph = read_graph(sample.file("dynamic"))
    assert all(found <= {"float32"} for found in types(graph).values())
    assert {kernel.dtype for kernel in kernels(graph)} == {"int8"}
    assert all(kernel.scales == kernel.shape[0] for kernel in kernels(graph))  # of each output


@pytest.mark.slow
def test_dynamic_for_an_older_runtime_has_one_scale_for_each_kernel(sample):
    images = sample.converter.calibration
    content = deploy.Converter(resolve(sample.model), ["dynamic"], images, "2.9")("dynamic")
    found = {(kernel.dtype, kernel.scales) for kernel in kernels(read_graph(content))}
    assert found == {("int8", 1)}
    assert runtime_floor(content) == "2.9.0"
    found = Runner(content).predict(sample.images)
    assert deploy.compare("dynamic", sample.expected, found).cosine > 0.995
    # The newest runtimes get the better form; precisions that are too new are refused first.
    assert for_runtime(PRECISIONS["dynamic"], "2.17") == PRECISIONS["dynamic"]
    message = "LiteRT 2.1.0 or newer. Received: min_runt.*; choose one of .*int8, .*or raise"
    with pytest.raises(RefusedError, match=f"needs {message}"):
        deploy.Converter(resolve(sample.model), ["int4"], min_runtime="LiteRT 1.4")


def test_int8_full_has_no_float_and_the_runner_converts(sample):
    content = sample.file("int8-full")
    assert all(found == {"int8"} for found in types(read_graph(content)).values())
    runner = Runner(content)
    assert runner.input["dtype"] == runner.output["dtype"] == np.int8
    scores = runner.predict(sample.images)
    assert scores.dtype == np.float32
    step = runner.output["quantization"][0]
    np.testing.assert_allclose(scores / step, np.rint(scores / step), atol=1e-3)
    # Values beyond the measured range are clipped and do not wrap around.
    far = 10 * np.sign(sample.images[:1])
    scale, zero = runner.input["quantization"]
    limits = scale * (np.array([-128, 127]) - zero)
    np.testing.assert_array_equal(runner(far), runner(np.clip(far, *limits)))


def test_int16x8_computes_in_int16_with_few_exceptions(sample, kernel_types):
    graph = read_graph(sample.file("int16x8"))
    found = types(graph)
    assert found.pop("MEAN") == found.pop("RSQRT") == {"float32"}
    both = {name for name, kinds in found.items() if kinds == {"int16", "float32"}}
    assert both == {"MUL", "ADD", "QUANTIZE", "DEQUANTIZE"}  # MUL and ADD: also norm statistics
    assert all(kinds == {"int16"} for name, kinds in found.items() if name not in both)
    assert "SPACE_TO_DEPTH" not in found
    assert {graph.tensors[i].dtype for i in graph.inputs + graph.outputs} == {"float32"}
    assert set(kernel_types(sample.file("int16x8")).values()) == {"int8"}


def test_int16x8_has_room_for_values_outside_the_measured_range(sample):
    dark = deploy.Converter(resolve(sample.model), ["int16x8"], sample.images / 1.6)("int16x8")
    found = Runner(dark).predict(sample.images)
    assert deploy.compare("int16x8", sample.expected, found).cosine > 0.998


def test_int16x8_computes_norms_of_tokens_of_very_different_size(trained_like, pictures):
    spec = keras_vit.ViTSpec(patch_size=8, hidden_dim=96, depth=2, num_heads=3, mlp_dim=80)
    model, images = trained_like(keras_vit.ViT(spec, 10, (16, 24))), pictures(16, (16, 24))
    token = model.get_layer("patch_encoder").class_token
    token.assign(500 * np.asarray(token))
    found = Runner(deploy.to_tflite(model, "int16x8", images)).predict(images)
    expected = np.asarray(model(images, training=False))
    assert deploy.compare("int16x8", expected, found).cosine > 0.99


def test_int4_is_blockwise_if_32_divides_the_inputs_and_int8_otherwise(sample, kernel_types):
    found = kernel_types(sample.file("int4"))
    eight = {layer for layer, dtype in found.items() if dtype == "int8"}
    assert eight == {"encoderblock_0/mlp/dense_1", "encoderblock_1/mlp/dense_1"}  # 80 inputs
    assert set(found.values()) == {"int4", "int8"}
    for kernel in kernels(read_graph(sample.file("int4"))):
        assert kernel.blocks == (kernel.dtype == "int4")


@pytest.mark.parametrize("quantize", ["int8", "int4"])
def test_each_weight_is_rounded_to_the_nearest_step(sample, quantize):
    content = sample.file(quantize)
    exact = {k.layer: k.values for k in stored_kernels(sample.converter.float_file(quantize))}
    for kernel in stored_kernels(content):
        if kernel.layer in exact:
            half = np.broadcast_to(np.asarray(kernel.scale), kernel.numbers.shape) / 2
            error = np.abs(kernel.values - exact[kernel.layer])
            assert (error <= 1.01 * half).all(), kernel.layer


@pytest.mark.parametrize("quantize", ["dynamic", "int8", "int8-full", "int16x8", "int4"])
def test_float_layers_stay_in_float(sample, kernel_types, quantize):
    kept = ("encoderblock_0/mlp/dense_0", "head")
    found = kernel_types(sample.file(quantize, *kept))
    assert {layer for layer, dtype in found.items() if dtype == "float32"} == set(kept)
    layers = deploy.quantizable_layers(sample.converter.float_file(quantize))
    assert set(found) == set(layers)
    assert (layers[0], layers[-1]) == ("patch_encoder/projection", "head")
    assert {"encoderblock_0/attention/query", "encoderblock_1/mlp/dense_1"} <= set(layers)


@pytest.mark.parametrize("quantize", ["int8", "none"])
def test_unknown_layers_are_refused_with_the_nearest_name(sample, quantize):
    block = "encoderblock_0/mlp"
    message = f"no layer '{block}/dense0' to keep in float; did you mean {block}/dense_0"
    with pytest.raises(UsageError, match=message):
        sample.converter(quantize, [f"{block}/dense0"])


@pytest.mark.parametrize("quantize", ["int8", "int8-full", "int16x8"])
def test_measured_ranges_need_images(sample, quantize):
    message = f"{quantize} needs images to measure ranges on: .* or choose dynamic or int4, which"
    content, row = sample.file("none"), precision_of(quantize)
    with pytest.raises(UsageError, match=message):
        quantized(content, row)
    for images in (None, sample.images[:0]):
        with pytest.raises(UsageError, match=message):
            deploy.Converter(resolve(sample.model), ["none", quantize], images)
        with pytest.raises(UsageError, match=message):
            measured_ranges(content, row, images)


def test_images_for_a_converter_must_be_preprocessed(sample):
    with pytest.raises(UsageError, match="calibration images must be preprocessed"):
        deploy.to_tflite(sample.model, "int8", 127.5 * sample.images + 127.5)


def test_dynamic_and_int4_need_no_images(sample):
    converter = deploy.Converter(resolve(sample.model), ["dynamic", "int4"])
    for quantize, least in (("dynamic", 0.998), ("int4", 0.85)):
        found = Runner(converter(quantize)).predict(sample.images)
        assert deploy.compare(quantize, sample.expected, found).cosine > least


def test_ranges_are_the_extremes_of_all_images(sample):
    images = sample.images[:5] * np.array([3, 1, 0.1, 0.1, 0.1], np.float32)[:, None, None, None]
    precision, content = precision_of("int8"), sample.converter.float_file("int8")
    together = measured_ranges(content, precision, images)
    alone = [measured_ranges(content, precision, image[None]) for image in images]
    assert len(together) > 20
    for name, found in together.items():
        assert found["min"] == min(ranges[name]["min"] for ranges in alone), name
        assert found["max"] == max(ranges[name]["max"] for ranges in alone), name
    # The first Dense layer reads the pixels; a range is a little wider than measured.
    ends = {found["max"].item() / images.max() for found in together.values()}
    assert any(1 < end < 1.002 for end in ends)


@pytest.mark.parametrize("quantize", PRECISIONS)
def test_the_file_states_the_versions_that_it_needs(sample, quantize):
    graph = read_graph(sample.file(quantize))
    for operator in graph.operators:
        assert operator.version in (1, needed_version(graph, operator)), operator
    products = [op.version for op in graph.operators if op.name == "FULLY_CONNECTED"]
    assert (max(products) >= 12) == (quantize in ("dynamic", "int4"))
    floor = runtime_floor(graph)
    if floor[0].isdigit():
        assert graph.stated_runtime == floor


@pytest.mark.parametrize(
    "quantize", ["int8", "int16x8", pytest.param("int8-full", marks=pytest.mark.slow)]
)
def test_the_bias_of_a_neuron_without_weights_is_kept(sample, quantize):
    # With a scale that fits the weights, the bias would need far too many steps.
    model = keras_vit.ViT(sample.model.spec, 10, (16, 24))
    model.set_weights(sample.model.get_weights())
    dense = model.get_layer("encoderblock_1").mlp.dense_0
    kernel, bias = np.array(dense.kernel), np.array(dense.bias)
    kernel[:, 7], kernel[:, 8], bias[7], bias[8] = 0, 1e-12, 10, -10
    dense.kernel.assign(kernel)
    dense.bias.assign(bias)
    converter = deploy.Converter(resolve(model), [quantize], sample.converter.calibration)
    files = converter.float_file(quantize), converter(quantize)
    _, layers = deploy.layer_differences(*files, sample.images[:4])
    assert layers["encoderblock_1/mlp/dense_0"] < (0.3 if quantize == "int8-full" else 0.1)
    file = Runner(files[1]).interpreter
    wide = [d["index"] for d in file.get_tensor_details() if d["dtype"] == np.int64]
    # NPUs cast the biases of int16x8 to int32.
    assert max((np.abs(file.get_tensor(i)).max() for i in wide), default=0) < 2**31
    assert bool(wide) == (quantize == "int16x8")


def test_the_last_digit_of_a_runtimes_arithmetic_changes_no_pixel(sample, rng):
    pixels = rng.integers(0, 256, (8, 16, 24, 3)).astype(np.float32)
    pixels[0, 0, :2] = [[0], [255]]
    images = (pixels - 127.5) / 127.5
    content, precision = sample.converter.float_file("int8"), PRECISIONS["int8"]
    content = quantized(content, precision, measured_ranges(content, precision, images))
    runner = Runner(content)
    expected = runner.predict(images)
    for direction in (-2, 2):
        np.testing.assert_array_equal(
            runner.predict(np.nextafter(images, np.float32(direction))), expected
        )
