"""The base class of ViT and BiT: arguments, configuration, intermediate outputs."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_vit._checks import MOST_CLASSES, PICTURE_CHANNELS, integer, label_names, number
from keras_vit._errors import UsageError, did_you_mean, nearest, shown
from keras_vit._keras import building, keras, register
from keras_vit.encoder.ops import HeadActivation
from keras_vit.models.dtypes import (
    dtype_policy,
    quantise_layers,
    quantised_layers,
    serialized_policy,
)
from keras_vit.specs import (
    MOST_PARAMETERS,
    MOST_TOKENS,
    Preprocessing,
    ResNetSpec,
    Spec,
    as_size,
    head_activation,
    spec_from_dict,
)
from keras_vit.weights.names import parameter_count

# The names of keras.applications for some of them.
_KERAS_NAMES = {
    "classes": "num_classes",
    "include_top": "num_classes (0 for no head)",
    "input_shape": "image_size",
}


class ImageModel(keras.Model):
    """A functional `keras.Model` of images (batch, height, width, channels), with spec and labels.

    Args:
        spec, num_classes, image_size, preprocessing, labels, head_bias, dtype, name: see the
            subclasses.

    Raises:
        UsageError: an argument is unknown or out of range, or two of them contradict each other.
    """

    spec_type: type  # set by the subclass, as `default_name`
    default_name: str
    _described: tuple[dict[str, Any], np.ndarray] | None = None

    def __init__(
        self,
        spec: Spec,
        num_classes: int = 1000,
        image_size: int | tuple[int, int] = 224,
        *,
        preprocessing: Preprocessing | None = None,
        labels: Sequence[str] | None = None,
        head_bias: float = 0.0,
        dtype: Any = None,
        name: str | None = None,
        **unknown: Any,
    ):
        if not isinstance(spec, self.spec_type):
            raise UsageError(
                f"spec must be a {self.spec_type.__name__}. Received: spec={shown(spec)}."
            )
        if unknown:
            fields = [f.name for f in dataclasses.fields(spec)]
            refuse_keywords(type(self).__name__, unknown, ARGUMENTS, fields)
        height, width = as_size(image_size)
        if preprocessing is None and spec.in_channels in PICTURE_CHANNELS:
            preprocessing = Preprocessing(height, width, channels=spec.in_channels)
        labels = None if labels is None else label_names(labels)
        num_classes, head_bias = _classes(num_classes), number("head_bias", head_bias)
        if preprocessing is not None:
            _check_preprocessing(preprocessing, (height, width), spec.in_channels)
        if labels is not None and len(labels) != num_classes:
            raise UsageError(
                f"labels must name each of the {num_classes} classes. Received: {len(labels)} "
                "labels."
            )
        _check_size(spec, num_classes, (height, width))
        inputs = keras.Input((height, width, spec.in_channels), name="images")
        with building, dtype_policy(dtype):
            outputs = self._forward(inputs, spec, num_classes, head_bias)
            name = layer_name(name or self.default_name)
            super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.spec = spec
        self.num_classes = num_classes
        self.image_size = (height, width)
        self.preprocessing = preprocessing
        self.labels = labels
        self.head_bias = head_bias
        # `owner` reads this. It is a function because Keras neither tracks nor saves functions.
        object.__setattr__(self.layers[0], "_image_model", lambda: self)

    @staticmethod
    def _forward(images: Any, spec: Spec, num_classes: int, head_bias: float) -> Any:
        """The symbolic output for symbolic images (batch, height, width, channels)."""
        raise NotImplementedError

    @property
    def features(self) -> Any:
        """The symbolic input of the head, on which another head can be built."""
        return self._intermediate("pre_logits")

    @property
    def feature_map(self) -> Any:
        """The symbolic features of patches (batch, rows, columns, features), before the pooling.

        A head for each patch can be built on it.
        """
        return self._intermediate("feature_map")

    @property
    def task(self) -> str:
        """What its head answers: "classification", or the task of the spec's dense head."""
        return "classification" if self.spec.dense is None else self.spec.dense.task

    @property
    def head_activation(self) -> HeadActivation:
        """The function that makes probabilities of the model's logits."""
        return head_activation(self.spec, self.num_classes)

    def describe_head(self, content: dict[str, Any]) -> None:
        """Notes how the head was made of texts; it is not saved with the model."""
        # Keras would track what is assigned.
        object.__setattr__(
            self, "_described", (content, self.get_layer("head").kernel.numpy().copy())
        )

    @property
    def zero_shot(self) -> dict[str, Any] | None:
        """How the head was made of texts; None if it was not, or was trained since."""
        if self._described is None:
            return None
        content, kernel = self._described
        return content if np.array_equal(self.get_layer("head").kernel, kernel) else None

    @property
    def intermediate_names(self) -> list[str]:
        """The names that `intermediates` accepts, from input to output."""
        raise NotImplementedError

    def intermediates(self, *names: str) -> keras.Model:
        """A model with the same input and weights, whose output is a dict of intermediate outputs.

        >>> parts = model.intermediates("attention_0", "encoded")
        >>> parts.predict(inputs[:1], verbose=0)["attention_0"].shape  # heads, tokens, tokens
        (1, 3, 37, 37)

        Args:
            names: names from `intermediate_names`; the class documents each.

        Raises:
            UsageError: there is no such output; the message suggests a name.
        """
        return Intermediates(self, names)

    def _intermediate(self, name: str):
        return self.output if name == "logits" else self.get_layer(name).output

    def get_config(self) -> dict[str, Any]:
        """The model's arguments as plain values, and the names of its frozen and quantised layers.

        Raises:
            UsageError: Keras quantised the model in a way that cannot be repeated on a new model.
        """
        return {
            "spec": self.spec.to_dict(),
            "num_classes": self.num_classes,
            "image_size": self.image_size,
            "preprocessing": self.preprocessing and self.preprocessing.to_dict(),
            "labels": None if self.labels is None else list(self.labels),
            "head_bias": self.head_bias,
            "dtype": serialized_policy(self.dtype_policy),
            "name": self.name,
            "frozen": [path for path, layer in each_layer(self) if not layer.trainable],
            "quantised": quantised_layers(dict(each_layer(self))),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> ImageModel:
        """The model that `get_config` describes, with new weights."""
        config = dict(config)
        frozen, quantised = set(config.pop("frozen", ())), config.pop("quantised", {})
        config["spec"] = spec_from_dict(config["spec"])
        config["image_size"] = tuple(config["image_size"])
        if config["preprocessing"] is not None:
            config["preprocessing"] = Preprocessing.from_dict(config["preprocessing"])
        model = cls(**config)
        quantise_layers(dict(each_layer(model)) if quantised else {}, quantised)
        if frozen:
            # Setting `trainable` also sets it for sublayers, so parents must come first.
            for path, layer in each_layer(model):
                layer.trainable = path not in frozen
        return model


_signature = inspect.getfullargspec(ImageModel.__init__)
# The arguments of ViT and BiT, in order.
ARGUMENTS = (*_signature.args[1:], *_signature.kwonlyargs)


class AroundModel(keras.Model):
    """A model that shares the layers and weights of an `ImageModel`, which is one of its arguments.

    Attributes:
        inner: the name of this argument.
    """

    inner: str

    def _keep(self, model: ImageModel, **arguments: Any) -> None:
        """Keeps the arguments for `get_config`; Keras does not track the model, only its layers."""
        object.__setattr__(self, "_model", lambda: model)
        self._arguments = arguments

    def get_config(self) -> dict[str, Any]:
        """The arguments as plain values, with the configuration of the inner model."""
        inner = keras.saving.serialize_keras_object(self._model())
        return {self.inner: inner, **self._arguments, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> AroundModel:
        """The model that `get_config` describes, with new weights."""
        inner = keras.saving.deserialize_keras_object(config[cls.inner], custom_objects)
        return cls(**{**config, cls.inner: inner})


@register
class Intermediates(AroundModel):
    """The model that `ImageModel.intermediates` returns: images to a dict of intermediate outputs.

    Args:
        model: the model whose weights it shares.
        names: names from the model's `intermediate_names`.

    Raises:
        UsageError: there is no such output; the message suggests a name.
    """

    inner = "model"

    def __init__(self, model: ImageModel, names: Sequence[str], name: str | None = None):
        for output in names:
            if output not in model.intermediate_names:
                advice = did_you_mean(output, model.intermediate_names)
                raise UsageError(f"no intermediate output {output!r}; {advice}")
        outputs = {output: model._intermediate(output) for output in names}
        with building:
            super().__init__(inputs=model.input, outputs=outputs, name=name)
        self._keep(model, names=list(names))


def layer_name(name: str) -> str:
    """The name of a model in Keras: TensorFlow's name scopes refuse the "+" of a hybrid's name.

    `find_variant` accepts both spellings.
    """
    return name.replace("+", "_")


def owner(model: keras.Model) -> ImageModel | None:
    """The keras_vit model that owns the input layer of `model`; None if there is none."""
    get_owner = getattr(model.layers[0], "_image_model", None) if model.layers else None
    return None if get_owner is None else get_owner()


def head(x, num_classes: int, bias: float = 0.0):
    """The zero-initialised classifier on `x` (..., channels); without classes, `x` itself.

    Logits are float32 under every mixed precision policy, because losses need this precision.
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


def refuse_keywords(
    function: str, unknown: Iterable[str], arguments: Sequence[str], fields: Sequence[str] = ()
) -> None:
    """Raises an error that names an unknown keyword, suggests a similar one and lists all.

    Args:
        function: the function or class that was called.
        unknown: the unknown keywords.
        arguments: the known keywords.
        fields: fields of the spec, which are not arguments of this function.

    Raises:
        UsageError: always.
    """
    name = next(iter(unknown))
    near = _KERAS_NAMES.get(name) or nearest(name, [*arguments, *fields])
    kind = ", a field of the spec" if near in fields else ""
    advice = f" Did you mean {near}{kind}?" if near else ""
    known = ", ".join(arguments) + (f"; fields of the spec: {', '.join(fields)}" if fields else "")
    raise UsageError(f"{function} has no argument {shown(name)}.{advice} Arguments: {known}.")


def each_layer(model: keras.Model) -> Iterator[tuple[str, keras.layers.Layer]]:
    """The model, then every layer before its sublayers, each with its path of attributes.

    Names of sublayers would not do: Keras numbers them over the whole process.
    """
    yield "", model
    for layer in model.layers:
        yield from _nested(layer.name, layer)


def _nested(path: str, layer: keras.layers.Layer) -> Iterator[tuple[str, keras.layers.Layer]]:
    yield path, layer
    for attribute, value in sorted(vars(layer).items()):
        if isinstance(value, keras.layers.Layer) and not attribute.startswith("_"):
            yield from _nested(f"{path}/{attribute}", value)


def _classes(num_classes: Any) -> int:
    count = integer(num_classes)
    if count is None or not 0 <= count <= MOST_CLASSES:
        raise UsageError(
            f"num_classes must be 0 (no head) or a positive integer of at most {MOST_CLASSES:,}. "
            f"Received: num_classes={shown(num_classes)}."
        )
    return count


def _check_size(spec: Spec, num_classes: int, image_size: tuple[int, int]) -> None:
    """Raises a `UsageError` for a model that is too large to be meant."""
    grid = (1, 1) if isinstance(spec, ResNetSpec) else spec.grid(image_size)
    if spec.dense is not None:
        covered = (grid[0] * spec.stride, grid[1] * spec.stride)
        if covered != image_size:
            raise UsageError(
                f"dense_head={spec.dense_head!r} needs patches that cover the image. Received: "
                f"image_size={image_size}; the nearest is {covered}."
            )
    if math.prod(grid) > MOST_TOKENS:
        raise UsageError(
            f"a model has at most {MOST_TOKENS:,} patches. Received: {grid[0]} x {grid[1]}; choose "
            "a smaller image_size or a larger patch_size."
        )
    parameters = parameter_count(spec, num_classes, image_size)
    if parameters > MOST_PARAMETERS:
        raise UsageError(
            f"a model has at most {MOST_PARAMETERS:,} parameters. Received: {parameters:,}, of "
            f"{shown(spec)}; choose a smaller model."
        )


def _check_preprocessing(
    preprocessing: Preprocessing, image_size: tuple[int, int], in_channels: int
) -> None:
    size = preprocessing.size
    if size != image_size:
        raise UsageError(
            f"preprocessing must be for image_size={image_size[0]} x {image_size[1]}. "
            f"Received: {size[0]} x {size[1]}."
        )
    if preprocessing.channels != in_channels:
        fits = in_channels in PICTURE_CHANNELS
        advice = f"set its channels={in_channels}" if fits else "leave it out"
        raise UsageError(
            f"preprocessing must be for in_channels={in_channels}. "
            f"Received: channels={preprocessing.channels}; {advice}."
        )
