"""Text towers: from the ids of texts to vectors that are compared with those of images."""

from __future__ import annotations

from keras_vit._keras import building, keras
from keras_vit.encoder.text_spec import TextSpec
from keras_vit.layers import TokenAt, TokenEncoder, TransformerBlock
from keras_vit.models.dtypes import dtype_policy


def text_tower(spec: TextSpec, vocabulary: int, length: int | None = None) -> keras.Model:
    """A `keras.Model` in float32 of two inputs; its output are vectors (batch, projection_dim).

    The inputs are "ids", integers (batch, length), and "ends", the places (batch,) of the tokens
    that are read.

    Args:
        spec: the hyperparameters.
        vocabulary: the number of ids.
        length: tokens of each text; default: `spec.length`.
    """
    with building, dtype_policy("float32"):
        ids = keras.Input((length or spec.length,), dtype="int32", name="ids")
        ends = keras.Input((), dtype="int32", name="ends")
        x = TokenEncoder(vocabulary, spec.hidden_dim, spec.length, name="token_encoder")(ids)
        for i in range(spec.depth):
            x = TransformerBlock(
                spec.num_heads,
                spec.mlp_dim,
                spec.activation,
                spec.layer_norm_eps,
                causal=spec.causal,
                name=f"encoderblock_{i}",
            )(x)
        norm = keras.layers.LayerNormalization(epsilon=spec.layer_norm_eps, name="encoder_norm")
        x = TokenAt(name="pooling")([norm(x), ends])
        x = keras.layers.Dense(
            spec.projection_dim, use_bias=spec.projection_bias, name="projection"
        )(x)
        return keras.Model({"ids": ids, "ends": ends}, x, name="text_tower")
