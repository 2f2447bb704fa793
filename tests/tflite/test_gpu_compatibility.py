"""Problems with GPU delegates: each rule finds a layer that breaks it."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from keras_vit._errors import RefusedError
from keras_vit.tflite.flatbuffer import read_graph
from keras_vit.tflite.float16_emulation import emulate
from keras_vit.tflite.gpu_compatibility import RULES, lint
from keras_vit.tflite.runtimes import state_versions

pytestmark = pytest.mark.filterwarnings("ignore:Warning. Enabling `experimental_preserve")

generator = np.random.default_rng(0)
KERNEL = generator.normal(0, 1, (32, 32)).astype(np.float32)
STACK = generator.normal(0, 1, (2, 32, 32)).astype(np.float32)
TOKENS = (1, 8, 32)


def squares(x):
    return x * tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 0.25)


def heads(x):
    # (1, 8, heads, head_dim) to (1, heads, 8, head_dim)
    split = tf.transpose(tf.reshape(x, (1, 8, 4, 8)), (0, 2, 1, 3))
    scores = tf.matmul(split, tf.transpose(tf.nn.relu(split), (0, 1, 3, 2)))
    return tf.matmul(tf.nn.softmax(scores), tf.nn.relu(split))


def padded(x):
    # (1, 8, 32) to (1, 4, 2, 32)
    x = tf.pad(tf.reshape(x, (1, 4, 2, 32)), [(0, 0), (1, 1), (1, 1), (0, 0)])
    return tf.nn.max_pool2d(x, 3, 2, "VALID")


def transposed_in_rank_5(x):
    x = tf.transpose(tf.reshape(x, (1, 2, 4, 4, 8)), (0, 2, 1, 3, 4))
    return tf.reshape(x, (1, 8, 32))


def added_to_rank_4(x):
    return tf.reshape(x, (2, 4, 32)) + tf.reshape(tf.nn.relu(x), (1, 2, 4, 32))


# {rule: (the operator that breaks it, a layer with that operator)}
LAYERS = {
    "operator": ("BROADCAST_TO", lambda x: tf.broadcast_to(x[:, :1], (1, 4, 32))),
    "newer operator": ("ROUND", tf.round),
    "rank": ("TRANSPOSE", transposed_in_rank_5),
    "integers": ("MUL", lambda x: tf.cast(tf.cast(x, tf.int32) * 3, tf.float32)),
    "mask": ("STRIDED_SLICE", lambda x: x[:, 0]),
    "mixed ranks": ("ADD", added_to_rank_4),
    "constant rank": ("ADD", lambda x: x + KERNEL[:8]),
    "constant first": (
        "BATCH_MATMUL", lambda x: tf.matmul(KERNEL[None, :8], tf.transpose(x, (0, 2, 1)))
    ),
    "constant second": ("BATCH_MATMUL", lambda x: tf.matmul(tf.reshape(x, (1, 2, 4, 32)), STACK)),
    "transposed": ("BATCH_MATMUL", lambda x: tf.matmul(x, tf.nn.relu(x), transpose_b=True)),
    "squares": ("MEAN", squares),
    "epsilon": ("ADD", lambda x: tf.math.rsqrt(tf.nn.relu(x) + 1e-6)),
    "heads": ("BATCH_MATMUL", heads),
    "padded": ("MAX_POOL_2D", padded),
}  # fmt: skip
SCOPES = {rule: rule.replace(" ", "_") for rule in LAYERS}


@pytest.fixture(scope="module")
def broken(converted):
    """The findings in a model with all of `LAYERS` after one Dense layer."""

    def whole(x):
        x = tf.matmul(x, KERNEL)
        outputs = {"dense": x}
        for rule, (_, layer) in LAYERS.items():
            with tf.name_scope(SCOPES[rule]):
                y = layer(x)
            outputs[SCOPES[rule]] = tf.nn.softmax(y)  # an output loses its layer's name
        return outputs

    return lint(converted(whole, TOKENS))


@pytest.mark.parametrize("rule", LAYERS)
def test_each_rule_finds_the_operator_and_the_layer(broken, rule):
    found = [f for f in broken if f.rule == rule and SCOPES[rule] in f.layers]
    assert [f.operator for f in found].count(LAYERS[rule][0]) == 1
    assert found[0].reason


def test_layers_that_break_no_rule_are_not_named(broken):
    named = {layer for f in broken if f.rule in LAYERS for layer in f.layers}
    assert named <= set(SCOPES.values())
    assert [f.operator for f in broken if f.rule == "returned"] == ["FULLY_CONNECTED"]


def clean(x):
    x = tf.matmul(x, KERNEL) + KERNEL[None, :8]
    x = tf.nn.gelu(x[:, :4] * 0.5, approximate=True)
    return {"y": tf.nn.softmax(tf.reduce_mean(x, axis=1))}


def dense(x):
    return {"y": tf.nn.relu(tf.matmul(x, KERNEL))}


def test_files_that_gpus_support_have_no_findings(converted, quantised):
    for content in (converted(clean, TOKENS), quantised(converted(dense, TOKENS), "dynamic", 8)):
        assert lint(content) == ()


def test_weights_in_half_precision_count_as_constants(converted):
    def whole(x):
        return {"y": tf.nn.softmax(LAYERS["constant second"][1](tf.matmul(x, KERNEL)))}

    half = tf.lite.TargetSpec(
        supported_types=[tf.float16], supported_ops=[tf.lite.OpsSet.TFLITE_BUILTINS]
    )
    content = converted(whole, TOKENS, optimizations=[tf.lite.Optimize.DEFAULT], target_spec=half)
    assert {finding.rule for finding in lint(content)} == {"constant second"}


def strided(x):
    return {"y": tf.nn.conv2d(x, KERNEL.reshape(1, 1, 32, 32), 2, "VALID")}


def returned(x):
    x = tf.matmul(x, KERNEL)
    return {"dense": x, "y": tf.nn.softmax(x)}


# {rule: (a function, the shape of its input, and how its file is quantised)}
FILES = {
    "version": (dense, TOKENS, ("dynamic", 8), {}),  # which is stated then
    "int4": (dense, TOKENS, ("dynamic", 4), {}),
    "blocks": (dense, TOKENS, ("dynamic", 4), {"granularity": "BLOCKWISE_32"}),
    "unpacked": (dense, TOKENS, ("weight_only", 8), {}),
    "rounded": (dense, TOKENS, ("static", 8, 8), {"x": np.full(TOKENS, 3, np.float32)}),
    "strided": (strided, (1, 4, 4, 32), ("dynamic", 8), {"of": "CONV_2D"}),
    "returned": (returned, TOKENS),
    "size": (clean, (None, 8, 32)),
    "batch": (clean, (4, 8, 32)),
    "cast": (lambda x: clean(tf.cast(x, tf.float32) * 0.01), TOKENS),
    "type": (lambda x: clean(tf.cast(x, tf.float32)), TOKENS),
}
TYPES = {"cast": tf.uint8, "type": tf.int64}


@pytest.fixture
def breaking(converted, quantised):
    """Makes a small file that breaks a rule of `FILES`."""

    def make(rule):
        function, shape, *how = FILES[rule]
        content = converted(function, shape, dtype=TYPES.get(rule, tf.float32))
        if how:
            method, options = how
            content = quantised(content, *method, **options)
        if rule == "version":
            state_versions(content)
        return bytes(content)

    return make


@pytest.mark.parametrize("rule", FILES)
def test_a_file_that_breaks_one_rule_has_findings_of_it_alone(breaking, rule):
    found = lint(breaking(rule))
    assert {finding.rule for finding in found} == {rule}
    if rule in TYPES:
        assert [finding.operator for finding in found] == ["CAST"]
    if rule == "cast":
        assert found[0].delegates == ("TFLite",)


# Why the accelerator refuses files; weights in blocks end its process.
REASONS = "accelerator does not take|Shape mismatch|ended by signal"
# Allowed differences, as fractions of the largest score. The accelerator computes dynamic and int4
# files in float, where the CPU rounds activations to 8 bits.
ALLOWED = {"version": 1e-2, "int4": 1e-2, "strided": 1e-2}


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_lint_is_right_about_the_accelerator(converted, breaking, on_gpu, rule):
    if rule.name in FILES:
        content = breaking(rule.name)
    else:
        layer = LAYERS[rule.name][1]
        content = converted(lambda x: {"y": layer(tf.matmul(x, KERNEL))}, TOKENS)
    assert rule.name in {finding.rule for finding in lint(content)}
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
    assert {rule.name for rule in RULES} == LAYERS.keys() | FILES.keys()
    assert all(rule.source and rule.delegates for rule in RULES)


def test_a_damaged_operator_without_operands_is_passed_over(converted):
    graph = read_graph(converted(LAYERS["mask"][1], TOKENS))
    for emptied in ({"inputs": ()}, {"outputs": ()}, {"inputs": (None,)}):
        operators = [
            dataclasses.replace(op, **emptied if op.name == "STRIDED_SLICE" else {})
            for op in graph.operators
        ]
        lint(dataclasses.replace(graph, operators=tuple(operators)))


def test_one_finding_covers_many_layers(graph_file, small_spec):
    [epsilon] = [found for found in lint(graph_file(small_spec)) if found.rule == "epsilon"]
    blocks = {layer.split("/")[0] for layer in epsilon.layers}
    assert blocks >= {"encoderblock_0", "encoderblock_1", "encoder_norm"}
    assert str(epsilon).startswith("ADD (encoderblock_0")
    assert "and others" in str(epsilon)
