"""The whole encoder: embedding, blocks, norm, pooling (paper, equations 1 to 4)."""

from __future__ import annotations

from keras_vit.parts.block import transformer_block
from keras_vit.parts.embedding import embed
from keras_vit.parts.machine import Machine
from keras_vit.parts.poolings import POOLINGS
from keras_vit.parts.rows import rows


def encode(m: Machine, images, only: int | None = None):
    """Images, or the output of a hybrid's stem, to the input of the head.

    Args:
        m: the machine.
        images: (batch, height, width, channels).
        only: the last block computes its output only for the first `only` tokens; None for all.
    """
    depth = m.spec.depth
    x = m.part("patch_encoder", embed, images)
    for i in range(depth):
        x = m.part(f"encoderblock_{i}", transformer_block, x, only if i == depth - 1 else None)
        m.tap(f"encoderblock_{i}", x)
    x = m.norm("encoder_norm", x)
    pooling = POOLINGS[m.spec.pooling].call
    x = m.part("pooling", pooling, x) if pooling else x
    if m.spec.representation_dim:
        with m.scope("pre_logits"):
            x = m.tanh(m.dense("pre_logits", x))
    return x


NORM_ROWS = rows("""
Transformer/encoder_norm/scale    encoder_norm/gamma    ones     D
Transformer/encoder_norm/bias     encoder_norm/beta     zeros    D
""")
REPRESENTATION_ROWS = rows(
    """
pre_logits/kernel    pre_logits/kernel    lecun    D R
pre_logits/bias      pre_logits/bias      zeros    R
""",
    when="representation_dim",
)
