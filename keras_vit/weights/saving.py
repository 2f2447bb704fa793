"""Saves the weights of a built model in layouts that other programs read."""

from __future__ import annotations

import json
import os
import zipfile
from operator import itemgetter
from pathlib import Path
from typing import Any, get_args

import numpy as np

from keras_vit import _files, _json
from keras_vit._checks import keras_vit_model
from keras_vit._errors import UsageError
from keras_vit.specs import ResNetSpec
from keras_vit.weights.families import FAMILIES, Family, FileLayout
from keras_vit.weights.hub_preprocessing import PIL_CODES
from keras_vit.weights.names import POSITION_TABLE, WeightName, weight_names
from keras_vit.weights.places import place_of
from keras_vit.weights.tensors import METADATA

_AFTER_POOLING = ("head/", "head_dist/", "projection/")
_LONGEST_COMMENT = 65_535  # of a zip archive


def save_weights(model: Any, path: str | os.PathLike, layout: FileLayout | None = None) -> None:
    """Writes a model's weights as float32 in a published layout, atomically.

    The layout "official" (`.npz`) can be read by google-research/vision_transformer, big_vision and
    timm; for a BiT, by google-research/big_transfer and timm. With "timm" and "transformers"
    (`.safetensors`), the JSON files that these libraries need are written too: if `path` is
    folder/model.safetensors, `timm.create_model("local-dir:folder")` or
    `AutoModelForImageClassification.from_pretrained("folder")` opens it. "eomt" (`.safetensors`)
    has the names of tue-mps/eomt. Properties that a layout
    cannot express (the spec, a grid that is not square, labels) are stored in the file's metadata,
    which other programs ignore.

    timm's models differ in two points that a file cannot change: an epsilon below 1e-6 becomes
    1e-6, and ResNets normalise with other epsilons (GroupNorm 1e-5 in hybrids, StdConv 1e-8).

    Each file is replaced as a whole, first the weights, then the JSON files. JSON files that belong
    to a previous model of the same name are deleted.

    Args:
        model: a built `keras_vit.ViT` or `keras_vit.BiT`.
        path: the file, replaced if it exists; `.npz` or `.safetensors`.
        layout: default: "official" for `.npz`, "timm" for `.safetensors`.

    Raises:
        UsageError: the layout cannot store one of the model's weights, or needs another suffix.
    """
    path = Path(path)
    layouts = {".npz": ("official",), ".safetensors": ("timm", "transformers", "eomt")}
    layouts = layouts.get(path.suffix)
    if layouts is None:
        raise UsageError(f"{path}: expected a name that ends in .npz or .safetensors.")
    layout = layout or layouts[0]
    if layout not in layouts:
        raise UsageError(
            f"{path}: expected {' or '.join(layouts)} for {path.suffix}. Received: {layout!r}."
            if layout in get_args(FileLayout)
            else f"layout must be one of {', '.join(get_args(FileLayout))}. Received: {layout!r}."
        )
    keras_vit_model(model)
    names = weight_names(model.spec, model.num_classes, model.image_size)
    if layout == "official":
        _save_npz(model, names, path)
    else:
        _save_safetensors(model, names, path, layout)


def _save_npz(model: Any, names: list[WeightName], path: Path) -> None:
    comment = json.dumps(_metadata(model)).encode()
    if len(comment) > _LONGEST_COMMENT:  # thousands of long labels
        comment = json.dumps(_metadata(model) | {"labels": None}).encode()
    # Like np.savez, but one array at a time, so that the model is not in memory twice.
    with _files.replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name in names:
            with archive.open(f"{name.key}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, _array(model, name), allow_pickle=False)
        archive.comment = comment


def _save_safetensors(model: Any, names: list[WeightName], path: Path, layout: str) -> None:
    import safetensors.numpy

    family = _family(model, layout)
    arrays = _arrays_of_file(family, model, names)
    metadata = {"format": "pt", METADATA: json.dumps(_metadata(model))}
    sidecars = family.files(model)
    stem = "" if path.stem == "model" else f"{path.stem}."
    paths = {n: path.with_name(stem + n) for n in ("config.json", "preprocessor_config.json")}
    for sidecar in paths.values():
        _check_replaceable(sidecar)
    with _files.replacing(path) as temporary:
        safetensors.numpy.save_file(arrays, temporary, metadata)
    for name, sidecar in paths.items():
        if name in sidecars:
            _files.write_json(sidecar, sidecars[name])
        else:
            sidecar.unlink(missing_ok=True)


def _check_replaceable(sidecar: Path) -> None:
    # Many programs have a config.json; only files that were written for a hub are replaced.
    if not sidecar.exists():
        return
    try:
        content = _json.parse(_files.read_bounded(sidecar, _json.MOST_BYTES), str(sidecar))
    except UsageError:
        content = None
    marks = {"architecture", "architectures", "image_processor_type", "feature_extractor_type"}
    if not isinstance(content, dict) or not marks & content.keys():
        raise UsageError(
            f"{sidecar} was not written for a hub and would be replaced; choose another folder."
        )


def _family(model: Any, layout: str) -> Family:
    """The family of a library that can store a model."""
    preprocessing = model.preprocessing
    interpolation = preprocessing.interpolation if preprocessing else "bilinear"
    if interpolation not in PIL_CODES:
        raise UsageError(
            f"timm and transformers resize images by {', '.join(PIL_CODES)}. Received: a model "
            f"with interpolation={interpolation!r}; save a .npz in the official layout."
        )
    if layout == "timm" and preprocessing and preprocessing.pad:
        raise UsageError(
            "timm does not pad images at the bottom and at the right. Received: a model with "
            "pad=True; save a .npz in the official layout."
        )
    families = [family for family in FAMILIES if family.library == layout]
    is_bit = isinstance(model.spec, ResNetSpec)
    # The nearest one, for the message.
    family = min(families, key=lambda each: (each.bit != is_bit, len(each.refusals(model.spec))))
    refusals = family.refusals(model.spec)
    refusal = refusals[0] if refusals else family.refuses(model)
    if refusal:
        raise UsageError(f"{refusal}; save a .npz in the official layout.")
    return family


def _arrays_of_file(family: Family, model: Any, names: list[WeightName]) -> dict[str, np.ndarray]:
    places = {**family.places, **family.places_of_spec(model.spec)}
    prefix = family.prefix if model.num_classes else family.headless_prefix
    stacks = {prefix + name: [(0, array)] for name, array in family.unused(model).items()}
    table = place_of(places, POSITION_TABLE)
    has_class_row = table is None or table.form not in ("grid", "rows")
    for name in names:
        place = place_of(places, name.key)
        if place is None:
            raise UsageError(
                f"{family.name} cannot store {name.key}; save a .npz in the official layout."
            )
        # Layers after the pooling have no prefix.
        key = place.key if name.key.startswith(_AFTER_POOLING) else prefix + place.key
        array = _array(model, name)
        if name.key == "cls" and not has_class_row:
            # The position of the class token becomes a part of it.
            row = next((each for each in names if each.key == POSITION_TABLE), None)
            array = array if row is None else array + _array(model, row)[:, :1]
        stacks.setdefault(key, []).append((place.part, place.stored(array)))
    stacks = {key: sorted(stack, key=itemgetter(0)) for key, stack in stacks.items()}
    return {
        key: np.ascontiguousarray(np.concatenate([array for _, array in stack]))
        for key, stack in stacks.items()
    }


def _array(model: Any, name: WeightName) -> np.ndarray:
    return np.asarray(name.variable(model), np.float32).reshape(name.shape)


def _metadata(model: Any) -> dict[str, Any]:
    preprocessing = model.preprocessing
    return {
        "format": 1,
        "spec": model.spec.to_dict(),
        "num_classes": model.num_classes,
        "image_size": list(model.image_size),
        **({"preprocessing": preprocessing.to_dict()} if preprocessing else {}),
        "labels": list(model.labels) if model.labels else None,
    }
