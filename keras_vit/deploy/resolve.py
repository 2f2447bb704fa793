"""What a Keras model is to an export: looked at once, before anything is computed."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from keras_vit._errors import UsageError
from keras_vit._keras import LEGACY, backend, keras
from keras_vit.deploy.edits import first_edit
from keras_vit.models.image_model import ImageModel, owner
from keras_vit.specs import Preprocessing, Spec
from keras_vit.weights.names import weight_names

# Notes of models that nobody expects to be rebuilt.
NOT_KERAS_VIT = "it is not a keras_vit model"
NOT_WANTED = "rewrite=False"


class Weight(NamedTuple):
    """A weight: its official key, its name by our layers, and Keras' variable."""

    key: str
    path: str
    variable: Any


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A model that can be exported.

    Attributes:
        keras: the Keras model that gives what the file shall give, before a softmax.
        name: of the model.
        input_shape: height, width and channels of its input.
        labels: the classes' names; None if unknown.
        preprocessing: how images become its input; None if unknown.
        spec: of the keras_vit model that is rebuilt as a faster graph; None where Keras' own graph
            is exported.
        weights: those that the graph is rebuilt from; otherwise all.
        tail: a Keras model from the features to the output, in place of our head; None for that.
        num_outputs: how many scores it gives: for an image, or for each token.
        parameters: how many it has.
        note: why Keras' own graph is exported; "" where it is rebuilt.
    """

    keras: Any
    name: str
    input_shape: tuple[int, int, int]
    labels: tuple[str, ...] | None
    preprocessing: Preprocessing | None
    spec: Spec | None
    weights: tuple[Weight, ...]
    tail: Any
    num_outputs: int
    parameters: int
    note: str = ""


def resolve(
    model: Any,
    options: Any = None,
    rewrite: bool = True,
    labels: tuple[str, ...] | None = None,
    preprocessing: Preprocessing | None = None,
    name: str | None = None,
) -> Resolved:
    """Finds out what a Keras model is, and whether it can be exported.

    Args:
        model: a keras_vit model; one without a head and other layers after it; or any other Keras
            model of one float32 image input.
        options: a `GraphOptions`: what the file takes and gives.
        rewrite: whether a keras_vit model may be rebuilt as a faster graph, exactly. One whose
            layers were changed after it was built never is.
        labels, preprocessing, name: in place of the model's own.

    Raises:
        UsageError: the model computes in mixed precision, its input's size is unknown, it cannot
            take or give what `options` say, or Keras' own graph must be exported and the backend
            is not TensorFlow.
    """
    from keras_vit.deploy.graph.inference import GraphOptions

    options = options or GraphOptions()
    shape = input_shape(model)
    check_float32(model)
    ours, tail = backbone(model) or (None, None)
    own_head = ours is not None and tail is None
    preprocessing = preprocessing or (ours and ours.preprocessing)
    edit = "" if ours is None else first_edit(ours)
    note = NOT_KERAS_VIT if ours is None else edit or ("" if rewrite else NOT_WANTED)
    _check_options(type(model).__name__, options, own_head, preprocessing)
    if own_head and not ours.num_classes and options.output != "features":
        raise UsageError(f"a model without a head gives features. Received: {options.output!r}.")
    if backend() != "tensorflow" and (note or not own_head):
        raise UsageError(
            "on other backends than TensorFlow only an unchanged keras_vit model itself is "
            f"exported. Received: KERAS_BACKEND={backend()} and a {type(model).__name__}"
            f"{f'; {note}' if note else ' of other layers'}."
        )
    # The note belongs to the hash: other layers may have the same weights.
    others = tuple(Weight(f"{note} {i}", "", v) for i, v in enumerate(model.weights))
    features = own_head and options.output == "features"
    return Resolved(
        keras=keras.Model(ours.input, ours.features) if features else model,
        name=name or model.name,
        input_shape=shape[1:],
        labels=labels or (ours.labels if own_head else None),
        preprocessing=preprocessing,
        spec=None if note else ours.spec,
        weights=_official_weights(ours) if ours is not None and not edit else others,
        tail=tail,
        num_outputs=int(model.output_shape[-1]),
        parameters=model.count_params(),
        note=note,
    )


def backbone(model: Any) -> tuple[ImageModel, keras.Model | None] | None:
    """The keras_vit model inside a Keras model, and what follows it; None where there is none.

    What follows is a model from the features (what our head reads) to the output, or None for our
    own head. Found in our models; in models made of our layers and another head,
    `keras.Model(vit.input, Dense(5)(vit.features))`; and in models that call one of ours without
    a head on their input, once, `keras.Sequential([vit, Dense(5)])` or the functional way.
    """
    if isinstance(model, ImageModel):
        return model, None
    ours = owner(model)
    if ours is not None:
        return _followed(ours, ours.features, model)
    first = next((x for x in model.layers if not isinstance(x, keras.layers.InputLayer)), None)
    if not isinstance(first, ImageModel) or first.num_classes:
        return None
    if isinstance(model, keras.Sequential):
        features = keras.Input(first.output.shape[1:])
        rest = model.layers[model.layers.index(first) + 1 :]
        return first, keras.Sequential([features, *rest]) if rest else None
    features = _features(model, first)
    return None if features is None else _followed(first, features, model)


def parameters_of(model: ImageModel) -> dict[str, np.ndarray]:
    """A model's weights in float32, by our layers' names ("encoderblock_0/mlp/dense_0/kernel")."""
    return arrays(_official_weights(model))


def arrays(weights: Iterable[Weight]) -> dict[str, np.ndarray]:
    """Copies of weights in float32, by our layers' names."""
    return {weight.path: _float32(weight.variable) for weight in weights}


def weights_sha256(model: ImageModel) -> str:
    """A hash of a model's weights: their official names, shapes and float32 values, in order.

    The same for the same weights in both flavours of Keras and on every backend; one weight is in
    memory at a time.
    """
    return hash_of(_official_weights(model))


def hash_of(weights: Iterable[Weight], tail: Any = None) -> str:
    """`weights_sha256` of weights that have been resolved, with those of the layers after them."""
    others = [] if tail is None else tail.variables
    digest = hashlib.sha256()
    for weight in [*weights, *(Weight(f"tail/{i}", "", v) for i, v in enumerate(others))]:
        array = np.ascontiguousarray(weight.variable, "<f4")
        digest.update(f"{weight.key} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()


def input_shape(model: Any) -> tuple[int, int, int, int]:
    """(1, height, width, channels) of the model's one input."""
    # A subclass of keras.Model with a `call` of its own has neither list.
    inputs, outputs = (getattr(model, side, None) or [] for side in ("inputs", "outputs"))
    shape = tuple(inputs[0].shape)[1:] if len(inputs) == 1 else ()
    if len(shape) != 3 or None in shape or len(outputs) != 1:
        given = " and ".join(str([tuple(x.shape) for x in side]) for side in (inputs, outputs))
        raise UsageError(
            "expected a model of one image input (height, width, channels) of known size and one "
            f"output, Sequential or functional. Received: {given}."
        )
    return (1, *shape)


def check_float32(model: Any) -> None:
    """Raises a `UsageError` where a model computes in mixed precision, or in Keras' integers."""
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
                f"quantised ({mode}), which TFLite does not take; use the model as it was before "
                "quantize(), and choose quantize='int8' for the file."
            )


def _check_options(
    kind: str, options: Any, own_head: bool, preprocessing: Preprocessing | None
) -> None:
    for field, usual, allowed in (
        ("output", "logits", own_head),
        ("input", "float32", preprocessing is not None),
    ):
        value = getattr(options, field)
        if value != usual and not allowed:
            raise UsageError(
                f"{field}={value!r} needs a keras_vit model with its own head. Received: a "
                f"{kind} of other layers; its {field} stays as it is: {usual!r}."
            )


def _official_weights(model: ImageModel) -> tuple[Weight, ...]:
    names = weight_names(model.spec, model.num_classes, model.image_size)
    return tuple(Weight(name.key, name.path, name.variable(model)) for name in names)


def _float32(variable: Any) -> np.ndarray:
    array = variable.numpy() if hasattr(variable, "numpy") else np.asarray(variable)
    return np.array(array, np.float32)


def _features(model: Any, first: ImageModel) -> Any:
    """The output of `first` where `model` calls it on its own input, once; None elsewhere."""
    within = {id(node) for nodes in model._nodes_by_depth.values() for node in nodes}
    calls = [node for node in first._inbound_nodes if id(node) in within]
    if len(calls) != 1:
        return None
    read, written = (
        (calls[0].keras_inputs[0], calls[0].outputs)
        if LEGACY
        else (calls[0].input_tensors[0], calls[0].output_tensors[0])
    )
    return written if read is model.inputs[0] else None


def _followed(ours: ImageModel, features: Any, model: Any) -> tuple | None:
    if features is model.outputs[0]:
        return None if ours.num_classes else (ours, None)
    try:
        return ours, keras.Model(features, model.output)
    except ValueError:  # what follows reads the images too, or something else of ours
        return None
