"""Whether an exported file gives the Keras model's scores: measured on images, within a budget."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from keras_vit._checks import not_negative
from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.judge import significance
from keras_vit.deploy.precisions import DEFAULT_DROP, Budget, precision_named

# Of the images to which Keras gives a class, the smallest fraction to which the file gives it too;
# refused where chance does not explain less. Least of D's classes: 97% in every precision, 92% in
# int4. Below a half, a file misses the class more often than not.
CLASS_AGREEMENT = 0.5
# Two classes whose scores are closer than this fraction of the scale are a tie, which either may
# win. Float32 sums in another order differ by 2e-6 of the scale at most (C and D above).
_TIE = 1e-5
# Scores that vary from image to image by less than this fraction of their scale say nothing of the
# images: it is what the order of summation changes.
_SAME = 1e-5


class ParityError(RefusedError):
    """An exported file that differs from its model by more than its precision explains."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How an exported model compares with Keras on the same inputs.

    Attributes:
        precision: the name of a `Precision`, or "half precision".
        images: how many.
        agreement: fraction of the comparisons in which both name the same class; None for features.
        max_difference: largest |difference| of any score.
        scale: half of the distance between the Keras model's smallest and largest score.
        cosine: smallest cosine of the two score vectors of a comparison; 0 where only one of them
            is zero or one is not finite. None where Keras' are all zero.
        error: root mean square difference of the scores, as a fraction of the standard deviation of
            Keras' scores over the images (of one image: over its scores).
        comparisons: how many score vectors were compared: one for each image or, where every token
            has scores, one for each token. None: as many as images.
        accuracy, keras_accuracy: of both, where labels are known.
        majority: fraction of the images that belong to the most frequent class.
        lost, gained: images that only Keras, or only the file, got right.
        keras_classes, file_classes: how many different classes Keras and the file name; None for
            features.
        weakest_class: of the classes that Keras names, the one that the file most clearly fails to
            name: {"class", "comparisons", "agreed"}; None for features.
        informed: whether Keras' accuracy is better than always naming the most frequent class, by
            more than chance explains. Elsewhere accuracy does not count: a file that has learnt
            nothing could not lose any.
        rewritten: whether the graph was rewritten for speed, rather than converted as it is.
    """

    precision: str
    images: int
    agreement: float | None
    max_difference: float
    scale: float
    cosine: float | None
    error: float = 0.0
    comparisons: int | None = None
    accuracy: float | None = None
    keras_accuracy: float | None = None
    majority: float | None = None
    lost: int | None = None
    gained: int | None = None
    informed: bool = False
    rewritten: bool = True
    keras_classes: int | None = None
    file_classes: int | None = None
    weakest_class: dict[str, int] | None = None

    @property
    def drop(self) -> float | None:
        """Accuracy lost, in points of a hundred; None where no labels are known."""
        return None if self.accuracy is None else 100 * (self.keras_accuracy - self.accuracy)

    @property
    def largest_drop(self) -> float | None:
        """Points of accuracy: a larger drop is excluded, with a confidence of 95%."""
        if self.lost is None:
            return None
        return 100 * significance.largest_loss(self.lost, self.gained, self.images)

    def images_needed(self, max_drop: float | None = None) -> int | None:
        """How many images it takes to exclude a drop of more than `max_drop` points.

        That is for a file that loses nothing and changes as many answers as this one. None where
        no labels are known or none may be lost.
        """
        if self.lost is None:
            return None
        changed = (self.lost + self.gained) / self.images
        return significance.images_needed(changed, min(self.allowed_drop(max_drop) / 100, 0.99))

    def allowed_drop(self, max_drop: float | None = None) -> float:
        """Points of accuracy that may be lost: `max_drop`, or by default what the budget says."""
        if max_drop is not None:
            not_negative("max_drop", max_drop)
            return max_drop
        drop = precision_named(self.precision).budget.drop
        return DEFAULT_DROP if drop is None else drop

    def check(self, max_drop: float | None = None, budget: Budget | None = None) -> None:
        """Raises `ParityError` where a budget is exceeded.

        Every file must name Keras' class as often and come as near to its scores as its budget
        says. It must also name each class that Keras names in at least half of its images: a file
        that always gives one answer is refused, however rare the other classes are.
        Where labels are known and Keras' accuracy counts (see `informed`), a quantised file must
        not be proven to lose more than `max_drop` points of accuracy; as many disagreements more
        are allowed then. Proven is what chance explains in fewer than 5 of 100 cases.

        Args:
            max_drop: points of accuracy; None: 0.5, for int4 1.5.
            budget: None for that of the precision.
        """
        _check_scale(self.scale)
        if not np.isfinite(self.max_difference):
            raise ParityError(f"the {self.precision} file gives scores that are not finite.")
        budget, allowed = budget or precision_named(self.precision).budget, 0.0
        if self.informed and budget.drop is not None:
            allowed = self.allowed_drop(max_drop)
            self.check_drop(allowed)
        self._check_agreement(max(0.0, budget.agreement - allowed / 100))
        self._check_classes()
        self._check_scores(budget)

    def check_drop(self, max_drop: float) -> None:
        """Raises `ParityError` where a loss of more than `max_drop` points is proven."""
        if significance.is_proven(self.lost, self.gained, self.images, max_drop / 100):
            raise ParityError(
                f"the {self.precision} file may lose {max_drop:g} points of accuracy. Received: "
                f"{self.drop:.2f} ({self.keras_accuracy:.2%} to {self.accuracy:.2%}); of "
                f"{self.images:,} images {self.lost:,} are right in Keras alone and "
                f"{self.gained:,} in the file alone, which proves a larger loss than allowed "
                f"({significance.CONFIDENCE:.0%} confidence)."
            )

    def notes(self, max_drop: float | None = None) -> list[str]:
        """What the accuracy proves and what it leaves open, in sentences."""
        if self.accuracy is None:
            return []
        if not self.informed:
            return [
                f"not counted, because Keras is right on {self.keras_accuracy:.2%} of "
                f"{self.images:,} images and the most frequent class alone is {self.majority:.2%} "
                "of them; agreement and scores decide"
            ]
        open_ = (
            f"a drop of up to {self.largest_drop:.2f} points cannot be excluded on "
            f"{self.images:,} images ({significance.CONFIDENCE:.0%} confidence)"
        )
        needed, allowed = self.images_needed(max_drop), self.allowed_drop(max_drop)
        exact = precision_named(self.precision).budget.drop is None
        if exact or self.largest_drop <= allowed or needed is None or needed <= self.images:
            return [open_]
        return [
            f"{open_}: too few to exclude more than {allowed:g}, which takes about {needed:,} even "
            "if nothing is lost"
        ]

    def to_dict(self, max_drop: float | None = None) -> dict[str, Any]:
        """The fields and what follows from them, as plain JSON values."""
        return dataclasses.asdict(self) | {
            "drop": self.drop,
            "largest_drop": self.largest_drop,
            "max_drop": self.allowed_drop(max_drop),
            "images_needed": self.images_needed(max_drop),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Verdict:
        """The inverse of `to_dict`; KeyError where a field is missing."""
        return cls(**{field.name: values[field.name] for field in dataclasses.fields(cls)})

    def _check_agreement(self, agreement: float) -> None:
        if self.agreement is None:
            return
        count = self.comparisons or self.images
        differing = round((1 - self.agreement) * count)
        # On few images a near tie or two may fall the other way: refuse what chance cannot explain.
        chance = significance.at_least(differing, count, 1 - agreement)
        if chance >= 1 - significance.CONFIDENCE:
            return
        tokens = f" tokens of {self.images:,}" if count != self.images else ""
        raise ParityError(
            f"the {self.precision} file must agree with Keras on {agreement:.1%} of "
            f"{count:,}{tokens} images. Received: {self.agreement:.1%}."
        )

    def _check_classes(self) -> None:
        if self.agreement in (None, 1.0) or self.weakest_class is None:
            return
        if self.file_classes == 1 < self.keras_classes:
            raise ParityError(
                f"the {self.precision} file gives the same answer for all {self.images:,} images, "
                f"where Keras names {self.keras_classes} classes."
            )
        count, agreed = self.weakest_class["comparisons"], self.weakest_class["agreed"]
        chance = significance.at_least(count - agreed, count, 1 - CLASS_AGREEMENT)
        if chance < 1 - significance.CONFIDENCE:
            raise ParityError(
                f"the {self.precision} file must name each class as Keras does in at least "
                f"{CLASS_AGREEMENT:.0%} of the cases. Received: {agreed} of {count} for class "
                f"{self.weakest_class['class']}."
            )

    def _check_scores(self, budget: Budget) -> None:
        if math.isinf(self.error):
            raise ParityError(_ALL_SAME)
        if not self.error <= budget.error:
            raise ParityError(
                f"the {self.precision} file's scores must follow Keras' from image to image, with "
                f"an error of at most {budget.error:g} of their standard deviation over "
                f"{self.images:,} images. Received: {self.error:.3g} (the same scores for all "
                "images have 1)."
            )
        if not self.max_difference <= budget.difference * self.scale:
            raise ParityError(
                f"the {self.precision} file's scores may differ from Keras' by "
                f"{budget.difference * self.scale:.3g}, {budget.difference:g} of their scale. "
                f"Received: {self.max_difference:.3g}."
            )


def check_reference(scores: np.ndarray) -> None:
    """Refuses Keras' scores (n, ..., classes) where comparing with them would prove nothing.

    Raises:
        ParityError: they are not finite, or the same for all images.
    """
    scale = _scale(scores)
    _check_scale(scale)
    if _variation(_rows(scores)) <= _SAME * scale:
        raise ParityError(_ALL_SAME)


def compare(
    precision: str,
    reference: np.ndarray,
    candidate: np.ndarray,
    targets: np.ndarray | None = None,
    features: bool = False,
) -> Verdict:
    """Compares scores (n, ..., classes) of a file with those of its model.

    Args:
        precision: of the file: the name of a `Precision`.
        reference: the Keras model's scores.
        candidate: the file's, for the same inputs.
        targets: the true classes (n,), where they are known. Where each token has scores, they are
            not used: they are classes of images.
        features: whether these are not scores of classes, so that there are none to agree on.

    Raises:
        UsageError: the precision is unknown, the shapes differ, or a target is not a class.
    """
    reference, candidate = np.asarray(reference), np.asarray(candidate)
    targets = None if targets is None else np.asarray(targets)
    precision_named(precision)
    if reference.shape != candidate.shape or reference.ndim < 2 or not reference.size:
        raise UsageError(
            "expected scores (n, ..., classes) of the same inputs. Received: reference "
            f"{reference.shape}, candidate {candidate.shape}."
        )
    expected, actual = _rows(reference), _rows(candidate)
    scale = _scale(expected)
    chosen = np.take_along_axis(expected, actual.argmax(-1)[:, None], -1)[:, 0]
    agree = chosen >= expected.max(-1) - _TIE * scale
    known = targets is not None and reference.ndim == 2 and not features
    return Verdict(
        precision=precision,
        images=len(reference),
        agreement=None if features else float(agree.mean()),
        max_difference=float(np.abs(actual - expected).max()),
        scale=scale,
        cosine=_cosine(expected, actual),
        error=_error(expected, actual, scale),
        comparisons=len(expected),
        **({} if features else _classes(expected, actual, agree)),
        **(_accuracies(expected, actual, targets) if known else {}),
    )


def _rows(scores: np.ndarray) -> np.ndarray:
    return scores.reshape(-1, scores.shape[-1]).astype(np.float64)  # (comparisons, classes)


def _scale(scores: np.ndarray) -> float:
    return float(scores.max() - scores.min()) / 2


def _variation(rows: np.ndarray) -> float:
    """The standard deviation of scores over the images; of one image, over its scores."""
    return float(np.sqrt(rows.var(axis=0, ddof=1).mean())) if len(rows) > 1 else float(rows.std())


def _error(expected: np.ndarray, actual: np.ndarray, scale: float) -> float:
    variation = _variation(expected)
    if variation <= _SAME * scale:
        return math.inf
    return float(np.sqrt(np.mean((actual - expected) ** 2))) / variation


def _cosine(expected: np.ndarray, actual: np.ndarray) -> float | None:
    lengths = [np.linalg.norm(rows, axis=-1) for rows in (expected, actual)]
    both_zero = (lengths[0] == 0) & (lengths[1] == 0)  # equal, but without a direction
    norms = lengths[0] * lengths[1]
    directed = np.isfinite(norms) & (norms > 0)
    dots = (expected * actual).sum(-1)
    cosines = np.divide(dots, norms, out=np.zeros_like(norms), where=directed)[~both_zero]
    return float(cosines.min()) if len(cosines) else None


_ALL_SAME = (
    "Keras' scores are the same for all images, so nothing can be compared (is the head still "
    "zero?); train the model first."
)


def _check_scale(scale: float) -> None:
    if not np.isfinite(scale):
        raise ParityError("Keras' own scores are not finite; the model has not been trained well.")
    if scale == 0:
        raise ParityError(_ALL_SAME)


def _classes(expected: np.ndarray, actual: np.ndarray, agree: np.ndarray) -> dict[str, Any]:
    named = expected.argmax(-1)
    counts = np.bincount(named, minlength=expected.shape[-1])
    agreed = np.bincount(named[agree], minlength=expected.shape[-1])
    classes = np.flatnonzero(counts)
    weakest = min(
        classes,
        key=lambda c: significance.at_least(counts[c] - agreed[c], counts[c], 1 - CLASS_AGREEMENT),
    )
    return {
        "keras_classes": len(classes),
        "file_classes": len(np.unique(actual.argmax(-1))),
        "weakest_class": {
            "class": int(weakest),
            "comparisons": int(counts[weakest]),
            "agreed": int(agreed[weakest]),
        },
    }


def _accuracies(expected: np.ndarray, actual: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    count, classes = expected.shape
    if targets.shape != (count,) or targets.dtype.kind not in "iu":
        raise UsageError(
            f"expected {count} labels, integers. Received: {targets.dtype} {targets.shape}."
        )
    if not 0 <= targets.min() <= targets.max() < classes:
        raise UsageError(
            f"labels must lie in 0 to {classes - 1}. Received: {targets.min()} to {targets.max()}."
        )
    keras, file = (rows.argmax(-1) == targets for rows in (expected, actual))
    majority = float(np.bincount(targets).max() / count)
    chance = significance.at_least(int(keras.sum()), count, majority)
    return {
        "accuracy": float(file.mean()),
        "keras_accuracy": float(keras.mean()),
        "majority": majority,
        "lost": int((keras & ~file).sum()),
        "gained": int((file & ~keras).sum()),
        "informed": chance < 1 - significance.CONFIDENCE,
    }
