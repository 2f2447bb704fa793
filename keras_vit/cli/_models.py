"""Models from weights, for the commands that take them instead of a run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from keras_vit._checks import reads_pictures
from keras_vit._errors import UsageError


def model_of_weights(
    weights: str, name: str | None, image_size: int | tuple[int, int] | None = None
) -> Any:
    """The model of a file, a URL or published weights, for pictures.

    Args:
        weights: a file in any layout, a URL, or with `name` a published name.
        name: the model's name; None if the file says what it holds.
        image_size: the size to resample it to; None for its own.

    Raises:
        UsageError: see `create_model`; or its inputs are not made from pictures.
    """
    import keras_vit

    if name is not None:
        model = keras_vit.create_model(name, image_size=image_size, weights=weights)
    else:
        model = keras_vit.model_from_weights(weights, image_size=image_size)
    reads_pictures(model)
    return model


def has_trained_head(model: Any) -> bool:
    """Whether the model has a head that is not all zeros, so that its answers mean something."""
    import numpy as np

    return bool(model.num_classes) and np.asarray(model.get_layer("head").kernel).any()


def seen_warning(weights: str, source: Any, indices: Any) -> str:
    """That weights in a run folder were trained on some of the images; "" otherwise.

    Args:
        weights: the file.
        source: the images.
        indices: which of them are judged.
    """
    import numpy as np

    from keras_vit import runs

    folder, seen = Path(weights).parent, 0
    with contextlib.suppress(UsageError):  # no run, or its images have changed
        run = runs.open_run(folder)
        if run.recipe["data"] == source.locator:
            seen = int(np.isin(indices, run.split(source).train).sum())
    if not seen:
        return ""
    return (
        f"these weights were trained on {seen:,} of the {len(indices):,} images; "
        f"--run {folder} takes the others."
    )
