"""Running files with LiteRT, and one-line errors for files that cannot run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_vit import UsageError, deploy
from keras_vit._errors import RefusedError
from keras_vit._keras import keras
from keras_vit.deploy import Runner
from keras_vit.deploy.resolve import resolve


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
