"""A Keras model to the bytes of `.tflite` files: one float32 graph, then each precision from it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit._interrupts import deferred_interrupts
from keras_vit._keras import LEGACY, backend, keras
from keras_vit._quiet import quiet
from keras_vit.deploy.convert.quantize import (
    check_calibration,
    for_runtime,
    measured_ranges,
    quantized,
)
from keras_vit.deploy.convert.saved_model import input_shape, save_module, write_saved_model
from keras_vit.deploy.precisions import precision_of
from keras_vit.models.image_model import ImageModel, owner
from keras_vit.specs import Preprocessing
from keras_vit.weights.names import weight_names


class Converter:
    """Converts one model to several precisions, and keeps what they share.

    Made in two steps, for the sake of memory: at first the graphs are written to disk, after
    which neither this object nor its caller needs the model any longer; then each is converted.

    Args:
        model: a `keras_vit` model, or any Keras model of one float32 image input (on the
            TensorFlow backend, then). Other layers may follow ours: the exact rewrites are then
            made up to them.
        precisions: the names in `PRECISIONS` that will be asked for.
        options: a `graph.GraphOptions`: what the file takes and gives, and the rewrites.
        calibration: images as the file takes them (n, height, width, 3), for precisions with
            measured ranges, and to balance outlier channels in all quantised ones.
        min_runtime: the oldest runtime that must run the files; None for any. Precisions that
            have a form for older runtimes take it.

    Raises:
        RefusedError: `min_runtime` runs no file of a precision.
        UsageError: the model computes in mixed precision, its input's size is unknown, it cannot
            take or give what `options` say, or a precision needs images and there are none.
    """

    def __init__(
        self,
        model: Any,
        precisions: Iterable[str],
        options: Any = None,
        calibration: np.ndarray | None = None,
        min_runtime: str | None = None,
    ):
        from keras_vit.deploy.graph.inference import GraphOptions

        precisions = list(precisions)
        self.options = options or GraphOptions()
        check_convertible(model, self.options)
        for name in precisions:
            check_calibration(for_runtime(precision_of(name), min_runtime), calibration)
        self.rewritten = backbone(model) is not None
        self.calibration = calibration
        self._min_runtime = min_runtime
        self._folder = tempfile.TemporaryDirectory()
        self._float_files: dict[str, bytes] = {}
        self._ranges: dict[str, dict] = {}
        for kind in sorted({self._kind(name) for name in precisions}):
            self._write(model, kind)

    def __call__(self, quantize: str | None = None, float_layers: Iterable[str] = ()) -> bytes:
        """The file of a precision.

        Args:
            quantize: one of the `precisions`; None for float32.
            float_layers: names of `quantizable_layers` that stay float.

        Raises:
            UsageError: an unknown layer; images are needed and there are none.
        """
        precision = for_runtime(precision_of(quantize), self._min_runtime)
        content = self.float_file(quantize)
        if precision.calibrated and precision.name not in self._ranges:
            self._ranges[precision.name] = measured_ranges(content, precision, self.calibration)
        ranges = self._ranges.get(precision.name)
        return quantized(content, precision, None, float_layers, ranges)

    def float_file(self, quantize: str | None = None) -> bytes:
        """The float32 file that a precision starts from, with its weights behind the flatbuffer."""
        kind = self._kind(quantize)
        if kind not in self._float_files:
            self._float_files[kind] = _converted(Path(self._folder.name) / kind)
        return self._float_files[kind]

    def _kind(self, quantize: str | None) -> str:
        # Outlier channels are balanced for integers, by what images show of them.
        integers = not precision_of(quantize).is_float
        balances = integers and self.rewritten and self.calibration is not None
        return "balanced" if balances else "plain"

    def _write(self, model: Any, kind: str) -> None:
        from keras_vit.deploy.graph.inference import inference_module

        folder = Path(self._folder.name) / kind
        if not self.rewritten:
            return write_saved_model(model, folder, batch=1)
        ours, tail = backbone(model)
        module = inference_module(
            ours.spec,
            parameters_of(ours),
            ours.image_size,
            ours.preprocessing,
            self.options,
            self.calibration if kind == "balanced" else None,
            tail,
        )
        with deferred_interrupts() as check_interrupts:
            save_module(module, folder, module.serve.get_concrete_function())
            check_interrupts()


def to_tflite(
    model: Any,
    quantize: str | None = None,
    calibration: np.ndarray | None = None,
    options: Any = None,
    float_layers: Iterable[str] = (),
) -> bytes:
    """One file of one precision: see `Converter`."""
    return Converter(model, [quantize], options, calibration)(quantize, float_layers)


def backbone(model: Any) -> tuple[ImageModel, keras.Model | None] | None:
    """Our model inside a Keras model, and what follows it; None where the model isn't ours.

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


def preprocessing_of(model: Any) -> Preprocessing:
    """How images become the input of a model that `check_convertible` let pass, for pixels."""
    return backbone(model)[0].preprocessing


def parameters_of(model: ImageModel) -> dict[str, np.ndarray]:
    """A model's weights in float32, by our layers' names ("encoderblock_0/mlp/dense_0/kernel")."""
    names = weight_names(model.spec, model.num_classes, model.image_size)
    return {name.path: _float32(name.variable(model)) for name in names}


def check_convertible(model: Any, options: Any) -> None:
    """Checks that a model can be converted with these `graph.GraphOptions`.

    Raises:
        UsageError: see `Converter`.
    """
    input_shape(model)
    check_float32(model)
    found = backbone(model)
    if found is not None and found[1] is None:
        return
    if backend() != "tensorflow":
        raise UsageError(
            "on other backends than TensorFlow only a keras_vit model itself is exported. "
            f"Received: KERAS_BACKEND={backend()} and a {type(model).__name__} of other layers."
        )
    for field, known in (("output", "logits"), ("input", "float32")):
        value = getattr(options, field)
        if value != known and (field == "output" or found is None):
            raise UsageError(
                f"{field}={value!r} needs a keras_vit model with its own head. Received: a "
                f"{type(model).__name__} of other layers; its {field} stays as it is: {known!r}."
            )


def release_memory() -> None:
    """Gives what is no longer used back to the system, before work that needs the room."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # glibc's, where there is one
        ctypes.CDLL(None).malloc_trim(0)


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


def _float32(variable: Any) -> np.ndarray:
    array = variable.numpy() if hasattr(variable, "numpy") else np.asarray(variable)
    return np.array(array, np.float32)


def check_float32(model: Any) -> None:
    """Raises a `UsageError` where a model computes in mixed precision."""
    mixed = {layer.compute_dtype for layer in model.layers if layer.weights} - {"float32"}
    if mixed:
        raise UsageError(
            f"export needs a float32 model. Received: layers that compute in {', '.join(mixed)}; "
            "build it again without the mixed precision policy and load its weights."
        )


def _converted(folder: str | Path) -> bytes:
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    # Weights behind the flatbuffer: it may exceed 2 GB, and is not built twice.
    converter._experimental_use_buffer_offset = True
    release_memory()
    with quiet(), deferred_interrupts() as check_interrupts:  # the converter would swallow them
        content = converter.convert()
        check_interrupts()
    del converter
    release_memory()
    return content
