"""Records which layers Keras 3's `model.quantize` has quantised, and repeats it on a new model."""

from __future__ import annotations

from typing import Any

from keras_vit._errors import UsageError
from keras_vit._keras import keras

# The other modes calibrate on data, so they cannot be repeated on fresh weights.
_MODES = ("int8", "int4", "float8")


def quantised_layers(layers: dict[str, keras.layers.Layer]) -> dict[str, dict[str, Any]]:
    """The mode and configuration of each quantised layer, by path.

    Args:
        layers: all layers, by path.

    Raises:
        UsageError: a layer is quantised in a mode that cannot be repeated.
    """
    records = {}
    for path, layer in layers.items():
        mode = getattr(layer, "quantization_mode", None)
        if mode is None or not hasattr(layer, "quantization_config"):
            continue
        if mode not in _MODES:
            raise UsageError(
                f"expected a model that is not quantised, or quantised with {', '.join(_MODES)}. "
                f"Received: {path} ({mode}); save the model before quantize()."
            )
        config = keras.saving.serialize_keras_object(layer.quantization_config)
        records[path] = {"mode": mode, "config": config}
    return records


def quantise_layers(
    layers: dict[str, keras.layers.Layer], quantised: dict[str, dict[str, Any]]
) -> None:
    """Quantises new layers as `quantised_layers` has recorded, so that saved weights fit them."""
    for path, record in quantised.items():
        config = keras.saving.deserialize_keras_object(record["config"])
        layers[path].quantize(record["mode"], **({} if config is None else {"config": config}))
