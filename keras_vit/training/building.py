"""What a training needs before its first step: checked settings, a model, a learner and a plan."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os

from keras_vit._checks import reads_pictures
from keras_vit._errors import MissingPackageError, UsageError
from keras_vit.data import Source, Split
from keras_vit.data.out_folder import check_out
from keras_vit.models import create_model
from keras_vit.models.image_model import ImageModel
from keras_vit.models.pretrained import check_weights
from keras_vit.recipe import SELF_SUPERVISED
from keras_vit.specs import VARIANTS, as_size, find_variant
from keras_vit.training.adapting import adapt, check_adaptable
from keras_vit.training.classes import balanced_weights
from keras_vit.training.costs import costs_of, step_flops
from keras_vit.training.distillation import Distillation
from keras_vit.training.engines import Engine
from keras_vit.training.free_memory import accumulate_that_fits, free_memory, why_too_large
from keras_vit.training.learner import Learner, check_accumulate
from keras_vit.training.masking import MaskedAutoencoding, MaskedPatches
from keras_vit.training.optimisers import check_optimizer, optimizer
from keras_vit.training.plan import Plan, parameter_counts, plan_of
from keras_vit.training.recipes import Recipe
from keras_vit.training.resuming import check_resumable
from keras_vit.training.settings import check_masked, check_pooled, check_recipe, spec_fields
from keras_vit.training.tasks import Task, task_of


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
    out: str | os.PathLike,
    *,
    weights: str | os.PathLike | None = None,
    overwrite: bool = False,
    resume: bool = False,
    tensorboard: bool = False,
    engine: Engine | None = None,
) -> None:
    """Checks the settings before the images are read, because reading may take minutes.

    Published weights are downloaded.

    Args:
        data: see `open_source`.
        recipe, out, weights, overwrite, resume, tensorboard: see `train`.
        model_name: a name in `list_models()`; None for a model that is built already.
        engine: the devices; None for one.

    Raises:
        UsageError: the replicas do not divide the batch, the model is unknown, its patches do not
            divide the image, a duration cannot be parsed, the weights are absent or do not fit, or
            the run folder cannot be written, or not be resumed with these settings.
        MissingPackageError: TensorFlow is not installed, whose data pipeline feeds the images; or
            `tensorboard` is True and TensorBoard is not installed.
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
    engine = engine or Engine()
    check_recipe(recipe, model_name)
    check_optimizer(recipe)
    if model_name is not None:
        check_adaptable(VARIANTS[find_variant(model_name)], recipe)
    engine.check_batch(recipe.batch_size)
    check_accumulate(recipe.accumulate, recipe.batch_size, engine.replicas)
    # The chief may have made the folder already.
    check_out(out, data, overwrite or resume or not engine.is_chief)
    if resume and overwrite:
        raise UsageError(
            "resume=True goes on with a run, overwrite=True replaces it; leave one of them out."
        )
    if resume:
        check_resumable(out, recipe, model_name, weights)
    if tensorboard and importlib.util.find_spec("tensorboard") is None:
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


def learner_of(
    model: ImageModel,
    source: Source,
    split: Split,
    recipe: Recipe,
    engine: Engine,
    teacher: ImageModel | None = None,
    task: Task | None = None,
) -> tuple[Learner, Task, Plan, Recipe]:
    """The compiled learner of a recipe, its task, its plan, and the recipe with what was chosen.

    For the arguments see `train`.
    """
    adapt(model, recipe)
    plan = plan_of(recipe, model, len(split.train), len(split.held_out), engine.replicas)
    if task is None:
        task = _task(model, source, split, recipe, teacher)
    pixels = "float32" if recipe.mixup or recipe.cutmix else "uint8"  # mixed levels are fractions
    learner = Learner(model, task, pixels=pixels)
    jit = recipe.jit
    if jit is None:
        jit = engine.gains_by_jit(model.spec, plan.steps * step_flops(recipe, model))
    learner.compile(
        optimizer=optimizer(recipe, model, plan.steps, plan.warmup, learner.trainable_variables),
        loss=task.loss(),
        metrics=task.metrics(),
        jit_compile=jit and engine.can_jit,
        steps_per_execution=recipe.steps_per_execution,
    )
    learner.optimizer.build(learner.trainable_variables)
    if recipe.loss in SELF_SUPERVISED:  # with a decoder or another head, and not the model's
        plan = dataclasses.replace(plan, **parameter_counts(learner))
    costs = functools.partial(
        costs_of, model=model, learner=learner, devices=plan.devices, teacher=teacher
    )
    images, held = recipe.batch_size // plan.devices, costs(recipe)
    free = free_memory(engine, held.parameters + held.optimizer)
    learner.accumulate = accumulate_that_fits(recipe, costs, images, free)
    recipe = dataclasses.replace(recipe, accumulate=learner.accumulate, jit=jit)
    plan = dataclasses.replace(
        plan,
        accumulate=learner.accumulate,
        memory=costs(recipe).memory,
        free=free,
        too_large=why_too_large(recipe, model.spec, costs, images, free),
    )
    return learner, task, plan, recipe


def _task(
    model: ImageModel, source: Source, split: Split, recipe: Recipe, teacher: ImageModel | None
) -> Task:
    if recipe.loss in SELF_SUPERVISED:
        return _masked_task(model, recipe)
    check_pooled(model.spec)
    if source.multi_hot is not None and recipe.loss == "softmax":
        raise UsageError(
            f"the images of {source.locator} have several classes, which need loss='sigmoid'. "
            "Received: loss='softmax'."
        )
    weights = None
    if recipe.class_weights == "balanced":
        classes = len(source.labels)
        balanced = balanced_weights(source.targets[split.train], classes)
        weights = tuple(balanced[i] for i in range(classes))
    task = task_of(recipe.loss, len(source.labels), recipe.label_smoothing, weights)
    if teacher is None:
        return task
    return Distillation(
        task, teacher, recipe.distillation, recipe.distillation_weight, recipe.temperature
    )


def _masked_task(model: ImageModel, recipe: Recipe) -> Task:
    check_masked(recipe, model.spec, model.name)
    target, masked = SELF_SUPERVISED[recipe.loss][0], recipe.masked_fraction
    patch_size, preprocessing = model.spec.patch_size, model.preprocessing
    if target is not None:
        return MaskedPatches(patch_size, preprocessing, target, masked)
    decoder = recipe.decoder_dim, recipe.decoder_depth, recipe.decoder_heads
    return MaskedAutoencoding(patch_size, preprocessing, masked, *decoder)
