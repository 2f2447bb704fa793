"""The operations in Keras, with the sublayers and variables of a layer."""

from __future__ import annotations

from typing import Any

from keras_vit._keras import LEGACY, keras, ops
from keras_vit.encoder.embedding import TOKENS
from keras_vit.encoder.ops import Ops

ACTIVATIONS = {
    "tanh": lambda x: keras.activations.gelu(x, approximate=True),
    "erf": lambda x: keras.activations.gelu(x, approximate=False),
    "quick": lambda x: x * keras.activations.sigmoid(1.702 * x),
    "silu": lambda x: x * keras.activations.sigmoid(x),
}


class KerasOps(Ops):
    """Runs a part with the layer that has its weights, under the names of the part's rows.

    A part inside it is a sublayer that is called, so that whoever replaces the sublayer changes the
    result.

    Args:
        layer: the layer; its attributes are also the fields of the spec.
        training: whether dropout is on.
        taps: filled with "attention", the attention scores after the softmax (batch, heads,
            queries, keys); None lets the backend use its fused attention.
    """

    def __init__(
        self, layer: Any, training: bool | None = None, taps: dict[str, Any] | None = None
    ):
        self.spec = self.layer = layer
        self.training = training
        self.taps = taps

    def part(self, name, function, *values):
        layer = getattr(self.layer, name)
        if self.taps is None or name != "attention":
            return layer(*values, training=self.training)
        y, self.taps[name] = layer(*values, training=self.training, return_attention_scores=True)
        return y

    def dense(self, name, x):
        return getattr(self.layer, name)(x)

    norm = dense

    def dropout(self, name, x):
        return getattr(self.layer, name)(x, training=self.training)

    def scale(self, name, x):
        return x * ops.cast(getattr(self.layer, name), x.dtype)

    def constant(self, name, x):
        weight = ops.cast(getattr(self.layer, name), x.dtype)
        return ops.broadcast_to(weight, (ops.shape(x)[0], *weight.shape[1:]))

    def tokens(self, x):
        tokens = [self.constant(n, x) for n in TOKENS if getattr(self.layer, n) is not None]
        return ops.concatenate(tokens, axis=1) if tokens else None

    def positions(self, x):
        return self.layer.position_tables(x)

    def attend(self, query, key, value):
        layer, scale = self.layer, query.shape[-1] ** -0.5
        bias = layer.position_bias(key.shape[1], query.dtype)
        drops = layer.dropout and self.training is not False
        if self.taps is None and not drops and not LEGACY:  # tf_keras has no fused attention
            # cuDNN has no gradients for an odd number of tokens. Within `keras.remat`, JAX finds
            # that out when it is too late to compute attention otherwise.
            fused = False if self.training and query.shape[1] % 2 else None
            mixed = ops.dot_product_attention(
                query, key, value, bias=bias, scale=scale, flash_attention=fused
            )
        else:
            logits = ops.einsum("bqhd,bkhd->bhqk", query * scale, key)
            logits = logits if bias is None else logits + bias
            scores = ops.cast(ops.softmax(ops.cast(logits, "float32")), value.dtype)
            if self.taps is not None:
                self.taps["attention"] = scores
            scores = self.dropout("drop_weights", scores) if drops else scores
            mixed = ops.einsum("bhqk,bkhd->bqhd", scores, value)
        # (batch, q, heads, head_dim) to (batch, q, hidden_dim)
        return ops.reshape(mixed, (-1, query.shape[1], query.shape[2] * query.shape[3]))

    def patches(self, images):
        return images  # the layer `Patches` has cut them

    def heads(self, x):
        heads = self.layer.num_heads
        # (batch, tokens, hidden_dim) to (batch, tokens, heads, head_dim)
        return ops.reshape(x, (-1, x.shape[1], heads, x.shape[-1] // heads))

    def rotate(self, x):
        _, count, _, dim = x.shape
        turned, exchanged = (ops.cast(f, x.dtype) for f in self.layer.rotation_factors(count, dim))
        half = dim // 2
        return x * turned + ops.concatenate([x[..., half:], x[..., :half]], axis=-1) * exchanged

    def activation(self, name, x):
        return ACTIVATIONS[name](x)

    def concat(self, parts, axis=1):
        return ops.concatenate(parts, axis=axis)

    def mean(self, x):
        return ops.mean(x, axis=1)

    def flat(self, x):
        return ops.reshape(x, (-1, x.shape[1] * x.shape[2]))  # (batch, tokens * channels)
