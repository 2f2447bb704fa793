"""Converts weights to another layout, or inspects a file.

IN is a run folder, or a file in any layout that keras_vit reads: the official .npz in all its
spellings, BiT's, or the safetensors of timm or transformers (or one of their folders). The format
of OUT follows from its name, or from --to. The file is read back and compared after it is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from keras_vit import _checks, _files, deploy
from keras_vit._errors import RefusedError, UsageError, one_line
from keras_vit.cli._arguments import option
from keras_vit.cli._options import check_holds_no_runs
from keras_vit.cli._program import load
from keras_vit.encoder.ops import Activation

_SUFFIXES = {".npz": "npz", ".safetensors": "safetensors", ".keras": "keras", "": "saved_model"}
# Options that have the names of what overrides a file's own statements.
_OVERRIDES = (
    "positions", "grid", "allow_nonfinite", "added_to", "num_heads", "activation", "layer_norm_eps",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Options of the command."""

    input: Path | None = option(None, positional="IN")
    """The file or folder to read."""
    output: Path | None = option(None, positional="OUT")
    """The file to write; a folder for a SavedModel."""
    to: Literal["npz", "safetensors", "keras", "saved_model"] | None = None
    """The format of OUT; default: the format of its suffix, a SavedModel if it has none."""
    layout: Literal["timm", "transformers", "eomt"] = "timm"
    """The library whose names a .safetensors file uses; its JSON files are written beside it."""
    inspect: Path | None = None
    """Describe this file or run folder and write nothing; no model is built."""
    num_classes: int | None = option(None, check=_checks.not_negative)
    """The number of logits; if it is not that of IN, the head becomes zero. Default: that of IN."""
    image_size: int | tuple[int, int] | None = option(None, check=_checks.positive_integer)
    """One number, or height and width, in pixels; positions are resampled. Default: that of IN."""
    positions: _checks.Resampling | None = None
    """How positions are resampled; default: as the library whose names IN has does it."""
    grid: tuple[int, int] | None = None
    """Rows and columns of the positions of IN, if they do not form a square and the file does not
    say."""
    num_heads: int | None = option(None, check=_checks.positive_integer)
    """The number of attention heads, if neither IN nor a config.json beside it states it."""
    activation: Activation | None = None
    """That of the MLPs; default: that of IN, or of the library whose names IN has."""
    layer_norm_eps: float | None = None
    """The epsilon of LayerNorm; default: that of IN, or of the library whose names IN has."""
    added_to: Path | None = None
    """The file of the encoder that the weights of IN are added to: those of EoMT's own files with
    DINOv3 are differences."""
    allow_nonfinite: bool = False
    """Accept NaN and infinite values."""
    overwrite: bool = False
    """Replace what is at OUT."""

    def __post_init__(self):
        if self.inspect is None and (self.input is None or self.output is None):
            raise UsageError("expected IN and OUT, or --inspect FILE.")
        if self.inspect is not None and self.input is not None:
            raise UsageError("--inspect FILE writes nothing; leave IN and OUT out.")
        for field in ("to", "num_classes", "image_size", "activation", "layer_norm_eps"):
            if self.inspect is not None and getattr(self, field) is not None:
                flag = f"--{field.replace('_', '-')}"
                raise UsageError(f"--inspect FILE writes nothing; leave {flag} out.")


def run(arguments: Arguments) -> None:
    """Converts or inspects, and prints what was read and written."""
    file = _weights(arguments.inspect or arguments.input)
    kind = None if arguments.inspect else _kind(arguments)
    load(*(["tensorflow"] if kind == "saved_model" else []))
    from keras_vit.weights import open_checkpoint

    if arguments.inspect is not None:
        if _is_run(arguments.inspect):
            print(f"{_lines(_run(arguments.inspect))}\n")
        with open_checkpoint(file, arguments.num_heads) as checkpoint:
            print(_lines(_description(checkpoint)))
        return
    from keras_vit.models.pretrained import Request, from_checkpoint

    with open_checkpoint(file, arguments.num_heads) as checkpoint:
        print(f"read     {checkpoint.path}: {checkpoint.dialect}")
        given = {field: getattr(arguments, field) for field in _OVERRIDES}
        request = Request(
            arguments.num_classes,
            arguments.image_size or checkpoint.image_size,
            overrides={field: value for field, value in given.items() if value is not None},
            build={"name": checkpoint.variant},
        )
        model, loaded = from_checkpoint(checkpoint, checkpoint.spec, request)
        print(f"model    {_summary(model.spec, checkpoint.variant)}, {_of(model)}")
        print(f"loaded   {loaded}")
        if loaded.head == "reset":
            print("head     reset to zeros: IN has another number of classes")
    print(f"wrote    {arguments.output}: {_write(model, arguments, kind)}")


def _kind(arguments: Arguments) -> str:
    output = arguments.output
    kind = arguments.to or _SUFFIXES.get(output.suffix)
    if kind is None:
        raise UsageError(
            f"{output}: expected .npz, .safetensors, .keras or a folder, or pass --to."
        )
    suffix = next(suffix for suffix, name in _SUFFIXES.items() if name == kind)
    if suffix and output.suffix != suffix:
        raise UsageError(f"{output}: expected a name that ends in {suffix} for --to {kind}.")
    if output.resolve() in (arguments.input.resolve(), _weights(arguments.input).resolve()):
        raise UsageError(f"{output} is IN itself; choose another OUT.")
    if _is_run(output.parent):
        raise UsageError(
            f"{output} would be a file of the run {output.parent}; choose another OUT."
        )
    _files.check_writable(output)
    if output.exists() and not arguments.overwrite:
        raise UsageError(f"{output} exists; choose another OUT or --overwrite it.")
    if output.is_dir() != (kind == "saved_model") and output.exists():
        raise UsageError(f"{output} is {'a folder' if output.is_dir() else 'a file'}.")
    if output.is_dir():
        _files.check_replaceable(output, "SavedModel")
    return kind


def _write(model: Any, arguments: Arguments, kind: str) -> str:
    if kind == "saved_model":
        difference = deploy.export_saved_model(model, arguments.output)
        return f"SavedModel, within {difference:.1e} of Keras when run"
    if kind == "keras":
        return _write_keras(model, arguments.output)
    import numpy as np

    from keras_vit.weights import open_checkpoint, save_weights, weight_names

    layout = "official" if kind == "npz" else arguments.layout
    save_weights(model, arguments.output, layout)
    names = weight_names(model.spec, model.num_classes, model.image_size)
    with open_checkpoint(arguments.output) as again:
        for name in names:
            variable = np.asarray(name.variable(model)).reshape(name.shape)
            if not np.array_equal(again.read(name.key, name.shape), variable, equal_nan=True):
                arguments.output.unlink()
                raise RefusedError(f"{arguments.output}: {name.key} was not read back as written.")
        return f"{again.dialect}, all {len(names)} weights read back, bit-equal"


def _write_keras(model: Any, output: Path) -> str:
    import numpy as np

    from keras_vit._keras import keras

    with _files.replacing(output) as temporary:
        model.save(temporary)
        again = keras.models.load_model(temporary)
        for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
            if not np.array_equal(one, other, equal_nan=True):
                raise RefusedError(f"{output}: a weight was not read back as written.")
    return f"Keras model, all {len(model.weights)} weights read back, bit-equal"


def _is_run(path: Path) -> bool:
    return (path / "spec.json").is_file()


def _weights(path: Path) -> Path:
    if (path / "model.tflite").is_file():
        raise UsageError(
            f"{path} is an exported bundle, which cannot be converted back; give the run or the "
            "file of weights that it was exported from."
        )
    if _is_run(path):
        return path / "weights.npz"
    if not path.exists():
        raise UsageError(f"{path}: expected a file of weights or a run; there is no such file.")
    check_holds_no_runs(path)
    return path


def _lines(facts: dict[str, str]) -> str:
    return "\n".join(f"{name:<10}  {one_line(text)}" for name, text in facts.items())


def _run(path: Path) -> dict[str, str]:
    from keras_vit import runs

    run = runs.open_run(path)
    settings, metrics = run.recipe["recipe"], run.metrics()
    last = metrics[-1] if metrics else {}
    accuracy, steps = last.get("val_accuracy"), "{step} steps, {epoch} epochs"
    return {
        "run": str(run.path),
        "model": run.spec["model"],
        "image size": " x ".join(map(str, run.spec["image_size"])),
        "classes": f"{len(run.labels)}: {_some(run.labels, 8)}",
        "data": run.recipe["data"],
        "began with": "random weights" if run.spec["weights"] == "fresh" else run.spec["weights"],
        "recipe": ", ".join(f"{name} {value}" for name, value in settings.items()),
        "trained": steps.format(**last) if last else "not yet an epoch",
        "accuracy": "unknown" if accuracy is None else f"{accuracy:.2%} of the held-out images",
        "saved": run.saved,
    }


def _some(names: Sequence[str], count: int) -> str:
    return ", ".join(names[:count]) + (" ..." if len(names) > count else "")


def _description(checkpoint: Any) -> dict[str, str]:
    spec, state = checkpoint.spec, checkpoint.head_state
    file = checkpoint.tensors.path
    return {
        "file": f"{file}, {file.stat().st_size / 2**20:,.1f} MiB",
        "dialect": checkpoint.dialect,
        "model": _summary(spec, checkpoint.variant),
        "resolution": _resolution(checkpoint),
        "classes": str(checkpoint.num_classes),
        "head": "zero: all zeros, as pre-training files are" if state == "zero" else state,
        "parameters": f"{checkpoint.parameters:,}",
        "ignored": _names(checkpoint.layout.ignored),
        "unknown": _names(checkpoint.layout.unknown),
    }


def _resolution(checkpoint: Any) -> str:
    if checkpoint.image_size is not None:
        return " x ".join(map(str, checkpoint.image_size))
    square = "unknown: its positions do not form a square grid"
    return square if checkpoint.has_positions else "any"


def _names(keys: tuple[str, ...]) -> str:
    from keras_vit.weights.tensors import display

    return f"{len(keys)} keys: {_some([display(key) for key in keys[:4]], 3)}" if keys else "none"


def _summary(spec: Any, variant: str | None) -> str:
    name = variant or "none of the table"
    if not hasattr(spec, "hidden_dim"):
        return f"{name}: BiT ResNet-V2 of {spec.layers} units, width {spec.width}"
    stem = f"ResNet stem of {spec.stem.stages} units, " if spec.stem else ""
    head = f", representation {spec.representation_dim}" if spec.representation_dim else ""
    head += f", projection {spec.projection_dim}" if spec.projection_dim else ""
    norm = ", a norm before the blocks" if spec.embedding_norm else ""
    mlp = "MLP" if spec.mlp_kind == "plain" else f"{spec.mlp_kind} MLP"
    registers = f", {spec.registers} registers" if spec.registers else ""
    rotation = f", rotation {spec.rotation}" if spec.rotation != "none" else ""
    if spec.num_queries:
        head += f", EoMT with {spec.num_queries} queries in {spec.query_blocks} blocks"
    return (
        f"{name}: {stem}hidden {spec.hidden_dim}, {spec.depth} blocks, {spec.num_heads} heads, "
        f"{mlp} {spec.mlp_dim}, patch {spec.patch_size}, pooling {spec.pooling}{head}"
        f"{registers}, positions {spec.position_embedding}{rotation}{norm}, activation "
        f"{spec.activation}, "
        f"epsilon {spec.layer_norm_eps:g}"
    )


def _of(model: Any) -> str:
    height, width = model.image_size
    return f"{height} x {width}, {model.num_classes} classes, {model.count_params():,} parameters"
