"""From patches to embeddings: projection, learned tokens, positions (paper, equation 1)."""

from __future__ import annotations

from keras_vit._checks import choice, positive_integer
from keras_vit._errors import UsageError
from keras_vit._keras import keras, ops, register
from keras_vit.layers.named_build import named_build
from keras_vit.layers.positions import add_position_weights, position_weights
from keras_vit.parts.grids import Tokens, as_grid
from keras_vit.parts.positions import POSITION_EMBEDDINGS


@register
class PatchEncoder(keras.layers.Layer):
    """Projects patches to hidden_dim, prepends the learned tokens and adds positions.

    (batch, patches, pixels) to (batch, tokens, hidden_dim); tokens = patches + 1 with a class
    token, patches + 2 with a distillation token too. Only the "learned" table has positions for
    these tokens. The position weights are attributes: `positions` for "learned", `columns` and
    `rows` for "learned2d".

    Initialisers as in the official `models_vit.py`: projection LeCun normal, learned tokens zero,
    positions N(0, 0.02).

    Args:
        hidden_dim: width of the embeddings.
        class_token: whether a learned token is prepended to the patches.
        position_embedding: a name in `POSITION_EMBEDDINGS`. Kinds that act inside attention, such
            as "relative", have no effect here.
        grid: rows and columns of patches; may be None for "learned", "relative" and "none".
        distillation_token: whether a second learned token follows the class token (DeiT).
    """

    def __init__(
        self,
        hidden_dim: int,
        class_token: bool = True,
        position_embedding: str = "learned",
        grid: tuple[int, int] | None = None,
        distillation_token: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_dim = positive_integer("hidden_dim", hidden_dim)
        self.use_class_token = class_token
        self.use_distillation_token = distillation_token
        self.position_embedding = choice(
            "position_embedding", position_embedding, tuple(POSITION_EMBEDDINGS)
        )
        self.grid = as_grid(grid)
        self._positions = POSITION_EMBEDDINGS[position_embedding]
        if self._positions.table and self._positions.needs_grid and grid is None:
            raise UsageError(f"position_embedding={position_embedding!r} needs the patches' grid.")
        self.projection = keras.layers.Dense(
            self.hidden_dim,
            kernel_initializer="lecun_normal",
            dtype=self.dtype_policy,
            name="projection",
        )
        self.class_token = self.distillation_token = None

    def build(self, input_shape):
        """Creates the projection, the learned tokens and the position weights."""
        if not self.projection.built:
            named_build(self.projection, input_shape, self.trainable)
        if self.use_class_token:
            self.class_token = self.add_weight(
                shape=(1, 1, self.hidden_dim), initializer="zeros", name="class_token"
            )
        if self.use_distillation_token:
            self.distillation_token = self.add_weight(
                shape=(1, 1, self.hidden_dim), initializer="zeros", name="distillation_token"
            )
        tokens = self._tokens(input_shape[1])
        add_position_weights(self, self._positions.weights, tokens, self.hidden_dim)
        self.built = True

    def call(self, patches):
        """Embeds `patches` (batch, patches, pixels)."""
        return self.encode(self.projection(patches))

    def encode(self, x):
        """Projected patches (batch, patches, hidden_dim) with positions and learned tokens."""
        table = self._table(x.shape[1], x.dtype)
        if table is not None and not self._positions.prefix_slots:
            x = x + table
        prefix = [
            token for token in (self.class_token, self.distillation_token) if token is not None
        ]
        if prefix:
            shape = (ops.shape(x)[0], 1, self.hidden_dim)
            prefix = [ops.broadcast_to(ops.cast(token, x.dtype), shape) for token in prefix]
            x = ops.concatenate([*prefix, x], axis=1)  # (batch, prefix + patches, hidden_dim)
        if table is not None and self._positions.prefix_slots:
            x = x + table
        return x

    def compute_output_shape(self, input_shape):
        """(batch, tokens, hidden_dim)."""
        return input_shape[0], input_shape[1] + self._prefix, self.hidden_dim

    def get_config(self):
        """The arguments that build this layer again."""
        return {
            **super().get_config(),
            "hidden_dim": self.hidden_dim,
            "class_token": self.use_class_token,
            "position_embedding": self.position_embedding,
            "grid": self.grid,
            "distillation_token": self.use_distillation_token,
        }

    @property
    def _prefix(self) -> int:
        return int(self.use_class_token) + int(self.use_distillation_token)

    def _tokens(self, patches: int) -> Tokens:
        return Tokens(self.grid or (1, patches), self._prefix)

    def _table(self, patches: int, dtype: str):
        if self._positions.table is None:
            return None
        weights = position_weights(self, self._positions.weights, dtype)
        table = self._positions.table(weights, self._tokens(patches), self.hidden_dim, ops)
        return ops.cast(table, dtype)
