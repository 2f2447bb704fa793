"""How a file compares with its model, and the budgets that refuse it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from keras_vit._checks import not_negative
from keras_vit._errors import UsageError
from keras_vit._json import Amount, Text
from keras_vit.deploy.graph.graph_options import is_mask
from keras_vit.deploy.judge import significance
from keras_vit.deploy.precisions import DEFAULT_DROP, Budget, precision_named
from keras_vit.deploy.reference_scores import ALL_SAME, ParityError, check_scale
from keras_vit.neighbours import NEIGHBOURS

# For each class: of the images that Keras assigns to it, the fraction that the file must assign to
# it too. Below a half, the file misses the class more often than not. A file is refused only if
# chance does not explain a smaller fraction. The smallest of D's classes: 97%, in int4 92%.
CLASS_AGREEMENT = 0.5
# The mean IoU of a file's masks with Keras', on too few images to know how it varies: a class of a
# few pixels may lower that of a good file. On one to seven scenes it was 0.86 or more.
_FEW_OVERLAP = 0.75
# Of the pixels of one image as many times more than of all images may have another class than
# Keras. The worst of 500 scenes: int8 4%, int4 14%, where budgets are 5% and 20% of all pixels.
_WORST_IMAGE, _MOST_CHANGED = 4, 0.5
# In half precision on the CPU. It was measured like the budgets in `precisions`: D: 100%, 0.0010,
# 0.0004. R: 100%, 0.0010, 0.0015.
HALF_PRECISION = Budget(0.99, 2e-2, 1e-2, None)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How an exported model compares with Keras on the same inputs.

    Attributes:
        precision: the name of a `Precision`, or "half precision".
        images: number of images.
        agreement: fraction of the comparisons in which both predict the same class; None for
            features.
        max_difference: largest |difference| of any score; of class maps the largest fraction of an
            image's pixels that have another class.
        scale: half of the difference between the Keras model's largest and smallest score; 1 of
            class maps.
        cosine: smallest cosine of the two score vectors of a comparison; 0 if only one of them is
            zero or if one is not finite. None if all of Keras' scores are zero, of one score, and
            of masks.
        error: root mean square difference of the scores, as a fraction of the standard deviation of
            Keras' scores over the images (of one image: over its scores); 0 of class maps.
        comparisons: number of compared score vectors: one for each image or, if every token or
            pixel of a mask has scores, one for each of these. None: the number of images.
        recall: of features, the part of each image's ten nearest others by Keras' that are also
            among the ten nearest by the file's; of feature maps, the same of 2,000 of the patches.
            None for classes and for fewer than 40 images or patches.
        accuracy, keras_accuracy: accuracies of the file and of Keras; None without labels. Those of
            features are of the vote of the ten nearest other images (`neighbours.shares`), those of
            masks of the pixels.
        mean_iou, keras_mean_iou: of masks, the mean IoU of the file and of Keras' scores of all
            pixels; None without masks to compare with. They are judged instead of the accuracies.
        drop_bounds: of masks, the points of mean IoU between which the drop is with a confidence of
            95% on each side (`significance.bounds_of`); None if there are too few images.
        overlap: of masks, the mean IoU of the file's with Keras': unlike in `agreement`, every
            class counts the same.
        largest_overlap: the images exclude a larger one with a confidence of 95%; None if there are
            too few images.
        majority: the accuracy, or of masks the mean IoU, of always naming the most frequent class.
        lost, gained: images that only Keras, or only the file, got right; None for masks.
        keras_classes, file_classes: how many different classes Keras and the file predict; None
            for features.
        weakest_class: the class of Keras' predictions on which the file agrees least clearly:
            {"class", "comparisons", "agreed"}; None for features. Of masks its pixels are those
            that Keras or the file gives the class.
        informed: whether Keras is more accurate than always predicting the most frequent class, by
            more than chance explains. Otherwise accuracy is not used: there is none to lose.
        output: what was compared, as `GraphOptions.output`.
        rewritten: whether the graph was rewritten for speed; otherwise it was converted as it is.
        note: why the graph was not rewritten; "" if it was.
    """

    precision: str
    images: Amount
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
    note: Text = ""
    recall: float | None = None
    mean_iou: float | None = None
    keras_mean_iou: float | None = None
    drop_bounds: tuple[float, float] | None = None
    overlap: float | None = None
    largest_overlap: float | None = None
    output: Text = "logits"

    def __str__(self) -> str:
        figures = [f"{self.images:,} images"]
        if (grade := grade_of(vars(self))) is not None:
            figures.append(f"{grade.metric} {grade.file:.2%} (Keras {grade.keras:.2%})")
        if self.agreement is not None:
            pixels = " of the pixels" if self.of_pixels else ""
            figures.append(f"the class of Keras on {self.agreement:.2%}{pixels}")
        if self.overlap is not None:
            figures.append(f"mean IoU with Keras' masks {self.overlap:.2%}")
        if self.recall is not None:
            what = "images" if self.comparisons in (None, self.images) else "patches"
            figures.append(f"{self.recall:.2%} of Keras' {NEIGHBOURS} nearest {what}")
        difference, scale = f"{self.max_difference:.2g}", f"{self.scale:.2g}"
        if self.is_class_map:
            figures.append(f"in an image on at least {1 - self.max_difference:.2%}")
        else:
            figures.append(f"largest difference of a score {difference} on a scale of {scale}")
        if self.keras_classes == 1 < self.images:
            figures.append("and Keras names one class only, so agreement proves little")
        return f"{self.precision}: {', '.join(figures)}"

    @property
    def is_class_map(self) -> bool:
        """Whether classes of pixels were compared, without scores."""
        return self.output == "class_map"

    @property
    def of_pixels(self) -> bool:
        """Whether the comparisons are of pixels of masks."""
        return is_mask(self.output)

    @property
    def drop(self) -> float | None:
        """Accuracy or mean IoU lost, in percentage points; None without labels."""
        grade = grade_of(vars(self))
        return grade and grade.drop

    @property
    def largest_drop(self) -> float | None:
        """The images exclude a larger drop than this, in points, with a confidence of 95%."""
        if self.mean_iou is not None:
            return max(self.drop_bounds[1], 0.0) if self.drop_bounds else 100.0
        if self.lost is None:
            return None
        return 100 * significance.largest_loss(self.lost, self.gained, self.images)

    def images_needed(self, max_drop: float | None = None) -> int | None:
        """How many images are needed to exclude a drop of more than `max_drop` points.

        This assumes a file that loses nothing and changes as many predictions as this one. None
        without labels or if no loss is allowed.
        """
        if self.drop_bounds:
            allowed, width = self.allowed_drop(max_drop), self.drop_bounds[1] - self.drop
            return math.ceil(self.images * (width / allowed) ** 2) if allowed else None
        if self.lost is None:
            return None
        changed = (self.lost + self.gained) / self.images
        return significance.images_needed(changed, min(self.allowed_drop(max_drop) / 100, 0.99))

    def allowed_drop(self, max_drop: float | None = None) -> float:
        """Points of accuracy that may be lost: `max_drop`, or the budget's if it is None."""
        if max_drop is not None:
            return not_negative("max_drop", max_drop)
        drop = precision_named(self.precision).budget.drop
        return DEFAULT_DROP if drop is None else drop

    def check(self, max_drop: float | None = None, budget: Budget | None = None) -> None:
        """Raises `ParityError` if a budget is exceeded.

        The budget limits disagreements with Keras' classes, of masks also the mean IoU with Keras'
        masks, and differences from its scores. For
        each class that Keras predicts, the file must also agree on at least half of the images: a
        file that always predicts one class is refused, even if the other classes are rare.
        If labels are known and accuracy is used (see `informed`), a quantised file, and every file
        of masks, is also refused if the images prove that it loses more than `max_drop` points; in
        return, `max_drop` percent more disagreements are allowed of quantised files. Proven means:
        chance explains it in fewer than 5 of 100 cases.

        Args:
            max_drop: points of accuracy; None for the precision's own limit, `Budget.drop`.
            budget: None for the budget of the precision.
        """
        check_scale(self.scale, self.comparisons or self.images)
        if not np.isfinite(self.max_difference):
            raise ParityError(f"the {self.precision} file gives scores that are not finite.")
        # Of masks the resolution may lose some, also in float files.
        of_masks = self.mean_iou is not None and budget is None
        budget, allowed = budget or precision_named(self.precision).budget, 0.0
        if self.informed and (budget.drop is not None or of_masks):
            allowed = self.allowed_drop(max_drop)
            self.check_drop(allowed)
        drop = 0.0 if budget.drop is None else allowed
        agreement = max(0.0, budget.agreement - drop / 100)
        self._check_agreement(agreement)
        self._check_overlap(agreement)
        self._check_classes()
        self._check_scores(budget)

    def check_drop(self, max_drop: float) -> None:
        """Raises `ParityError` if the images prove a loss of more than `max_drop` points."""
        if self.mean_iou is not None:
            self._check_mean_iou(max_drop)
        elif significance.is_proven(self.lost, self.gained, self.images, max_drop / 100):
            raise ParityError(
                f"the {self.precision} file may lose {max_drop:g} points of accuracy. Received: "
                f"{self.drop:.2f} ({self.keras_accuracy:.2%} to {self.accuracy:.2%}); of "
                f"{self.images:,} images only Keras is right on {self.lost:,} and only the file on "
                f"{self.gained:,}, which proves a larger loss than allowed "
                f"({significance.CONFIDENCE:.0%} confidence)."
            )

    def _check_mean_iou(self, max_drop: float) -> None:
        if self.drop_bounds and self.drop_bounds[0] > max_drop:
            raise ParityError(
                f"the {self.precision} file may lose {max_drop:g} points of mean IoU. Received: "
                f"{self.drop:.2f} ({self.keras_mean_iou:.2%} to {self.mean_iou:.2%}); "
                f"{self.images:,} images prove a loss of {self.drop_bounds[0]:.2f} points or more "
                f"({significance.CONFIDENCE:.0%} confidence)."
            )

    def notes(self, max_drop: float | None = None) -> list[str]:
        """Why the graph was not rewritten, and which loss of accuracy the images exclude."""
        graph = [f"converted as it is, without exact rewrites: {self.note}"] if self.note else []
        return graph + self.accuracy_notes(max_drop)

    def accuracy_notes(self, max_drop: float | None = None) -> list[str]:
        """Sentences that say which loss of accuracy the images exclude; none without labels."""
        if self.lost is None and self.mean_iou is None:  # older files have the accuracies alone
            return []
        grade = grade_of(vars(self))
        if not self.informed:
            found = f"Keras is right on {grade.keras:.2%} of {self.images:,} images"
            if self.mean_iou is not None:
                found = f"Keras' mean IoU is {grade.keras:.2%} on {self.images:,} images"
            return [
                f"not judged: {found}, not clearly more than always naming the most frequent class "
                f"({self.majority:.2%}); agreement and scores are judged instead"
            ]
        if self.mean_iou is not None and self.drop_bounds is None:
            return [
                f"no drop can be excluded on {self.images:,} images: it takes "
                f"{significance.FEWEST} or more"
            ]
        of_what = " of mean IoU" if self.mean_iou is not None else ""
        excluded = (
            f"a drop of up to {self.largest_drop:.2f} points{of_what} cannot be excluded on "
            f"{self.images:,} images ({significance.CONFIDENCE:.0%} confidence)"
        )
        needed, allowed = self.images_needed(max_drop), self.allowed_drop(max_drop)
        exact = precision_named(self.precision).budget.drop is None
        if exact or self.largest_drop <= allowed or needed is None or needed <= self.images:
            return [excluded]
        return [
            f"{excluded}: too few to exclude more than {allowed:g}, which takes about {needed:,} "
            "even if nothing is lost"
        ]

    def to_dict(self, max_drop: float | None = None) -> dict[str, Any]:
        """The fields and the properties that are derived from them, as plain JSON values."""
        return dataclasses.asdict(self) | {
            "drop": self.drop,
            "largest_drop": self.largest_drop,
            "max_drop": self.allowed_drop(max_drop),
            "images_needed": self.images_needed(max_drop),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Verdict:
        """The inverse of `to_dict`; a field that an older file lacks has its default.

        Raises:
            UsageError: only some of the figures that need labels are known.
        """
        verdict = msgspec.convert(values, cls)
        labelled = ("accuracy", "keras_accuracy", "majority", "lost", "gained")
        known = tuple(name for name in labelled if getattr(verdict, name) is not None)
        # Older files have the first two, and those of masks have no images that are right or wrong.
        if known not in ((), labelled[:2], labelled[:3], labelled):
            raise UsageError(
                f"expected all of {', '.join(labelled)}, or none. Received: {', '.join(known)}."
            )
        return verdict

    def _check_agreement(self, agreement: float) -> None:
        if self.agreement is None:
            return
        count = self.comparisons or self.images
        differing = round((1 - self.agreement) * count)
        # On few images, one or two near ties may be decided differently by chance.
        chance = significance.at_least(differing, count, 1 - agreement)
        if chance >= 1 - significance.CONFIDENCE:
            return
        parts = "pixels" if self.of_pixels else "tokens"
        tokens = f" {parts} of {self.images:,}" if count != self.images else ""
        raise ParityError(
            f"the {self.precision} file must agree with Keras on {agreement:.1%} of "
            f"{count:,}{tokens} images. Received: {self.agreement:.1%}."
        )

    def _check_overlap(self, agreement: float) -> None:
        if self.overlap is None:
            return
        few = self.largest_overlap is None
        agreement = min(agreement, _FEW_OVERLAP) if few else agreement
        if (self.overlap if few else self.largest_overlap) < agreement:
            raise ParityError(
                f"the masks of the {self.precision} file must have a mean IoU of {agreement:.1%} "
                f"with Keras'. Received: {self.overlap:.1%} on {self.images:,} images."
            )

    def _check_classes(self) -> None:
        if self.agreement in (None, 1.0) or self.weakest_class is None:
            return
        # A few pixels of a second class may be near ties.
        if self.file_classes == 1 < self.keras_classes and not self.of_pixels:
            raise ParityError(
                f"the {self.precision} file predicts the same class for all {self.images:,} "
                f"images, while Keras predicts {self.keras_classes} classes."
            )
        count, agreed = self.weakest_class["comparisons"], self.weakest_class["agreed"]
        chance = significance.at_least(count - agreed, count, 1 - CLASS_AGREEMENT)
        if chance < 1 - significance.CONFIDENCE:
            parts = "pixels" if self.of_pixels else "images"
            raise ParityError(
                f"the {self.precision} file must agree with Keras on at least "
                f"{CLASS_AGREEMENT:.0%} of the {parts} of each class. Received: {agreed:,} of "
                f"{count:,} for class {self.weakest_class['class']}."
            )

    def _check_scores(self, budget: Budget) -> None:
        if math.isinf(self.error):
            raise ParityError(ALL_SAME)
        if not self.error <= budget.error:
            raise ParityError(
                f"the scores of the {self.precision} file must vary between images as Keras' do, "
                f"with an error of at most {budget.error:g} of their standard deviation over "
                f"{self.images:,} images. Received: {self.error:.3g} (1 means the same scores for "
                "all images)."
            )
        if self.is_class_map:
            most = min(_WORST_IMAGE * (1 - budget.agreement), _MOST_CHANGED)
            if not self.max_difference <= most:
                raise ParityError(
                    f"the {self.precision} file may give at most {most:.2%} of the pixels of an "
                    f"image another class than Keras. Received: {self.max_difference:.2%}."
                )
        elif not self.max_difference <= budget.difference * self.scale:
            raise ParityError(
                f"the scores of the {self.precision} file may differ from Keras' by at most "
                f"{budget.difference * self.scale:.3g}, {budget.difference:g} of their scale. "
                f"Received: {self.max_difference:.3g}."
            )


@dataclasses.dataclass(frozen=True)
class Grade:
    """How good a file and Keras are, if labels are known.

    Attributes:
        metric: "accuracy", or "mean IoU" of masks.
        file, keras: the values, in [0, 1].
    """

    metric: str
    file: float
    keras: float

    @property
    def drop(self) -> float:
        """What the file loses, in percentage points."""
        return 100 * (self.keras - self.file)


def grade_of(parity: Mapping[str, Any]) -> Grade | None:
    """The metric by which a file is judged, from the fields of a `Verdict`; None without labels."""
    for metric, name in (("mean IoU", "mean_iou"), ("accuracy", "accuracy")):
        file, keras = parity.get(name), parity.get(f"keras_{name}")
        if file is not None and keras is not None:
            return Grade(metric, file, keras)
    return None
