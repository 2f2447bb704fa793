"""What the layers share: their configuration, and the weights that they get from rows."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from keras_vit._keras import LEGACY, keras, ops
from keras_vit.encoder.patch_grids import Tokens
from keras_vit.encoder.positions import PositionWeight
from keras_vit.encoder.weight_rows import Row, with_present_names

# How rows are initialised, as in the official code.
INITIALIZERS = {
    "zeros": lambda layer: "zeros",
    "ones": lambda layer: "ones",
    "glorot": lambda layer: "glorot_uniform",
    "lecun": lambda layer: "lecun_normal",
    "tiny": lambda layer: keras.initializers.RandomNormal(stddev=1e-6),
    "layer_scale": lambda layer: keras.initializers.Constant(layer.layer_scale),
}

# For weights that no policy rounds to half precision before they are used.
EXACT = {"experimental_autocast" if LEGACY else "autocast": False}


class StaysFloat:
    """Mixin for layers that `model.quantize` leaves unchanged, because they have no matrix.

    Without it, Keras warns about every layer without sublayers that has no `quantize` method.
    """

    def quantize(self, mode=None, type_check=True, config=None):
        """Changes nothing."""


class ConfiguredLayer(keras.layers.Layer):
    """A layer whose configuration is read from the attributes that have its arguments' names.

    Attributes:
        options: further keywords of the constructor, with their defaults; they are attributes too.
    """

    options: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **kwargs):
        chosen = {name: kwargs.pop(name, default) for name, default in self.options.items()}
        super().__init__(**kwargs)
        for name, value in chosen.items():
            setattr(self, name, value)

    def chosen(self, names: Iterable[str]) -> dict[str, Any]:
        """The values of some options and arguments."""
        return {name: getattr(self, name) for name in names}

    def get_config(self):
        """The arguments that are attributes; a layer adds those that only its sublayers know."""
        names = [name for name in (*_arguments(type(self)), *self.options) if hasattr(self, name)]
        plain = {
            name: keras.saving.serialize_keras_object(value)
            if hasattr(value, "get_config")  # a layer or an initialiser
            else value
            for name, value in self.chosen(names).items()
        }
        return {**super().get_config(), **plain}

    @classmethod
    def from_config(cls, config):
        """The layer that `get_config` describes; constructors read initialisers themselves."""
        config = with_present_names(config)
        objects = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in _arguments(cls)
            if isinstance(config.get(name), dict) and not name.endswith("_initializer")
        }
        return super().from_config({**config, **objects})


def _arguments(layer: type) -> list[str]:
    return inspect.getfullargspec(layer.__init__).args[1:]


def layer_norm(name: str, epsilon: float, dtype: Any) -> keras.layers.Layer:
    """A LayerNorm over the last axis, in the dtype policy of the layer that owns it."""
    return keras.layers.LayerNormalization(epsilon=epsilon, dtype=dtype, name=name)


def named_build(
    layer: keras.layers.Layer, input_shape: tuple[int | None, ...], trainable: bool = True
) -> None:
    """Builds a sublayer, unless it is built, so that its variables' names start with its own name.

    Keras 3 always does this. In tf_keras, all kernels of a block would be called "kernel", and its
    HDF5 files cannot have two variables of the same name.

    Args:
        layer: the sublayer.
        input_shape: the shape of its input.
        trainable: whether its parent is trainable. Keras freezes only the sublayers that a layer
            has at that moment, and a layer that is loaded frozen creates its sublayers later.
    """
    if layer.built:
        return
    with keras.backend.name_scope(layer.name) if LEGACY else contextlib.nullcontext():
        layer.build(input_shape)
    if not trainable:
        layer.trainable = False


def build_rows(layer: Any, rows: Sequence[Row], rank: int = 3, **sizes: int) -> None:
    """Gives a layer what rows list, as attributes, and builds it: Dense layers, norms, variables.

    Args:
        layer: the layer that is being built.
        rows: weights of the layer itself, of its Dense layers, or of its LayerNorms.
        rank: the number of axes of the norms' inputs.
        sizes: the sizes in the rows' shapes.
    """
    for name, group in itertools.groupby(rows, lambda row: row.path.split("/")[0]):
        weights = {row.path.partition("/")[2]: row for row in group}
        initial = {part: INITIALIZERS[row.initial](layer) for part, row in weights.items()}
        shapes = {
            part: [sizes[size] if size in sizes else int(size) for size in row.shape]
            for part, row in weights.items()
        }
        if "" in weights:
            made = layer.add_weight(shape=tuple(shapes[""]), initializer=initial[""], name=name)
        elif "gamma" in weights:
            made = layer_norm(name, layer.layer_norm_eps, layer.dtype_policy)
            named_build(made, (*[None] * (rank - 1), *shapes["gamma"]), layer.trainable)
        else:
            made = _dense(layer, name, shapes, initial)
        setattr(layer, name, made)


def _dense(layer: Any, name: str, shapes: Mapping, initial: Mapping) -> keras.layers.Dense:
    kernel, bias = shapes["kernel"], shapes.get("bias")
    units = math.prod(bias or kernel[1:])  # without a bias, the kernel has one axis of inputs
    initializers = {f"{part}_initializer": each for part, each in initial.items()}
    options = {"use_bias": bias is not None, "dtype": layer.dtype_policy, "name": name}
    made = keras.layers.Dense(units, **options, **initializers)
    named_build(made, (None, math.prod(kernel) // units), layer.trainable)
    return made


def add_position_weights(
    layer: keras.layers.Layer, weights: Sequence[PositionWeight], tokens: Tokens, width: int
) -> None:
    """Adds weights to a layer that is being built, as attributes under their names."""
    for weight in weights:
        initial = (
            keras.initializers.RandomNormal(stddev=weight.stddev) if weight.stddev else "zeros"
        )
        shape = weight.shape(tokens, width)
        variable = layer.add_weight(shape=shape, initializer=initial, name=weight.name)
        setattr(layer, weight.name, variable)


def position_weights(
    layer: keras.layers.Layer, weights: Sequence[PositionWeight], dtype: str
) -> dict[str, Any]:
    """The weights that `add_position_weights` has added, by name, as tensors of `dtype`."""
    return {weight.name: ops.cast(getattr(layer, weight.name), dtype) for weight in weights}
