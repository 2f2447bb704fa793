"""Analyses a Keras model for an export, once, before anything is computed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, get_args

import numpy as np

from keras_vit._checks import is_label, label_names
from keras_vit._errors import UsageError, shown
from keras_vit._keras import LEGACY, backend, keras
from keras_vit.data.input_range import check_inputs
from keras_vit.data.masks import NO_CLASS
from keras_vit.deploy.changed_layers import first_edit
from keras_vit.deploy.graph.graph_options import (
    DEFAULTS,
    GraphOptions,
    InferenceGraph,
    outputs_of,
)
from keras_vit.encoder.ops import HeadActivation
from keras_vit.labels import numbered
from keras_vit.models.image_model import ImageModel, owner
from keras_vit.specs import Preprocessing
from keras_vit.weights.hashing import sha256_of
from keras_vit.weights.names import weight_names

# Notes for models that are not expected to be rebuilt, so that no warning is needed.
NOT_KERAS_VIT = "it is not a keras_vit model"
NOT_WANTED = "rewrite=False"


@dataclasses.dataclass(frozen=True)
class About:
    """What the files of a model say of it.

    Attributes:
        name: name of the model.
        labels: the classes' names, in the order of the scores; None if unknown.
        preprocessing: how images become Keras' input; None if unknown.
        options: the input and the output of the files, and their rewrites.
        num_outputs: number of scores for an image, or for each token or cell.
        activation: what makes probabilities of the scores, or has made them; None if unknown.
        normalized: whether features have length 1.
        parameters: number of parameters; None if unknown.
        weights_sha256: a hash of the weights; only bundles with the same hash share a card.
        note: why Keras' own graph is exported; "" if the graph is rebuilt.
        recipe: the content of the recipe.json that replaces a search; None without one.
        zero_shot: how the head was made of texts, and "tower_sha256", a hash of all else that files
            depend on; None if it was trained.
    """

    name: str
    labels: tuple[str, ...] | None = None
    preprocessing: Preprocessing | None = None
    options: GraphOptions = DEFAULTS
    num_outputs: int = 0
    activation: HeadActivation | None = None
    normalized: bool = False
    parameters: int | None = None
    weights_sha256: str | None = None
    note: str = ""
    recipe: dict[str, Any] | None = None
    zero_shot: dict[str, Any] | None = None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels, or the numbers of the classes."""
        return self.labels or numbered(self.num_outputs)

    def check_images(self, images: np.ndarray | None, name: str = "calibration images") -> None:
        """Raises a `UsageError` if float images were not preprocessed as the model needs."""
        if images is not None and images.dtype.kind == "f":
            check_inputs(images, self.preprocessing, name)


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A model that can be exported.

    Attributes:
        about: what its files say of it.
        keras: the Keras model that computes the output of the file; of a segmenter the scores of
            its head's cells, which are resized afterwards.
        input_shape: height, width and channels of its input.
        graph: a faster graph of a keras_vit model, with functions that give its weights in float32;
            None if Keras' own graph is exported.
        cell: of a segmenter, `ViTSpec.cell`; otherwise 1.
    """

    about: About
    keras: Any
    input_shape: tuple[int, int, int]
    graph: InferenceGraph | None
    cell: int = 1


def resolve(
    model: Any,
    options: GraphOptions = DEFAULTS,
    rewrite: bool = True,
    labels: tuple[str, ...] | None = None,
    preprocessing: Preprocessing | None = None,
    name: str | None = None,
) -> Resolved:
    """Finds out what kind of model a Keras model is, and whether it can be exported.

    Args:
        model: a keras_vit model; a keras_vit model without a head, followed by other layers; or any
            other Keras model with one float32 image input.
        options: the input and output of the file, and its rewrites. The "logits" of a model that
            ends in a softmax or a sigmoid of its own are probabilities.
        rewrite: whether to rebuild a keras_vit model as a faster, equivalent graph. Models whose
            layers were changed after they were built are never rebuilt.
        labels, preprocessing, name: replace those of the model.

    Raises:
        UsageError: the model computes in mixed precision, its input size is unknown, it does not
            support `options`, or Keras' own graph must be exported and the backend is not
            TensorFlow.
    """
    labels = label_names(labels) if labels else None
    outputs_of(model)  # models for other tasks may have several outputs
    shape = input_shape(model)
    check_float32(model)
    base, tail = backbone(model) or (None, None)
    own_head = base is not None and tail is None
    reader = _reader(model)
    preprocessing = preprocessing or (reader and reader.preprocessing)
    if preprocessing is not None and preprocessing.pad:
        raise UsageError(
            "files are for images that are stretched or cropped. Received: a preprocessing with "
            "pad=True; pass one with pad=False."
        )
    if preprocessing is not None and preprocessing.shape != shape[1:]:
        raise UsageError(
            f"the model reads images {shape[1:]}, height, width and channels. Received: a "
            f"preprocessing for {preprocessing.shape}; pass one of the same shape."
        )
    edit = "" if base is None else first_edit(base)
    note = NOT_KERAS_VIT if base is None else edit or ("" if rewrite else NOT_WANTED)
    last = None if own_head else _last_activation(model)
    activated = last in get_args(HeadActivation)
    if activated and options.output == "logits":
        options = dataclasses.replace(options, output="probabilities")
    has_output = own_head or (activated and options.output == "probabilities")
    if own_head and preprocessing is None and options.input == "uint8":
        raise UsageError(
            "input='uint8' needs a model whose input is made from pictures, of 1 channel or 3. "
            f"Received: in_channels={base.spec.in_channels}; use input='float32'."
        )
    _check_options(type(model).__name__, options, has_output, preprocessing)
    outputs = outputs_of(base if own_head else model)
    if options.output not in outputs:
        which = ", which has no head," if own_head and not base.num_classes else ""
        raise UsageError(
            f"the output of {name or model.name}{which} must be one of {', '.join(outputs)}. "
            f"Received: output={options.output!r}."
        )
    if backend() != "tensorflow" and (note or not own_head):
        raise UsageError(
            "on backends other than TensorFlow only an unchanged keras_vit model itself is "
            f"exported. Received: KERAS_BACKEND={backend()} and a {type(model).__name__}"
            f"{f'; {note}' if note else ' with other layers'}."
        )
    computing = _computing(options, model, base) if own_head else model
    name, scores = name or model.name, int(computing.output_shape[-1])
    if options.output == "class_map" and scores > NO_CLASS:
        raise UsageError(
            f"a class map has {NO_CLASS} classes at most, because it is uint8. Received: {scores}; "
            "use output='scores'."
        )
    _check_names(name, labels if options.scores_classes else None, scores)
    sha256 = _hash(model, base if base is not None and not edit else None, tail, note)
    known, parameters = labels or (base.labels if own_head else None), model.count_params()
    activation = last if activated else None
    if own_head and base.num_classes:
        activation = base.head_activation
    about = About(
        name,
        known,
        preprocessing,
        options,
        scores,
        activation,
        options.normalize or (own_head and getattr(base.spec, "normalized_features", False)),
        parameters,
        sha256,
        note,
        zero_shot=_zero_shot(base, preprocessing) if own_head else None,
    )
    cell = base.spec.cell if options.is_mask else 1
    if note:
        return Resolved(about, computing, shape[1:], None, cell)
    weights = _official_weights(base)
    graph = InferenceGraph(base.spec, weights, shape[1:3], preprocessing, options, tail)
    return Resolved(about, computing, shape[1:], graph, cell)


def backbone(model: Any) -> tuple[ImageModel, keras.Model | None] | None:
    """The keras_vit model inside a Keras model, and a model of the layers after it; None without.

    The second model maps the features (the input of keras_vit's head) to the output; it is None for
    keras_vit's own head. Three kinds of models are recognised: a keras_vit model itself; its layers
    with another head, `keras.Model(vit.input, Dense(5)(vit.features))`; and a model that calls a
    keras_vit model without a head once, on its input: `keras.Sequential([vit, Dense(5)])` or the
    functional equivalent.
    """
    base = _reader(model)
    if base is None or base is model:
        return base and (base, None)
    if base.spec.dense is not None:
        return None
    if base is owner(model):
        return _followed(base, base.features, model)
    if base.num_classes:
        return None
    if isinstance(model, keras.Sequential):
        features = keras.Input(base.output.shape[1:])
        rest = model.layers[model.layers.index(base) + 1 :]
        return base, keras.Sequential([features, *rest]) if rest else None
    return _followed(base, _features(model, base), model)


def _reader(model: Any) -> ImageModel | None:
    """The keras_vit model, with a head or without, that reads the images of a Keras model."""
    if isinstance(model, ImageModel):
        return model
    if (base := owner(model)) is not None:
        return base
    first = next((x for x in model.layers if not isinstance(x, keras.layers.InputLayer)), None)
    if not isinstance(first, ImageModel):
        return None
    alone = isinstance(model, keras.Sequential) or _features(model, first) is not None
    return first if alone else None


def parameters_of(model: ImageModel) -> dict[str, np.ndarray]:
    """A model's weights in float32, by keras_vit's names ("encoderblock_0/mlp/dense_0/kernel")."""
    return {name: source() for name, source in _official_weights(model).items()}


def input_shape(model: Any) -> tuple[int, int, int, int]:
    """(1, height, width, channels) of the model's one input."""
    # A subclass of keras.Model with its own `call` has neither list.
    inputs, outputs = (getattr(model, side, None) or [] for side in ("inputs", "outputs"))
    shape = tuple(inputs[0].shape)[1:] if len(inputs) == 1 else ()
    # A Sequential has no `output`.
    named = isinstance(getattr(model, "output", None), dict) and not isinstance(model, ImageModel)
    if len(shape) != 3 or None in shape or len(outputs) != 1 or named:
        shapes = " and ".join(str([tuple(x.shape) for x in side]) for side in (inputs, outputs))
        raise UsageError(
            "expected a Sequential or functional model with one image input (height, width, "
            f"channels) of known size and one output. Received: {shapes}."
        )
    return (1, *shape)


def check_float32(model: Any) -> None:
    """Raises a `UsageError` if a model computes in mixed precision or was quantised by Keras."""
    mixed = {layer.compute_dtype for layer in model.layers if layer.weights} - {"float32"}
    if mixed:
        raise UsageError(
            f"export needs a float32 model. Received: layers that compute in {', '.join(mixed)}; "
            "build it again without the mixed precision policy and load its weights."
        )
    for layer in model._flatten_layers():
        if mode := getattr(layer, "quantization_mode", None):
            raise UsageError(
                f"export needs a float32 model. Received: a layer {layer.name} that Keras has "
                f"quantised ({mode}), which TFLite cannot run; use the model as it was before "
                "quantize(), and choose quantize='int8' for the file."
            )


def _check_names(name: str, labels: tuple[str, ...] | None, outputs: int) -> None:
    if not is_label(name):
        raise UsageError(
            f"expected one line of text as the name of the model. Received: {shown(name)}; give "
            "it another name=."
        )
    if labels is None:
        return
    if len(labels) != outputs:
        needed = f"{outputs:,} labels, one for each score"
        if outputs == 1:
            needed = "one label, that of class 1, because the model has one score"
        raise UsageError(f"expected {needed}. Received: {len(labels):,} labels.")
    if "" in labels:
        raise UsageError(f"labels[{labels.index('')}] is empty; name the class.")


def _last_activation(model: Any) -> str:
    """The name of the function that computes the output of a model, such as "softmax"."""
    last = model.outputs[0]._keras_history[0]
    if isinstance(last, keras.Model):
        return _last_activation(last)
    # Of a layer Softmax, or an operation such as `ops.sigmoid`, the class has the name.
    return getattr(getattr(last, "activation", type(last)), "__name__", "").lower()


def _computing(options: GraphOptions, model: Any, base: ImageModel) -> Any:
    """The model that computes an output of a keras_vit model with its own head."""
    if options.is_map:
        return keras.Model(base.input, base.feature_map)
    if options.is_mask:
        return keras.Model(base.input, model.output["scores"])
    if options.output == "features":
        features = base.features
        if options.normalize:
            features = keras.layers.UnitNormalization(dtype="float32")(features)
        return keras.Model(base.input, features)
    if options.output == "logits":
        return model
    activated = keras.layers.Activation(base.head_activation, dtype="float32")(model.output)
    return keras.Model(model.input, activated)


def _check_options(
    kind: str, options: GraphOptions, has_output: bool, preprocessing: Preprocessing | None
) -> None:
    for field, usual, allowed, needed in (
        ("output", "logits", has_output, "with its own head"),
        ("input", "float32", preprocessing is not None, "that reads the images itself"),
    ):
        value = getattr(options, field)
        if value != usual and not allowed:
            raise UsageError(
                f"{field}={value!r} needs a keras_vit model {needed}. Received: a {kind} with "
                f"other layers; use {field}={usual!r}."
            )


def _official_weights(model: ImageModel) -> dict[str, Callable[[], np.ndarray]]:
    names = weight_names(model.spec, model.num_classes, model.image_size)
    return {name.path: functools.partial(_float32, name.variable(model)) for name in names}


def _hash(model: Any, base: ImageModel | None, tail: Any, note: str) -> str:
    """A hash of the weights: of keras_vit's model `base` and the layers after it, or of any model.

    The note is part of the second one, because changed layers may have the same weights.
    """
    if base is None:
        named = [(f"{note} {i}", variable) for i, variable in enumerate(model.weights)]
    else:
        names = weight_names(base.spec, base.num_classes, base.image_size)
        named = [(name.key, name.variable(base)) for name in names]
    others = [] if tail is None else tail.variables
    return sha256_of([*named, *((f"tail/{i}", v) for i, v in enumerate(others))])


def _zero_shot(model: ImageModel, preprocessing: Preprocessing | None) -> dict[str, Any] | None:
    """How a head was made of texts, with a hash of all that its files depend on but the head."""
    described = model.zero_shot
    if described is None:
        return None
    defaults = {field.name: field.default for field in dataclasses.fields(model.spec)}
    spec = {name: value for name, value in model.spec.to_dict().items() if value != defaults[name]}
    pixels = preprocessing and (preprocessing.mean, preprocessing.scale)
    names = weight_names(model.spec, 0, model.image_size)
    tower = [(f"{spec} {pixels}", ()), *((name.key, name.variable(model)) for name in names)]
    return described | {"tower_sha256": sha256_of(tower)}


def _float32(variable: Any) -> np.ndarray:
    return np.array(variable.numpy(), np.float32)


def _features(model: Any, first: ImageModel) -> Any:
    """The output of `first` if `model` calls it exactly once, on its own input; else None."""
    nodes = {id(node) for nodes in model._nodes_by_depth.values() for node in nodes}
    calls = [node for node in first._inbound_nodes if id(node) in nodes]
    if len(calls) != 1:
        return None
    [call] = calls
    if LEGACY:
        return call.outputs if call.keras_inputs[0] is model.inputs[0] else None
    return call.output_tensors[0] if call.input_tensors[0] is model.inputs[0] else None


def _followed(base: ImageModel, features: Any, model: Any) -> tuple | None:
    if features is model.outputs[0]:
        return None if base.num_classes else (base, None)
    try:
        return base, keras.Model(features, model.output)
    except ValueError:  # the layers after it also read the images or other intermediates
        return None
