"""The kinds of input, as data: the name and its module."""

KINDS = {
    name: f"fuzzing.kinds.{name}"
    for name in (
        "npz", "safetensors", "hub", "foreign", "run", "checkpoint", "bundle", "tflite", "records",
        "index", "cifar", "picture", "served", "download", "executed",
    )
}  # fmt: skip
