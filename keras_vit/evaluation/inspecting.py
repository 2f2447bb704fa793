"""All that can be seen inside a model, computed from its weights and from a few forward passes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from PIL import Image

from keras_vit._checks import keras_vit_model, positive_integer, reads_pictures
from keras_vit._errors import UsageError
from keras_vit.data.images import rgb_images
from keras_vit.data.preprocessing import normalise, resize
from keras_vit.evaluation import attention_scores as attention
from keras_vit.evaluation.learned_weights import Filters, PatchColours, learned_weights, patch_pca
from keras_vit.specs import ResNetSpec

_BATCH = 16  # pictures, where no attention is kept


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
        UsageError: `model` is another object, there is no such block, as in every ResNet, or a
            picture cannot be read.
    """
    keras_vit_model(model)
    reads_pictures(model)
    parts, is_resnet = learned_weights(model), isinstance(model.spec, ResNetSpec)
    shown = [] if pictures is None else list(rgb_images(pictures))
    seen = _seen(shown, model) if shown else None
    block = _checked(block, 0 if is_resnet else model.spec.depth)
    if shown:
        parts |= _convolved(model, seen) if is_resnet else _attention(model, seen, block)
        parts |= _logits(model, seen)
    if not is_resnet and (shown or images is not None):
        averaged = shown if images is None else rgb_images(images)
        parts |= _distance(model, averaged, report)
    return Inspection(**parts)


def _checked(block: int | None, depth: int) -> int:
    if block is not None and positive_integer("block", block) > depth:
        blocks = f"must be from 1 to {depth}, as the model has" if depth else "is only for a ViT"
        raise UsageError(f"block {blocks}. Received: {block}.")
    return block or depth


def _attention(model: Any, pictures: np.ndarray, block: int) -> dict[str, Any]:
    """What a ViT does with a few pictures: rollout, heads and features."""
    grid, prefix, parts = model.grid, model.spec.prefix_tokens, []
    unread = model.spec.unread_tokens
    inputs = normalise(pictures, model.preprocessing)
    for batch in attention.in_parts(inputs, attention.images_at_once(model)):
        means = []
        for i, computed in enumerate(attention.each_block(model, batch), 1):
            scores, output = computed
            means.append(scores.mean(axis=1, keepdims=True))
            if i == block:
                heads = attention.head_maps(scores, grid, unread)
        maps = attention.rollout(means, prefix, unread)
        maps = maps.reshape(-1, *grid)  # (n, patches) to (n, rows, columns)
        if not model.spec.norm_after_pooling:
            output = model.get_layer("encoder_norm")(output)
        encoded = attention.to_numpy(output)[:, prefix:]
        # (n, patches, hidden_dim) to (n, rows, columns, hidden_dim)
        parts.append((maps, heads, encoded.reshape(len(maps), *grid, -1)))
    maps, heads, features = (np.concatenate(each) for each in zip(*parts, strict=True))
    height, width = (side * model.spec.stride for side in grid)
    seen, colours = pictures[:, :height, :width], patch_pca(features)  # a hybrid cuts off the rest
    return {"pictures": seen, "rollout": maps, "heads": heads, "block": block, "features": colours}


def _convolved(model: Any, pictures: np.ndarray) -> dict[str, Any]:
    """What a BiT does with a few pictures: the last feature map."""
    encoder = model.intermediates("encoded")
    features = _outputs(lambda x, **mode: encoder(x, **mode)["encoded"], model, pictures)
    return {"pictures": pictures, "features": patch_pca(features)}


def _logits(model: Any, pictures: np.ndarray) -> dict[str, np.ndarray]:
    """(n, classes); nothing if the model has no classes, or an output for each token."""
    is_one_row = model.task == "classification" and model.num_classes
    is_one_row = is_one_row and len(model.output.shape) == 2
    return {"logits": _outputs(model, model, pictures)} if is_one_row else {}


def _outputs(function: Callable[..., Any], model: Any, pictures: np.ndarray) -> np.ndarray:
    """What a function of the model's inputs returns for pictures, a batch at a time."""
    parts = attention.in_parts(normalise(pictures, model.preprocessing), _BATCH)
    return np.concatenate([attention.to_numpy(function(x, training=False)) for x in parts])


def _distance(
    model: Any, images: Iterable[np.ndarray], report: Callable[[int], None]
) -> dict[str, Any]:
    """The mean over all images of each block's attention distance; a batch is read at a time."""
    total, done = np.zeros((model.spec.depth, model.spec.num_heads)), 0
    images, at_once = iter(images), attention.images_at_once(model)
    while batch := list(itertools.islice(images, at_once)):
        inputs = normalise(_seen(batch, model), model.preprocessing)
        for i, (scores, _) in enumerate(attention.each_block(model, inputs)):
            distances = attention.attention_distance(scores, model.grid, model.spec.stride)
            total[i] += distances.sum(axis=0)
        done += len(batch)
        report(done)
    if not done:
        raise UsageError("expected an image or more for the attention distance. Received: none.")
    return {"distance": total / done, "distance_images": done}


def _seen(pictures: Iterable[np.ndarray], model: Any) -> np.ndarray:
    """Pictures as the model sees them: cropped and resized, uint8 (n, height, width, 3)."""
    return np.stack([resize(Image.fromarray(each), model.preprocessing) for each in pictures])
