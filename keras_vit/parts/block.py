"""The pre-norm transformer block, described once (paper, equations 2 and 3)."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras_vit.parts.machine import Machine
from keras_vit.parts.rows import nested, rows


def transformer_block(m: Machine, x, only: int | None = None):
    """Both branches; with `only`, the block's output for so many first tokens.

    As in the official `Encoder1DBlock` and AugReg, dropout follows the attention's output
    projection and both layers of the MLP, and stochastic depth acts on both branches.
    """
    return mlp_branch(m, attention_branch(m, x, only))


def attention_branch(m: Machine, x, only: int | None = None):
    """Equation 2: x + attention(norm(x))."""
    queries = keys = m.norm("norm_attention", x)
    if only is not None:
        queries, x = m.first(keys, only), m.first(x, only)
    y = m.dropout("drop_attention", m.part("attention", attention, queries, keys))
    y = m.scale("scale_attention", y) if m.spec.layer_scale else y
    return m.add("attended", x, m.dropout("skip_attention", y))


def mlp_branch(m: Machine, x):
    """Equation 3: x + mlp(norm(x))."""
    y = m.part("mlp", mlp, m.norm("norm_mlp", x))
    y = m.scale("scale_mlp", y) if m.spec.layer_scale else y
    return m.add("output", x, m.dropout("skip_mlp", y))


def attention(m: Machine, queries, keys):
    """Multi-head attention of `queries` over `keys`, which are also the input of the values."""
    query = m.heads(m.dense("query", queries))
    key = m.heads(m.dense("key", keys))
    value = m.heads(m.dense("value", keys))
    return m.dense("out", m.attend(query, key, value))


def mlp(m: Machine, x):
    """Dense, GELU, Dense, for each token by itself."""
    x = m.activation(m.spec.gelu, m.dense("dense_0", x))
    return m.dropout("drop_output", m.dense("dense_1", m.dropout("drop_hidden", x)))


class Option(NamedTuple):
    """A field of the spec that adds something to the paper's block.

    Attributes:
        off: its value without the addition.
        on: its value for a file of weights that shows the addition only by its rows.
    """

    off: Any
    on: Any


BLOCK_OPTIONS = {"layer_scale": Option(off=None, on=1e-5)}
ATTENTION_ROWS = rows("""
query/kernel    query/kernel    glorot    D H d
query/bias      query/bias      zeros     H d
key/kernel      key/kernel      glorot    D H d
key/bias        key/bias        zeros     H d
value/kernel    value/kernel    glorot    D H d
value/bias      value/bias      zeros     H d
out/kernel      out/kernel      glorot    H d D
out/bias        out/bias        zeros     D
""")
MLP_ROWS = rows("""
Dense_0/kernel    dense_0/kernel    glorot    D M
Dense_0/bias      dense_0/bias      tiny      M
Dense_1/kernel    dense_1/kernel    glorot    M D
Dense_1/bias      dense_1/bias      tiny      D
""")
# LayerScale (Touvron et al. 2021, arXiv 2103.17239). No official file has it, so keras_vit defines
# its keys.
SCALE_ROWS = rows(
    """
LayerScale_0/scale    scale_attention    layer_scale    D
LayerScale_1/scale    scale_mlp          layer_scale    D
""",
    when="layer_scale",
)
BLOCK_ROWS = [
    *rows("""
LayerNorm_0/scale    norm_attention/gamma    ones     D
LayerNorm_0/bias     norm_attention/beta     zeros    D
LayerNorm_2/scale    norm_mlp/gamma          ones     D
LayerNorm_2/bias     norm_mlp/beta           zeros    D
"""),
    *nested(ATTENTION_ROWS, "MultiHeadDotProductAttention_1/", "attention/"),
    *nested(MLP_ROWS, "MlpBlock_3/", "mlp/"),
    *SCALE_ROWS,
]
