"""From patches to embeddings: projection, learned tokens, positions (paper, equation 1), norm."""

from __future__ import annotations

from keras_vit._checks import choice, positive_integer
from keras_vit._errors import UsageError
from keras_vit._keras import ops, register
from keras_vit.encoder.embedding import (
    EMBEDDING_OPTIONS,
    TOKENS,
    arrange,
    embed,
    embedding_rows,
    token_count,
)
from keras_vit.encoder.patch_grids import Tokens, as_grid
from keras_vit.encoder.positions import POSITION_EMBEDDINGS
from keras_vit.encoder.weight_rows import present
from keras_vit.layers.base import (
    ConfiguredLayer,
    add_position_weights,
    build_rows,
    position_weights,
)
from keras_vit.layers.keras_ops import KerasOps


@register
class PatchEncoder(ConfiguredLayer):
    """Projects patches to hidden_dim, prepends the learned tokens and adds positions.

    (batch, patches, pixels) to (batch, tokens, hidden_dim); before the patches there may be a class
    token, a distillation token and registers, in this order. Only the "learned" table has positions
    for the first two, and none has them for registers. The position weights are attributes:
    `positions` for "learned", `columns` and `rows` for "learned2d".

    Initialisers as in the official `models_vit.py`: projection LeCun normal, learned tokens zero,
    positions N(0, 0.02). Registers: N(0, 1e-6), as in DINOv2.

    Args:
        hidden_dim: width of the embeddings.
        class_token: whether a learned token is prepended to the patches.
        position_embedding: a name in `POSITION_EMBEDDINGS`. Kinds that act inside attention, such
            as "relative", have no effect here.
        grid: rows and columns of patches; may be None for "learned", "relative" and "none".
        distillation_token: whether a second learned token follows the class token (DeiT).
        registers: number of learned tokens without positions.
        kwargs: other names in `TOKENS` as booleans; `patch_bias`, `embedding_norm` and
            `layer_norm_eps`, as in `ViTSpec`; and the arguments of a Keras layer.
    """

    options = EMBEDDING_OPTIONS

    def __init__(
        self,
        hidden_dim: int,
        class_token: bool = True,
        position_embedding: str = "learned",
        grid: tuple[int, int] | None = None,
        distillation_token: bool = False,
        registers: int = 0,
        **kwargs,
    ):
        tokens = {name: kwargs.pop(name, False) for name in TOKENS}
        tokens |= {"class_token": class_token, "distillation_token": distillation_token}
        super().__init__(**kwargs)
        self.hidden_dim = positive_integer("hidden_dim", hidden_dim)
        self.learned_tokens = [name for name in TOKENS if tokens[name]]
        self.registers = registers
        self.position_embedding = choice(
            "position_embedding", position_embedding, POSITION_EMBEDDINGS
        )
        self.grid = as_grid(grid)
        self._positions = POSITION_EMBEDDINGS[position_embedding]
        if self._positions.table and self._positions.needs_grid and grid is None:
            raise UsageError(f"position_embedding={position_embedding!r} needs the patches' grid.")
        self.projection = None
        for name in TOKENS:
            setattr(self, name, None)

    def build(self, input_shape):
        """Creates the projection, the learned tokens and the position weights."""
        own = present(embedding_rows(self.learned_tokens), self)
        # The pixels of a patch are one axis here.
        own = [row._replace(shape=[size for size in row.shape if size != "P"]) for row in own]
        build_rows(self, own, I=input_shape[-1], D=self.hidden_dim, G=self.registers)
        tokens = self._tokens(input_shape[1])
        add_position_weights(self, self._positions.weights, tokens, self.hidden_dim)
        self.built = True

    def call(self, patches):
        """Embeds `patches` (batch, patches, pixels)."""
        return embed(KerasOps(self), patches)

    def encode(self, x):
        """Projected patches (batch, patches, hidden_dim) with positions and learned tokens."""
        return arrange(KerasOps(self), x)

    def position_tables(self, x):
        """The positions of the learned tokens and of the patches x, each None if absent."""
        kind = self._positions
        if kind.table is None:
            return None, None
        weights = position_weights(self, kind.weights, x.dtype)
        table = kind.table(weights, self._tokens(x.shape[1]), self.hidden_dim, ops)
        table = ops.cast(table, x.dtype)  # (1, patches or tokens, hidden_dim)
        prefix = self._tokens(x.shape[1]).prefix_positions if kind.prefix_slots else 0
        return (table[:, :prefix], table[:, prefix:]) if prefix else (None, table)

    def compute_output_shape(self, input_shape):
        """(batch, tokens, hidden_dim)."""
        return input_shape[0], input_shape[1] + self._prefix, self.hidden_dim

    def get_config(self):
        """The arguments; the attributes with the names of tokens are weights, not booleans."""
        return {**super().get_config(), **{name: name in self.learned_tokens for name in TOKENS}}

    @property
    def _prefix(self) -> int:
        return token_count(self.learned_tokens) + self.registers

    def _tokens(self, patches: int) -> Tokens:
        return Tokens(self.grid or (1, patches), self._prefix, self.registers)
