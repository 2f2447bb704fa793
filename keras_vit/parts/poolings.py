"""The poolings that a ViT can have: from the encoder's output to the input of the head."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from keras_vit.parts.block import ATTENTION_ROWS, MLP_ROWS, attention, mlp
from keras_vit.parts.machine import Machine
from keras_vit.parts.rows import Row, nested, rows


@dataclasses.dataclass(frozen=True)
class Pooling:
    """A kind of pooling.

    Attributes:
        call: a function of a `Machine` and the tokens (batch, tokens, hidden_dim) that returns the
            head's input; None if the head reads every token.
        class_token: whether a learned token precedes the patches.
        distillation_token: whether a second learned token, which learns from a teacher, follows
            the class token. Then the output has one half for each of the two classifiers of a
            `DistilledHead`.
        rows: the weights, by paths in the pooling.
        width: the width of the output, in multiples of hidden_dim.
    """

    call: Callable[[Machine, Any], Any] | None
    class_token: bool
    distillation_token: bool = False
    rows: Sequence[Row] = ()
    width: int = 1

    @property
    def prefix_tokens(self) -> int:
        """The number of tokens before the patches."""
        return int(self.class_token) + int(self.distillation_token)


def _first_tokens(count: int) -> Callable[[Machine, Any], Any]:
    return lambda m, x: m.flat(m.first(x, count))


def _attention_pooling(m: Machine, x):
    """A learned probe attends to all tokens; then x + mlp(norm(x))."""
    y = m.part("attention", attention, m.constant("probe", x), x)  # (batch, 1, hidden_dim)
    return m.flat(m.add("add", y, m.part("mlp", mlp, m.norm("norm", y))))


_MAP_ROWS = [
    *rows("""
probe                probe         glorot    1 1 D
LayerNorm_0/scale    norm/gamma    ones      D
LayerNorm_0/bias     norm/beta     zeros     D
"""),
    *nested(ATTENTION_ROWS, "MultiHeadDotProductAttention_0/", "attention/"),
    *nested(MLP_ROWS, "MlpBlock_0/", "mlp/"),
]
POOLINGS: dict[str, Pooling] = {
    # The class token's output (paper, equation 4).
    "token": Pooling(_first_tokens(1), class_token=True),
    # The mean of all tokens.
    "gap": Pooling(lambda m, x: m.mean(x), class_token=False),
    # Multihead attention pooling (Zhai et al. 2022; big_vision `MAPHead`).
    "map": Pooling(_attention_pooling, class_token=False, rows=nested(_MAP_ROWS, "MAPHead_0/", "")),
    # The outputs of a class token and of a distillation token (Touvron et al. 2021, section 4).
    "distilled": Pooling(_first_tokens(2), class_token=True, distillation_token=True, width=2),
    "none": Pooling(None, class_token=True),
}
