"""The kinds of MLP that a block can have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras_vit.parts.machine import Machine
from keras_vit.parts.rows import Row, rows


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
