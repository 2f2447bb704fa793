"""The poolings that a ViT can have: from the encoder's output to the input of the head."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from keras_vit.encoder.block import ATTENTION_ROWS, PLAIN_ROWS, attention, plain_mlp
from keras_vit.encoder.embedding import token_count
from keras_vit.encoder.ops import Ops
from keras_vit.encoder.weight_rows import Row, nested, rows


@dataclasses.dataclass(frozen=True)
class Pooling:
    """A kind of pooling.

    Attributes:
        call: a function of `Ops` and the tokens (batch, tokens, hidden_dim) that returns the
            head's input; None if the head reads every token.
        tokens: the learned tokens that precede the patches, names in `TOKENS`. A
            "distillation_token" learns from a teacher.
        rows: the weights, by paths in the pooling.
        width: the width of the output, in multiples of hidden_dim.
        unread_tokens: how many of the learned tokens, the last ones, it does not read.
        two_classifiers: whether the output has one half for each of the two classifiers of a
            `DistilledHead`.
    """

    call: Callable[[Ops, Any], Any] | None
    tokens: tuple[str, ...] = ()
    rows: Sequence[Row] = ()
    width: int = 1
    unread_tokens: int = 0
    two_classifiers: bool = False

    @property
    def prefix_tokens(self) -> int:
        """The number of tokens before the patches."""
        return token_count(self.tokens)

    @property
    def averages(self) -> bool:
        """Whether it is the mean of the patches, which the last norm can follow."""
        return self.call is _patch_mean


def _first_tokens(count: int) -> Callable[[Ops, Any], Any]:
    return lambda ops, x: ops.flat(ops.first(x, count))


def _patch_mean(ops: Ops, x):
    return ops.mean(ops.rest(x, ops.spec.prefix_tokens))


def _token_and_mean(ops: Ops, x):
    return ops.concat([ops.flat(ops.first(x, 1)), _patch_mean(ops, x)], axis=-1)


def _attention_pooling(ops: Ops, x):
    """A learned probe attends to all tokens; then x + mlp(norm(x))."""
    y = ops.part("attention", attention, ops.constant("probe", x), x)  # (batch, 1, hidden_dim)
    return ops.flat(ops.add("add", y, ops.part("mlp", plain_mlp, ops.norm("norm", y))))


_MAP_ROWS = [
    *rows("""
probe                probe         glorot    1 1 D
LayerNorm_0/scale    norm/gamma    ones      D
LayerNorm_0/bias     norm/beta     zeros     D
"""),
    *nested(ATTENTION_ROWS, "MultiHeadDotProductAttention_0/", "attention/"),
    *nested(PLAIN_ROWS, "MlpBlock_0/", "mlp/"),
]
_DISTILLED = ("class_token", "distillation_token")
POOLINGS: dict[str, Pooling] = {
    # The class token's output (paper, equation 4).
    "token": Pooling(_first_tokens(1), ("class_token",)),
    # The mean of all patches.
    "gap": Pooling(_patch_mean),
    # The same, beside a class token that takes part in attention.
    "token_gap": Pooling(_patch_mean, ("class_token",), unread_tokens=1),
    # The class token and the mean of all patches, which DINOv2's classifiers read.
    "token_mean": Pooling(_token_and_mean, ("class_token",), width=2),
    # Multihead attention pooling (Zhai et al. 2022; big_vision `MAPHead`).
    "map": Pooling(_attention_pooling, rows=nested(_MAP_ROWS, "MAPHead_0/", "")),
    # The outputs of a class token and of a distillation token (Touvron et al. 2021, section 4).
    "distilled": Pooling(_first_tokens(2), _DISTILLED, width=2, two_classifiers=True),
    # The class token beside a distillation token (transformers' `DeiTForImageClassification`).
    "distilled_token": Pooling(_first_tokens(1), _DISTILLED, unread_tokens=1),
    "none": Pooling(None, ("class_token",)),
}
