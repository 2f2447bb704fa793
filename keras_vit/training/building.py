"""Builds the model of a training and checks its settings."""

from __future__ import annotations

import dataclasses
import importlib.util
import os

from keras_vit._checks import reads_pictures
from keras_vit._errors import MissingPackageError, UsageError
from keras_vit.data import Source
from keras_vit.data.sources import check_out
from keras_vit.models import create_model
from keras_vit.models.image_model import ImageModel
from keras_vit.models.pretrained import check_weights
from keras_vit.recipe import SELF_SUPERVISED
from keras_vit.specs import VARIANTS, as_size, find_variant
from keras_vit.training.adapting import check_adaptable
from keras_vit.training.engines import Engine
from keras_vit.training.learner import check_accumulate
from keras_vit.training.optimisers import check_optimizer
from keras_vit.training.recipes import Recipe
from keras_vit.training.resuming import check_resumable
from keras_vit.training.run_options import Saving, saving_of
from keras_vit.training.settings import check_recipe, spec_fields


def build(
    name: str,
    labels: tuple[str, ...],
    recipe: Recipe,
    weights: str | os.PathLike | None = None,
) -> ImageModel:
    """The model that `train` builds for a name: with the recipe's image size, resize, rates and
    precision.

    Args:
        name: see `list_models`.
        labels: the classes' names.
        recipe: the settings.
        weights: the initial weights, see `create_model`.
    """
    variant = find_variant(name)
    model = create_model(
        variant,
        len(labels),
        recipe.image_size,
        weights=weights,
        labels=labels,
        dtype=recipe.precision,
        head_bias=recipe.head_bias,
        **spec_fields(recipe, VARIANTS[variant], variant),
    )
    reads_pictures(model)
    if recipe.interpolation is not None:
        whole = {"crop": None} if recipe.interpolation == "mediapipe" else {}
        model.preprocessing = dataclasses.replace(
            model.preprocessing, interpolation=recipe.interpolation, **whole
        )
    return model


def check_settings(
    data: str | os.PathLike,
    recipe: Recipe,
    model_name: str | None,
    out: str | os.PathLike | Saving,
    *,
    weights: str | os.PathLike | None = None,
    engine: Engine | None = None,
) -> None:
    """Checks the settings before the images are read, because reading may take minutes.

    Published weights are downloaded.

    Args:
        data: see `open_source`.
        recipe, out, weights: see `train`.
        model_name: a name in `list_models()`; None for a model that is built already.
        engine: the devices; None for one.

    Raises:
        UsageError: the replicas do not divide the batch, the model is unknown, its patches do not
            divide the image, a duration cannot be parsed, the weights are absent or do not fit, or
            the run folder cannot be written, or not be resumed with these settings.
        MissingPackageError: TensorFlow is not installed, whose data pipeline feeds the images; or
            TensorBoard is asked for and not installed.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise MissingPackageError(
            "training needs TensorFlow's data pipeline, with every backend of Keras: "
            "pip install 'keras_vit[tensorflow]'"
        )
    if model_name is None and weights is not None:
        raise UsageError(
            "weights are for the name of a model. Received: a model; use keras_vit.load_weights."
        )
    engine, saving = engine or Engine(), saving_of(out)
    check_recipe(recipe, model_name)
    check_optimizer(recipe)
    if model_name is not None:
        check_adaptable(VARIANTS[find_variant(model_name)], recipe)
    engine.check_batch(recipe.batch_size)
    check_accumulate(recipe.accumulate, recipe.batch_size, engine.replicas)
    # The chief may have made the folder already.
    check_out(saving.path, data, saving.overwrite or saving.resume or not engine.is_chief)
    if saving.resume and saving.overwrite:
        raise UsageError(
            "resume=True goes on with a run, overwrite=True replaces it; leave one of them out."
        )
    if saving.resume:
        check_resumable(saving.path, recipe, model_name, weights)
    if saving.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise MissingPackageError(
            "tensorboard=True needs TensorBoard: pip install 'keras_vit[train]'"
        )
    if model_name is not None and weights is not None:
        name = find_variant(model_name)
        spec = VARIANTS[name]
        check_weights(spec, name, recipe.image_size, weights, spec_fields(recipe, spec, name))


def check_model(model: ImageModel, source: Source, recipe: Recipe) -> None:
    """Raises a `UsageError` if a model does not fit the images or the recipe."""
    reads_pictures(model)
    if len(source.labels) < 2 and recipe.loss not in SELF_SUPERVISED:
        raise UsageError(
            f"{source.locator} has one class only, which needs training without classes. "
            f"Received: loss={recipe.loss!r}; choose the recipe mae, for example."
        )
    if model.num_classes != len(source.labels):
        raise UsageError(
            f"{source.locator} has {len(source.labels)} classes. "
            f"Received: a model with num_classes={model.num_classes}."
        )
    if model.image_size != as_size(recipe.image_size):
        raise UsageError(
            f"the recipe is for image_size={recipe.image_size}. "
            f"Received: a model for {model.image_size}; change one of them."
        )
    _check_built(model, recipe)
    if source.multi_hot is not None and recipe.sampling == "balanced":
        raise UsageError(
            f"sampling='balanced' needs one class for each image. Received: {source.locator}, "
            "whose images have several."
        )


def _check_built(model: ImageModel, recipe: Recipe) -> None:
    """Raises a `UsageError` if a model was built without what the recipe sets when it builds one.

    The run would state settings that it does not have.
    """
    expected = spec_fields(recipe, model.spec, model.name)
    actual = {field: getattr(model.spec, field) for field in expected}
    if recipe.interpolation is not None:
        expected["interpolation"] = recipe.interpolation
        actual["interpolation"] = model.preprocessing.interpolation
    if recipe.head_bias:
        expected["head_bias"], actual["head_bias"] = recipe.head_bias, model.head_bias
    expected["compute dtype"] = recipe.precision.removeprefix("mixed_")
    actual["compute dtype"] = model.layers[1].compute_dtype  # the head is always float32
    for field, value in expected.items():
        if actual[field] != value:
            raise UsageError(
                f"the recipe is for {field}={value!r}. Received: a model with "
                f"{field}={actual[field]!r}; change one of them, or pass the name of a model."
            )
