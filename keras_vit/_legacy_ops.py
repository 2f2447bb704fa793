"""The functions of `keras.ops` that this library uses, in TensorFlow, for tf_keras models."""

from __future__ import annotations

import tensorflow as tf

reshape = tf.reshape
transpose = tf.transpose
matmul = tf.matmul
broadcast_to = tf.broadcast_to
shape = tf.shape
cast = tf.cast
square = tf.square
sqrt = tf.sqrt
rsqrt = tf.math.rsqrt
relu = tf.nn.relu
pad = tf.pad
abs = tf.abs
exp = tf.exp
log1p = tf.math.log1p
maximum = tf.maximum
minimum = tf.minimum
floor = tf.floor
arange = tf.range
cos = tf.cos
convert_to_tensor = tf.convert_to_tensor
stack = tf.stack
log_softmax = tf.nn.log_softmax
argsort = tf.argsort
equal = tf.equal
where = tf.where


def zeros(shape, dtype="float32"):
    """As `keras.ops.zeros`."""
    return tf.zeros(shape, dtype)


def stateless_normal(shape):
    """Normal random numbers that depend only on the shape, as `keras.random.normal` with a seed."""
    return tf.random.stateless_normal(shape, seed=(0, 0))


def concatenate(tensors, axis=-1):
    """As `keras.ops.concatenate`."""
    return tf.concat(tensors, axis)


def sum(x, axis=None):
    """As `keras.ops.sum`."""
    return tf.reduce_sum(x, axis)


def argmax(x, axis=-1):
    """As `keras.ops.argmax`."""
    return tf.argmax(x, axis)


def one_hot(x, num_classes, dtype=None):
    """As `keras.ops.one_hot`."""
    return tf.one_hot(x, num_classes, dtype=dtype)


def mean(x, axis=None, keepdims=False):
    """As `keras.ops.mean`."""
    return tf.reduce_mean(x, axis, keepdims)


def einsum(equation, *operands):
    """As `keras.ops.einsum`."""
    return tf.einsum(equation, *operands)


def softmax(x, axis=-1):
    """As `keras.ops.softmax`."""
    return tf.nn.softmax(x, axis)


def take(x, indices, axis=None):
    """As `keras.ops.take`."""
    return tf.gather(x, indices, axis=axis)


def dot_product_attention(query, key, value, bias=None, scale=None, flash_attention=None):
    """As `keras.ops.dot_product_attention`; tensors are (batch, tokens, heads, head_dim).

    tf_keras has no fused attention.
    """
    logits = einsum("bqhd,bkhd->bhqk", query * tf.cast(scale, query.dtype), key)
    if bias is not None:
        logits += tf.cast(bias, logits.dtype)
    weights = tf.cast(softmax(tf.cast(logits, tf.float32)), value.dtype)
    return einsum("bhqk,bkhd->bqhd", weights, value)
