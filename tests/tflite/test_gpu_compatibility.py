"""Problems with GPU delegates: each rule finds a layer that breaks it."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

import keras_vit
from keras_vit._errors import RefusedError
from keras_vit.tflite.flatbuffer import read_graph
from keras_vit.tflite.float16_emulation import emulate
from keras_vit.tflite.gpu_compatibility import RULES, lint

generator = np.random.default_rng(0)
KERNEL = generator.normal(0, 1, (32, 32)).astype(np.float32)
STACK = generator.normal(0, 1, (2, 32, 32)).astype(np.float32)
TOKENS = (1, 8, 32)


def operator(x):
    return tf.broadcast_to(x[:, :1], (1, 4, 32))


def newer_operator(x):
    return tf.round(x)


def rank(x):
    return tf.reshape(tf.transpose(tf.reshape(x, (1, 2, 4, 4, 8)), (0, 2, 1, 3, 4)), (1, 8, 32))


def integers(x):
    return tf.cast(tf.cast(x, tf.int32) * 3, tf.float32)


def mask(x):
    return x[:, 0]


def mixed_ranks(x):
    return tf.reshape(x, (2, 4, 32)) + tf.reshape(tf.nn.relu(x), (1, 2, 4, 32))


def constant_rank(x):
    return x + KERNEL[:8]


def constant_first(x):
    return tf.matmul(KERNEL[None, :8], tf.transpose(x, (0, 2, 1)))


def constant_second(x):
    return tf.matmul(tf.reshape(x, (1, 2, 4, 32)), STACK)


def transposed(x):
    return tf.matmul(x, tf.nn.relu(x), transpose_b=True)


def squares(x):
    return x * tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 0.25)


def epsilon(x):
    return tf.math.rsqrt(tf.nn.relu(x) + 1e-6)


def heads(x):
    # (1, 8, heads, head_dim) to (1, heads, 8, head_dim)
    split = tf.transpose(tf.reshape(x, (1, 8, 4, 8)), (0, 2, 1, 3))
    scores = tf.matmul(split, tf.transpose(tf.nn.relu(split), (0, 1, 3, 2)))
    return tf.matmul(tf.nn.softmax(scores), tf.nn.relu(split))


def padded(x):
    # (1, 8, 32) to (1, 4, 2, 32)
    x = tf.pad(tf.reshape(x, (1, 4, 2, 32)), [(0, 0), (1, 1), (1, 1), (0, 0)])
    return tf.nn.max_pool2d(x, 3, 2, "VALID")


LAYERS = [
    operator,
    newer_operator,
    rank,
    integers,
    mask,
    mixed_ranks,
    constant_rank,
    constant_first,
    constant_second,
    transposed,
    squares,
    epsilon,
    heads,
    padded,
]
BREAKERS = {
    "operator": "BROADCAST_TO",
    "newer operator": "ROUND",
    "rank": "TRANSPOSE",
    "integers": "MUL",
    "mask": "STRIDED_SLICE",
    "mixed ranks": "ADD",
    "constant rank": "ADD",
    "constant first": "BATCH_MATMUL",
    "constant second": "BATCH_MATMUL",
    "transposed": "BATCH_MATMUL",
    "squares": "MEAN",
    "epsilon": "ADD",
    "heads": "BATCH_MATMUL",
    "padded": "MAX_POOL_2D",
}


@pytest.fixture(scope="module")
def broken(converted):
    """The findings in a model with all of `LAYERS` after one Dense layer."""

    def whole(x):
        x = tf.matmul(x, KERNEL)
        outputs = {"dense": x}
        for layer in LAYERS:
            with tf.name_scope(layer.__name__):
                y = layer(x)
            outputs[layer.__name__] = tf.nn.softmax(y)  # an output loses its layer's name
        return outputs

    return lint(converted(whole, TOKENS))


@pytest.mark.parametrize("rule", BREAKERS)
def test_each_rule_finds_the_operator_and_the_layer(broken, rule):
    found = [f for f in broken if f.rule == rule and rule.replace(" ", "_") in f.layers]
    assert [f.operator for f in found if f.operator == BREAKERS[rule]] == [BREAKERS[rule]]
    assert found[0].reason


def test_layers_that_break_no_rule_are_not_named(broken):
    named = {(f.rule, layer) for f in broken for layer in f.layers}
    assert not {layer for rule, layer in named if rule in BREAKERS} - {
        layer.__name__ for layer in LAYERS
    }
    assert [f.operator for f in broken if f.rule == "returned"] == ["FULLY_CONNECTED"]


def clean(x):
    x = tf.matmul(x, KERNEL) + KERNEL[None, :8]
    x = tf.nn.gelu(x[:, :4] * 0.5, approximate=True)
    return {"y": tf.nn.softmax(tf.reduce_mean(x, axis=1))}


def rules_of(content):
    return {finding.rule for finding in lint(content)}


def test_a_file_that_gpus_support_has_no_findings(converted):
    assert lint(converted(clean, TOKENS)) == ()


def test_sizes_batches_and_types_are_checked(converted):
    assert rules_of(converted(clean, (4, 8, 32))) == {"batch"}
    assert rules_of(converted(clean, (None, 8, 32))) == {"size"}
    cast = lint(converted(lambda x: clean(tf.cast(x, tf.float32)), TOKENS, dtype=tf.uint8))
    assert [(f.rule, f.operator, f.delegates) for f in cast] == [("cast", "CAST", ("TFLite",))]
    wide = lint(converted(lambda x: clean(tf.cast(x, tf.float32)), TOKENS, dtype=tf.int64))
    assert [(f.rule, f.operator) for f in wide] == [("type", "CAST")]


def test_weights_in_half_precision_count_as_constants(converted, broken):
    def whole(x):
        x = tf.matmul(x, KERNEL)
        with tf.name_scope("constant_second"):
            y = constant_second(x)
        return {"y": tf.nn.softmax(y)}

    half = tf.lite.TargetSpec(
        supported_types=[tf.float16], supported_ops=[tf.lite.OpsSet.TFLITE_BUILTINS]
    )
    content = converted(whole, TOKENS, optimizations=[tf.lite.Optimize.DEFAULT], target_spec=half)
    assert rules_of(content) == {"constant second"}


def quantised(converted, add, *arguments):
    """A file of one Dense layer, quantised by one of the quantizer's methods."""
    from ai_edge_quantizer import quantizer
    from ai_edge_quantizer.qtyping import TFLOperationName

    content = converted(lambda x: {"y": tf.nn.relu(tf.matmul(x, KERNEL))}, TOKENS)
    tool = quantizer.Quantizer(bytearray(content))
    getattr(tool, add)(".*", TFLOperationName.FULLY_CONNECTED, *arguments)
    ranges = None
    if tool.need_calibration:
        ranges = tool.calibrate({"serving_default": [{"x0": 3 * np.ones(TOKENS, np.float32)}]})
    return bytearray(tool.quantize(ranges).quantized_model)


def in_version_12(converted):
    """A dynamic file that states the version that its Dense layer needs."""
    from keras_vit.tflite.runtimes import state_versions

    dynamic = quantised(converted, "add_dynamic_config", 8)
    state_versions(dynamic)
    return dynamic


def in_blocks(converted):
    from ai_edge_quantizer.qtyping import QuantGranularity

    return quantised(converted, "add_dynamic_config", 4, QuantGranularity.BLOCKWISE_32)


def strided(converted):
    """A dynamic file of a 1x1 convolution with strides."""
    from ai_edge_quantizer import quantizer
    from ai_edge_quantizer.qtyping import TFLOperationName

    kernel = KERNEL.reshape(1, 1, 32, 32)
    content = converted(lambda x: {"y": tf.nn.conv2d(x, kernel, 2, "VALID")}, (1, 4, 4, 32))
    tool = quantizer.Quantizer(bytearray(content))
    tool.add_dynamic_config(".*", TFLOperationName.CONV_2D, 8)
    return bytearray(tool.quantize().quantized_model)


QUANTISED = {
    "version": in_version_12,
    "int4": lambda converted: quantised(converted, "add_dynamic_config", 4),
    "blocks": in_blocks,
    "unpacked": lambda converted: quantised(converted, "add_weight_only_config", 8),
    "rounded": lambda converted: quantised(converted, "add_static_config", 8, 8),
    "strided": strided,
}


@pytest.mark.filterwarnings("ignore:Warning. Enabling `experimental_preserve_all_tensors`")
def test_quantised_weights_and_activations_are_checked(converted):
    assert rules_of(quantised(converted, "add_dynamic_config", 8)) == set()
    for rule, make in QUANTISED.items():
        assert rules_of(make(converted)) == {rule}


def returned(x):
    x = tf.matmul(x, KERNEL)
    return {"dense": x, "y": tf.nn.softmax(x)}


OTHERS = {
    "returned": lambda converted: converted(returned, TOKENS),
    "size": lambda converted: converted(clean, (None, 8, 32)),
    "batch": lambda converted: converted(clean, (4, 8, 32)),
    "cast": lambda converted: converted(
        lambda x: clean(tf.cast(x, tf.float32) * 0.01), TOKENS, dtype=tf.uint8
    ),
    "type": lambda converted: converted(
        lambda x: clean(tf.cast(x, tf.float32)), TOKENS, dtype=tf.int64
    ),
}


def breaking(converted, rule):
    """A small file that breaks a rule."""
    if make := (QUANTISED | OTHERS).get(rule):
        return bytes(make(converted))
    layer = next(layer for layer in LAYERS if layer.__name__ == rule.replace(" ", "_"))
    return converted(lambda x: {"y": layer(tf.matmul(x, KERNEL))}, TOKENS)


# Why the accelerator refuses files; weights in blocks end its process.
REASONS = "accelerator does not take|Shape mismatch|ended by signal"
# Allowed differences, as fractions of the largest score. The accelerator computes dynamic and int4
# files in float, where the CPU rounds activations to 8 bits.
ALLOWED = {"version": 1e-2, "int4": 1e-2, "strided": 1e-2}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Warning. Enabling `experimental_preserve_all_tensors`")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_lint_is_right_about_the_accelerator(converted, on_gpu, rule):
    content = breaking(converted, rule.name)
    assert rule.name in rules_of(content)
    interpreter = Interpreter(model_content=content)
    details = interpreter.get_input_details()[0]
    largest = 2 if details["dtype"] == np.float32 else 99
    image = np.random.default_rng(0).uniform(0, largest, details["shape"]).astype(details["dtype"])
    if "LiteRT" in rule.delegates and rule.effect == "refused":
        with pytest.raises(RefusedError, match=REASONS):
            on_gpu(content, image)
        return
    interpreter.allocate_tensors()
    interpreter.set_tensor(details["index"], image)
    interpreter.invoke()
    expected = [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
    found = on_gpu(content, image)
    assert len(found) == len(expected)
    for scores in found:  # in an order of its own
        twins = [other.reshape(scores.shape) for other in expected if other.size == scores.size]
        difference = min(np.abs(scores - other).max() for other in twins)
        allowed = ALLOWED.get(rule.name, 1e-5) * np.abs(scores).max()
        is_wrong = "LiteRT" in rule.delegates and rule.effect == "wrong"
        assert difference > 10 * allowed if is_wrong else difference < allowed


@pytest.mark.parametrize(("scale", "overflows"), [(0.9, False), (1.1, True)])
def test_squares_overflow_half_precision_at_the_limit_of_the_rule(converted, scale, overflows):
    content = converted(lambda x: {"y": squares(x)}, TOKENS)
    [found] = [finding for finding in lint(content) if finding.rule == "squares"]
    limit = float(re.search(r"over (\d+\.\d)", found.reason)[1])
    image = np.full(TOKENS, scale * limit, np.float32)
    overflow = emulate(content, image, "float16").overflow
    assert overflow.startswith("MEAN") if overflows else overflow == ""


def test_every_rule_has_a_test_and_a_source():
    assert {rule.name for rule in RULES} == BREAKERS.keys() | QUANTISED.keys() | OTHERS.keys()
    assert all(rule.source and rule.delegates for rule in RULES)


def test_a_damaged_operator_without_operands_is_passed_over(converted):
    graph = read_graph(converted(mask, TOKENS))
    for emptied in ({"inputs": ()}, {"outputs": ()}, {"inputs": (None,)}):
        operators = [
            dataclasses.replace(op, **emptied) if op.name == "STRIDED_SLICE" else op
            for op in graph.operators
        ]
        lint(dataclasses.replace(graph, operators=tuple(operators)))


def test_one_finding_covers_many_layers(graph_file):
    spec = keras_vit.ViTSpec(patch_size=8, hidden_dim=48, depth=2, num_heads=3, mlp_dim=112)
    found = lint(graph_file(spec))
    epsilons = [finding for finding in found if finding.rule == "epsilon"]
    assert len(epsilons) == 1
    assert {layer.split("/")[0] for layer in epsilons[0].layers} >= {
        "encoderblock_0",
        "encoderblock_1",
        "encoder_norm",
    }
    assert str(epsilons[0]).startswith("ADD (encoderblock_0")
    assert "and others" in str(epsilons[0])
