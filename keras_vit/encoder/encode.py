"""The whole encoder: embedding, blocks, norm, pooling (paper, equations 1 to 4)."""

from __future__ import annotations

from keras_vit.encoder.block import transformer_block
from keras_vit.encoder.embedding import embed
from keras_vit.encoder.ops import Ops
from keras_vit.encoder.poolings import POOLINGS
from keras_vit.encoder.weight_rows import rows


def encode(ops: Ops, images, only: int | None = None, as_map: bool = False):
    """Images, or the output of a hybrid's stem, to the input of the head.

    Args:
        ops: the operations.
        images: (batch, height, width, channels).
        only: the last block computes its output only for the first `only` tokens; None for all.
        as_map: whether to stop before the pooling, with the patches (batch, patches, hidden_dim).
    """
    depth, queries = ops.spec.depth, ops.spec.num_queries
    x = ops.part("patch_encoder", embed, images)
    for i in range(depth):
        if queries and i == depth - ops.spec.query_blocks:
            x = ops.part("query_tokens", after_queries, x)
        x = ops.part(f"encoderblock_{i}", transformer_block, x, only if i == depth - 1 else None)
        ops.tap(f"encoderblock_{i}", x)
    x = x if ops.spec.norm_after_pooling else ops.norm("encoder_norm", x)
    if as_map:
        return ops.rest(x, queries + ops.spec.prefix_tokens)
    pooling = POOLINGS[ops.spec.pooling].call
    x = ops.part("pooling", pooling, x) if pooling else x
    x = ops.norm("encoder_norm", x) if ops.spec.norm_after_pooling else x
    if ops.spec.representation_dim:
        with ops.scope("pre_logits"):
            x = ops.tanh(ops.dense("pre_logits", x))
    x = ops.dense("projection", x) if ops.spec.projection_dim else x
    return ops.normalized(x) if ops.spec.normalized_features else x


def after_queries(ops: Ops, x):
    """EoMT's queries, then all other tokens."""
    return ops.concat([ops.constant("tokens", x), x])


NORM_ROWS = rows("""
Transformer/encoder_norm/scale    encoder_norm/gamma    ones     D
Transformer/encoder_norm/bias     encoder_norm/beta     zeros    D
""")
REPRESENTATION_ROWS = rows(
    """
pre_logits/kernel    pre_logits/kernel    lecun    F R
pre_logits/bias      pre_logits/bias      zeros    R
""",
    when="representation_dim",
)
# To the space that images share with texts (CLIP, Radford et al. 2021). No official file has it, so
# keras_vit defines its key.
PROJECTION_ROWS = rows("projection/kernel projection/kernel lecun F E", when="projection_dim")
