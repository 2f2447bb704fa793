"""Running files with LiteRT, one-line errors for those that cannot run, and the tolerance."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from keras_vit import UsageError, deploy
from keras_vit._errors import RefusedError
from keras_vit._keras import keras
from keras_vit.deploy import Runner
from keras_vit.deploy.resolve import resolve
from keras_vit.tflite.runner import (
    as_source,
    changed_pixels,
    difference_of,
    runtime_tolerance,
)


def test_a_file_is_mapped_and_not_copied(converted, tmp_path):
    kernel = np.random.default_rng(0).normal(0, 1, (16, 16)).astype(np.float32)
    content = converted(lambda x: {"y": tf.matmul(x, kernel)}, (1, 16))
    (tmp_path / "m.tflite").write_bytes(content)
    runner, x = Runner(tmp_path / "m.tflite"), np.ones((1, 16), np.float32)
    maps = Path("/proc/self/maps")
    if maps.exists():  # on Linux only
        assert str(tmp_path / "m.tflite") in maps.read_text()
    # Another export may replace the file meanwhile.
    (tmp_path / "new").write_bytes(b"another file")
    (tmp_path / "new").replace(tmp_path / "m.tflite")
    np.testing.assert_array_equal(runner(x), Runner(content)(x))


def test_a_file_that_litert_cannot_prepare_is_refused_in_one_line():
    dense = keras.layers.Dense(64)
    model = keras.Sequential([keras.Input((4, 4, 3)), keras.layers.Flatten(), dense])
    kernel = np.ones((48, 64), np.float32)
    kernel[3, 5] = np.nan
    dense.set_weights([kernel, np.zeros(64)])
    content = deploy.Converter(resolve(model), ["dynamic"])("dynamic")
    with pytest.raises(RefusedError, match="LiteRT refuses the model: .*finite") as refusal:
        Runner(content)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize("content", [b"", b"no flatbuffer", b"\x1c\0\0\0TFL3" + bytes(50)])
def test_a_file_that_is_not_a_model_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "m.tflite").write_bytes(content)
    with pytest.raises(UsageError, match=r"m\.tflite is not a TFLite model") as error:
        Runner(tmp_path / "m.tflite")
    assert len(str(error.value).splitlines()) == 1


def test_masks_differ_by_the_pixels_of_the_worst_image():
    one = np.zeros((2, 4, 5), np.uint8)
    other = one.copy()
    other[1, 0, :4] = 200
    assert difference_of(one, other) == changed_pixels(one, other) == 0.2
    scores, hot = np.eye(3)[one], np.eye(3)[other.clip(0, 1)]
    assert changed_pixels(scores, hot) == 0.2
    assert difference_of(scores, 0.5 * hot) == 1


@pytest.mark.parametrize("name", ["dynamic", "int8", "int8-full", "int16x8"])
def test_kernels_that_round_differently_stay_within_the_tolerance_of_golden_json(sample, name):
    content = sample.file(name)
    runner = Runner(content)
    # golden.json always allows a thousandth of the scores.
    tolerance = max(
        runtime_tolerance(content, sample.images, runner)[0], 1e-3 * np.ptp(sample.expected) / 2
    )
    reference = Runner(content)
    reference.interpreter = Interpreter(
        **as_source(content), experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    reference.interpreter.allocate_tensors()
    found, expected = reference.predict(sample.images), runner.predict(sample.images)
    assert np.abs(found - expected).max() <= tolerance
    assert tolerance < 0.2 * np.ptp(expected)  # a wrong input must still be noticed
    assert np.abs(expected - sample.expected).max() < 0.2 * np.ptp(sample.expected)


def test_without_xnnpack_nothing_is_delegated_and_scores_are_as_near(sample):
    runner = Runner(sample.file("none"), xnnpack=False)
    names = [op["op_name"] for op in runner.interpreter._get_ops_details()]
    assert "TfLiteXNNPackDelegate" not in names
    np.testing.assert_allclose(runner.predict(sample.images), sample.expected, atol=1e-4)
