"""The kinds of input: the name of each, and where it is."""

_MODULES = {
    "weights": ("npz", "safetensors", "hub"),
    "runs": ("run", "checkpoint"),
    "exports": ("bundle", "tflite", "executed"),
    "data": ("records", "index", "cifar", "picture", "served"),
    "download": ("download",),
}
KINDS = {
    name: f"{__name__}.{module}:{name.upper()}" for module in _MODULES for name in _MODULES[module]
}
