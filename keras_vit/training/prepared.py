"""What a run begins with, and what its steps need: the learner, the plan."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit import data
from keras_vit._checks import reads_pictures
from keras_vit._errors import UsageError
from keras_vit.data import Source, Split
from keras_vit.data.source import InMemory, Vectors
from keras_vit.frozen_features import kept_features
from keras_vit.models import create_model, model_from_weights
from keras_vit.models.image_model import ImageModel
from keras_vit.models.pretrained import held_spec
from keras_vit.recipe import SELF_SUPERVISED, Recipe
from keras_vit.runs import Run
from keras_vit.specs import RATES, Spec, ViTSpec, activation_of_loss, as_size
from keras_vit.training import ablations, costs
from keras_vit.training.class_weights import balanced_weights
from keras_vit.training.distillation import Distillation
from keras_vit.training.engines import Engine
from keras_vit.training.learner import Learner
from keras_vit.training.masked_tasks import MaskedAutoencoding, MaskedPatches
from keras_vit.training.optimisers import optimizer
from keras_vit.training.plan import Plan, parameter_counts, plan_of
from keras_vit.training.segmentation_task import SemanticSegmentation
from keras_vit.training.settings import check_masked, check_pooled, keeps_features, spec_fields
from keras_vit.training.tasks import Task, task_of
from keras_vit.training.trainable_variables import adapt
from keras_vit.variant_specs import VARIANTS, find_variant
from keras_vit.weights.cache import cache_folder

# The task that trains a dense head, from the number of classes.
DENSE_TASKS: dict[str, Callable[[int], Task]] = {"segmentation": SemanticSegmentation}
# Bytes of the features of all images, in memory and in a file.
_MOST_FEATURES, _MOST_KEPT = 1 << 30, 1 << 28


def build(
    name: str | None,
    labels: tuple[str, ...],
    recipe: Recipe,
    weights: str | os.PathLike | None = None,
) -> ImageModel:
    """The model that `train` builds: with the recipe's image size, resize, rates and precision.

    Args:
        name: see `list_models`; None for the model that the weights hold.
        labels: the classes' names.
        recipe: the settings.
        weights: the initial weights, see `create_model` and `model_from_weights`.
    """
    model_name, spec = spec_of(name, recipe, weights)
    # The rates of an earlier training are not this one's.
    is_held = name is None and isinstance(spec, ViTSpec)
    rates = dict.fromkeys(RATES, 0.0) if is_held else {}
    settings = {
        **rates,
        "num_classes": len(labels),
        "image_size": recipe.image_size,
        "labels": labels,
        "dtype": recipe.precision,
        "head_bias": recipe.head_bias,
        **spec_fields(recipe, spec, model_name),
        **activation_of_loss(spec, recipe.loss),
    }
    if name is None:
        model = model_from_weights(weights, **settings)
    else:
        model = create_model(model_name, weights=weights, **settings)
    reads_pictures(model)
    # Each pixel of a picture needs an answer, also at the edges.
    is_whole = recipe.interpolation == "mediapipe" or recipe.task != "classification"
    whole = {"crop": None} if is_whole else {}
    whole |= {"pad": False} if recipe.crop or recipe.interpolation == "mediapipe" else {}
    model.preprocessing = dataclasses.replace(model.preprocessing, **whole | _resize(recipe))
    return model


def spec_of(
    name: str | None, recipe: Recipe, weights: str | os.PathLike | None
) -> tuple[str, Spec]:
    """The name and the spec of a variant; without a name, of the model that weights hold.

    Args:
        name: see `list_models`; None for the weights' own model.
        recipe: its overrides may state the number of heads, which a file may not.
        weights: see `model_from_weights`.
    """
    if name is None:
        heads = dict(ablations.pairs(recipe.overrides)).get("num_heads")
        return held_spec(weights, None if heads is None else ablations.value(heads))
    variant = find_variant(name)
    return variant, VARIANTS[variant]


def check_model(model: ImageModel, source: Source, recipe: Recipe) -> None:
    """Raises a `UsageError` if a model does not fit the images or the recipe."""
    reads_pictures(model)
    if recipe.task != source.task:
        raise UsageError(
            f"{source.locator} is for task={source.task!r}. Received: task={recipe.task!r}."
        )
    if source.annotations is not None and sum(map(bool, source.counts.values())) < 2:
        note = f"; {source.annotations.note}" if source.annotations.note else ""
        occur = [label for label, count in source.counts.items() if count]
        raise UsageError(
            f"{source.locator}: expected two classes or more in the masks. "
            f"Received: {', '.join(occur) or 'none'}{note}."
        )
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


def _resize(recipe: Recipe) -> dict[str, Any]:
    """What the recipe sets of the model's preprocessing."""
    set_here = {"interpolation": recipe.interpolation, "crop": recipe.crop}
    return {field: value for field, value in set_here.items() if value is not None}


def _check_built(model: ImageModel, recipe: Recipe) -> None:
    """Raises a `UsageError` if a model was built without what the recipe sets when it builds one.

    The run would state settings that it does not have.
    """
    fields = spec_fields(recipe, model.spec, model.name).items()
    found = [(field, value, getattr(model.spec, field)) for field, value in fields]
    for field, value in _resize(recipe).items():
        found.append((field, value, getattr(model.preprocessing, field)))
    if recipe.head_bias:
        found.append(("head_bias", recipe.head_bias, model.head_bias))
    actual = model.layers[1].compute_dtype  # the head is always float32
    found.append(("compute dtype", recipe.precision.removeprefix("mixed_"), actual))
    for field, expected, actual in found:
        if actual != expected:
            raise UsageError(
                f"the recipe is for {field}={expected!r}. Received: a model with "
                f"{field}={actual!r}; change one of them, or pass the name of a model."
            )


@dataclasses.dataclass(frozen=True)
class Saving:
    """The run folder, and what is written into it.

    Attributes:
        folder: the run folder.
        resume: go on after the newest checkpoint of the run in the folder, or begin again if it was
            killed before it had saved anything. The recipe and the model must be those of the run;
            only the duration may change. The images must be the same: their names and classes are
            checked, their pixels are not.
        overwrite: replace an existing run in the folder.
        checkpoint_every: how often the whole state is saved: "5 minutes", "1 epoch", "500 steps";
            None for as often as before in a resumed run, and otherwise every five minutes. After
            Ctrl-C and SIGTERM it is saved too, as soon as the step ends; see `Hooks.stuck`.
        keep: the number of checkpoints to keep, the newest; None for two. If neither this nor
            `checkpoint_every` is given, they are removed when the run has ended.
        tensorboard: also write TensorBoard's event files to tensorboard/ in the folder.
        preset: the name of the recipe, which the run keeps; None if it has none.
    """

    folder: str | os.PathLike
    resume: bool = False
    overwrite: bool = False
    checkpoint_every: str | None = None
    keep: int | None = None
    tensorboard: bool = False
    preset: str | None = None

    @property
    def path(self) -> Path:
        """The run folder."""
        return Path(self.folder)


def saving_of(out: str | os.PathLike | Saving) -> Saving:
    """`out`, or how a run is saved in the folder `out` by default."""
    return out if isinstance(out, Saving) else Saving(out)


@dataclasses.dataclass(frozen=True)
class Beginning:
    """What a run begins with.

    Attributes:
        model: the model, with the weights of the last evaluation if a run goes on.
        source: the images.
        split: those for training and those that are held out.
        recipe: the settings; with what was chosen for the machine once that is known.
        teacher: the model that teaches it; None for none.
        saving: where it is saved, with what the run was saved with.
        weights: the initial weights of the run.
        run: the run that goes on; None for a new one.
        is_held: whether the model is the one that the weights hold, and not one of a name.
    """

    model: ImageModel
    source: Source
    split: Split
    recipe: Recipe
    teacher: ImageModel | None
    saving: Saving
    weights: str | os.PathLike | None = None
    run: Run | None = None
    is_held: bool = False


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What the steps of a run need.

    Attributes:
        begun: what it begins with; its recipe has what was chosen for this machine.
        engine: the devices.
        task: what is learned.
        learner: the compiled model from pixels to predictions.
        plan: the number of steps, and where evaluations are.
        costs: what a step costs.
        images: what the learner reads: the source, or with `with_features` its features.
    """

    begun: Beginning
    engine: Engine
    task: Task
    learner: Learner
    plan: Plan
    costs: costs.Costs
    images: Source

    def with_features(self, report: Callable[[int, int], None]) -> Prepared:
        """With the features of all images, if the learner reads features.

        Args:
            report: called after each batch with the number of images that are done, and of all.
        """
        if not self.plan.keeps_features:
            return self
        begun, indices = self.begun, self.indices
        features = kept_features(
            begun.model, begun.source, indices, _file_of_features(begun),
            report=lambda done: report(done, len(indices)), whole=True,
        )  # fmt: skip
        return self.reading(indices, features)

    @property
    def indices(self) -> np.ndarray:
        """The indices of all images of the split."""
        return np.union1d(self.begun.split.train, self.begun.split.held_out)

    def reading(self, indices: np.ndarray, features: np.ndarray) -> Prepared:
        """With features (n, ...) for the images with some indices (n,)."""
        source = self.begun.source
        values = np.zeros((len(source), *features.shape[1:]), np.float32)
        values[indices] = features
        return dataclasses.replace(
            self, images=dataclasses.replace(source, image=Vectors(values), states=None)
        )

    def batches(self, steps: int, first: int = 0) -> Any:
        """The batches of `steps` steps from step `first` on, for Keras' fit."""
        begun, recipe, engine = self.begun, self.begun.recipe, self.engine
        batches = data.training_batches(
            self.images, begun.split.train, begun.model.preprocessing, recipe.batch_size, steps,
            recipe.augment, recipe.seed, first, recipe.sampling, (engine.process, engine.processes),
            targets=self.task.targets, mixup=recipe.mixup, cutmix=recipe.cutmix, erase=recipe.erase,
        )  # fmt: skip
        return engine.distribute(batches)


def prepare(begun: Beginning, engine: Engine, task: Task | None = None) -> Prepared:
    """Compiles the learner of a recipe, and chooses what the recipe leaves to this machine.

    Args:
        begun: what the run begins with.
        engine: the devices.
        task: what is learned; None for the recipe's.

    Raises:
        UsageError: the model does not fit the images, the recipe or the devices.
    """
    model, split, recipe, teacher = begun.model, begun.split, begun.recipe, begun.teacher
    check_model(model, begun.source, recipe)
    engine.check_model(model)
    adapt(model, recipe)
    plan = plan_of(recipe, model, len(split.train), len(split.held_out), engine.replicas)
    plan = dataclasses.replace(plan, keeps_features=_keeps_features(begun, engine, task, plan))
    task = task or _task(begun)
    pixels = "float32" if recipe.mixup or recipe.cutmix else "uint8"  # mixed levels are fractions
    learner = Learner(model, task, pixels=None if plan.keeps_features else pixels)
    jit = recipe.jit
    if jit is None:
        flops = plan.steps * costs.step_flops(recipe, model, plan.keeps_features)
        jit = engine.gains_by_jit(model.spec, flops)
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
    costs_of = functools.partial(
        costs.costs_of, model=model, learner=learner, devices=plan.devices, teacher=teacher,
        keeps_features=plan.keeps_features,
    )  # fmt: skip
    images, held = recipe.batch_size // plan.devices, costs_of(recipe)
    free = costs.free_memory(engine, held.parameters + held.optimizer)
    learner.accumulate = costs.accumulate_that_fits(recipe, costs_of, images, free)
    recipe = dataclasses.replace(recipe, accumulate=learner.accumulate, jit=jit)
    step = costs_of(recipe)
    plan = dataclasses.replace(
        plan,
        accumulate=learner.accumulate,
        memory=step.memory,
        free=free,
        too_large=costs.why_too_large(recipe, model.spec, costs_of, images, free),
    )
    begun = dataclasses.replace(begun, recipe=recipe)
    return Prepared(begun, engine, task, learner, plan, step, begun.source)


def _keeps_features(begun: Beginning, engine: Engine, task: Task | None, plan: Plan) -> bool:
    """Whether the learner reads features that are computed once, instead of images."""
    channels = begun.model.features.shape[1:]
    return (
        keeps_features(begun.recipe, begun.model.spec)
        # A vector for each image, or for each of its patches.
        and len(channels) == (2 if begun.recipe.task in DENSE_TASKS else 1)
        and _bytes_of_features(begun) <= _MOST_FEATURES
        and plan.steps * plan.batch_size >= plan.examples  # otherwise some are never read
        and task is None  # one of the caller's may read images
        and begun.teacher is None
        and engine.processes == 1
    )


def _file_of_features(begun: Beginning) -> Path | None:
    """Where the features of the last training are kept, for the next one on the same images.

    None if the source does not show whether its images have changed, or for the features of many
    patches.
    """
    source = begun.source
    shows_changes = source.states is not None or isinstance(source.image, InMemory)
    keeps = shows_changes and _bytes_of_features(begun) <= _MOST_KEPT
    return cache_folder() / "features.npz" if keeps else None


def _bytes_of_features(begun: Beginning) -> int:
    return 4 * len(begun.source) * math.prod(begun.model.features.shape[1:])


def _task(begun: Beginning) -> Task:
    source, recipe = begun.source, begun.recipe
    if recipe.loss in SELF_SUPERVISED:
        return _masked_task(begun.model, recipe)
    if recipe.task in DENSE_TASKS:
        return DENSE_TASKS[recipe.task](len(source.labels))
    check_pooled(begun.model.spec)
    if source.multi_hot is not None and recipe.loss == "softmax":
        raise UsageError(
            f"the images of {source.locator} have several classes, which need loss='sigmoid'. "
            "Received: loss='softmax'."
        )
    weights = None
    if recipe.class_weights == "balanced":
        balanced = balanced_weights(source.targets[begun.split.train], len(source.labels))
        weights = tuple(balanced.values())
    task = task_of(recipe.loss, len(source.labels), recipe.label_smoothing, weights)
    if begun.teacher is None:
        return task
    weight = recipe.distillation_weight
    return Distillation(task, begun.teacher, recipe.distillation, weight, recipe.temperature)


def _masked_task(model: ImageModel, recipe: Recipe) -> Task:
    check_masked(recipe, model.spec, model.name)
    target, masked = SELF_SUPERVISED[recipe.loss][0], recipe.masked_fraction
    patch_size, preprocessing = model.spec.patch_size, model.preprocessing
    if target is not None:
        return MaskedPatches(patch_size, preprocessing, target, masked)
    decoder = recipe.decoder_dim, recipe.decoder_depth, recipe.decoder_heads
    return MaskedAutoencoding(patch_size, preprocessing, masked, *decoder)
