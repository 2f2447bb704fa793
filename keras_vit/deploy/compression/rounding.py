"""The rounding of quantised files as TensorFlow functions, for quantisation-aware training.

They round kernels like ai-edge-quantizer and activations like XNNPACK. Gradients pass straight
through the rounding (Bengio et al. 2013).
"""

from __future__ import annotations

import tensorflow as tf

from keras_vit.deploy.precisions import BLOCK, precision_of


def kernel_bits(precision: str, inputs: int) -> int:
    """The bits of a Dense kernel with this number of inputs in a file of that precision: 8 or 4.

    Kernels of four bits have blocks of 32 inputs; if 32 does not divide the inputs, they have eight
    bits.
    """
    in_four = precision_of(precision).kind("FULLY_CONNECTED") == "dynamic4"
    return 4 if in_four and inputs % BLOCK == 0 else 8


def round_kernel(kernel: tf.Tensor, bits: int, factor: float = 1.0) -> tf.Tensor:
    """A Dense kernel (inputs, outputs) as the file has it, dequantised; same shape.

    It has symmetric integers. Of eight bits, all inputs of an output share a scale; of four bits,
    `BLOCK` inputs.

    Args:
        kernel: the kernel.
        bits: 8 or 4.
        factor: a factor of the file's kernel, which the result does not have.
    """

    @tf.grad_pass_through
    def rounded(values):
        block = BLOCK if bits == 4 else values.shape[0]
        # (blocks, inputs of a block, outputs)
        blocks = tf.reshape(values * factor, (-1, block, values.shape[1]))
        largest = 2.0 ** (bits - 1) - 1
        bound = tf.reduce_max(tf.abs(blocks), axis=1, keepdims=True)
        scale = tf.maximum(bound, 1e-9) / largest
        if bits == 4:  # stored in half the bits: the mantissa of bfloat16, the range of float16
            for dtype in (tf.bfloat16, tf.float16, tf.float32):
                scale = tf.cast(scale, dtype)
        integers = tf.round(tf.math.divide_no_nan(blocks, scale))
        integers = tf.clip_by_value(integers, -largest, largest)
        return tf.reshape(integers * scale, values.shape) / factor

    return rounded(kernel)


def round_tokens(x: tf.Tensor) -> tf.Tensor:
    """Rounds activations (..., channels) as XNNPACK does at run time: int8, a range for each token.

    It is asymmetric: each row's scale and zero point follow from its smallest and largest value.
    """

    @tf.grad_pass_through
    def rounded(values):
        low = tf.minimum(tf.reduce_min(values, axis=-1, keepdims=True), 0.0)
        high = tf.maximum(tf.reduce_max(values, axis=-1, keepdims=True), 0.0)
        steps = tf.where(high > low, 255.0 / (high - low), 1.0)  # steps in one unit
        # The zero point is computed from the end of the range with the smaller error.
        from_low, from_high = -128.0 - low * steps, 127.0 - high * steps
        nearer_low = (-128.0 + low * steps) + (127.0 + high * steps) > 0.0
        zero = tf.clip_by_value(tf.round(tf.where(nearer_low, from_low, from_high)), -128.0, 127.0)
        integers = tf.clip_by_value(tf.round(values * steps) + zero, -128.0, 127.0)
        return (integers - zero) / steps

    return rounded(x)


def round_to_range(x: tf.Tensor, low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    """Rounds activations to asymmetric int8 over [low, high], which includes 0.

    Values outside the range are clipped and get no gradient.
    """
    scale = tf.maximum(high - low, 1e-9) / 255.0
    zero = tf.round(-128.0 - low / scale)

    @tf.grad_pass_through
    def rounded(values):
        return (tf.clip_by_value(tf.round(values / scale) + zero, -128.0, 127.0) - zero) * scale

    return rounded(tf.clip_by_value(x, low, high))
