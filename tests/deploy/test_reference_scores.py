"""The reference scores of Keras are computed on the CPU in full float32, even if there is a GPU."""

import os
import subprocess
import sys

import numpy as np
import pytest

from keras_vit._keras import keras
from keras_vit.deploy.reference_scores import predict

# A second CPU plays the GPU: it is the default device. The model notes the device of each product.
DEVICES = """
import numpy as np
import tensorflow as tf
cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
from keras_vit.deploy.reference_scores import predict

def model(batch, training):
    product = tf.linalg.matmul(batch, batch, transpose_b=True)
    print(product.device)
    return product

with tf.device("CPU:1"):
    model(np.ones((2, 3), np.float32), training=False)
    predict(model, np.ones((40, 3), np.float32), batch_size=40)
"""
JAX = """
import jax
from keras_vit.deploy.reference_scores import full_precision
assert jax.config.jax_default_matmul_precision is None
with full_precision():
    print(jax.config.jax_default_matmul_precision, jax.config.jax_default_device.platform)
assert jax.config.jax_default_matmul_precision is None
"""


def printed(script, **environment) -> list[str]:
    command, whole = [sys.executable, "-c", script], os.environ | environment
    return subprocess.check_output(command, text=True, env=whole).split()


@pytest.mark.slow
def test_tensorflow_computes_on_the_cpu_although_another_device_is_the_default():
    first, second = printed(DEVICES)[-2:]
    assert first.endswith("CPU:1")
    assert second.endswith("CPU:0")


@pytest.mark.slow
def test_jax_computes_on_the_cpu_in_the_highest_precision():
    assert printed(JAX, KERAS_BACKEND="jax", TF_USE_LEGACY_KERAS="0") == ["highest", "cpu"]


@pytest.mark.flavours
def test_batched_scores_equal_those_of_the_model():
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs))
    images = np.random.default_rng(0).normal(0, 1, (70, 4)).astype(np.float32)
    expected = images @ np.asarray(model.get_weights()[0])
    np.testing.assert_allclose(predict(model, images), expected, atol=1e-5)
