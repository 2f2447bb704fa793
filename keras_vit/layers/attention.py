"""Multi-head attention with four named projections."""

from __future__ import annotations

from keras_vit._keras import keras, ops, register


@register
class MultiHeadAttention(keras.layers.Layer):
    """Scaled dot-product attention of queries over keys and values (paper, appendix A).

    The four projections `query`, `key`, `value` and `out` are Dense layers of (hidden_dim,
    hidden_dim) with biases; reshaped to (hidden_dim, heads, head_dim) they are the official
    `MultiHeadDotProductAttention` kernels, one to one. Initialisers: Xavier uniform on the
    two-dimensional shape, biases zero.

    The backend's fused attention is used wherever the weights are not asked for.

    Args:
        num_heads: heads; must divide the input's width.
        dropout: rate on the attention weights (0 in every published configuration).
    """

    def __init__(self, num_heads: int, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.dropout = dropout
        self.drop_weights = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.query = self.key = self.value = self.out = None

    def build(self, input_shape):
        """Makes the four projections for inputs (batch, tokens, hidden_dim)."""
        width = input_shape[-1]
        if width % self.num_heads:
            raise ValueError(f"num_heads={self.num_heads} does not divide the width {width}.")
        for name in ("query", "key", "value", "out"):
            projection = keras.layers.Dense(
                width, kernel_initializer="glorot_uniform", dtype=self.dtype_policy, name=name
            )
            projection.build((None, None, width))
            setattr(self, name, projection)
        self.built = True

    def call(self, queries, keys=None, training=None, return_attention_weights=False):
        """Attends from `queries` to `keys` (default: to themselves).

        Args:
            queries: (batch, q, hidden_dim).
            keys: (batch, k, hidden_dim), read for keys and values.
            training: whether dropout is on.
            return_attention_weights: also return the weights.

        Returns:
            (batch, q, hidden_dim); with the weights (batch, heads, q, k) if asked for.
        """
        keys = queries if keys is None else keys
        query = self._split(self.query(queries))
        key = self._split(self.key(keys))
        value = self._split(self.value(keys))
        scale = (queries.shape[-1] // self.num_heads) ** -0.5
        if return_attention_weights or (self.dropout and training is not False):
            logits = ops.einsum("bqhd,bkhd->bhqk", query * scale, key)
            weights = ops.cast(ops.softmax(ops.cast(logits, "float32")), value.dtype)
            dropped = self.drop_weights(weights, training=training)
            mixed = ops.einsum("bhqk,bkhd->bqhd", dropped, value)
        else:
            weights = None
            mixed = ops.dot_product_attention(query, key, value, scale=scale)
        # (batch, q, heads, head_dim) to (batch, q, hidden_dim)
        result = self.out(ops.reshape(mixed, (-1, queries.shape[1], queries.shape[-1])))
        return (result, weights) if return_attention_weights else result

    def get_config(self):
        """The arguments that build this layer again."""
        return {**super().get_config(), "num_heads": self.num_heads, "dropout": self.dropout}

    def _split(self, x):
        # (batch, tokens, hidden_dim) to (batch, tokens, heads, head_dim)
        return ops.reshape(x, (-1, x.shape[1], self.num_heads, x.shape[-1] // self.num_heads))
