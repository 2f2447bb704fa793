"""The training of a run: from images and a recipe to a run folder."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import os
import platform
import re
from pathlib import Path

from keras_vit import runs
from keras_vit._errors import MissingPackageError, UsageError
from keras_vit._interrupts import deferred_interrupts
from keras_vit._keras import LEGACY, backend, keras
from keras_vit.data import (
    Source,
    Split,
    evaluation_batches,
    split_source,
    training_batches,
)
from keras_vit.models import create_model
from keras_vit.models.pretrained import check_weights
from keras_vit.models.vit import with_overrides
from keras_vit.specs import VARIANTS, ViTSpec, find_variant
from keras_vit.training.callbacks import AfterEachStep, RunWriter, StopAfter
from keras_vit.training.classes import balanced_weights
from keras_vit.training.durations import to_steps
from keras_vit.training.optimisers import optimizer
from keras_vit.training.recipes import Recipe

# Steps between two evaluations, which also save the weights. An epoch may have only one or two.
_FEWEST_STEPS = 10


def train(
    source: Source,
    recipe: Recipe,
    model_name: str,
    out: str | os.PathLike,
    *,
    weights: str | os.PathLike | None = None,
    overwrite: bool = False,
    tensorboard: bool = False,
    verbose: int = 0,
) -> runs.Run:
    """Trains a model and writes a run folder, which can be loaded at any time during training.

    The weights of the last epoch are kept. Choosing the best epoch by its held-out accuracy would
    make this accuracy too optimistic.

    Args:
        source: the images.
        recipe: the settings.
        model_name: see `list_models`.
        out: the run folder.
        weights: the initial weights, see `create_model`; a head for other classes is dropped.
        overwrite: replace an existing run in `out`.
        tensorboard: also write TensorBoard's event files to out/tensorboard.
        verbose: the argument of Keras' `fit`.

    Returns:
        The finished run.

    Raises:
        UsageError: settings contradict each other, or the folder is not empty.
        KeyboardInterrupt: Ctrl-C was pressed; the current weights have been saved.
    """
    check_settings(
        source.locator,
        recipe,
        model_name,
        out,
        weights=weights,
        overwrite=overwrite,
        tensorboard=tensorboard,
    )
    extra = [keras.callbacks.TensorBoard(str(Path(out) / "tensorboard"))] if tensorboard else []
    split = split_source(source, recipe.held_out)
    keras.utils.set_random_seed(recipe.seed)
    model = _model(recipe, model_name, source.labels, weights)
    steps = _compile(model, recipe, len(split.train))
    settings = {
        "model": model_name,
        "recipe": dataclasses.asdict(recipe),
        "weights": None if weights is None else str(weights),
        "versions": versions(),
    }
    origin = "fresh" if weights is None else os.path.basename(weights)
    folder = runs.create_run(out, model, source, split, settings, origin, overwrite=overwrite)
    _fit(model, source, split, recipe, steps, RunWriter(folder), extra, verbose)
    return runs.open_run(folder)


def check_settings(
    data: str | os.PathLike,
    recipe: Recipe,
    model_name: str,
    out: str | os.PathLike,
    *,
    weights: str | os.PathLike | None = None,
    overwrite: bool = False,
    tensorboard: bool = False,
) -> None:
    """Checks the settings before the images are read, because reading may take minutes.

    Published weights are downloaded.

    Args:
        data: see `open_source`.
        recipe, model_name, out, weights, overwrite, tensorboard: see `train`.

    Raises:
        UsageError: the model is unknown, its patches do not divide the image, a duration cannot be
            parsed, the weights are absent or do not fit, or the run folder cannot be written.
        MissingPackageError: TensorFlow is not installed, whose data pipeline feeds the images; or
            `tensorboard` is True and TensorBoard is not installed.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise MissingPackageError(
            "training needs TensorFlow's data pipeline, with every backend of Keras: "
            "pip install 'keras_vit[tensorflow]'"
        )
    name = find_variant(model_name)
    spec = with_overrides(VARIANTS[name], _overrides(recipe))
    if isinstance(spec, ViTSpec):
        spec.grid(recipe.image_size)
    # The number of images is not known yet. With a very large number, only durations that can never
    # reach one step are refused.
    counts = {"batch_size": recipe.batch_size, "num_examples": recipe.batch_size * 10**9}
    _total_steps(recipe, counts)
    to_steps(recipe.warmup, total_steps=1, **counts)
    runs.check_out(out, data, overwrite)
    if tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise MissingPackageError(
            "tensorboard=True needs TensorBoard: pip install 'keras_vit[train]'"
        )
    if weights is not None:
        check_weights(spec, name, recipe.image_size, weights)


def versions() -> dict[str, str]:
    """The versions of all packages that affect the result."""
    installed = {
        "python": platform.python_version(),
        "keras_flavour": "tf_keras" if LEGACY else "keras",
    }
    for package in ("keras_vit", "keras", "tf_keras", "tensorflow", "jax", "numpy", "pillow"):
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed | {"backend": backend()}


def _model(
    recipe: Recipe, name: str, labels: tuple[str, ...], weights: str | os.PathLike | None
) -> keras.Model:
    return create_model(
        name,
        len(labels),
        recipe.image_size,
        weights=weights,
        labels=labels,
        dtype=recipe.precision,
        **_overrides(recipe),
    )


def _overrides(recipe: Recipe) -> dict[str, float]:
    overrides = {} if recipe.dropout is None else {"dropout": recipe.dropout}
    if recipe.drop_path:  # BiT has no such field
        overrides["drop_path"] = recipe.drop_path
    return overrides


def _compile(model: keras.Model, recipe: Recipe, num_examples: int) -> tuple[int, int]:
    # Returns the number of steps in total and in an epoch.
    counts = {"batch_size": recipe.batch_size, "num_examples": num_examples}
    total = _total_steps(recipe, counts)
    warmup = to_steps(recipe.warmup, total_steps=total, **counts)
    model.compile(
        optimizer=optimizer(recipe, model, total, warmup),
        loss=keras.losses.CategoricalCrossentropy(
            from_logits=True, label_smoothing=recipe.label_smoothing
        ),
        metrics=["accuracy"],
        jit_compile=recipe.jit,
    )
    return total, min(max(to_steps("1 epoch", **counts), _FEWEST_STEPS), total)


def _total_steps(recipe: Recipe, counts: dict[str, int]) -> int:
    total = to_steps(recipe.duration, **counts)
    if total < 1:
        raise UsageError(f"duration={recipe.duration!r} is less than one step of training.")
    return total


def _fit(
    model: keras.Model,
    source: Source,
    split: Split,
    recipe: Recipe,
    steps: tuple[int, int],
    writer: RunWriter,
    extra: list[keras.callbacks.Callback],
    verbose: int,
) -> None:
    import tensorflow as tf

    total, epoch = steps
    size = recipe.batch_size
    training = training_batches(
        source, split.train, model.preprocessing, size, total, recipe.augment, recipe.seed
    )
    held_out = evaluation_batches(source, split.held_out, model.preprocessing, size)
    weights = None
    if recipe.class_weights == "balanced":
        weights = balanced_weights(source.targets[split.train], len(source.labels))
    with deferred_interrupts() as check:
        try:
            model.fit(
                _one_hot(training, len(source.labels)),
                epochs=-(-total // epoch),
                steps_per_epoch=epoch,
                class_weight=weights,
                validation_data=_one_hot(held_out, len(source.labels)),
                callbacks=[StopAfter(total), writer, *extra, AfterEachStep(check)],
                verbose=verbose,
                shuffle=False,
            )
        except KeyboardInterrupt:
            writer.save()
            raise
        except tf.errors.OpError as error:
            # If a picture was deleted, TensorFlow's message contains the error of the reader. Other
            # errors, such as too little memory on an accelerator, are not mistakes of the user.
            reason = re.search(r"(UsageError|FileNotFoundError|PermissionError): .*", error.message)
            if reason is None or isinstance(error, tf.errors.ResourceExhaustedError):
                raise
            raise UsageError(f"training stopped after the last saved epoch: {reason[0]}") from error


def _one_hot(batches, num_classes: int):
    import tensorflow as tf

    return batches.map(lambda images, targets: (images, tf.one_hot(targets, num_classes)))
