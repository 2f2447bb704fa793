"""From images to tokens: patches, learned tokens, positions (paper, equation 1), perhaps a norm."""

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
    x = ops.concat([*prefix, x]) if prefix else x
    return ops.norm("norm", x) if ops.spec.embedding_norm else x


def embedding_rows(tokens: Iterable[str]) -> list[Row]:
    """The weights of an embedding with these learned tokens."""
    return [*PATCH_ROWS, *(TOKENS[name] for name in tokens), *_REGISTER_ROWS, *_NORM_ROWS]


def token_count(tokens: Iterable[str]) -> int:
    """How many learned tokens these names stand for."""
    return sum(int(TOKENS[name].shape[1]) for name in tokens)


# The fields of the spec that an embedding reads besides its sizes, with the values of the paper's.
EMBEDDING_OPTIONS = {"patch_bias": True, "embedding_norm": False, "layer_norm_eps": 1e-6}
# Those of them that a file shows only by its rows, as in `encoder/block.py`.
EMBEDDING_SHOWN_BY_ROWS = dict.fromkeys(("patch_bias", "embedding_norm"), (True, False))
PATCH_ROWS = [
    *rows("embedding/kernel    projection/kernel    lecun    P P I D"),
    *rows("embedding/bias      projection/bias      zeros    D", when="patch_bias"),
]
# LayerNorm of all tokens (CLIP, Radford et al. 2021). No official file has it, so keras_vit defines
# its keys.
_NORM_ROWS = rows(
    """
embedding_norm/scale    norm/gamma    ones     D
embedding_norm/bias     norm/beta     zeros    D
""",
    when="embedding_norm",
)
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
