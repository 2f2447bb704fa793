"""Patches to embeddings: projection, class token, positions (paper, equation 1)."""

from __future__ import annotations

from keras_vit._checks import choice, positive_integer
from keras_vit._errors import UsageError
from keras_vit._keras import keras, ops, register
from keras_vit.layers.named_build import named_build
from keras_vit.layers.position_tables import as_grid, sincos_2d

_POSITIONS = ("learned", "learned2d", "sincos2d", "relative", "none")


@register
class PatchEncoder(keras.layers.Layer):
    """Projects patches to the model's width, puts the class token first and adds positions.

    (batch, patches, pixels) to (batch, tokens, hidden_dim); tokens = patches + 1 with a class
    token, which has a position of its own in a "learned" table and none in the others.

    Initialisers as in the official `models_vit.py`: projection LeCun normal, class token zero,
    positions N(0, 0.02).

    Args:
        hidden_dim: width of the embeddings.
        class_token: whether a learned token stands before the patches.
        position_embedding: "learned", a vector for each position; "learned2d", half a vector for
            each column, then half for each row (paper, appendix D.4); "sincos2d", fixed waves (see
            `sincos_2d`); "none", or "relative", which is the attention's: nothing is added here.
        grid: rows and columns of patches, for "learned2d" and "sincos2d".
    """

    def __init__(
        self,
        hidden_dim: int,
        class_token: bool = True,
        position_embedding: str = "learned",
        grid: tuple[int, int] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if position_embedding in ("learned2d", "sincos2d") and grid is None:
            raise UsageError(f"position_embedding={position_embedding!r} needs the patches' grid.")
        self.hidden_dim = positive_integer("hidden_dim", hidden_dim)
        self.use_class_token = class_token
        self.position_embedding = choice("position_embedding", position_embedding, _POSITIONS)
        self.grid = as_grid(grid)
        self.projection = keras.layers.Dense(
            self.hidden_dim,
            kernel_initializer="lecun_normal",
            dtype=self.dtype_policy,
            name="projection",
        )
        self.class_token = None
        self.positions = self.columns = self.rows = None

    def build(self, input_shape):
        """Makes the projection, the class token and the position table."""
        if not self.projection.built:
            named_build(self.projection, input_shape, self.trainable)
        if self.use_class_token:
            self.class_token = self.add_weight(
                shape=(1, 1, self.hidden_dim), initializer="zeros", name="class_token"
            )
        if self.position_embedding == "learned":
            shape = self.compute_output_shape((1, *input_shape[1:]))
            self.positions = self._table("positions", shape)
        elif self.position_embedding == "learned2d":
            rows, columns = self.grid
            self.columns = self._table("columns", (columns, self.hidden_dim // 2))
            self.rows = self._table("rows", (rows, self.hidden_dim // 2))
        self.built = True

    def call(self, patches):
        """Embeds `patches` (batch, patches, pixels)."""
        x = self.projection(patches)
        if self.position_embedding == "learned2d":
            x = x + ops.cast(self._columns_and_rows(), x.dtype)
        elif self.position_embedding == "sincos2d":
            x = x + ops.cast(sincos_2d(self.grid, self.hidden_dim), x.dtype)
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
            "grid": self.grid,
        }

    def _table(self, name: str, shape: tuple[int, ...]):
        normal = keras.initializers.RandomNormal(stddev=0.02)
        return self.add_weight(shape=shape, initializer=normal, name=name)

    def _columns_and_rows(self):
        rows, columns = self.grid
        shape = (rows, columns, self.hidden_dim // 2)
        halves = [
            ops.broadcast_to(self.columns[None], shape),
            ops.broadcast_to(self.rows[:, None], shape),
        ]
        # (rows, columns, hidden_dim) to (patches, hidden_dim)
        return ops.reshape(ops.concatenate(halves, axis=-1), (rows * columns, self.hidden_dim))
