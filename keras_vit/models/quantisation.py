"""Layers quantised by `model.quantize` of Keras 3: recorded as plain values, quantised again."""

from __future__ import annotations

from typing import Any

from keras_vit._errors import UsageError
from keras_vit._keras import keras

# Other modes calibrate on data, so fresh layers cannot be quantised in the same way.
_MODES = ("int8", "int4", "float8")


def quantised_layers(layers: dict[str, keras.layers.Layer]) -> dict[str, dict[str, Any]]:
    """Mode and configuration of each quantised layer, by its path.

    Args:
        layers: every layer by its path.

    Raises:
        UsageError: a layer has a mode that cannot be saved.
    """
    found = {}
    for path, layer in layers.items():
        mode = getattr(layer, "quantization_mode", None)
        if mode is None or not hasattr(layer, "quantization_config"):
            continue
        if mode not in _MODES:
            raise UsageError(
                f"expected a model that is not quantised, or by {', '.join(_MODES)}. Received: "
                f"{path} ({mode}); save the model before quantize()."
            )
        config = keras.saving.serialize_keras_object(layer.quantization_config)
        found[path] = {"mode": mode, "config": config}
    return found


def quantise_layers(
    layers: dict[str, keras.layers.Layer], quantised: dict[str, dict[str, Any]]
) -> None:
    """Quantises fresh layers as `quantised_layers` found them, so that their weights fit."""
    for path, entry in quantised.items():
        config = keras.saving.deserialize_keras_object(entry["config"])
        layers[path].quantize(entry["mode"], **({} if config is None else {"config": config}))
