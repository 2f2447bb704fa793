"""Files on a GPU and in half precision, each in a process of its own."""

import numpy as np
import pytest
import tensorflow as tf

import keras_vit
from keras_vit import deploy
from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.judge.gpu import check_gpu_choice
from keras_vit.tflite import compiled_model, vulkan
from keras_vit.tflite.compiled_model import NoDeviceError, predict_in_half_precision, run_on_gpu


def test_the_chosen_driver_is_the_only_one(tmp_path, monkeypatch):
    driver = tmp_path / "some_icd.json"
    monkeypatch.setenv("VK_ICD_FILENAMES", str(driver))
    assert vulkan.vulkan_devices() == [vulkan.Vulkan({"VK_ICD_FILENAMES": str(driver)})]
    monkeypatch.delenv("VK_ICD_FILENAMES")
    monkeypatch.delenv("VK_DRIVER_FILES", raising=False)
    monkeypatch.setattr(vulkan, "_DRIVERS", ())
    monkeypatch.setattr(vulkan, "_BROWSERS", (str(tmp_path),))
    assert vulkan.vulkan_devices() == []
    with pytest.raises(UsageError, match="gpu='yes' needs a GPU. Received: no Vulkan device"):
        check_gpu_choice("yes")
    check_gpu_choice("auto")
    for name in (vulkan._SWIFTSHADER, "libvulkan.so.1"):
        (tmp_path / name).touch()
    [found] = vulkan.vulkan_devices()
    assert found.loader == str(tmp_path / "libvulkan.so.1")
    with pytest.raises(UsageError, match="gpu must be one of no, auto, yes. Received: 'maybe'"):
        check_gpu_choice("maybe")


def test_a_process_that_hangs_or_dies_is_a_refusal(sample, monkeypatch):
    if not vulkan.vulkan_devices():
        pytest.skip("no Vulkan device: neither a GPU's driver nor Chromium's SwiftShader")
    inputs = sample.images[:1, None]
    with pytest.raises(RefusedError, match="stopped after 0.1 seconds"):
        run_on_gpu(sample.file("none"), inputs, 0.1)
    monkeypatch.setattr(compiled_model.Path, "read_text", lambda *_, **__: "import os; os.abort()")
    with pytest.raises(RefusedError, match="the process was ended by signal 6"):
        run_on_gpu(sample.file("none"), inputs, 60)


@pytest.mark.slow
def test_an_operator_that_the_accelerator_does_not_take_is_named(converted, on_gpu):
    content = converted(lambda x: {"y": tf.gather_nd(x, [[0, 1], [0, 3]]) + 1}, (1, 8, 4))
    with pytest.raises(RefusedError, match="accelerator does not take GATHER_ND") as refused:
        on_gpu(content, np.ones((1, 8, 4), np.float32))
    assert "\n" not in str(refused.value)
    assert not isinstance(refused.value, NoDeviceError)


SLOW = [
    pytest.param(each, marks=pytest.mark.slow) for each in ("token", "gap", "distilled", "none")
]


@pytest.mark.parametrize("pooling", ["map", *SLOW])
def test_every_pooling_runs_in_half_precision(graph_file, pooling):
    content = graph_file(keras_vit.ViTSpec(8, 32, 2, 2, 48, pooling=pooling))
    images = np.random.default_rng(0).uniform(-1, 1, (2, 16, 24, 3)).astype(np.float32)
    expected = deploy.Runner(content).predict(images)
    found = predict_in_half_precision(content, images)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())
