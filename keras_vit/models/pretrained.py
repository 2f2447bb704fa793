"""Models with weights from a file, a URL or the catalogue: the file says what it can."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_vit._checks import label_names
from keras_vit._errors import UsageError
from keras_vit.labels import imagenet2012_labels
from keras_vit.models.bit import BiT
from keras_vit.models.image_model import ARGUMENTS, refuse_keywords
from keras_vit.models.vit import ViT, with_overrides
from keras_vit.specs import Preprocessing, ResNetSpec, Spec, as_size
from keras_vit.weights.catalogue import PublishedWeights, find_weights
from keras_vit.weights.checkpoint import Checkpoint, open_checkpoint
from keras_vit.weights.download import fetch
from keras_vit.weights.loading import Loaded, fill
from keras_vit.weights.matching import Target, match

# What `load_weights` may be told, besides the fields of the spec.
LOAD_OPTIONS = ("positions", "grid", "resize_patches", "allow_nonfinite")


def model_from_weights(
    weights: str | os.PathLike,
    num_classes: int | None = None,
    image_size: int | tuple[int, int] | None = None,
    *,
    preprocessing: Preprocessing | None = None,
    labels: Sequence[str] | None = None,
    head_bias: float = 0.0,
    dtype: Any = None,
    name: str | None = None,
    **overrides: Any,
) -> ViT | BiT:
    """The model that a file of weights holds; its architecture is read from the file too.

    Args:
        weights: a file in any layout that `load_weights` reads, or a URL of one.
        num_classes, image_size, preprocessing, labels, head_bias, dtype, name, overrides: as in
            `create_model`.

    Raises:
        UsageError: a keyword is unknown, or the file is absent, damaged, or of no architecture that
            is known here.
    """
    _check_kind(weights)
    path = fetch(os.fspath(weights)) if _is_url(weights) else Path(weights)
    if not path.exists() and not path.suffix:
        raise UsageError(
            f"{weights}: there is no such file; published weights go with a model, as in "
            f"keras_vit.ViT_B16(weights={os.fspath(weights)!r})."
        )
    with open_checkpoint(path) as checkpoint:
        spec, variant = checkpoint.spec, checkpoint.variant
        check_overrides("model_from_weights", overrides, spec, with_weights=True)
        built = {"head_bias": head_bias, "dtype": dtype}
        if name or variant:
            built["name"] = name or variant
        told = (num_classes, image_size, preprocessing, labels)
        return from_checkpoint(checkpoint, spec, *told, overrides, built)[0]


def pretrained(
    variant: str,
    spec: Spec,
    weights: str | os.PathLike,
    num_classes: int | None,
    image_size: int | tuple[int, int] | None,
    preprocessing: Preprocessing | None,
    labels: Sequence[str] | None,
    overrides: dict[str, Any],
    built: dict[str, Any],
) -> ViT | BiT:
    """`create_model` with weights: a path, a URL, or a name of the catalogue."""
    path, published = _locate(variant, weights)
    told = (num_classes, image_size, preprocessing, labels)
    with open_checkpoint(path) as checkpoint:
        return from_checkpoint(checkpoint, spec, *told, overrides, built, published)[0]


def check_overrides(what: str, overrides: dict[str, Any], spec: Spec, with_weights: bool) -> None:
    """Checks the keywords of a constructor that are no arguments of its own.

    Args:
        what: the constructor, for the message.
        overrides: the keywords.
        spec: whose fields they may be.
        with_weights: whether `LOAD_OPTIONS` are known too.

    Raises:
        UsageError: one is unknown; the message names the nearest, and all.
    """
    fields = {f.name for f in dataclasses.fields(spec)}
    known = [*ARGUMENTS[1:], "weights", *(LOAD_OPTIONS if with_weights else ()), *sorted(fields)]
    unknown = [name for name in overrides if name not in known]
    if unknown:
        refuse_keywords(what, unknown, known)


def check_weights(
    spec: Spec,
    name: str,
    image_size: int | tuple[int, int],
    weights: str | os.PathLike,
) -> None:
    """Checks that `create_model` will take these weights for a new head; builds nothing.

    Published weights are downloaded.

    Raises:
        UsageError: as `create_model` would.
    """
    path, _ = _locate(name, weights)
    with open_checkpoint(path) as checkpoint:
        spec = with_overrides(spec, _told(checkpoint, spec, keeps_head=False))
        match(Target(spec, 1, as_size(image_size)), checkpoint, "reset")


def from_checkpoint(
    checkpoint: Checkpoint,
    spec: Spec,
    num_classes: int | None,
    image_size: int | tuple[int, int] | None,
    preprocessing: Preprocessing | None,
    labels: Sequence[str] | None,
    overrides: dict[str, Any],
    built: dict[str, Any],
    published: PublishedWeights | None = None,
) -> tuple[ViT | BiT, Loaded]:
    """A model of `spec` filled from an open checkpoint, which settles what is None.

    Nothing is built before every name and shape is known to fit.

    Args:
        checkpoint: the open file.
        spec: the architecture; fields of it that the file knows better are taken from there,
            unless `overrides` has them: the GELU, the epsilon, the representation.
        num_classes, image_size, preprocessing, labels, overrides: as in `create_model`.
        built: further arguments of the model's class, which no file knows.
        published: the catalogue's entry, which knows the resolution and the preprocessing.

    Returns:
        The model, and what was done to fill it.
    """
    options = {name: overrides[name] for name in LOAD_OPTIONS if name in overrides}
    overrides = {name: value for name, value in overrides.items() if name not in options}
    allow_nonfinite = options.pop("allow_nonfinite", False)
    # A head of as many classes, but of others, would be a trap.
    labels = None if labels is None else label_names(labels)
    named_alike = labels is None or checkpoint.labels in (None, labels)
    keeps_head = num_classes in (None, checkpoint.num_classes) and named_alike
    spec = with_overrides(spec, _told(checkpoint, spec, keeps_head) | overrides)
    if image_size is None:
        image_size = checkpoint.image_size or (published.image_size if published else 224)
    if preprocessing is None:
        told = checkpoint.preprocessing or (published.preprocessing if published else None)
        preprocessing = None if told is None else _resized(told, image_size)
    if labels is None and keeps_head:
        labels = checkpoint.labels
        if labels is None and published and published.num_classes == checkpoint.num_classes == 1000:
            labels = imagenet2012_labels()
    if num_classes is None:
        num_classes = checkpoint.num_classes
    target = Target(spec, num_classes, as_size(image_size), labels)
    found = match(target, checkpoint, "keep" if keeps_head else "reset", **options)
    model = (BiT if isinstance(spec, ResNetSpec) else ViT)(
        spec,
        num_classes,
        image_size,
        preprocessing=preprocessing,
        labels=labels,
        **built,
    )
    return model, fill(model, checkpoint, found, allow_nonfinite)


def _told(checkpoint: Checkpoint, spec: Spec, keeps_head: bool) -> dict[str, Any]:
    theirs = checkpoint.spec
    if isinstance(spec, ResNetSpec) or isinstance(theirs, ResNetSpec):
        return {}
    return {
        "gelu": theirs.gelu,
        "layer_norm_eps": theirs.layer_norm_eps,
        # A pre-training representation goes with its head (paper, section 3.1.1).
        "representation_dim": theirs.representation_dim if keeps_head else None,
    }


def _resized(how: Preprocessing, image_size: int | tuple[int, int]) -> Preprocessing:
    height, width = as_size(image_size)
    return dataclasses.replace(how, height=height, width=width)


def _locate(name: str, weights: str | os.PathLike) -> tuple[Path, PublishedWeights | None]:
    _check_kind(weights)
    text = os.fspath(weights)
    if _is_url(weights):
        return fetch(text), None
    if Path(text).exists():
        return Path(text), None
    if isinstance(weights, os.PathLike) or text.endswith((".safetensors", ".keras", ".h5")):
        raise UsageError(f"{text}: expected a file of weights; there is no such file.")
    try:
        published = find_weights(name, text)
    except UsageError as error:
        if text.endswith(".npz"):
            raise UsageError(
                f"{text}: expected a .npz file of weights; there is no such file, and no "
                "published one of that name for this model (keras_vit.list_weights)."
            ) from None
        raise UsageError(f"{text!r} is no file, and no published weights: {error}") from None
    return fetch(published.url), published


def _check_kind(weights: Any) -> None:
    if not isinstance(weights, (str, os.PathLike)):
        raise UsageError(f"weights must be a name, a path or a URL. Received: {weights!r}.")


def _is_url(weights: str | os.PathLike) -> bool:
    return isinstance(weights, str) and weights.startswith(("http://", "https://"))
