"""Which operators XNNPACK runs and which it leaves out, according to the runtime."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_vit.deploy import Runner
from keras_vit.tflite.file_inspection import delegation, inspect_file
from keras_vit.tflite.flatbuffer import read_graph

KERNEL = np.random.default_rng(0).normal(0, 1, (16, 16)).astype(np.float32)
TOKENS = (1, 8, 16)


def delegation_of(content):
    return delegation(content, Runner(content))


def test_sizes_that_are_known_only_at_run_time_are_left_out(converted):
    def halved(x):
        x = tf.matmul(x, KERNEL)
        return {"y": tf.matmul(tf.reshape(x, (tf.shape(x)[0], 16, 8)), KERNEL[:8])}

    found = delegation_of(converted(halved, (None, 8, 16)))
    reasons = {left_out.operator: left_out.reason for left_out in found.undelegated}
    assert reasons["SHAPE"] == "XNNPACK does not have this operator"
    assert reasons["RESHAPE"] == "a size is known only at run time"
    assert found.delegated + len(found.undelegated) == found.nodes


# {layer: (what it computes, the operator that XNNPACK leaves out, the reason)}
ODD = {
    "gather": (
        lambda x: tf.gather(x, [7, 6, 5, 4, 3, 2, 1, 0], axis=1),
        "GATHER", "XNNPACK does not have this operator",
    ),
    "integers": (
        lambda x: tf.cast(tf.cast(x, tf.int32) * 2, tf.float32), "MUL", "it computes in int32"
    ),
    "join": (
        lambda x: tf.concat([x * i for i in range(1, 7)], 1),
        "CONCATENATION", "it joins 6 tensors; at most 5 are supported",
    ),
    "shrink": (
        lambda x: x[:, 0],
        "STRIDED_SLICE", "it drops or adds a dimension; slice [:1] and reshape instead",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def split(converted):
    """A graph of `ODD` layers between Dense layers."""

    def splitting(x):
        x = tf.matmul(x, KERNEL)
        for layer, (function, _, _) in ODD.items():
            with tf.name_scope(layer):
                x = function(x)
            x = tf.matmul(x, KERNEL)
        return {"y": x}

    return converted(splitting, TOKENS)


@pytest.mark.parametrize("layer", ODD)
def test_operators_that_split_a_graph_are_named_with_layer_and_reason(split, layer):
    found = delegation_of(split)
    assert found.partitions == len(ODD) + 1
    _, operator, reason = ODD[layer]
    culprit = next(left_out for left_out in found.undelegated if left_out.operator == operator)
    assert (culprit.layer, culprit.reason, culprit.splits) == (layer, reason, True)
    assert str(culprit) == f"{operator} ({layer}): {reason}"


def test_operators_at_either_end_split_nothing(converted):
    def ends(x):
        x = tf.cast(tf.cast(x, tf.int32) * 2, tf.float32)
        return {"y": tf.argmax(tf.matmul(tf.matmul(x, KERNEL), KERNEL), -1) * 2}

    found = delegation_of(converted(ends, TOKENS, dtype=tf.uint8))
    left_out = [each.operator for each in found.undelegated if not each.splits]
    assert left_out == ["CAST", "MUL", "CAST", "ARG_MAX", "MUL"]
    assert (found.nodes, found.delegated, found.partitions) == (7, 2, 1)


def test_int8_softmax_and_products_of_two_activations_are_left_out(converted, rng):
    def attention(x):
        scores = tf.matmul(tf.matmul(x, KERNEL), x, transpose_b=True)
        return {"y": tf.matmul(tf.nn.softmax(scores), tf.nn.relu(x))}

    ranges = [[batch] for batch in rng.normal(1, 1, (4, *TOKENS)).astype(np.float32)]
    settings = {"optimizations": [tf.lite.Optimize.DEFAULT]}
    settings["representative_dataset"] = lambda: ranges
    found = delegation_of(converted(attention, TOKENS, **settings))
    reasons = {left_out.operator: left_out.reason for left_out in found.undelegated}
    assert reasons["SOFTMAX"] == "XNNPACK has it only in float32"
    assert reasons["BATCH_MATMUL"] == "the zero point of its second operand is not 0"


def test_the_inspection_of_a_file_is_plain_json(split, tmp_path):
    (tmp_path / "m.tflite").write_bytes(split)
    found = inspect_file(split)
    assert found == inspect_file(tmp_path / "m.tflite") == inspect_file(bytearray(split))
    assert found == inspect_file(split, runner=Runner(split))
    record = found.to_dict()
    assert json.loads(json.dumps(record)) == record
    assert (record["operators"]["FULLY_CONNECTED"], record["operators"]["GATHER"]) == (5, 1)
    assert record["versions"].keys() == record["operators"].keys()
    assert record["partitions"] == 5
    reason = ODD["gather"][2]
    first = {"operator": "GATHER", "layer": "gather", "reason": reason, "splits": True}
    assert record["undelegated"][0] == first
    assert read_graph(split).stated_runtime == record["runtime"]
    assert "mask" in {finding["rule"] for finding in record["gpu"]}
