"""The kinds of input: the name of each, and where it is."""

_MODULES = {
    "weights": ("npz", "safetensors", "hub"),
    "runs": ("run", "checkpoint"),
    "exports": ("bundle", "tflite", "executed"),
    "data": ("records", "index", "cifar", "picture", "served"),
    "download": ("download",),
}
KINDS = {
    kind: f"{__name__}.{module}:{kind.upper()}"
    for module, kinds in _MODULES.items()
    for kind in kinds
}
