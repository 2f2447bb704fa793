"""The pre-norm transformer block (paper, equations 2 and 3), and the kinds of MLP it can have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras_vit.encoder.ops import Ops
from keras_vit.encoder.weight_rows import Row, nested, present, rows


def transformer_block(ops: Ops, x, only: int | None = None):
    """Both branches; with `only`, the block's output for the first `only` tokens.

    As in the official `Encoder1DBlock` and AugReg, dropout follows the attention's output
    projection and both layers of the MLP, and stochastic depth acts on both branches.
    """
    return mlp_branch(ops, attention_branch(ops, x, only))


def attention_branch(ops: Ops, x, only: int | None = None):
    """Equation 2: x + attention(norm(x))."""
    queries = keys = ops.norm("norm_attention", x)
    if only is not None:
        queries, x = ops.first(keys, only), ops.first(x, only)
    y = ops.dropout("drop_attention", ops.part("attention", self_attention, queries, keys))
    y = ops.scale("scale_attention", y) if ops.spec.layer_scale else y
    return ops.add("attended", x, ops.dropout("skip_attention", y))


def mlp_branch(ops: Ops, x):
    """Equation 3: x + mlp(norm(x))."""
    y = ops.part("mlp", mlp, ops.norm("norm_mlp", x))
    y = ops.scale("scale_mlp", y) if ops.spec.layer_scale else y
    return ops.add("output", x, ops.dropout("skip_mlp", y))


def self_attention(ops: Ops, queries, keys):
    """The attention of a block, whose queries and keys may be normalised and turned."""
    return attention(ops, queries, keys, _prepared)


def attention(ops: Ops, queries, keys, prepare=lambda ops, query, key: (query, key)):
    """Multi-head attention of `queries` over `keys`, which are also the input of the values."""
    query, key = ops.heads(ops.dense("query", queries)), ops.heads(ops.dense("key", keys))
    query, key = prepare(ops, query, key)
    value = ops.heads(ops.dense("value", keys))
    return ops.dense("out", ops.attend(query, key, value))


def _prepared(ops: Ops, query, key):
    """Queries and keys of each head, normalised, and turned by the angles of their positions."""
    if ops.spec.qk_norm:
        query, key = ops.norm("query_norm", query), ops.norm("key_norm", key)
    return (query, key) if ops.spec.rotation == "none" else (ops.rotate(query), ops.rotate(key))


def mlp(ops: Ops, x):
    """The MLP of a block, for each token by itself."""
    return MLPS[ops.spec.mlp_kind].call(ops, x)


class MLPKind(NamedTuple):
    """A kind of MLP.

    Attributes:
        call: a function of `Ops` and of x (..., hidden_dim), each token by itself.
        rows: the weights.
    """

    call: Callable[[Ops, Any], Any]
    rows: Sequence[Row]


def plain_mlp(ops: Ops, x):
    """Dense, GELU, Dense, the official `MlpBlock`."""
    hidden = ops.activation(ops.spec.activation, ops.dense("dense_0", x))
    return _mlp_output(ops, ops.dropout("drop_hidden", hidden))


def gated_mlp(ops: Ops, x):
    """activation(gate(x)) * dense_0(x), then Dense (Shazeer 2020, arXiv 2002.05202; SwiGLU)."""
    return _mlp_output(ops, _gated(ops, x))


def gated_norm_mlp(ops: Ops, x):
    """`gated_mlp` with a LayerNorm before the last Dense (Fang et al. 2023, arXiv 2303.11331)."""
    return _mlp_output(ops, ops.norm("norm", _gated(ops, x)))


def _gated(ops: Ops, x):
    gate = ops.activation(ops.spec.activation, ops.dense("gate", x))
    return ops.dropout("drop_hidden", ops.product(gate, ops.dense("dense_0", x)))


def _mlp_output(ops: Ops, x):
    return ops.dropout("drop_output", ops.dense("dense_1", x))


PLAIN_ROWS = rows("""
Dense_0/kernel    dense_0/kernel    glorot    D M
Dense_0/bias      dense_0/bias      tiny      M
Dense_1/kernel    dense_1/kernel    glorot    M D
Dense_1/bias      dense_1/bias      tiny      D
""")
# No official file has a gate or a norm here, so keras_vit defines their keys.
_GATE_ROWS = rows("""
Gate_0/kernel     gate/kernel       glorot    D M
Gate_0/bias       gate/bias         tiny      M
""")
_NORM_ROWS = rows("""
LayerNorm_0/scale    norm/gamma    ones     M
LayerNorm_0/bias     norm/beta     zeros    M
""")
MLPS: dict[str, MLPKind] = {
    "plain": MLPKind(plain_mlp, PLAIN_ROWS),
    "gated": MLPKind(gated_mlp, [*_GATE_ROWS, *PLAIN_ROWS]),
    "gated_norm": MLPKind(gated_norm_mlp, [*_GATE_ROWS, *_NORM_ROWS, *PLAIN_ROWS]),
}


def block_rows(spec: Any) -> list[Row]:
    """The weights of a block whose options are fields of `spec`."""
    kind = nested(MLPS[spec.mlp_kind].rows, "MlpBlock_3/", "mlp/")
    return present([*_BLOCK_ROWS, *kind, *_SCALE_ROWS], spec)


def all_block_rows() -> list[Row]:
    """The weights of all blocks that there can be."""
    kinds = [row for kind in MLPS.values() for row in kind.rows]
    return [*_BLOCK_ROWS, *nested(dict.fromkeys(kinds), "MlpBlock_3/", "mlp/"), *_SCALE_ROWS]


_BIASES = ("query_bias", "key_bias", "value_bias")
# The fields of the spec that a block reads besides its sizes, with the values of the paper's block.
ATTENTION_OPTIONS = {"rotation": "none", "qk_norm": False, **dict.fromkeys(_BIASES, True)}
MLP_OPTIONS = {"mlp_kind": "plain"}
BLOCK_OPTIONS = {"layer_scale": None, **ATTENTION_OPTIONS, **MLP_OPTIONS}
# Options of blocks that a file of weights shows only by its rows, with the values that they are
# read as: if it has the rows, and if not.
SHOWN_BY_ROWS = {
    "layer_scale": (1e-5, None),
    "qk_norm": (True, False),
    **dict.fromkeys(_BIASES, (True, False)),
}

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
# LayerNorm of the queries and keys of each head (Henry et al. 2020, Dehghani et al. 2023). The keys
# are those of Flax's attention.
QK_NORM_ROWS = rows(
    """
query_ln/scale    query_norm/gamma    ones     d
query_ln/bias     query_norm/beta     zeros    d
key_ln/scale      key_norm/gamma      ones     d
key_ln/bias       key_norm/beta       zeros    d
""",
    when="qk_norm",
)
SELF_ATTENTION_ROWS = [
    *(
        row._replace(when=w) if (w := row.path.replace("/", "_")) in _BIASES else row
        for row in ATTENTION_ROWS
    ),
    *QK_NORM_ROWS,
]
_BLOCK_ROWS = [
    *rows("""
LayerNorm_0/scale    norm_attention/gamma    ones     D
LayerNorm_0/bias     norm_attention/beta     zeros    D
LayerNorm_2/scale    norm_mlp/gamma          ones     D
LayerNorm_2/bias     norm_mlp/beta           zeros    D
"""),
    *nested(SELF_ATTENTION_ROWS, "MultiHeadDotProductAttention_1/", "attention/"),
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
