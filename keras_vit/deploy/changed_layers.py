"""Finds out whether the layers of a keras_vit model still match its spec.

Export rebuilds a keras_vit model from its spec and weights as a faster graph. The result is correct
only if the layers are unchanged: none replaced, with another activation, or with another `call`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import reprlib
import threading
from collections.abc import Iterator
from typing import Any

from keras_vit._keras import LEGACY, keras
from keras_vit.models.image_model import ImageModel, each_layer
from keras_vit.models.pretrained import model_class
from keras_vit.specs import Spec, ViTSpec

# Settings that do not change inference. Initial values do not matter either: the weights are read
# from the model.
_NOT_READ = {"name", "trainable", "dtype", "dropout", "attention_dropout", "drop_path", "rate"}
_NOT_READ |= {"seed", "noise_shape", "batch_input_shape", "batch_shape"}
# What determines the output of a layer, besides its weights: its settings by name, and these two.
_Properties = dict[str, Any]
_CLASS, _CALL = "the class", "the call"
_TRAINING_ONLY = ("_initializer", "_regularizer", "_constraint")


def first_edit(model: ImageModel) -> str:
    """Describes the first difference between a model's layers and its spec; "" if there is none.

    The model is compared with a new one of the same spec, which has one block. Settings that matter
    only in training (dropout, initializers, `trainable`) are ignored.
    """
    expected = _expected(model.spec, model.num_classes, model.image_size)
    actual = dict(_described(model))
    for path in [*expected, *actual]:
        difference = _difference(expected.get(path), actual.get(path))
        if difference:
            return f"its layers are not those of its spec: {path or 'the model'} {difference}"
    return ""


def _difference(expected: _Properties | None, actual: _Properties | None) -> str:
    if actual is None:
        return "is missing"
    if expected is None:
        return "was added"
    for name in [*expected, *actual]:
        before, now = expected.get(name), actual.get(name)
        if before == now:
            continue
        if name == _CLASS:
            return f"is a {now.__name__}, not a {before.__name__}"
        if name == _CALL:
            return "has another call"
        return f"has {name}={reprlib.repr(now)}, not {reprlib.repr(before)}"
    return ""


def _expected(spec: Spec, num_classes: int, image_size: tuple[int, int]) -> dict[str, _Properties]:
    blocks = 1
    if isinstance(spec, ViTSpec):
        blocks, spec = spec.depth, dataclasses.replace(spec, depth=1)
    with _without_weights():
        fresh = model_class(spec)(spec, num_classes, image_size, dtype="float32")
        described = dict(_described(fresh))
    # All blocks of a spec have the same layers.
    expected = {}
    for path, layer in described.items():
        for i in range(blocks if path.startswith("encoderblock_0") else 1):
            expected[path.replace("encoderblock_0", f"encoderblock_{i}", 1)] = layer
    return expected


@contextlib.contextmanager
def _without_weights() -> Iterator[None]:
    """A context in which Keras 3 builds layers without allocating memory for their weights."""
    scope = contextlib.nullcontext() if LEGACY else keras.StatelessScope()
    # Initializers draw seeds from Python's global generator; its state is restored for the caller.
    # If there are other threads, they would then draw the same numbers twice.
    state = random.getstate() if threading.active_count() == 1 else None
    try:
        with scope:
            yield
    finally:
        if state is not None:
            random.setstate(state)


def _described(model: keras.Model) -> Iterator[tuple[str, _Properties]]:
    yield "", {_CLASS: type(model), _CALL: type(model).call}
    yield from ((path, _describe(layer)) for path, layer in each_layer(model) if path)


def _describe(layer: keras.layers.Layer) -> _Properties:
    try:
        settings = layer.get_config()
    except Exception as error:  # a custom layer of the user
        settings = {"get_config": repr(error)}
    read = {
        name: _plain(value)
        for name, value in settings.items()
        if name not in _NOT_READ and not name.endswith(_TRAINING_ONLY)
    }
    # A `call` that was set on the layer itself replaces that of its class.
    return {_CLASS: type(layer), _CALL: vars(layer).get("call", type(layer).call), **read}


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
