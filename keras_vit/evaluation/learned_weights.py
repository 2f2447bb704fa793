"""What a model has learned, as arrays: filters, positions, and features as colours."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.encoder.patch_grids import Grid, Tokens
from keras_vit.encoder.positions import POSITION_EMBEDDINGS
from keras_vit.specs import ResNetSpec

# Percentiles that become 0 and 1, so that a few outliers do not leave all others grey.
_RANGE = (2, 98)
# Components with a smaller fraction of the variance are left out. Scaled by itself, each would have
# as much contrast as the first one, and noise would look like structure.
LEAST_FRACTION = 0.01
# Of the largest variance; what is smaller is rounding, and its direction means nothing.
_LEAST_VARIANCE = 1e-12


class Filters(NamedTuple):
    """Principal components of the embedding's filters.

    Attributes:
        patches: (count, height, width, channels), each of norm 1, largest variance first.
        fractions: what fraction of the filters' variance each component has, (count,).
    """

    patches: np.ndarray
    fractions: np.ndarray


class PatchColours(NamedTuple):
    """Features as colours.

    Attributes:
        colours: the first three components of each patch, in [0, 1]: (n, rows, columns, 3). A
            component that does not exist or has less than 1% of the variance is 0.5 everywhere.
        fractions: what fraction of the features' variance each of the others has; up to three.
    """

    colours: np.ndarray
    fractions: np.ndarray


def learned_weights(model: Any) -> dict[str, Any]:
    """What a model's weights show without a picture: fields of `Inspection` by their names."""
    spec = model.spec
    if isinstance(spec, ResNetSpec) or spec.stem is not None:
        parts = {"root_filters": root_filters(model.get_layer("conv_root").kernel)}
    else:
        kernel = np.asarray(model.get_layer("patch_encoder").projection.kernel)
        # (pixels, hidden_dim) to (patch, patch, channels, hidden_dim)
        kernel = kernel.reshape(spec.patch_size, spec.patch_size, spec.in_channels, -1)
        parts = {"filters": embedding_filters(kernel)}
    if isinstance(spec, ResNetSpec):
        return parts
    table = position_table(model)
    similarity = None if table is None else position_similarity(table, model.grid)
    return parts | {"similarity": similarity, "bias": position_bias(model)}


def embedding_filters(kernel: np.ndarray, count: int = 28) -> Filters:
    """The principal components of the patch embedding's filters (paper, figure 7, left).

    Each of the `hidden_dim` outputs has a filter, which is a point in the space of patches. The
    mean filter is subtracted.

    Args:
        kernel: (height, width, channels, hidden_dim).
        count: the largest number of components.
    """
    filters = np.moveaxis(np.asarray(kernel), -1, 0)  # (hidden_dim, height, width, channels)
    # (hidden_dim, height, width, channels) to (hidden_dim, pixels)
    directions, fractions, _ = _principal_components(filters.reshape(len(filters), -1), count)
    # (count, pixels) to (count, height, width, channels)
    return Filters(directions.reshape(-1, *filters.shape[1:]), fractions)


def root_filters(kernel: np.ndarray) -> np.ndarray:
    """The filters of a standardised convolution, as it uses them.

    Args:
        kernel: (height, width, channels, filters).

    Returns:
        (filters, height, width, channels), each with mean 0 and variance 1.
    """
    filters = np.moveaxis(np.asarray(kernel, np.float64), -1, 0)
    inside = (1, 2, 3)
    centred = filters - filters.mean(axis=inside, keepdims=True)
    deviation = centred.std(axis=inside, keepdims=True)
    return np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0)


def position_similarity(table: np.ndarray, grid: Grid) -> np.ndarray:
    """The cosine similarity of each position with each other one (paper, figure 7, centre).

    Args:
        table: the position embeddings of the patches, (patches, width), in raster order.
        grid: rows and columns of patches.

    Returns:
        (rows, columns, rows, columns) in [-1, 1]; [i, j] is the map of the patch in row i and
        column j. An embedding of zeros has the similarity 0 with all.
    """
    table = np.asarray(table, np.float64)
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    units = np.divide(table, norms, out=np.zeros_like(table), where=norms > 0)
    return (units @ units.T).reshape(*grid, *grid)  # (rows, columns, rows, columns)


def position_table(model: Any) -> np.ndarray | None:
    """What a ViT adds to its patches, (patches, hidden_dim); None if it adds nothing."""
    kind, tokens = _positions(model)
    if kind.table is None:
        return None
    encoder = model.get_layer("patch_encoder")
    weights = {weight.name: np.asarray(getattr(encoder, weight.name)) for weight in kind.weights}
    table = kind.table(weights, tokens, model.spec.hidden_dim, np)[0]
    return table[tokens.prefix_positions :] if kind.prefix_slots else table


def position_bias(model: Any) -> np.ndarray | None:
    """What positions add to the attention logits of the patch in the middle of the grid.

    Returns:
        (depth, heads, rows, columns), a number for each patch that is attended to; None if
        positions add nothing to the logits.
    """
    kind, tokens = _positions(model)
    if kind.bias is None:
        return None
    rows, columns = model.grid
    middle = tokens.prefix + (rows // 2) * columns + columns // 2
    maps = []
    for i in range(model.spec.depth):
        attention = model.get_layer(f"encoderblock_{i}").attention
        weights = {w.name: np.asarray(getattr(attention, w.name)) for w in kind.attention_weights}
        bias = kind.bias(weights, tokens, np)[0, :, middle, tokens.prefix :]  # (heads, patches)
        maps.append(bias.reshape(-1, rows, columns))  # (heads, rows, columns)
    return np.stack(maps)


def patch_pca(features: np.ndarray) -> PatchColours:
    """The first three principal components of the features of patches (as in DINOv2, figure 1).

    The components are those of all patches of all images together, so that a colour means the same
    in each image. Each component is scaled so that its 2nd and 98th percentiles become 0 and 1.

    Args:
        features: (n, rows, columns, width), finite.

    Raises:
        UsageError: they are not.
    """
    features = np.asarray(features, np.float64)
    if features.ndim != 4 or not features.size or not np.isfinite(features).all():
        raise UsageError(
            "expected finite features (n, rows, columns, width) of one patch or more. Received: "
            f"{features.shape}{'' if np.isfinite(features).all() else ', not all finite'}."
        )
    rows = features.reshape(-1, features.shape[-1])  # (patches, width)
    directions, fractions, mean = _principal_components(rows, 3)
    kept = int((fractions >= LEAST_FRACTION).sum())  # the largest are first
    values = (rows - mean) @ directions[:kept].T  # (patches, components)
    low, high = np.percentile(values, _RANGE, axis=0)
    colours = np.full((len(rows), 3), 0.5)
    scaled = np.clip((values - low) / np.where(high > low, high - low, 1), 0, 1)
    colours[:, :kept] = scaled
    # (patches, 3) to (n, rows, columns, 3)
    return PatchColours(colours.reshape(*features.shape[:-1], 3), fractions[:kept])


def _positions(model: Any) -> tuple[Any, Tokens]:
    kind = POSITION_EMBEDDINGS[model.spec.position_embedding]
    return kind, model.spec.tokens(model.image_size)


def _principal_components(
    rows: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The directions in which `rows` (n, features) vary most.

    Returns:
        At most `count` unit vectors, largest variance first, (count, features). The sign of a
        component is arbitrary; here the entry of the largest magnitude is positive. Then the
        fraction of the whole variance that each of them has, (count,); and the mean row,
        (features,).
    """
    rows = np.asarray(rows, np.float64)
    mean = rows.mean(axis=0)
    # The triangular factor has the same components, and at most `features` rows.
    factor = np.linalg.qr(rows - mean, mode="r")
    _, deviations, directions = np.linalg.svd(factor, full_matrices=False)
    variances = deviations**2
    kept = int((variances > _LEAST_VARIANCE * variances[0]).sum()) if len(variances) else 0
    directions = directions[: min(count, kept)]
    largest = np.take_along_axis(directions, np.abs(directions).argmax(1)[:, None], axis=1)
    fractions = variances[: len(directions)] / (variances.sum() or 1)
    return directions * np.sign(largest), fractions, mean
