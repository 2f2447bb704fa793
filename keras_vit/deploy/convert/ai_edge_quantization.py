"""Runs AI Edge Quantizer, with one kernel in memory at a time.

No other file uses its private members. They were read in `RELEASE`: after an update, read them
again. If another release does not use one that saves memory, the files are the same and need more
memory; without what is used here, it is refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from keras_vit._errors import MissingPackageError
from keras_vit._quiet import quiet
from keras_vit.deploy.stored_arrays import StoredArrays
from keras_vit.tflite.file_layout import split, unpacked
from keras_vit.tflite.flatbuffer import Model, mapped
from keras_vit.tflite.runner import ignore_kept_tensors

RELEASE = "0.10.0"
_LARGE = 1 << 14  # elements of a kernel that is not kept in memory


def modified(
    content: Model, recipe: Any, ranges: dict[str, Any] | None, kernels: StoredArrays
) -> tuple[Any, dict[int, np.ndarray]]:
    """Quantises a float32 file.

    Args:
        content: the file, or its content.
        recipe: the `RecipeManager` with the rules; None leaves the file as it is.
        ranges: the ranges of tensors by their names, if the rules need them.
        kernels: filled with quantised kernels, which must be kept until the file is written.

    Returns:
        The `ModelT` without its large constants, and these by the numbers of their buffers: see
        `file_layout.laid_out`.
    """
    if recipe is None:
        return unpacked(mapped(content))
    with _naming_release(), quiet():
        from ai_edge_quantizer import model_modifier
        from ai_edge_quantizer.utils import tfl_flatbuffer_utils

        if isinstance(content, os.PathLike):
            # The library's own map: it drops the pages of kernels that it has read.
            content = tfl_flatbuffer_utils.get_model_content(content)
        model = tfl_flatbuffer_utils.read_model(memoryview(content))
        parameters = _generator(model, kernels).generate_quantization_parameters(
            recipe, ranges, enable_progress_bar=False
        )
        modifier = model_modifier.ModelModifier(model)
        # `modify_model` then returns the model, which it would write into memory as a whole.
        modifier._serialize_model = modifier._serialize_small_model = lambda model, *_, **__: model
        return split(modifier.modify_model(parameters, enable_progress_bar=False))


def extremes(
    content: Model, recipe: Any, batches: list[np.ndarray]
) -> tuple[dict[str, dict[str, np.ndarray]], Callable[[int], np.ndarray]]:
    """Runs a float32 file on batches of inputs.

    The library's default is a moving average, which forgets the first images; the extremes are used
    instead, because values outside the range are clipped.

    Returns:
        "min" and "max" of each tensor by its name, and a function that gives a constant of the file
        by the number of its tensor.
    """
    with _naming_release(), quiet():
        from ai_edge_quantizer import calibrator
        from ai_edge_quantizer.utils.qsv_utils import min_max_update

        measured = calibrator.Calibrator(
            os.fspath(content) if isinstance(content, os.PathLike) else content,
            num_threads=2,
            mode=calibrator.CalibrationMode.CALIBRATION_PROFILER_BASED,
            qsv_update_func=min_max_update,
        )
        interpreter = measured._tfl_interpreter
        signature, names = next(iter(interpreter.get_signature_list().items()))
        [name] = names["inputs"]
        measured._get_total_operations = lambda _: 0  # so that it draws no progress bar
        measured.calibrate({signature: [{name: batch} for batch in batches]}, recipe)
        return measured.get_model_qsvs(), interpreter.get_tensor


def library() -> None:
    """Raises a `MissingPackageError` if AI Edge Quantizer is not installed."""
    try:
        import ai_edge_quantizer.quantizer  # noqa: F401
    except ImportError:
        raise MissingPackageError(
            "quantising needs AI Edge Quantizer: pip install 'keras_vit[export]'"
        ) from None
    ignore_kept_tensors()


@contextlib.contextmanager
def _naming_release() -> Iterator[None]:
    """A context that uses the library; an error that another release may cause names it."""
    try:
        yield
    except (AttributeError, ImportError, TypeError) as error:
        installed = importlib.metadata.version("ai-edge-quantizer")
        if installed == RELEASE:
            raise
        raise MissingPackageError(
            f"quantising needs AI Edge Quantizer {RELEASE}. Received: {installed}, which differs: "
            f"{error}; pip install ai-edge-quantizer=={RELEASE}"
        ) from error


def _generator(model: Any, kernels: StoredArrays) -> Any:
    """The `ParamsGenerator` of a `ModelT`, which stores each large kernel that it has quantised."""
    from ai_edge_quantizer.params_generator import ParamsGenerator

    class Generator(ParamsGenerator):
        def __init__(self):
            super().__init__(model)
            cache = self._tensor_quant_params_cache
            remember = cache.insert
            # The cache would keep kernels in memory. No two operators have the same one.
            cache.insert = lambda *entry: entry[-1] if _is_large(entry[-1]) else remember(*entry)

        def _update_model_quant_results(self, op_tensor_results):
            for tensor in op_tensor_results:
                tensor.consumers = tensor.consumers and [stored(use) for use in tensor.consumers]
            super()._update_model_quant_results(op_tensor_results)

    def stored(use: Any) -> Any:
        """How an operator uses a tensor, with the tensor's quantised values on disk."""
        if not _is_large(use.parameters):
            return use
        name = len(kernels)
        kernels[name] = use.parameters.quantized_data
        parameters = dataclasses.replace(use.parameters, quantized_data=kernels[name])
        return dataclasses.replace(use, parameters=parameters)

    return Generator()


def _is_large(parameters: Any) -> bool:
    """Whether quantisation parameters have the quantised values of a large kernel."""
    values = getattr(parameters, "quantized_data", None)
    return values is not None and values.size >= _LARGE
