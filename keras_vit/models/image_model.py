"""What ViT and BiT share: their arguments, their configuration, their inner outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keras_vit._errors import UsageError, did_you_mean
from keras_vit._keras import keras
from keras_vit.specs import Preprocessing, Spec, as_size, spec_from_dict


class ImageModel(keras.Model):
    """A functional `keras.Model` of images (batch, height, width, 3) that knows what it is.

    Args:
        forward: from the symbolic images to the symbolic output.
        spec, num_classes, image_size, preprocessing, labels: as the subclasses document them.

    Raises:
        UsageError: an argument is out of range, or two of them contradict each other.
    """

    def __init__(
        self,
        forward: Callable[[Any], Any],
        spec: Spec,
        num_classes: int,
        image_size: int | tuple[int, int],
        preprocessing: Preprocessing | None,
        labels: Sequence[str] | None,
        name: str,
        **kwargs,
    ):
        height, width = as_size(image_size)
        preprocessing = preprocessing or Preprocessing(height, width)
        labels = None if labels is None else tuple(labels)
        _check(num_classes, (height, width), preprocessing, labels)
        inputs = keras.Input((height, width, 3), name="images")
        # TensorFlow's scopes refuse the "+" of a hybrid's name; `find_variant` reads either.
        name = name.replace("+", "_")
        super().__init__(inputs=inputs, outputs=forward(inputs), name=name, **kwargs)
        self.spec = spec
        self.num_classes = num_classes
        self.image_size = (height, width)
        self.preprocessing = preprocessing
        self.labels = labels
        # For `owner`. A function, so that Keras tracks and saves nothing.
        object.__setattr__(self.layers[0], "_image_model", lambda: self)

    @property
    def features(self) -> Any:
        """The symbolic output that the head reads, for another head in its place."""
        return self._inner("pre_logits")

    @property
    def inner_names(self) -> list[str]:
        """What `inner` offers, from input to output."""
        raise NotImplementedError

    def inner(self, *names: str) -> keras.Model:
        """A model of the same images and weights whose output is a dict of named inner outputs.

        Args:
            names: of `inner_names`; the class says what each is.

        Raises:
            UsageError: there is no such output; the message names the nearest.
        """
        for name in names:
            if name not in self.inner_names:
                raise UsageError(
                    f"no inner output {name!r}; {did_you_mean(name, self.inner_names)}"
                )
        return keras.Model(self.input, {name: self._inner(name) for name in names})

    def _inner(self, name: str):
        return self.output if name == "logits" else self.get_layer(name).output

    def get_config(self) -> dict[str, Any]:
        """The arguments that build this model again, as plain values."""
        return {
            "spec": self.spec.to_dict(),
            "num_classes": self.num_classes,
            "image_size": self.image_size,
            "preprocessing": self.preprocessing.to_dict(),
            "labels": None if self.labels is None else list(self.labels),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> ImageModel:
        """The model of `get_config`, with fresh weights."""
        config = dict(config)
        config["spec"] = spec_from_dict(config["spec"])
        config["image_size"] = tuple(config["image_size"])
        config["preprocessing"] = Preprocessing.from_dict(config["preprocessing"])
        return cls(**config)


def owner(model: keras.Model) -> ImageModel | None:
    """The model of ours whose input layer `model` shares; None where there is none."""
    found = getattr(model.layers[0], "_image_model", None) if model.layers else None
    return None if found is None else found()


def head(x, num_classes: int, bias: float = 0.0):
    """The zero-initialised classifier on `x` (..., channels), or `x` itself for no classes.

    Logits are float32 under every mixed precision policy: losses want them so.
    """
    if not num_classes:
        return x
    return keras.layers.Dense(
        num_classes,
        kernel_initializer="zeros",
        bias_initializer=keras.initializers.Constant(bias),
        dtype="float32",
        name="head",
    )(x)


def _check(
    num_classes: int,
    image_size: tuple[int, int],
    preprocessing: Preprocessing,
    labels: tuple[str, ...] | None,
) -> None:
    if isinstance(num_classes, bool) or not isinstance(num_classes, int) or num_classes < 0:
        raise UsageError(
            "num_classes must be 0 (no head) or a positive integer. "
            f"Received: num_classes={num_classes!r}."
        )
    size = (preprocessing.height, preprocessing.width)
    if size != image_size:
        raise UsageError(
            f"preprocessing must be for image_size={image_size[0]} x {image_size[1]}. "
            f"Received: {size[0]} x {size[1]}."
        )
    if labels is not None and len(labels) != num_classes:
        raise UsageError(
            f"labels must name each of the {num_classes} classes. Received: {len(labels)} labels."
        )
