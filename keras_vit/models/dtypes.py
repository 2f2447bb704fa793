"""The dtypes of a model's layers as plain values: their policies, and which are quantised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keras_vit._errors import UsageError
from keras_vit._keras import LEGACY, keras

# The other modes calibrate on data, so they cannot be repeated on fresh weights.
_MODES = ("int8", "int4", "float8")


@contextmanager
def dtype_policy(dtype: Any) -> Iterator[None]:
    """The default policy of layers created in this context; None changes nothing.

    The caller holds `building`: tf_keras has one policy for all threads.

    Args:
        dtype: a name such as "mixed_bfloat16", a policy, or the result of `serialized_policy`.

    Raises:
        UsageError: Keras has no such policy.
    """
    if dtype is None:
        yield
        return
    before = keras.mixed_precision.global_policy() if LEGACY else keras.config.dtype_policy()
    try:
        keras.mixed_precision.set_global_policy(_policy(dtype))
    except (TypeError, ValueError) as error:
        raise UsageError(
            "dtype must be a policy or the name of one, such as mixed_bfloat16. "
            f"Received: dtype={dtype!r}."
        ) from error
    try:
        yield
    finally:
        keras.mixed_precision.set_global_policy(before)


def serialized_policy(policy: Any) -> Any:
    """A policy as plain values: its name, or a dict if the name alone does not describe it."""
    if LEGACY or type(policy) is keras.DTypePolicy:
        return policy.name
    return keras.dtype_policies.serialize(policy)


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


def _policy(dtype: Any) -> Any:
    if LEGACY:
        if isinstance(dtype, keras.mixed_precision.Policy):
            return dtype
        if not isinstance(dtype, str):  # np.float32 and tf.float32, which Keras 3 takes itself
            dtype = getattr(dtype, "name", None) or getattr(dtype, "__name__", dtype)
        return keras.mixed_precision.Policy(dtype)
    return keras.dtype_policies.get(dtype)
