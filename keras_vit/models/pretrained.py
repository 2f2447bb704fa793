"""Models by a variant's name, by a file of weights, or by both.

Weights come from a file, a URL or the catalogue, and open settings from the file.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_vit._checks import PICTURE_CHANNELS, label_names
from keras_vit._errors import UsageError
from keras_vit.encoder.dense_heads import DENSE_FIELDS, DENSE_HEADS
from keras_vit.encoder.poolings import POOLINGS
from keras_vit.labels import imagenet2012_labels
from keras_vit.models.bit import BiT
from keras_vit.models.image_model import ARGUMENTS, refuse_keywords
from keras_vit.models.vit import ViT
from keras_vit.specs import Preprocessing, ResNetSpec, Spec, ViTSpec, as_size
from keras_vit.variant_specs import USUAL_SIZES, VARIANTS, find_variant
from keras_vit.weights.catalogue import find_weights, named_weights
from keras_vit.weights.checkpoint import Checkpoint, open_checkpoint
from keras_vit.weights.download import fetch
from keras_vit.weights.hub_download import fetch_folder
from keras_vit.weights.loading import Loaded, Target, fill, match
from keras_vit.weights.published_weights import HUB, PublishedWeights

# Options of `load_weights` that the constructors take too, besides the fields of the spec.
LOAD_OPTIONS = ("positions", "grid", "resize_patches", "allow_nonfinite", "added_to")
_BIASES = ("query_bias", "key_bias", "value_bias", "patch_bias")


@dataclasses.dataclass(frozen=True)
class Request:
    """The arguments of a caller who builds a model with weights. None takes the file's value.

    Attributes:
        num_classes, image_size, preprocessing, labels: as in `create_model`.
        overrides: fields of the spec, and `LOAD_OPTIONS`.
        build: further arguments of the model's class, which files do not contain.
    """

    num_classes: int | None = None
    image_size: int | tuple[int, int] | None = None
    preprocessing: Preprocessing | None = None
    labels: Sequence[str] | None = None
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)
    build: dict[str, Any] = dataclasses.field(default_factory=dict)


def create_model(
    variant: str,
    num_classes: int | None = None,
    image_size: int | tuple[int, int] | None = None,
    *,
    weights: str | os.PathLike | None = None,
    preprocessing: Preprocessing | None = None,
    labels: Sequence[str] | None = None,
    head_bias: float = 0.0,
    dtype: Any = None,
    name: str | None = None,
    **overrides: Any,
) -> ViT | BiT:
    """Builds a variant by its name: "ViT-B_16", also spelled "ViT_B16" or "vit-b/16".

    >>> model = keras_vit.create_model("ViT-Ti_16", num_classes=10, dropout=0.1)
    >>> model.output_shape
    (None, 10)

    Args:
        variant: see `list_models`.
        num_classes: number of logits; default: that of `weights`, or 1000. If the number or the
            labels differ from those of the file, the head starts at zero.
        image_size: input size in pixels, one number or (height, width); default: that of
            `weights`, or 224 (ViT-Pico_4, R+ViT-Pico_4 and BiT-R8x1: 32). Position tables of
            another size are resampled. The size of a folder of transformers is that of its
            preprocessor_config.json: 224 for DINOv2, whose positions are of 518 pixels.
        weights: published weights ("imagenet21k", "augreg" ..., or a full name: see
            `list_weights`), a file in any layout that `load_weights` reads, a folder with its
            config.json, or the URL of either ("hf://OWNER/NAME" for a folder of the Hugging Face
            Hub); default: new weights. GELU, epsilon, LayerScale, pre-training representation,
            projection and `in_channels` are taken from the file, and it must not state another
            number of heads. A new head reads what precedes the representation or the projection.
        preprocessing: default: that of `weights`; otherwise images are stretched to the size, and
            pixels scaled to [-1, 1].
        labels: the class names; default: those in the file, if the head is kept.
        head_bias: initial bias of a new head.
        dtype: a dtype policy or its name, as in `ViT`.
        name: name of the model; default: name of the variant.
        overrides: fields of `ViTSpec` or `ResNetSpec`, such as dropout=0.1, pooling="gap" or
            in_channels=1 for grey pictures, to which weights for RGB are folded as in
            `load_weights`; with weights also `positions`, `grid`, `resize_patches`,
            `allow_nonfinite` and `added_to` of `load_weights`.

    Raises:
        UsageError: a name or a keyword is unknown, or the file does not fit the model.
    """
    variant = find_variant(variant)
    spec = VARIANTS[variant]
    _check_overrides(variant, overrides, spec, weights is not None)
    build = {"head_bias": head_bias, "dtype": dtype, "name": name or variant}
    if weights is not None:
        path, published = locate(weights, variant)
        request = Request(num_classes, image_size, preprocessing, labels, overrides, build)
        with open_checkpoint(path, _heads(spec, overrides)) as checkpoint:
            return from_checkpoint(checkpoint, spec, request, published)[0]
    return model_class(spec)(
        dataclasses.replace(spec, **overrides),
        1000 if num_classes is None else num_classes,
        USUAL_SIZES.get(variant, 224) if image_size is None else image_size,
        preprocessing=preprocessing,
        labels=labels,
        **build,
    )


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
    """The model in a file of weights; the architecture is read from the file too.

    >>> keras_vit.save_weights(model, "out.npz")
    >>> same = keras_vit.model_from_weights("out.npz")
    >>> new = keras_vit.model_from_weights("out.npz", num_classes=5)  # its head starts at zero

    Args:
        weights: a file in any layout that `load_weights` reads, a folder with its config.json, or
            the URL of either ("hf://OWNER/NAME" for a folder of the Hugging Face Hub); or a full
            published name, such as "facebook/dinov2-small".
        num_classes, image_size, preprocessing, labels, head_bias, dtype, name, overrides: as in
            `create_model`. A PyTorch file whose size is that of no variant needs num_heads, unless
            its config.json is beside it.

    Raises:
        UsageError: a keyword is unknown; or the file is absent, damaged, or its architecture is
            unknown.
    """
    path, published = locate(weights)
    with open_checkpoint(path, overrides.get("num_heads")) as checkpoint:
        spec, variant = checkpoint.spec, checkpoint.variant
        _check_overrides("model_from_weights", overrides, spec, with_weights=True)
        build = {"head_bias": head_bias, "dtype": dtype, "name": name or variant}
        request = Request(num_classes, image_size, preprocessing, labels, overrides, build)
        return from_checkpoint(checkpoint, spec, request, published)[0]


def held_spec(weights: str | os.PathLike, num_heads: int | None = None) -> tuple[str, Spec]:
    """The name and the architecture of the model that weights hold; builds nothing.

    Args:
        weights: as in `model_from_weights`; published ones are downloaded.
        num_heads: for a file that does not state it.

    Raises:
        UsageError: see `model_from_weights`.
    """
    path, _ = locate(weights)
    with open_checkpoint(path, num_heads) as checkpoint:
        spec = checkpoint.spec
        return checkpoint.variant or model_class(spec).default_name, spec


def check_weights(
    spec: Spec,
    name: str | None,
    image_size: int | tuple[int, int],
    weights: str | os.PathLike,
    overrides: dict[str, Any],
) -> None:
    """Checks that a model can be built with these weights and a new head; builds nothing.

    Args:
        spec: the architecture.
        name: its variant, for `create_model`; None for `model_from_weights`.
        image_size: the input size in pixels.
        weights: see `create_model`; published ones are downloaded.
        overrides: fields of the spec that the caller sets.

    Raises:
        UsageError: see `create_model`.
    """
    path, _ = locate(weights, name)
    with open_checkpoint(path, _heads(spec, overrides)) as checkpoint:
        spec = _as_in_file(checkpoint, spec, overrides, keeps_head=False)
        match(Target(spec, 1, as_size(image_size)), checkpoint, "reset")


def from_checkpoint(
    checkpoint: Checkpoint,
    spec: Spec,
    request: Request,
    published: PublishedWeights | None = None,
) -> tuple[ViT | BiT, Loaded]:
    """A model of `spec` with the weights and, where the request is open, the settings of a file.

    The model is built only after every name and shape has been found to fit.

    Args:
        checkpoint: the open file.
        spec: the architecture. The GELU, the epsilon, the representation and the channels of the
            image are taken from the file unless the request overrides them.
        request: the arguments of the caller.
        published: the entry in the catalogue, which has the image size and the preprocessing.

    Returns:
        The model, and a record of the loading.
    """
    options = {name: value for name, value in request.overrides.items() if name in LOAD_OPTIONS}
    overrides = {name: value for name, value in request.overrides.items() if name not in options}
    allow_nonfinite, added_to = options.pop("allow_nonfinite", False), options.pop("added_to", None)
    added_to = added_to if added_to is None else locate(added_to)[0]
    labels = None if request.labels is None else label_names(request.labels)
    # A head for the same number of other classes would give wrong names.
    same_labels = labels is None or checkpoint.labels in (None, labels)
    keeps_head = request.num_classes in (None, checkpoint.num_classes) and same_labels
    keeps_head &= all(
        overrides.get(name) in (None, getattr(checkpoint.spec, name, None)) for name in DENSE_FIELDS
    )
    num_classes = checkpoint.num_classes if request.num_classes is None else request.num_classes
    if not checkpoint.num_classes and isinstance(spec, ViTSpec):
        overrides = {"pooling": _pooling(checkpoint, spec, num_classes), **overrides}
    spec = _as_in_file(checkpoint, spec, overrides, keeps_head)
    image_size = request.image_size
    if image_size is None:
        stated = _preprocessed_size(checkpoint) or checkpoint.image_size
        image_size = stated or (published.image_size if published else 224)
    size = as_size(image_size)
    if labels is None and keeps_head:
        labels = checkpoint.labels
        if labels is None and published and published.num_classes == checkpoint.num_classes == 1000:
            labels = imagenet2012_labels()
    target = Target(spec, num_classes, size, labels)
    matched = match(target, checkpoint, "keep" if keeps_head else "reset", **options)
    preprocessing = request.preprocessing
    if preprocessing is None:
        preprocessing = _known_preprocessing(checkpoint, published, size, spec.in_channels)
        has_queries = num_classes and getattr(spec, "num_queries", 0)
        if preprocessing is not None and preprocessing.pad and not has_queries:
            # No file for phones has it, and answers other than masks do not need it.
            preprocessing = dataclasses.replace(preprocessing, pad=False)
    model = model_class(spec)(
        spec, num_classes, size, preprocessing=preprocessing, labels=labels, **request.build
    )
    return model, fill(model, checkpoint, matched, allow_nonfinite, added_to)


def model_class(spec: Spec) -> type[ViT | BiT]:
    """The class whose models `spec` describes."""
    return BiT if isinstance(spec, ResNetSpec) else ViT


def _check_overrides(
    function: str, overrides: dict[str, Any], spec: Spec, with_weights: bool
) -> None:
    """Checks the keywords of a constructor that its signature does not name.

    Args:
        function: the constructor, for the message.
        overrides: the keywords.
        spec: its fields are allowed.
        with_weights: whether `LOAD_OPTIONS` are allowed too.

    Raises:
        UsageError: a keyword is unknown; the message suggests one and lists all.
    """
    fields = {f.name for f in dataclasses.fields(spec)}
    known = [*ARGUMENTS[1:], "weights", *(LOAD_OPTIONS if with_weights else ()), *sorted(fields)]
    unknown = [name for name in overrides if name not in known]
    if unknown:
        refuse_keywords(function, unknown, known)


def _heads(spec: Spec, overrides: dict[str, Any]) -> int | None:
    return overrides.get("num_heads", getattr(spec, "num_heads", None))


def _preprocessed_size(checkpoint: Checkpoint) -> tuple[int, int] | None:
    """The size that transformers' processor makes of images; DINOv2's positions are of another."""
    if checkpoint.layout.family.library != "transformers" or checkpoint.preprocessing is None:
        return None
    height, width = checkpoint.preprocessing.size
    stride = checkpoint.spec.stride
    return None if height % stride or width % stride else (height, width)


def _known_preprocessing(
    checkpoint: Checkpoint,
    published: PublishedWeights | None,
    size: tuple[int, int],
    channels: int,
) -> Preprocessing | None:
    if channels not in PICTURE_CHANNELS:
        return None  # what a config states for other channels is no preprocessing of pictures
    known = checkpoint.preprocessing or (published.preprocessing if published else None)
    if known is None:
        return None
    return dataclasses.replace(known.of_channels(channels), height=size[0], width=size[1])


def _pooling(checkpoint: Checkpoint, spec: ViTSpec, num_classes: int) -> str:
    """What is read of a file without a head: as the code that belongs to it does."""
    head_pooling = checkpoint.layout.family.head_pooling
    if num_classes and head_pooling:
        return head_pooling
    stored, own = POOLINGS[checkpoint.pooling], POOLINGS[spec.pooling]
    has_same_weights = (stored.tokens, stored.rows) == (own.tokens, own.rows)
    return checkpoint.pooling if has_same_weights else spec.pooling


def _as_in_file(
    checkpoint: Checkpoint, spec: Spec, overrides: dict[str, Any], keeps_head: bool
) -> Spec:
    """The spec with some fields of the file's, unless they are overridden."""
    stored = checkpoint.spec
    fields = {"in_channels": stored.in_channels}
    if isinstance(spec, ResNetSpec) or isinstance(stored, ResNetSpec):
        return dataclasses.replace(spec, **fields | overrides)
    pooling = POOLINGS.get(overrides.get("pooling", spec.pooling))
    fields |= {
        "activation": stored.activation,
        "layer_norm_eps": stored.layer_norm_eps,
        "norm_after_pooling": stored.norm_after_pooling and bool(pooling and pooling.averages),
        "resampling": stored.resampling,
        "layer_scale": stored.layer_scale or spec.layer_scale,
        **{name: getattr(stored, name) for name in _BIASES},
        # The pre-training representation is dropped with its head (paper, section 3.1.1), and so
        # is the projection to the space of texts.
        "representation_dim": stored.representation_dim if keeps_head else None,
        "projection_dim": stored.projection_dim if keeps_head else None,
        # So are a dense head, how a head compares its input, and what its logits mean.
        **({name: getattr(stored, name) for name in DENSE_FIELDS} if keeps_head else {}),
        "normalized_features": keeps_head and stored.normalized_features,
        "head_activation": stored.head_activation if keeps_head else "softmax",
    }
    if "dense_head" in overrides:
        # What the file's head has, and the other one lacks.
        head = DENSE_HEADS.get(overrides["dense_head"])
        own = head.fields if head else ()
        fields |= {name: value for name, value in DENSE_FIELDS.items() if name not in own}
    return dataclasses.replace(spec, **fields | overrides)


def locate(
    weights: str | os.PathLike, name: str | None = None, further: Sequence[str] = ()
) -> tuple[Path, PublishedWeights | None]:
    """The path of weights and their entry in the catalogue; published ones are downloaded.

    Args:
        weights: as in `create_model`.
        name: the variant, if it is known.
        further: names of files that are wanted too, of a folder of the Hugging Face Hub.
    """
    _check_kind(weights)
    text = os.fspath(weights)
    if _is_url(weights):
        return _fetch(text, None, further), None
    if Path(text).exists():
        return Path(text), None
    if isinstance(weights, os.PathLike) or text.endswith((".safetensors", ".keras", ".h5")):
        raise UsageError(f"{text}: expected a file of weights; there is no such file.")
    try:
        published = named_weights(text) if name is None else find_weights(name, text)
    except UsageError as error:
        if text.endswith(".npz"):
            raise UsageError(
                f"{text}: expected a .npz file of weights; there is no such file, and no published "
                "file with this name (keras_vit.list_weights)."
            ) from None
        is_name = text.count("/") == 1 and not text.startswith("/")
        hub = f" On the Hugging Face Hub it would be 'hf://{text}'." if is_name else ""
        raise UsageError(
            f"{text!r} is neither a file nor published weights: {error}{hub}"
        ) from None
    return _fetch(published.url, published.sha256, further), published


def _fetch(url: str, sha256: str | None, further: Sequence[str]) -> Path:
    """The path in a cache of a file, or of a folder of the Hugging Face Hub."""
    if url.startswith(HUB):
        return fetch_folder(url, sha256, further)
    return fetch(url, sha256=sha256)


def _check_kind(weights: Any) -> None:
    if not isinstance(weights, (str, os.PathLike)):
        raise UsageError(f"weights must be a name, a path or a URL. Received: {weights!r}.")


def _is_url(weights: str | os.PathLike) -> bool:
    return isinstance(weights, str) and weights.startswith(("http://", "https://", HUB))
