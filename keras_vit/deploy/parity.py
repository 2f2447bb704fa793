"""Does the exported file say what the Keras model says? Measured on images, judged by a budget."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError, UsageError

# For each precision: the least share of images on which both must name the same class, and the
# largest difference of any score, as a share of the scores' scale.
BUDGETS = {
    "float32": (1.0, 1e-4),
    "float16": (0.99, 2e-2),
    "half precision": (0.99, 2e-2),
    "dynamic": (0.97, 2e-1),
    "int8": (0.97, 2e-1),
    "auto": (0.97, 2e-1),
    "int16x8": (0.97, 2e-1),
    "int8-full": (0.97, 5e-1),
    "int4": (0.90, 6e-1),
}
# Points of accuracy that a quantised file may lose, unless told otherwise.
_DROP, _DROPS = 0.5, {"int4": 1.5}
# Those whose scores are as good as the model's, whatever their accuracy.
_EXACT = ("float32", "float16", "half precision")
# Below this share of the scale two classes are a tie, which either may win.
_TIE = 1e-5


class ParityError(RefusedError):
    """An exported file that differs from its model by more than its precision explains."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How an exported model compares with Keras on the same inputs.

    Attributes:
        precision: a name in `BUDGETS`.
        images: how many.
        agreement: share of them on which both name the same class; None for features.
        max_difference: largest |difference| of any score.
        scale: half of what lies between the Keras model's smallest and largest score.
        cosine: least cosine of the two score vectors of an image.
        accuracy, keras_accuracy: of both, where labels are known.
        informed: whether Keras is right more often than guessing would be: else accuracy, which
            then no file can lose, judges nothing.
        rewritten: whether the graph was ours to rewrite, rather than converted as it is.
    """

    precision: str
    images: int
    agreement: float | None
    max_difference: float
    scale: float
    cosine: float
    accuracy: float | None = None
    keras_accuracy: float | None = None
    informed: bool = True
    rewritten: bool = True

    @property
    def drop(self) -> float | None:
        """Accuracy lost, in points of a hundred; None where no labels are known."""
        if self.accuracy is None:
            return None
        return 100 * (self.keras_accuracy - self.accuracy)

    def check(self, max_drop: float | None = None) -> None:
        """Raises `ParityError` where a budget is exceeded.

        Float files must give Keras' scores. Of the others the accuracy may drop by `max_drop`
        points (default: 0.5, of int4 1.5) where labels are known and Keras' accuracy tells
        something; elsewhere they must name Keras' class as often and come as near to its scores as
        `BUDGETS` says.
        """
        _check_scale(self.scale)
        if not np.isfinite(self.max_difference):
            raise ParityError(f"the {self.precision} file gives scores that are not finite.")
        if self.drop is not None and self.informed and self.precision not in _EXACT:
            self._check_drop(_DROPS.get(self.precision, _DROP) if max_drop is None else max_drop)
        else:
            self._check_scores(*BUDGETS[self.precision])

    def _check_drop(self, max_drop: float) -> None:
        if not self.drop <= max_drop + 1e-9:
            raise ParityError(
                f"the {self.precision} file may lose {max_drop:g} points of accuracy. "
                f"Received: {self.drop:.2f} ({self.keras_accuracy:.2%} to "
                f"{self.accuracy:.2%} of {self.images} images); nothing was written."
            )

    def _check_scores(self, agreement: float, difference: float) -> None:
        # On few images one near tie may fall the other way, unless the file is float32.
        allowed = math.ceil((1 - agreement) * self.images - 1e-9)
        if self.agreement is not None and round((1 - self.agreement) * self.images) > allowed:
            raise ParityError(
                f"the {self.precision} file must agree with Keras on {agreement:.1%} of "
                f"{self.images} images. Received: {self.agreement:.1%}; nothing was written."
            )
        if not self.max_difference <= difference * self.scale:
            raise ParityError(
                f"the {self.precision} file's scores may differ from Keras' by "
                f"{difference * self.scale:.3g}, {difference:g} of their scale. Received: "
                f"{self.max_difference:.3g}; nothing was written."
            )


def check_reference(scores: np.ndarray) -> None:
    """Refuses Keras' scores (n, ..., classes) where comparing with them would prove nothing.

    Raises:
        ParityError: they are not finite, or all the same.
    """
    _check_scale(_scale(scores))


def compare(
    precision: str,
    keras_scores: np.ndarray,
    scores: np.ndarray,
    targets: np.ndarray | None = None,
    features: bool = False,
) -> Verdict:
    """Compares scores (n, ..., classes) of a file with those of its model.

    Args:
        precision: of the file; decides the budget.
        keras_scores: the model's.
        scores: the file's, for the same inputs.
        targets: the true classes (n,), where they are known. Where each token has scores, they are
            not those of tokens.
        features: whether these are no scores of classes, so that there are none to agree on.

    Raises:
        UsageError: a target is no class.
    """
    ours = scores.reshape(-1, scores.shape[-1]).astype(np.float64)
    theirs = keras_scores.reshape(-1, scores.shape[-1]).astype(np.float64)
    scale = _scale(theirs)
    chosen = np.take_along_axis(theirs, ours.argmax(-1)[:, None], -1)[:, 0]
    agree = chosen >= theirs.max(-1) - _TIE * scale
    norms = np.linalg.norm(ours, axis=-1) * np.linalg.norm(theirs, axis=-1)
    directed = np.isfinite(norms) & (norms > 0)
    dots = (ours * theirs).sum(-1)
    cosines = np.divide(dots, norms, out=np.ones_like(norms), where=directed)
    known = targets is not None and scores.ndim == 2 and not features
    return Verdict(
        precision=precision,
        images=len(scores),
        agreement=None if features else float(agree.mean()),
        max_difference=float(np.abs(ours - theirs).max()),
        scale=scale,
        cosine=float(cosines.min()),
        **(_accuracies(ours, theirs, targets) if known else {}),
    )


def _scale(scores: np.ndarray) -> float:
    return float(scores.max() - scores.min()) / 2


def _check_scale(scale: float) -> None:
    if not np.isfinite(scale):
        raise ParityError(
            "Keras' own scores are not finite; the model has not been trained well. Nothing was "
            "written."
        )
    if scale == 0:
        raise ParityError(
            "Keras' scores are the same for all images and classes, so nothing can be compared "
            "(is the head still zero?); train the model first. Nothing was written."
        )


def _accuracies(ours: np.ndarray, theirs: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    count, classes = ours.shape
    if targets.shape != (count,):
        raise UsageError(f"expected {count} labels. Received: an array of shape {targets.shape}.")
    if not 0 <= targets.min() <= targets.max() < classes:
        raise UsageError(
            f"labels must lie in 0 to {classes - 1}. Received: {targets.min()} to {targets.max()}."
        )
    found, expected = (float((x.argmax(-1) == targets).mean()) for x in (ours, theirs))
    # Above what guessing reaches in all but one of a thousand draws.
    guessed = 1 / classes
    guessed += 3 * math.sqrt(guessed * (1 - guessed) / count)
    return {"accuracy": found, "keras_accuracy": expected, "informed": expected > guessed}
