"""The pre-norm transformer block (paper, equations 2 and 3), and the kinds of MLP it can have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras_vit.parts.machine import Machine
from keras_vit.parts.rows import Row, nested, present, rows


def transformer_block(m: Machine, x, only: int | None = None):
    """Both branches; with `only`, the block's output for the first `only` tokens.

    As in the official `Encoder1DBlock` and AugReg, dropout follows the attention's output
    projection and both layers of the MLP, and stochastic depth acts on both branches.
    """
    return mlp_branch(m, attention_branch(m, x, only))


def attention_branch(m: Machine, x, only: int | None = None):
    """Equation 2: x + attention(norm(x))."""
    queries = keys = m.norm("norm_attention", x)
    if only is not None:
        queries, x = m.first(keys, only), m.first(x, only)
    y = m.dropout("drop_attention", m.part("attention", self_attention, queries, keys))
    y = m.scale("scale_attention", y) if m.spec.layer_scale else y
    return m.add("attended", x, m.dropout("skip_attention", y))


def mlp_branch(m: Machine, x):
    """Equation 3: x + mlp(norm(x))."""
    y = m.part("mlp", mlp, m.norm("norm_mlp", x))
    y = m.scale("scale_mlp", y) if m.spec.layer_scale else y
    return m.add("output", x, m.dropout("skip_mlp", y))


def self_attention(m: Machine, queries, keys):
    """The attention of a block; with a rotation, queries and keys turn by their positions."""
    return attention(m, queries, keys, m.rotate if m.spec.rotation != "none" else None)


def attention(m: Machine, queries, keys, turn=None):
    """Multi-head attention of `queries` over `keys`, which are also the input of the values."""
    query, key = m.heads(m.dense("query", queries)), m.heads(m.dense("key", keys))
    if turn is not None:
        query, key = turn(query), turn(key)
    value = m.heads(m.dense("value", keys))
    return m.dense("out", m.attend(query, key, value))


def mlp(m: Machine, x):
    """The MLP of a block, for each token by itself."""
    return MLPS[m.spec.mlp_kind].call(m, x)


class MLPKind(NamedTuple):
    """A kind of MLP.

    Attributes:
        call: a function of a `Machine` and of x (..., hidden_dim), each token by itself.
        rows: the weights.
    """

    call: Callable[[Machine, Any], Any]
    rows: Sequence[Row]


def plain_mlp(m: Machine, x):
    """Dense, GELU, Dense, the official `MlpBlock`."""
    x = m.activation(m.spec.gelu, m.dense("dense_0", x))
    return m.dropout("drop_output", m.dense("dense_1", m.dropout("drop_hidden", x)))


PLAIN_ROWS = rows("""
Dense_0/kernel    dense_0/kernel    glorot    D M
Dense_0/bias      dense_0/bias      tiny      M
Dense_1/kernel    dense_1/kernel    glorot    M D
Dense_1/bias      dense_1/bias      tiny      D
""")
MLPS: dict[str, MLPKind] = {"plain": MLPKind(plain_mlp, PLAIN_ROWS)}


def block_rows(spec: Any) -> list[Row]:
    """The weights of a block whose options are fields of `spec`."""
    kind = nested(MLPS[spec.mlp_kind].rows, "MlpBlock_3/", "mlp/")
    return present([*_BLOCK_ROWS, *kind, *_SCALE_ROWS], spec)


def all_block_rows() -> list[Row]:
    """The weights of all blocks that there can be."""
    kinds = [row for kind in MLPS.values() for row in kind.rows]
    return [*_BLOCK_ROWS, *nested(dict.fromkeys(kinds), "MlpBlock_3/", "mlp/"), *_SCALE_ROWS]


# The fields of the spec that a block reads besides its sizes, with the values of the paper's block.
ATTENTION_OPTIONS = {"rotation": "none"}
MLP_OPTIONS = {"mlp_kind": "plain"}
BLOCK_OPTIONS = {"layer_scale": None, **ATTENTION_OPTIONS, **MLP_OPTIONS}
# Options that a file of weights shows only by its rows, with the values that they are read as.
SHOWN_BY_ROWS = {"layer_scale": 1e-5}

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
_BLOCK_ROWS = [
    *rows("""
LayerNorm_0/scale    norm_attention/gamma    ones     D
LayerNorm_0/bias     norm_attention/beta     zeros    D
LayerNorm_2/scale    norm_mlp/gamma          ones     D
LayerNorm_2/bias     norm_mlp/beta           zeros    D
"""),
    *nested(ATTENTION_ROWS, "MultiHeadDotProductAttention_1/", "attention/"),
]
# LayerScale (Touvron et al. 2021, arXiv 2103.17239). No official file has it, so keras_vit defines
# its keys.
_SCALE_ROWS = rows(
    """
LayerScale_0/scale    scale_attention    layer_scale    D
LayerScale_1/scale    scale_mlp          layer_scale    D
""",
    when="layer_scale",
)
