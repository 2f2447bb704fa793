"""Heads with an answer for each place of an image, in place of a pooling and a classifier."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from keras_vit.encoder.weight_rows import Row, nested, rows

NO_DENSE_HEAD = "none"
# The fields of a spec that describe a dense head, with their values in a classifier.
DENSE_FIELDS: Mapping[str, Any] = MappingProxyType({
    "dense_head": NO_DENSE_HEAD, "head_cells": 1, "head_norm": False, "num_queries": 0,
    "query_blocks": 0,
})  # fmt: skip
MOST_UPSCALINGS = 8
# Of the BatchNorm; PyTorch's, with which DINOv2's heads were trained.
HEAD_NORM_EPSILON = 1e-5


@dataclasses.dataclass(frozen=True)
class DenseHead:
    """A kind of head.

    Attributes:
        task: what it is trained for; `TASKS` of `recipe.py` has those that can be trained.
        outputs: the names of the model's outputs.
        rows: the weights, by paths in the model.
        upscalings: the weights of each of its upscalings, which double rows and columns; {i} is
            their number.
        fields: those of `DENSE_FIELDS` that it has.
        classifier: the prefix of the keys of the layer that tells classes apart; "" for the task.
        none_class: whether this layer has a last class for "nothing".
    """

    task: str
    outputs: tuple[str, ...]
    rows: Sequence[Row]
    upscalings: Sequence[Row] = ()
    fields: tuple[str, ...] = ("head_cells",)
    classifier: str = ""
    none_class: bool = False

    @property
    def classes_key(self) -> str:
        """The prefix of the keys of its classifier."""
        return self.classifier or self.task

    def all_rows(self, upscalings: int = MOST_UPSCALINGS) -> list[Row]:
        """The weights with this number of upscalings."""
        each = [
            row._replace(key=row.key.format(i=i), path=row.path.format(i=i))
            for i in range(upscalings if self.upscalings else 0)
            for row in self.upscalings
        ]
        return [*self.rows, *each]


# s: `head_cells`, Q: `num_queries`, K: the classes and "nothing". No official file has such heads,
# so keras_vit defines the keys.
_LINEAR = [
    *rows(
        """
norm/scale    head_norm/gamma              ones     D
norm/bias     head_norm/beta               zeros    D
norm/mean     head_norm/moving_mean        zeros    D
norm/var      head_norm/moving_variance    ones     D
""",
        when="head_norm",
    ),
    *rows("""
kernel    head/kernel    zeros    D s s C
bias      head/bias      zeros    s s C
"""),
]
_EOMT = rows("""
queries                query_tokens/tokens    unit      1 Q D
mask/dense_0/kernel    mask_dense_0/kernel    glorot    D D
mask/dense_0/bias      mask_dense_0/bias      zeros     D
mask/dense_1/kernel    mask_dense_1/kernel    glorot    D D
mask/dense_1/bias      mask_dense_1/bias      zeros     D
mask/dense_2/kernel    mask_dense_2/kernel    glorot    D D
mask/dense_2/bias      mask_dense_2/bias      zeros     D
classes/kernel         head/kernel            zeros     D K
classes/bias           head/bias              zeros     K
""")
_EOMT_UPSCALING = rows("""
upscaling_{i}/conv_transpose/kernel    upscaling_{i}_conv_transpose/kernel    glorot    2 2 D D
upscaling_{i}/conv_transpose/bias      upscaling_{i}_conv_transpose/bias      zeros     D
upscaling_{i}/depthwise/kernel         upscaling_{i}_depthwise/kernel         glorot    3 3 1 D
upscaling_{i}/norm/scale               upscaling_{i}_norm/gamma               ones      D
upscaling_{i}/norm/bias                upscaling_{i}_norm/beta                zeros     D
""")
DENSE_HEADS: dict[str, DenseHead] = {
    # A linear layer on each patch, as in DINOv2's (with the norm) and Segmenter's linear heads.
    "linear": DenseHead(
        "segmentation",
        ("scores",),
        nested(_LINEAR, "segmentation/", ""),
        fields=("head_cells", "head_norm"),
    ),
    # Queries that the last blocks see beside the patches, each with a mask and a class (Kerssies et
    # al. 2025, arXiv 2503.19108).
    "eomt": DenseHead(
        "panoptic",
        ("masks", "classes"),
        nested(_EOMT, "panoptic/", ""),
        nested(_EOMT_UPSCALING, "panoptic/", ""),
        fields=("head_cells", "num_queries", "query_blocks"),
        classifier="panoptic/classes",
        none_class=True,
    ),
}
