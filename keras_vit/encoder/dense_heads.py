"""Heads with an answer for each place of an image, in place of a pooling and a classifier."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from keras_vit.encoder.weight_rows import Row, nested, rows

NO_DENSE_HEAD = "none"
# Of the BatchNorm; PyTorch's, with which DINOv2's heads were trained.
HEAD_NORM_EPSILON = 1e-5


@dataclasses.dataclass(frozen=True)
class DenseHead:
    """A kind of head.

    Attributes:
        task: what it is trained for, a name in `TASKS` of `recipe.py`.
        outputs: the names of the model's outputs.
        rows: the weights, by paths in the model.
    """

    task: str
    outputs: tuple[str, ...]
    rows: Sequence[Row]


# s: `head_cells`. No official file has such a head, so keras_vit defines the keys.
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
DENSE_HEADS: dict[str, DenseHead] = {
    # A linear layer on each patch, as in DINOv2's (with the norm) and Segmenter's linear heads.
    "linear": DenseHead("segmentation", ("scores",), nested(_LINEAR, "segmentation/", "")),
}
