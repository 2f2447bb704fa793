"""The operations of exported graphs: TensorFlow operators for the delegates of LiteRT.

Every shape is static, tensors have at most four dimensions, and only arithmetic broadcasts. Tokens
have the shape (batch, tokens, hidden_dim).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from keras_vit.deploy.graph.graph_options import InferenceGraph
from keras_vit.deploy.graph.rewrites import STREAM_DIVISOR, wiring_of
from keras_vit.deploy.graph.wiring import PROBED
from keras_vit.encoder.block import attention
from keras_vit.encoder.ops import Ops

ACTIVATIONS = {
    "tanh": lambda x: tf.nn.gelu(x, approximate=True),
    "erf": tf.nn.gelu,
    "quick": lambda x: x * tf.sigmoid(1.702 * x),
    "silu": lambda x: x * tf.sigmoid(x),
}


class TensorFlowOps(Ops):
    """Runs parts with rewritten weights; what a rewrite has removed is left out.

    Args:
        graph: a prepared graph.
        taps: filled with the inputs of Dense layers and the outputs of blocks, by name.
    """

    scope = staticmethod(tf.name_scope)
    tanh = staticmethod(tf.nn.tanh)
    product = staticmethod(tf.multiply)

    def __init__(self, graph: InferenceGraph, taps: dict[str, tf.Tensor]):
        self.spec, self.weights, self.taps = graph.spec, graph.weights, taps
        self.rewrites = graph.options.rewrites
        self.wiring = wiring_of(graph.spec, graph.weights, graph.options.reads_patches)
        self.for_npus = graph.for_npus
        self.stream_norms = frozenset(self.wiring.stream_norms)
        self.stream_sources = self.wiring.stream_sources

    def weight(self, name: str) -> Any:
        """The weight of this name in the part; None if there is none."""
        return self.weights.get(self.path + name)

    def part(self, name, function, *values):
        if function is attention and self.weight(f"{name}/{PROBED}/kernel") is not None:
            function = _attention_of_a_constant
        return super().part(name, function, *values)

    def tap(self, name, x):
        self.taps[self.path + name] = x

    def dense(self, name, x):
        with tf.name_scope(name):
            self.tap(name, x)
            x = tf.matmul(x, self.weight(f"{name}/kernel"))
            bias = self.weight(f"{name}/bias")
            return x if bias is None else x + bias

    def norm(self, name, x):
        in_stream = self.path + name in self.stream_norms
        divided = in_stream or self.path + name in self.wiring.scalable_factors
        # The mean of centred values is zero and is not computed.
        centred = "centre" in self.rewrites and (
            in_stream or self.path + name in self.wiring.head_norms
        )
        divisor = STREAM_DIVISOR if divided and "scaled_stream" in self.rewrites else 1.0
        smooth, gamma = self.weight(f"{name}/smooth"), self.weight(f"{name}/gamma")
        with tf.name_scope(name):
            if not centred:
                x -= tf.reduce_mean(x, axis=-1, keepdims=True)
            scaled = in_stream and centred and "stream/scale" in self.weights
            unscaled = x * self.weights["stream/scale"] if scaled else x
            # A product, because files in full integers cannot have an operator for squares.
            mean_square = tf.reduce_mean(tf.multiply(unscaled, unscaled), axis=-1, keepdims=True)
            factor = tf.math.rsqrt(mean_square + self.spec.layer_norm_eps / divisor**2)
            if smooth is not None:
                # Multiplied with x, the converter would fold it into the kernels after x.
                factor *= smooth
            x *= factor
            x = x if gamma is None else x * gamma + self.weight(f"{name}/beta")
            return self._centred(x) if self.path + name in self.stream_sources else x

    def _centred(self, x):
        if "centre" not in self.rewrites:
            return x
        scale = self.weights.get("stream/scale")
        mean = tf.reduce_mean(x if scale is None else x * scale, axis=-1, keepdims=True)
        return x - (mean if scale is None else mean * (1.0 / scale))

    def scale(self, name, x):
        factors = self.weight(name)
        return x if factors is None else x * factors

    def constant(self, name, x):
        constant = self.weight(name)  # (1, n, channels)
        if constant is None or x.shape[0] == 1:
            return constant
        return tf.tile(constant, (tf.shape(x)[0], 1, 1))

    def tokens(self, x):
        return self.constant("class_token", x)

    def positions(self, x):
        return self.constant("class_position", x), self.weight("positions")

    def attend(self, query, key, value):
        # GPU delegates ignore `transpose_b`, so the keys are transposed here.
        orders = (0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)
        query, key, value = map(tf.transpose, (self._scaled(query), key, value), orders)
        logits = tf.matmul(query, key)  # (batch, heads, queries, keys)
        bias = self.weight("position_bias")  # (1, heads, tokens, tokens)
        logits = logits if bias is None else logits + bias[:, :, : query.shape[2]]
        return self.weighed(logits, value)

    def weighed(self, logits: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
        """softmax(logits) value: (batch, heads, queries, keys) to (batch, queries, width)."""
        x = tf.matmul(tf.nn.softmax(logits), value)  # (batch, heads, queries, head_dim)
        x = tf.transpose(x, (0, 2, 1, 3))
        # (batch, queries, heads, head_dim) to (batch, queries, hidden_dim)
        return tf.reshape(x, (-1, x.shape[1], x.shape[2] * x.shape[3]))

    def _scaled(self, query):
        folded = "attention_biases" in self.rewrites
        return query if folded else query * self.spec.head_dim**-0.5

    def patches(self, images):
        # The pixels of a patch are in raster order, channels last, as in the kernel.
        x, size = tf.cast(images, tf.float32), self.spec.patch_size
        rows, columns = (side // size * size for side in x.shape[1:3])
        if (rows, columns) != (x.shape[1], x.shape[2]):
            x = x[:, :rows, :columns]  # a hybrid crops what does not fill a patch
        _, height, width, channels = x.shape
        if size > 1 and self.for_npus:
            # (batch * rows, size, columns, size * channels)
            x = tf.reshape(x, (-1, size, width // size, size * channels))
            x = tf.transpose(x, (0, 2, 1, 3))  # (batch * rows, columns, size, size * channels)
        elif size > 1:
            x = tf.nn.space_to_depth(x, size)
        patches = height * width // size**2
        return tf.reshape(x, (-1, patches, size**2 * channels))  # (batch, patches, pixels)

    def heads(self, x):
        heads, dim = self.spec.num_heads, self.spec.head_dim
        return tf.reshape(x, (-1, x.shape[1], heads, dim))  # (batch, tokens, heads, head_dim)

    def rotate(self, x):
        factors = (self.weights[f"rotation/{name}"] for name in ("turned", "exchanged"))
        turned, exchanged = (factor[:, : x.shape[1]] for factor in factors)
        half = self.spec.head_dim // 2
        return x * turned + tf.concat([x[..., half:], x[..., :half]], axis=-1) * exchanged

    def activation(self, name, x):
        return ACTIVATIONS[name](x)

    def normalized(self, x):
        with tf.name_scope("normalized"):
            # As in `norm`, in half precision; the quotient does not change.
            x *= 1 / STREAM_DIVISOR
            mean_square = tf.reduce_mean(tf.multiply(x, x), axis=-1, keepdims=True)
            return x * (tf.math.rsqrt(mean_square) * x.shape[-1] ** -0.5)

    def add(self, name, x, y):
        return tf.add(x, y, name=name)

    def concat(self, parts, axis=1):
        return tf.concat(parts, axis=axis)

    def first(self, x, count):
        return x if x.shape[1] == count else x[:, :count]

    def mean(self, x):
        return tf.reduce_mean(x, axis=1)

    def flat(self, x):
        # (batch, tokens, channels) to (batch, tokens * channels)
        return tf.reshape(x, (-1, x.shape[1] * x.shape[2]))


def _attention_of_a_constant(ops: TensorFlowOps, _, keys):
    """Attention whose query is multiplied into the key's kernel: (batch, 1, hidden_dim)."""
    logits = ops._scaled(ops.dense(PROBED, keys))  # (batch, keys, heads)
    logits = tf.transpose(logits, (0, 2, 1))
    value = tf.transpose(ops.heads(ops.dense("value", keys)), (0, 2, 1, 3))
    # (batch, heads, keys) to (batch, heads, 1, keys)
    logits = tf.reshape(logits, (-1, ops.spec.num_heads, 1, keys.shape[1]))
    return ops.dense("out", ops.weighed(logits, value))
