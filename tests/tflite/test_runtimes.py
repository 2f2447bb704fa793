"""The runtime that a file needs is derived from its operands, not from its stated versions."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_vit import UsageError
from keras_vit._errors import RefusedError
from keras_vit.deploy import Runner
from keras_vit.tflite import runtimes
from keras_vit.tflite.flatbuffer import read_graph
from keras_vit.tflite.runtimes import (
    check_runtime,
    needs,
    runs,
    runtime_floor,
    state_versions,
    versions,
)

KERNEL = np.random.default_rng(0).normal(0, 1, (64, 64)).astype(np.float32)
TOKENS = (1, 8, 64)


def dense(x):
    with tf.name_scope("encoderblock_0/mlp/dense_0"):
        return {"y": tf.matmul(x, KERNEL)}


@pytest.fixture(scope="module")
def dense_file(converted):
    return converted(dense, TOKENS)


def patches(x):
    x = tf.transpose(tf.reshape(x, (1, 2, 4, 4, 4, 4)), (0, 1, 3, 2, 4, 5))
    return {"y": tf.nn.gelu(tf.reshape(x, (1, 8, 64)), approximate=True)}


def convolved(x):
    kernel = np.tile(KERNEL[None, None, :8, :8], (3, 3, 1, 1))
    return {"y": tf.nn.relu(tf.nn.conv2d(tf.reshape(x, (1, 8, 8, 8)), kernel, 2, "SAME"))}


def broadcast(x):
    return {"y": tf.broadcast_to(tf.nn.softmax(x), (3, 8, 64))}


@pytest.mark.parametrize(
    ("function", "settings"),
    [
        pytest.param(dense, {}, id="dense"),
        pytest.param(dense, {"optimizations": [tf.lite.Optimize.DEFAULT]}, id="dynamic range"),
        pytest.param(patches, {}, id="rank 6 and GELU"),
        pytest.param(convolved, {}, id="convolution"),
        pytest.param(broadcast, {}, id="broadcast"),
    ],
)
def test_the_floor_equals_the_converters_for_its_own_files(converted, function, settings):
    content = converted(function, TOKENS, **settings)
    assert runtime_floor(content) == read_graph(content).stated_runtime


def test_outdated_versions_of_a_quantizer_are_derived_from_the_operands(dense_file, quantised):
    content = quantised(dense_file, "dynamic", 8)
    graph = read_graph(content)
    assert [op.version for op in graph.operators if op.name == "FULLY_CONNECTED"] == [5]
    assert graph.stated_runtime != "2.17.0"
    assert (versions(content)["FULLY_CONNECTED"], runtime_floor(content)) == (12, "2.17.0")
    for good in ("2.17", "2.17.0", "2.18.1", "3.0", "LiteRT 1.0"):
        check_runtime(content, good)
    with pytest.raises(RefusedError) as error:
        check_runtime(content, "2.16.1")
    assert str(error.value) == (
        "FULLY_CONNECTED version 12 (float32 by int8 with a scale for each channel, "
        "encoderblock_0/mlp/dense_0) needs TFLite 2.17.0 or newer. Received: min_runtime=2.16.1; "
        "export dynamic for that runtime, int8 or float16, or raise it to 2.17.0."
    )


def test_stated_versions_let_old_runtimes_refuse_a_file_and_change_no_score(dense_file, quantised):
    content = quantised(dense_file, "dynamic", 8)
    images = np.random.default_rng(1).normal(0, 1, (8, 8, 64)).astype(np.float32)
    before = Runner(bytes(content)).predict(images)
    state_versions(content)
    graph = read_graph(content)
    assert [op.version for op in graph.operators if op.name == "FULLY_CONNECTED"] == [12]
    assert graph.stated_runtime == runtime_floor(content) == "2.17.0"
    np.testing.assert_array_equal(Runner(bytes(content)).predict(images), before)


def test_int4_weights_need_the_measured_runtime(dense_file, quantised):
    channels = quantised(dense_file, "dynamic", 4)
    blocks = quantised(dense_file, "dynamic", 4, granularity="BLOCKWISE_32")
    assert runtime_floor(channels) == "2.14.0"
    check_runtime(channels, "2.16.1")
    assert runtime_floor(blocks) == "LiteRT 2.1.0"
    check_runtime(blocks, "litert-2.3.0")
    message = "int4 weights with a scale for each block.*LiteRT 2.1"
    for old in ("2.21.0", "LiteRT 2.0.3"):
        with pytest.raises(RefusedError, match=message):
            check_runtime(blocks, old)


@pytest.mark.parametrize(
    ("needed", "runtime", "expected"),
    [
        ("2.17.0", "LiteRT 1.0.1", True),
        ("2.18.0", "LiteRT 1.0.1", False),
        ("2.18.0", "LiteRT 1.1", True),
        ("2.9.0", "LiteRT 1.0", True),
        ("LiteRT 1.3.0", "2.21.0", False),
        ("LiteRT 1.3.0", "LiteRT 1.2.0", False),
        ("LiteRT 1.3.0", "LiteRT 2.1", True),
        ("2.14.0", "2.13.1", False),
    ],
)
def test_litert_1_0_is_older_than_tflite_2_18(needed, runtime, expected):
    assert runs(needed, runtime) is expected


def test_the_highest_version_of_an_operator_counts_and_an_unknown_one_is_refused(dense_file):
    graph = read_graph(dense_file)
    newer = dataclasses.replace(graph.operators[0], version=99)
    graph = dataclasses.replace(graph, operators=(newer, *graph.operators))
    assert (versions(graph)[newer.name], runtime_floor(graph)) == (99, "unknown")
    message = "oldest runtime for FULLY_CONNECTED version 99.*is unknown"
    with pytest.raises(RefusedError, match=message):
        check_runtime(graph, "2.21.0")


@pytest.mark.parametrize("minimum", ["", "latest", "2", "2.x", "PyTorch 2.1"])
def test_a_minimum_that_is_not_a_version_is_refused(dense_file, minimum):
    with pytest.raises(UsageError, match="must be a version of TFLite such as 2.16.1"):
        check_runtime(dense_file, minimum)


def test_the_operator_that_needs_the_newest_runtime_is_first(converted):
    def mixed(x):
        return {"y": tf.matmul(tf.nn.gelu(tf.nn.softmax(x)), KERNEL)}

    found = needs(converted(mixed, (1, 8, 64)))
    assert (found[0].operator, found[0].runtime) == ("GELU", "2.9.0")
    assert {need.operator for need in found} == {"GELU", "SOFTMAX", "FULLY_CONNECTED"}


def test_later_versions_of_an_operator_need_later_runtimes():
    for name, row in runtimes._RUNTIMES.items():
        numbers = [tuple(map(int, entry.split("."))) for entry in row if entry != "-"]
        assert numbers == sorted(numbers), name
