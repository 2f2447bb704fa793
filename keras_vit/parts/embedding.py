"""From images to tokens: patches, learned tokens, positions (paper, equation 1)."""

from __future__ import annotations

from keras_vit.parts.machine import Machine
from keras_vit.parts.rows import rows

# The learned tokens before the patches, in their order.
TOKENS = ("class_token", "distillation_token")


def embed(m: Machine, images):
    """The tokens of images: (batch, height, width, c) to (batch, prefix + patches, hidden_dim)."""
    return arrange(m, m.dense("projection", m.patches(images)))


def arrange(m: Machine, x):
    """Learned tokens, then the projected patches x (batch, patches, hidden_dim), with positions."""
    tokens = m.tokens(x)
    of_tokens, of_patches = m.positions(x)
    if of_patches is not None:
        x = m.add("add", x, of_patches)
    if tokens is None:
        return x
    if of_tokens is not None:
        tokens = m.add("tokens", tokens, of_tokens)
    return m.concat([tokens, x])


# No official file has a distillation token, so keras_vit defines its key.
EMBEDDING_ROWS = [
    *rows("""
embedding/kernel    projection/kernel    lecun    P P I D
embedding/bias      projection/bias      zeros    D
"""),
    *rows("cls    class_token    zeros    1 1 D", when="class_token"),
    *rows("dist    distillation_token    zeros    1 1 D", when="distillation_token"),
]
