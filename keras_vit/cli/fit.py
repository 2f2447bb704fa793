"""Trains a model on images and writes a run folder.

Without --recipe, the recipe is that of --data if there is one, finetune with --weights, and scratch
otherwise; --recipes lists all. Each of its settings can also be given as an option.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from keras_vit import _files, data, evaluation, training
from keras_vit._checks import positive_integer
from keras_vit._errors import UsageError
from keras_vit.cli import _recipes
from keras_vit.cli._arguments import option, with_flags
from keras_vit.cli._options import (
    check_data,
    check_model,
    check_run,
    check_weights,
    holds_model,
    open_images,
)
from keras_vit.cli._printing import class_table, print_next, warn
from keras_vit.cli._program import exit_interrupted, load, spelled, train_with_others
from keras_vit.cli._progress import (
    CountPrinter,
    ProgressPrinter,
    duration,
    planned,
    previewed,
    print_saving,
)
from keras_vit.data.task_folders import task_of
from keras_vit.recipe import CHOSEN_HERE, SELF_SUPERVISED, RunRecipe
from keras_vit.training.devices import STRATEGIES, choose, environment, keras_3_setting
from keras_vit.training.recipes import PRESETS, RECIPES, Preset, Recipe, default_recipe


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Options of the command."""

    data: str = "digits"
    """A folder with one subfolder for each class, or with such folders in train/ and val/; or
    'digits' (scikit-learn's, no download), 'cifar10' or 'cifar10:FOLDER', 'tfds:NAME' (a prepared
    data set of TensorFlow Datasets), 'vtab:TASK' (one of VTAB-1k, from such a data set),
    'tfrecords:FOLDER', 'unlabelled:FOLDER' (without classes, for recipes such as mae). For --task
    segmentation a folder of pictures with masks: in images/ and masks/, or beside each other; or
    'scenes' (digits on textures, no download)."""
    model: str | None = option(PRESETS["scratch"].model, check=check_model)
    """The model to train, such as ViT_S16 or BiT_R50x1; --model all lists every name. Default: the
    model that --weights hold, and without them or for a name such as augreg, the recipe's."""
    out: Path | None = None
    """The run folder; default: runs/ and the name of the data."""
    recipe: str = "scratch"
    """The values of the settings below; each of them can be changed by its own option."""
    recipes: bool = False
    """List all recipes and stop."""
    dry_run: bool = False
    """Read the images, build everything, print what training would do and need, and stop."""
    weights: str | None = None
    """Weights to begin with instead of random ones: a file or a folder in any layout, its URL
    (hf://OWNER/NAME on the Hugging Face Hub), or a published name such as imagenet21k or augreg."""
    teacher: Path | None = None
    """A run folder whose model teaches this one, with --distillation."""
    resume: bool = False
    """Go on after the newest checkpoint of the run in --out, with its data, model and settings."""
    checkpoint_every: str | None = None
    """How often the whole state is saved: '5 minutes', '1 epoch', '500 steps'. Default: every 5
    minutes; the states are removed when the run has ended. With this option or the next one the
    last ones stay, to make the run longer."""
    keep_checkpoints: int | None = option(None, check=positive_integer)
    """Number of saved states to keep, the newest. Default: 2."""
    overwrite: bool = False
    """Replace the run in --out."""
    strict: bool = False
    """Stop if a picture cannot be read, instead of skipping it."""
    strategy: str = option("auto", choices=STRATEGIES)
    """The devices: one; mirrored for all GPUs of this machine; multiworker for the machines in
    TF_CONFIG; tpu; jax for all devices of JAX; auto chooses."""
    logical_devices: int = option(1, check=positive_integer)
    """Split the CPU into this many devices, to try --strategy mirrored or jax."""
    tpu: str | None = None
    """The name of a TPU; 'local' on a TPU VM."""
    tensorboard: bool = False
    """Also write TensorBoard's event files into the run folder."""
    fewshot: tuple[int, ...] = option((), check=positive_integer)
    """Also measure the few-shot accuracy of the features at each evaluation, see the command
    fewshot, with these numbers of images of each class."""
    settings: Recipe = RECIPES["scratch"]

    def __post_init__(self):
        if self.recipes:
            return
        _recipes.check_names_data(self.recipe, self.data)
        check_data("data", self.data, self.settings.task)
        check_weights(self.weights, self.model, run_instead="{}/weights.npz")
        check_run(self.teacher)
        if not (self.resume or self.dry_run):
            _recipes.check_starts_from_weights(self.recipe, self.weights)
        # This imports NumPy, which --help does not need.
        from keras_vit.training.settings import check_checkpoint_every, check_recipe

        check_recipe(self.settings, self.model)
        if self.settings.distillation != "none" and self.teacher is None:
            raise UsageError(
                f"distillation={self.settings.distillation!r} needs a teacher: name its run folder "
                "with teacher=FOLDER."
            )
        check_checkpoint_every(self.checkpoint_every)
        self.chosen_strategy(self.settings)

    @property
    def locator(self) -> str:
        """The source of the images; see `open_source`."""
        return str(data.for_task(self.data, self.settings.task))

    def folder(self) -> Path:
        """The run folder."""
        return self.out or Path("runs") / data.source_name(self.data)

    def chosen_strategy(self, recipe: Recipe | None) -> str:
        """The strategy for some settings; "auto" is decided."""
        return choose(
            self.strategy, tpu=self.tpu, logical_devices=self.logical_devices, recipe=recipe
        )


def defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe, its data, its settings and its model, where they are not given."""
    begun = _begun_with(given)
    if begun and given.get("recipe", begun["recipe"]) == begun["recipe"]:
        return begun
    # Another recipe brings its settings; they are refused later unless they are those of the run.
    given = {name: begun[name] for name in ("data", "model") if begun} | given
    data, weights = given.get("data", Arguments.data), given.get("weights")
    task = given.get("task") or task_of(data)
    recipe = given.get("recipe") or default_recipe(data, weights, task)
    _recipes.check_recipe_name(recipe)
    preset = PRESETS[recipe]
    if "recipe" in given:  # its data; without any it is refused later
        data = given.get("data", preset.data or "")
    model = given.get("model", None if holds_model(weights) else preset.model)
    settings = _fitting(preset, model, weights)
    return {"data": data, "recipe": recipe, "settings": settings, "model": model}


def _fitting(preset: Preset, model: str | None, weights: str | None) -> Recipe:
    """The settings of a recipe for a model, or None for the model that weights hold."""
    if model == preset.model:
        return preset.recipe
    from keras_vit.training.settings import adapted, for_weights, in_usual_size
    from keras_vit.variant_specs import find_variant
    from keras_vit.weights import named_weights

    with contextlib.suppress(UsageError):  # what is unknown is downloaded, or refused, later
        if model is None and Path(weights).exists():
            return for_weights(preset.recipe, weights)
        name = find_variant(model or named_weights(weights).model)
        if name != find_variant(preset.model):
            return adapted(in_usual_size(preset.recipe, [name]), name)
    return preset.recipe


def _begun_with(given: Mapping[str, Any]) -> dict[str, Any]:
    """The data, model and settings of the run that is repeated or goes on; {} if unknown."""
    folder = given.get("run") or (given.get("out") if given.get("resume") else None)
    if folder is None:
        return {}
    from keras_vit.variant_specs import find_variant

    with contextlib.suppress(UsageError):  # the run is opened later, with an error
        begun = _files.read_record(Path(folder) / "recipe.json", RunRecipe, format=1)
        found = {
            "data": begun.data,
            "recipe": begun.preset or "",  # unknown for an older run or one of Python
            "settings": Recipe(**msgspec.structs.asdict(begun.recipe)),
            # Of a run of Python the model may have no name.
            "model": None if begun.model is None else find_variant(begun.model),
        }
        if given.get("resume"):
            return found
        settings = dataclasses.replace(found["settings"], **dict.fromkeys(CHOSEN_HERE))
        return {**found, "settings": settings, "weights": begun.weights}
    return {}


def run(arguments: Arguments) -> None:
    """Trains, and prints the classes, the progress and the accuracy."""
    if arguments.recipes:
        print(_recipes.recipe_list())
        return
    strategy = arguments.chosen_strategy(arguments.settings)
    _say_why(arguments, strategy)
    _choose_keras(strategy)
    _check_folder(arguments, strategy)
    load("tensorflow", "sklearn.metrics")
    from keras_vit import runs

    engine = training.open_engine(
        strategy, tpu=arguments.tpu, logical_devices=arguments.logical_devices,
        recipe=arguments.settings,
    )  # fmt: skip
    if engine.processes > 1:
        train_with_others()
    if engine.processes > 1 and arguments.fewshot:
        raise UsageError("--fewshot is computed by one process. Received: several; leave it out.")
    out = arguments.folder()
    if engine.is_chief and not arguments.dry_run:
        _files.check_unlocked(out)
    saving = training.Saving(
        out,
        arguments.resume,
        arguments.overwrite or (arguments.dry_run and not arguments.resume),
        arguments.checkpoint_every,
        arguments.keep_checkpoints,
        arguments.tensorboard,
        arguments.recipe or None,
    )
    training.check_settings(
        arguments.locator, arguments.settings, arguments.model, saving, weights=arguments.weights,
        engine=engine,
    )  # fmt: skip
    source = _opened_images(arguments)
    _check_fewshot(arguments, source)
    with engine.scope():
        teacher = None if arguments.teacher is None else runs.load_run(arguments.teacher)
    if arguments.dry_run:
        _preview(arguments, source, out, engine, teacher)
        return
    run = _trained(arguments, source, saving, engine, teacher)
    if not engine.is_chief:
        print(f"process {engine.process} is done; the first one writes {run.path}")
        return
    if arguments.settings.loss in SELF_SUPERVISED:
        print(_self_supervised_end(run))
        return
    report = evaluation.held_out_report(run, source)
    warn(report.warning(arguments.settings.may_weight_classes), Arguments)
    steps = run.metrics()[-1]["step"]
    print(f"{report.headline} after {steps} steps: {run.path}")
    if run.has_average:
        average = evaluation.held_out_report(run, source, average=True)
        print(f"{average.headline}: {run.path / runs.AVERAGE}")
    print_next("evaluate", "--run", run.path)


def _opened_images(arguments: Arguments) -> Any:
    """The `Source`; prints what to expect, what was left out, and the number of each class."""
    from keras_vit.labels import count_of

    if arguments.recipe == "scratch" and not (arguments.weights or arguments.resume):
        print(_from_random_weights(arguments))
    recipe = f"recipe {arguments.recipe}; " if arguments.recipe else ""
    source = open_images(arguments.locator, arguments.strict, recipe)
    print(f"{len(source)} images of {count_of(source.labels)}:")
    counts = list(source.counts.values())
    print(class_table(source.labels, counts))
    if source.annotations is not None and source.annotations.note:
        print(source.annotations.note)
    if source.splits:
        print(data.split_summary(source, f"{spelled('evaluate')} --split test"))
        warn(data.repeats_warning(source))
        fraction = arguments.settings.held_out
        if fraction != RECIPES.get(arguments.recipe, Recipe()).held_out:
            warn(f"held_out={fraction} is not used: the data declares its splits.", Arguments)
    if arguments.settings.loss not in SELF_SUPERVISED and source.annotations is None:
        warn(training.few_images_warning(source.labels, counts))
    if arguments.settings.may_weight_classes and source.annotations is None:
        warn(training.imbalance_warning(source.labels, counts), Arguments)
    return source


def _preview(arguments: Arguments, source: Any, out: Path, engine: Any, teacher: Any) -> None:
    """Prints the plan and the costs, then the time."""

    def begin(plan: Any, costs: Any) -> None:
        usual = PRESETS[arguments.recipe].weights
        if usual and arguments.weights is None and not arguments.resume:
            print(f"weights: none given; needed for training, such as --weights {usual}")
        print(previewed(plan, costs, arguments.settings, out))
        warn(plan.too_large, Arguments)
        if not plan.too_large:
            progress.start_clock("compiling and timing some steps")

    with ProgressPrinter() as progress:
        plan, _ = training.dry_run(
            arguments.model, source, arguments.settings, weights=arguments.weights,
            teacher=teacher, engine=engine, started=begin,
        )  # fmt: skip
    if plan.seconds is not None:
        print(f"time: about {duration(plan.seconds)}, measured with some steps")
    print("dry run: nothing was trained or written")


def _trained(arguments: Arguments, source: Any, saving: Any, engine: Any, teacher: Any) -> Any:
    """The finished run; prints the plan and the progress."""

    def begin(plan: Any) -> None:
        if arguments.resume and not plan.first_step:
            print("no checkpoint was saved: training begins again")
        print(planned(plan, saving.path))
        if not plan.keeps_features:
            progress.start_clock()

    def probes(model: Any, split: Any) -> list[Any]:
        shots = arguments.fewshot
        return [evaluation.FewShotProbe(model, source, split, shots)] if shots else []

    with ProgressPrinter() as progress:
        hooks = training.Hooks(
            callbacks=probes,
            started=begin,
            features=CountPrinter(),
            report=progress,
            saving=print_saving,
            stuck=lambda message: exit_interrupted(message, Arguments),
        )
        return training.train(
            arguments.model, source, arguments.settings, saving, weights=arguments.weights,
            teacher=teacher, strategy=engine, hooks=hooks,
        )  # fmt: skip


def _from_random_weights(arguments: Arguments) -> str:
    """What to expect of training from random weights, and the command that does better."""
    from keras_vit.weights import list_weights

    weights, model = PRESETS["finetune"].weights, arguments.model
    if all(each.directory != weights for each in list_weights(model)):
        model = "ViT_S16"
    words = ["--data", arguments.data, "--weights", weights, "--model", model]
    words += ["--out", f"{arguments.folder()}-{weights}"]
    return (
        f"from random weights; for comparison, {PRESETS['scratch'].expected}\n"
        f"Published weights need fewer pictures: {spelled('fit')} {shlex.join(words)}"
    )


def _check_folder(arguments: Arguments, strategy: str) -> None:
    """Raises a `UsageError` before TensorFlow is imported if the folder cannot be used."""
    from keras_vit.data.sources import check_out

    if arguments.resume:
        check_run(arguments.folder())
    # Of several processes, the first one may have made the folder already.
    elif strategy != "multiworker":
        may_exist = arguments.overwrite or arguments.dry_run
        check_out(arguments.folder(), arguments.locator, may_exist)


def _check_fewshot(arguments: Arguments, source: Any) -> None:
    """Raises a `UsageError` before anything is written, if a class has too few images."""
    if arguments.fewshot and not arguments.resume:
        from keras_vit.evaluation.features import check_can_probe
        from keras_vit.evaluation.probes import check_shots

        check_can_probe(source)
        targets = source.targets[data.split_source(source, arguments.settings.held_out).train]
        try:
            check_shots(targets, max(arguments.fewshot), source.labels)
        except UsageError as error:
            raise UsageError(str(error).replace("shots", "--fewshot")) from None


def _self_supervised_end(run: Any) -> str:
    """What training without classes reached, and what to do with its weights."""
    last = run.metrics()[-1]
    right = f", {last['val_accuracy']:.2%} of the colours right" if "val_accuracy" in last else ""
    return (
        f"held-out loss {last['val_loss']:.4f}{right} after {last['step']} steps: {run.path}\n"
        f"the head is not trained; go on with {spelled('fit')} --weights "
        f"{run.path / 'weights.npz'} --data FOLDER --out RUN"
    )


def _say_why(arguments: Arguments, strategy: str) -> None:
    """Prints that a setting made "auto" choose another strategy than usual."""
    usual = arguments.chosen_strategy(None)
    if strategy != usual:
        setting = with_flags(keras_3_setting(arguments.settings), Arguments)
        more = "; all GPUs need pip install 'jax[cuda12]'" if strategy == "one" else ""
        print(f"strategy {strategy} instead of {usual}: {setting} needs Keras 3{more}")


def _choose_keras(strategy: str) -> None:
    """Sets the variables that Keras reads when it is imported, and says so."""
    changes = {
        name: value
        for name, value in environment(strategy).items()
        if os.environ.get(name, "0") != value
    }
    if changes and "keras_vit._keras" not in sys.modules:
        os.environ.update(changes)
        settings = " ".join(f"{name}={value}" for name, value in changes.items())
        print(f"strategy {strategy} runs with {settings}")
