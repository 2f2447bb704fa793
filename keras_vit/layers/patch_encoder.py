"""Patches to embeddings: projection, class token, positions (paper, equation 1)."""

from __future__ import annotations

from keras_vit._keras import keras, ops, register


@register
class PatchEncoder(keras.layers.Layer):
    """Projects patches to the model's width, puts the class token first and adds positions.

    (batch, patches, pixels) to (batch, tokens, hidden_dim); tokens = patches + 1 with a class
    token, which therefore has a position of its own.

    Initialisers as in the official `models_vit.py`: projection LeCun normal, class token zero,
    positions N(0, 0.02).

    Args:
        hidden_dim: width of the embeddings.
        class_token: whether a learned token stands before the patches.
        position_embedding: "learned", a vector for each position, or "none".
    """

    def __init__(
        self,
        hidden_dim: int,
        class_token: bool = True,
        position_embedding: str = "learned",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.use_class_token = class_token
        self.position_embedding = position_embedding
        self.projection = keras.layers.Dense(
            hidden_dim,
            kernel_initializer="lecun_normal",
            dtype=self.dtype_policy,
            name="projection",
        )
        self.class_token = None
        self.positions = None

    def build(self, input_shape):
        """Makes the projection, the class token and the position table."""
        if not self.projection.built:
            self.projection.build(input_shape)
        if self.use_class_token:
            self.class_token = self.add_weight(
                shape=(1, 1, self.hidden_dim), initializer="zeros", name="class_token"
            )
        if self.position_embedding == "learned":
            self.positions = self.add_weight(
                shape=self.compute_output_shape((1, *input_shape[1:])),
                initializer=keras.initializers.RandomNormal(stddev=0.02),
                name="positions",
            )
        self.built = True

    def call(self, patches):
        """Embeds `patches` (batch, patches, pixels)."""
        x = self.projection(patches)
        if self.use_class_token:
            token = ops.cast(self.class_token, x.dtype)
            token = ops.broadcast_to(token, (ops.shape(x)[0], 1, self.hidden_dim))
            x = ops.concatenate([token, x], axis=1)  # (batch, 1 + patches, hidden_dim)
        if self.positions is not None:
            x = x + ops.cast(self.positions, x.dtype)
        return x

    def compute_output_shape(self, input_shape):
        """(batch, tokens, hidden_dim)."""
        return input_shape[0], input_shape[1] + int(self.use_class_token), self.hidden_dim

    def get_config(self):
        """The arguments that build this layer again."""
        return {
            **super().get_config(),
            "hidden_dim": self.hidden_dim,
            "class_token": self.use_class_token,
            "position_embedding": self.position_embedding,
        }
