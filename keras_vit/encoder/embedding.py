"""From images to tokens: patches, learned tokens, positions (paper, equation 1)."""

from __future__ import annotations

from collections.abc import Iterable

from keras_vit.encoder.ops import Ops
from keras_vit.encoder.weight_rows import Row, rows


def embed(ops: Ops, images):
    """The tokens of images: (batch, height, width, c) to (batch, prefix + patches, hidden_dim)."""
    return arrange(ops, ops.dense("projection", ops.patches(images)))


def arrange(ops: Ops, x):
    """Learned tokens, then the projected patches x (batch, patches, hidden_dim), with positions."""
    tokens = ops.tokens(x)
    of_tokens, of_patches = ops.positions(x)
    if of_patches is not None:
        x = ops.add("add", x, of_patches)
    if tokens is not None and of_tokens is not None:
        tokens = ops.add("tokens", tokens, of_tokens)
    prefix = [] if tokens is None else [tokens]
    if ops.spec.registers:
        prefix.append(ops.constant("register_tokens", x))
    return ops.concat([*prefix, x]) if prefix else x


def embedding_rows(tokens: Iterable[str]) -> list[Row]:
    """The weights of an embedding with these learned tokens."""
    return [*PROJECTION_ROWS, *(TOKENS[name] for name in tokens), *_REGISTER_ROWS]


def token_count(tokens: Iterable[str]) -> int:
    """How many learned tokens these names stand for."""
    return sum(int(TOKENS[name].shape[1]) for name in tokens)


PROJECTION_ROWS = rows("""
embedding/kernel    projection/kernel    lecun    P P I D
embedding/bias      projection/bias      zeros    D
""")
# Tokens without a meaning of their own, in which a model computes (Darcet et al. 2024, arXiv
# 2309.16588). No official file has them, so keras_vit defines their key.
_REGISTER_ROWS = rows("registers register_tokens tiny 1 G D", when="registers")
# The learned tokens that a pooling may need, in their order, the class token first; the second
# axis of the shape is their number. No official file has a distillation token, so keras_vit defines
# its key.
TOKENS = {
    row.path: row
    for row in rows("""
cls     class_token           zeros    1 1 D
dist    distillation_token    zeros    1 1 D
""")
}
