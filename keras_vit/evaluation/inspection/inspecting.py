"""All that can be seen inside a model, computed from its weights and from a few forward passes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from PIL import Image

from keras_vit._checks import keras_vit_model, positive_integer, reads_pictures
from keras_vit._errors import UsageError
from keras_vit.data.images import rgb_images
from keras_vit.data.preprocessing import normalise, resize
from keras_vit.evaluation.attention import rollout
from keras_vit.evaluation.blocks import batches, each_block, images_at_once, to_numpy
from keras_vit.evaluation.inspection.distance import attention_distance
from keras_vit.evaluation.inspection.features import PatchColours, patch_pca
from keras_vit.evaluation.inspection.filters import Filters, embedding_filters, root_filters
from keras_vit.evaluation.inspection.heads import head_maps
from keras_vit.evaluation.inspection.positions import (
    position_bias,
    position_similarity,
    position_table,
)
from keras_vit.specs import ResNetSpec

_CONVOLVED = 16  # pictures in a batch of a model without attention


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What `inspect_model` found. A part that the model does not have is None.

    Attributes:
        filters: principal components of the patch embedding's filters; not of a hybrid, whose
            patches are not made of colours.
        root_filters: the filters of the first convolution of a hybrid or BiT, (filters, 7, 7,
            channels).
        similarity: cosine similarity of positions (rows, columns, rows, columns).
        bias: with relative positions: what the patch in the middle of the grid adds to its logits,
            (depth, heads, rows, columns).
        distance: the mean attention distance of each head, in pixels, (depth, heads).
        distance_images: the number of images it is a mean of.
        pictures: the pictures as the model sees them, uint8 (n, height, width, 3).
        logits: the model's output for them, if it is one row for each: (n, classes).
        rollout: attention rollout, (n, rows, columns) in [0, 1].
        heads: attention of each head of a block, (n, heads, rows, columns).
        block: the number of that block, counted from 1.
        features: the last feature map as colours, (n, rows, columns, 3) in [0, 1].
    """

    filters: Filters | None = None
    root_filters: np.ndarray | None = None
    similarity: np.ndarray | None = None
    bias: np.ndarray | None = None
    distance: np.ndarray | None = None
    distance_images: int = 0
    pictures: np.ndarray | None = None
    logits: np.ndarray | None = None
    rollout: np.ndarray | None = None
    heads: np.ndarray | None = None
    block: int | None = None
    features: PatchColours | None = None


def inspect_model(
    model: Any,
    pictures: Any = None,
    images: Any = None,
    block: int | None = None,
    report: Callable[[int], None] = lambda done: None,
) -> Inspection:
    """Computes the filters, positions, attention and features of a model.

    Args:
        model: a `keras_vit.ViT` or `keras_vit.BiT`.
        pictures: a few pictures to look at, as in `keras_vit.preprocess`; None for none.
        images: other pictures, over which the attention distance is averaged; they are read one
            batch after another. None takes `pictures`.
        block: the block whose heads are shown, from 1; None for the last one.
        report: is called with the number of `images` that are done.

    Raises:
        UsageError: `model` is another object, there is no such block, or a picture cannot be read.
    """
    keras_vit_model(model)
    reads_pictures(model)
    parts = _of_weights(model)
    shown = [] if pictures is None else list(rgb_images(pictures))
    seen = _seen(shown, model) if shown else None
    if isinstance(model.spec, ResNetSpec):
        return Inspection(**parts, **(_convolved(model, seen) if shown else {}))
    block = _checked(block, model.spec.depth)
    if shown:
        parts |= _attention(model, seen, block)
    if shown or images is not None:
        averaged = shown if images is None else rgb_images(images)
        parts |= _distance(model, averaged, report)
    return Inspection(**parts)


def _checked(block: int | None, depth: int) -> int:
    if block is not None and positive_integer("block", block) > depth:
        raise UsageError(f"block must be from 1 to {depth}, as the model has. Received: {block}.")
    return block or depth


def _of_weights(model: Any) -> dict[str, Any]:
    """What needs no picture."""
    spec = model.spec
    if isinstance(spec, ResNetSpec) or spec.stem is not None:
        parts = {"root_filters": root_filters(model.get_layer("conv_root").kernel)}
        if isinstance(spec, ResNetSpec):
            return parts
    else:
        kernel = np.asarray(model.get_layer("patch_encoder").projection.kernel)
        # (pixels, hidden_dim) to (patch, patch, channels, hidden_dim)
        kernel = kernel.reshape(spec.patch_size, spec.patch_size, spec.in_channels, -1)
        parts = {"filters": embedding_filters(kernel)}
    table = position_table(model)
    similarity = None if table is None else position_similarity(table, model.grid)
    return parts | {"similarity": similarity, "bias": position_bias(model)}


def _attention(model: Any, pictures: np.ndarray, block: int) -> dict[str, Any]:
    """What a ViT does with a few pictures: rollout, heads and features."""
    grid, prefix, parts = model.grid, model.spec.prefix_tokens, []
    for inputs in batches(model, normalise(pictures, model.preprocessing)):
        means = []
        for i, walked in enumerate(each_block(model, inputs), 1):
            means.append(walked.scores.mean(axis=1, keepdims=True))
            if i == block:
                heads = head_maps(walked.scores, grid)
        maps = rollout(means, prefix).reshape(-1, *grid)  # (n, rows, columns)
        encoded = to_numpy(model.get_layer("encoder_norm")(walked.tokens))[:, prefix:]
        # (n, patches, hidden_dim) to (n, rows, columns, hidden_dim)
        parts.append((maps, heads, encoded.reshape(len(maps), *grid, -1)))
    maps, heads, features = (np.concatenate(each) for each in zip(*parts, strict=True))
    height, width = (side * model.spec.stride for side in grid)
    return {
        "pictures": pictures[:, :height, :width],  # a hybrid cuts off what fills no patch
        "logits": _logits(model, pictures),
        "rollout": maps,
        "heads": heads,
        "block": block,
        "features": patch_pca(features),
    }


def _convolved(model: Any, pictures: np.ndarray) -> dict[str, Any]:
    """What a BiT does with a few pictures: the last feature map."""
    encoder, inputs = model.intermediates("encoded"), normalise(pictures, model.preprocessing)
    features = np.concatenate(
        [to_numpy(encoder(x, training=False)["encoded"]) for x in _parts(inputs, _CONVOLVED)]
    )
    return {
        "pictures": pictures,
        "logits": _logits(model, pictures),
        "features": patch_pca(features),
    }


def _logits(model: Any, pictures: np.ndarray) -> np.ndarray | None:
    """(n, classes); None if the model has no classes, or an output for each token."""
    if not model.num_classes or len(model.output.shape) != 2:
        return None
    inputs = normalise(pictures, model.preprocessing)
    return np.concatenate([to_numpy(model(x, training=False)) for x in _parts(inputs, _CONVOLVED)])


def _distance(
    model: Any, images: Iterable[np.ndarray], report: Callable[[int], None]
) -> dict[str, Any]:
    """The mean over all images of each block's attention distance; a batch is read at a time."""
    total, done = np.zeros((model.spec.depth, model.spec.num_heads)), 0
    images, at_once = iter(images), images_at_once(model)
    while batch := list(itertools.islice(images, at_once)):
        inputs = normalise(_seen(batch, model), model.preprocessing)
        for i, (scores, _) in enumerate(each_block(model, inputs)):
            total[i] += attention_distance(scores, model.grid, model.spec.stride).sum(axis=0)
        done += len(batch)
        report(done)
    if not done:
        raise UsageError("expected an image or more for the attention distance. Received: none.")
    return {"distance": total / done, "distance_images": done}


def _seen(pictures: Iterable[np.ndarray], model: Any) -> np.ndarray:
    """Pictures as the model sees them: cropped and resized, uint8 (n, height, width, 3)."""
    preprocessing = model.preprocessing
    return np.stack([resize(Image.fromarray(each), preprocessing) for each in pictures])


def _parts(values: Any, size: int) -> Iterator[Any]:
    for first in range(0, len(values), size):
        yield values[first : first + size]
