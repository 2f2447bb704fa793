"""Distillation: a model learns the labels and the predictions of a teacher.

Source: Touvron et al. 2021 (DeiT, arXiv 2012.12877), section 4; soft distillation is that of Hinton
et al. 2015. The teacher sees the same augmented images. In a student with a distillation token, the
classifier of the class token learns the labels, and that of the distillation token the teacher.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from keras_vit._errors import UsageError
from keras_vit._keras import keras, ops
from keras_vit.models.image_model import ImageModel
from keras_vit.recipe import Recipe
from keras_vit.training.tasks import ImageLoss, Normalise, SingleLabel, predicted

Kind = Literal["soft", "hard"]
# DeiT's weights of the teacher's part.
_WEIGHTS = {"soft": 0.1, "hard": 0.5}


@dataclasses.dataclass(frozen=True)
class Distillation:
    """The task of a student: (1 - w) times the loss of the labels plus w times the teacher's.

    The teacher's part is, for "hard", the cross-entropy with the teacher's most probable class, and
    for "soft", T² KL(teacher || student) between the probabilities at temperature T.

    If the student has a distillation token, the loss of the labels is that of the class token's
    logits, and the teacher's that of the distillation token's.

    Attributes:
        labels: the task of the labels.
        teacher: a model with the same classes; it is frozen, and may have another image size.
        kind: "soft" or "hard".
        weight: w; None for DeiT's: 0.1 for soft, 0.5 for hard.
        temperature: T, for "soft".

    Raises:
        UsageError: the teacher has other classes.
    """

    labels: SingleLabel
    teacher: ImageModel
    kind: Kind = "hard"
    weight: float | None = None
    temperature: float = 3.0

    def __post_init__(self):
        if self.teacher.num_classes != self.labels.num_classes:
            raise UsageError(
                f"the teacher must have {self.labels.num_classes} classes. "
                f"Received: teacher.num_classes={self.teacher.num_classes}."
            )

    def targets(self, images: Any, classes: Any) -> Any:
        """As the task of the labels."""
        return self.labels.targets(images, classes)

    def predictions(self, model: ImageModel, pixels: Any) -> Any:
        """The logits of student and teacher, (b, 2, num_classes).

        With a distillation token (b, 3, num_classes): class token, distillation token, teacher.
        """
        student, teacher = _student(model, pixels), Teacher(self.teacher)(pixels)
        return Stacked(name="student_and_teacher")([*student, teacher])

    def loss(self, training: bool = True) -> Any:
        """The loss of the class, for targets (b, n)."""
        weight = _WEIGHTS[self.kind] if self.weight is None else self.weight
        of_labels = self.labels.loss(training)

        def loss(y_true, y_pred):
            # With one classifier, the first and the second but last are the same.
            student, distilled, teacher = y_pred[:, 0], y_pred[:, -2], y_pred[:, -1]
            labels, taught = of_labels.call(y_true, student), self._taught(distilled, teacher)
            return (1.0 - weight) * labels + weight * taught

        return ImageLoss(loss, "distillation")

    def _taught(self, student: Any, teacher: Any) -> Any:
        """The teacher's part of the loss, (b,)."""
        if self.kind == "soft":
            target = ops.log_softmax(teacher / self.temperature)
            difference = target - ops.log_softmax(student / self.temperature)
            return self.temperature**2 * ops.sum(ops.exp(target) * difference, axis=-1)
        target = ops.one_hot(ops.argmax(teacher, axis=-1), teacher.shape[-1], dtype="float32")
        return -ops.sum(target * ops.log_softmax(student), axis=-1)

    def metrics(self) -> list[Any]:
        """The accuracy of the student, and how often it agrees with the teacher.

        The student's prediction is the mean of its classifiers.
        """
        functions = {"accuracy": _accuracy, "agreement": _agreement}
        return [keras.metrics.MeanMetricWrapper(f, name) for name, f in functions.items()]


def check_teacher(recipe: Recipe, teacher: ImageModel | None) -> None:
    """Raises a `UsageError` unless there is a teacher if, and only if, a recipe needs one."""
    if teacher is None and recipe.distillation != "none":
        raise UsageError(f"distillation={recipe.distillation!r} needs a teacher. Received: none.")
    if teacher is not None and recipe.distillation == "none":
        raise UsageError(
            "a teacher needs distillation='soft' or distillation='hard'. Received: neither."
        )


def _student(model: ImageModel, pixels: Any) -> list[Any]:
    """The symbolic logits of each classifier of the student (b, num_classes)."""
    if not getattr(model.spec, "two_classifiers", False):
        return [predicted(model, pixels)]
    normalised = Normalise(model.preprocessing)(pixels)
    features = keras.Model(model.input, model.features, name="body")(normalised)
    both = model.get_layer("head")(features, both=True)  # (b, 2, num_classes)
    return [both[:, 0], both[:, 1]]


class Teacher(keras.layers.Layer):
    """Pixels of any size to the logits of a frozen model, in its own size and preprocessing.

    Args:
        model: the model; its weights stop being trainable.
    """

    def __init__(self, model: ImageModel):
        super().__init__(name="teacher", trainable=False)
        model.trainable = False
        self.model = model
        self.normalise = Normalise(model.preprocessing)
        self.resize = keras.layers.Resizing(*model.image_size, dtype="float32")

    def build(self, input_shape):
        """Nothing: the model has its weights."""
        self.built = True

    def call(self, pixels):
        """The logits (b, num_classes) for `pixels` (b, height, width, 3)."""
        if tuple(pixels.shape[1:3]) != self.model.image_size:
            pixels = self.resize(pixels)
        return self.model(self.normalise(pixels), training=False)


class Stacked(keras.layers.Layer):
    """Tensors (b, n) as one of float32 (b, tensors, n)."""

    def call(self, tensors):
        """The stacked tensors."""
        return ops.stack([ops.cast(tensor, "float32") for tensor in tensors], axis=1)


def _accuracy(y_true: Any, y_pred: Any) -> Any:
    return keras.metrics.categorical_accuracy(y_true, _mean_student(y_pred))


def _agreement(y_true: Any, y_pred: Any) -> Any:
    student, teacher = _mean_student(y_pred), y_pred[:, -1]
    return ops.cast(ops.argmax(student, axis=-1) == ops.argmax(teacher, axis=-1), "float32")


def _mean_student(y_pred: Any) -> Any:
    return ops.mean(y_pred[:, :-1], axis=1)  # (b, n)
