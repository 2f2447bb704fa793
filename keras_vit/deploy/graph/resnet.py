"""ResNets in the exported graph: the stem of hybrids, and BiT."""

from __future__ import annotations

import tensorflow as tf

from keras_vit.deploy.graph.rewrites import STREAM_DIVISOR, standardise
from keras_vit.deploy.graph.tensorflow_ops import TensorFlowOps
from keras_vit.specs import ResNetSpec, ResNetUnit

_GROUPS = 32
_LEAST = -6e4  # near the least value of half precision


def stem(ops: TensorFlowOps, x: tf.Tensor) -> tf.Tensor:
    """A hybrid's ResNet: see `models/vit.py`."""
    x = tf.nn.relu(_group_norm(ops, "gn_root", _conv(ops, "conv_root", x, 2)))
    with tf.name_scope("pool_root"):
        x = tf.nn.max_pool2d(x, 3, 2, "SAME")
    for unit in ops.spec.stem.units:
        x = ops.part(unit.name, _unit, unit, x)
    return x


def bit(ops: TensorFlowOps, x: tf.Tensor, as_map: bool = False) -> tf.Tensor:
    """See `models/bit.py`; with `as_map`, the feature map before the pooling."""
    x = _conv(ops, "conv_root", x, 2)
    with tf.name_scope("pool_root"):
        x = tf.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
        # It changes nothing. GPU delegates merge a PAD into the MAX_POOL_2D after it, which then
        # ignores the zeros.
        x = tf.nn.max_pool2d(tf.maximum(x, _LEAST), 3, 2, "VALID")
    for unit in ops.spec.units:
        x = ops.part(unit.name, _preactivation_unit, unit, x)
    x = tf.nn.relu(_group_norm(ops, "group_norm", x))
    if as_map:
        return x
    with tf.name_scope("pooling"):
        return tf.reduce_mean(x, axis=(1, 2))


def _unit(ops: TensorFlowOps, unit: ResNetUnit, x):
    """See `layers/residual_unit.py`."""
    residual = x
    if unit.projects:
        residual = _group_norm(ops, "gn_proj", _conv(ops, "conv_proj", x, unit.strides))
    x = tf.nn.relu(_group_norm(ops, "gn1", _conv(ops, "conv1", x)))
    x = tf.nn.relu(_group_norm(ops, "gn2", _conv(ops, "conv2", x, unit.strides)))
    x = residual + _group_norm(ops, "gn3", _conv(ops, "conv3", x))
    return tf.nn.relu(x, name="output")


def _preactivation_unit(ops: TensorFlowOps, unit: ResNetUnit, x):
    """See `layers/residual_unit.py`."""
    active = tf.nn.relu(_group_norm(ops, "gn1", x))
    if unit.projects:
        x = _conv(ops, "conv_proj", active, unit.strides)
    y = _conv(ops, "conv1", active)
    y = _conv(ops, "conv2", tf.nn.relu(_group_norm(ops, "gn2", y)), unit.strides)
    y = _conv(ops, "conv3", tf.nn.relu(_group_norm(ops, "gn3", y)))
    return tf.add(x, y, name="output")


def _conv(ops: TensorFlowOps, name: str, x, strides: int = 1):
    with tf.name_scope(name):
        kernel = ops.weight(f"{name}/kernel")
        if "standardised_kernels" not in ops.rewrites:
            kernel = standardise(kernel, ops.spec, tf.reduce_mean, tf.sqrt)
        padding, size = "SAME", int(kernel.shape[0])
        if isinstance(ops.spec, ResNetSpec) and strides > 1 and size > 1:
            margin = ((size - 1) // 2,) * 2  # the same zeros on both sides
            x, padding = tf.pad(x, [(0, 0), margin, margin, (0, 0)]), "VALID"
        if strides > 1 and size == 1:
            x, strides = (x[:, ::strides, ::strides] if ops.for_npus else _thinned(x, strides)), 1
        return tf.nn.conv2d(x, kernel, strides, padding)


def _thinned(x, step: int):
    """`x[:, ::step, ::step]`.

    LiteRT's GPU accelerator computes a 1x1 kernel in int8 with strides wrongly, and XNNPACK does
    not run slices with steps.
    """
    _, height, width, channels = x.shape
    if height % step or width % step:
        x = tf.pad(x, [(0, 0), (0, -height % step), (0, -width % step), (0, 0)])
    # (batch, height / step, width / step, step * step * channels), the first of each block first
    return tf.nn.space_to_depth(x, step)[..., :channels]


def _group_norm(ops: TensorFlowOps, name: str, x):
    epsilon = 1e-5 if isinstance(ops.spec, ResNetSpec) else 1e-6
    if "standardised_kernels" in ops.rewrites:
        epsilon /= STREAM_DIVISOR**2  # the kernels before it are divided
    _, height, width, channels = x.shape
    with tf.name_scope(name):
        # (batch, positions, groups, channels of a group)
        y = tf.reshape(x, (-1, height * width, _GROUPS, channels // _GROUPS))
        y -= _group_mean(y)
        y *= tf.math.rsqrt(_group_mean(tf.multiply(y, y)) + epsilon)
        y = tf.reshape(y, (-1, height, width, channels))
        return y * ops.weight(f"{name}/gamma") + ops.weight(f"{name}/beta")


def _group_mean(x):
    # Delegates only take the mean over one axis at a time.
    return tf.reduce_mean(tf.reduce_mean(x, axis=1, keepdims=True), axis=3, keepdims=True)
