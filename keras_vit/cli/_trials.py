"""What commands that train several times share: their options, and trials with their times."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_vit import data, evaluation, training
from keras_vit._errors import UsageError
from keras_vit._interrupts import Terminated
from keras_vit._quiet import ignore_log
from keras_vit.cli._arguments import option
from keras_vit.cli._options import check_data, check_folder, check_run
from keras_vit.cli._printing import print_skipped, warn
from keras_vit.cli._program import exit_interrupted
from keras_vit.cli._progress import CountPrinter, ProgressPrinter, count, duration, print_saving
from keras_vit.cli._recipes import check_names_data, check_starts_from_weights
from keras_vit.recipe import SELF_SUPERVISED
from keras_vit.training.recipes import RECIPES, Recipe

# How messages of `train` about an interruption end, and what starting the command again does.
_ADVICE = {
    "; go on with resume=True": "to go on",
    ", but no state; resume=True begins again": "to repeat this run",
    "; resume=True begins again": "to repeat this run",
}

# TensorFlow's warning, for the functions that Keras makes, that a function is compiled again. Here
# it means nothing, because each run has a model of its own.
_RETRACING = (
    r"\d+ out of the last \d+ calls to <function \S*make_\w*function\S* .*"
    r"triggered tf\.function retracing"
)

# What shows whose folder it is, also before the first run has ended.
_FILES = {
    "sweep": ("sweep.json", "lr-*/spec.json"),
    "compare": ("compare.json", "trials"),
    "transfer": ("transfer.json", "*/final-lr-*-seed*/spec.json"),
    "run": ("spec.json",),
}


def check_settings(recipe: Recipe, checkpoint_every: str) -> None:
    """Raises a `UsageError` for settings that no trial can have."""
    # This imports NumPy, which --help does not need.
    from keras_vit.training.settings import check_checkpoint_every

    if recipe.distillation != "none":
        raise UsageError(
            "distillation needs a teacher, which only fit has. "
            f"Received: --distillation {recipe.distillation}."
        )
    check_checkpoint_every(checkpoint_every)
    check_classifies(recipe)


def check_classifies(recipe: Recipe) -> None:
    """Raises a `UsageError` for training whose results are no accuracies."""
    if recipe.task != "classification":
        raise UsageError(f"expected --task classification. Received: {recipe.task}; use fit.")
    if recipe.loss in SELF_SUPERVISED:
        raise UsageError(
            f"accuracies need training with classes. Received: --loss {recipe.loss}; train it with "
            "fit, and compare its features with fewshot."
        )


@dataclasses.dataclass(frozen=True)
class TrialArguments:
    """Options of a command that trains several times."""

    data: str = option("digits", check=check_data)
    """'digits', a folder with one subfolder for each class, or another source of fit."""
    out: Path | None = None
    """The folder to write; default: runs/, the command's name and the name of the run or data."""
    recipe: str = "scratch"
    """The values of the settings below; each of them can be changed by its own option."""
    weights: str | None = None
    """Weights to begin with, see fit."""
    run: Path | None = None
    """Begin as this run did: with its data, model, initial weights and settings."""
    checkpoint_every: str = "5 minutes"
    """How often the state of a run is saved: '5 minutes', '1 epoch', '500 steps'."""
    settings: Recipe = RECIPES["scratch"]

    def __post_init__(self):
        check_run(self.run)
        check_names_data(self.recipe, self.data)
        check_starts_from_weights(self.recipe, self.weights)
        check_settings(self.settings, self.checkpoint_every)

    def folder(self, command: str) -> Path:
        """The folder that the command writes.

        Raises:
            UsageError: see `check_folder_of`.
        """
        name = data.source_name(self.data) if self.run is None else self.run.resolve().name
        out = self.out or Path("runs") / f"{command}-{name}"
        check_folder_of(out, command)
        return out

    def images(self) -> tuple[Any, Any]:
        """The `Source` and its `Split`; prints which pictures were skipped, or repeated."""

        source = data.open_source(self.data)
        print_skipped(source)
        warn(data.repeats_warning(source))
        return source, data.split_source(source, self.settings.held_out)


@dataclasses.dataclass(frozen=True)
class TrialRunner:
    """Runs trials one after another, with the same images.

    Attributes:
        source: the images.
        folder: has a folder for each run.
        arguments: the command's options, with `checkpoint_every`.
        preset: the name of the recipe.
        results: the results of the trials so far.
    """

    source: Any
    folder: Path
    arguments: Any
    preset: str
    results: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def run_first(
        self, to_come: Sequence[Any], title: str, judged_on: str = "held-out"
    ) -> dict[str, Any]:
        """Trains the first of the trials to come, and says about how long all of them take."""
        print(f"\n{title}")
        print_time_left(self.results, to_come, self.folder)
        self.results.append(self.run(to_come[0], judged_on))
        return self.results[-1]

    def run(self, trial: Any, judged_on: str = "held-out") -> dict[str, Any]:
        """The result of a trial; prints its progress, and its accuracy or that it diverged.

        Args:
            trial: see `training.run_trial`.
            judged_on: what the images are called on which the trial is judged.
        """

        ignore_log(_RETRACING, "tensorflow")

        hooks = training.Hooks(
            started=_print_plan,
            features=CountPrinter(),
            report=ProgressPrinter(judged_on),
            saving=print_saving,
            stuck=lambda message: exit_interrupted(_for_trials(message), type(self.arguments)),
        )
        try:
            result = training.run_trial(
                trial,
                self.source,
                self.folder,
                self._judged,
                checkpoint_every=self.arguments.checkpoint_every,
                preset=self.preset,
                hooks=hooks,
            )
        except (KeyboardInterrupt, Terminated) as error:
            raise type(error)(_for_trials(str(error))) from None
        if "diverged" in result:
            print(result["diverged"])
            return result
        of = " with the average of the weights" if result.get("judged_weights") == "average" else ""
        print(f"{judged_on} accuracy {result['accuracy']:.2%}{of}")
        return result

    def _judged(self, run: Any) -> dict[str, Any]:

        average = run.has_average  # which big_vision and DeiT report, where there is one
        report = evaluation.held_out_report(run, self.source, average=average)
        means = {f"macro_{name}": value for name, value in report.macro.items()}
        precision = report.mean_average_precision
        several = {} if precision is None else {"mean_average_precision": precision}
        weights = {"judged_weights": "average" if average else "last"}
        figures = {"accuracy": report.accuracy, **several, **means, **weights}
        return {**figures, "classes": report.classes}


def best_of(results: Mapping[Any, Any]) -> Any:
    """The key of the best result; None if each of them diverged."""
    finished = {key: each for key, each in results.items() if "diverged" not in each}
    return max(finished, key=lambda key: quality(finished[key]), default=None)


def quality(result: Mapping[str, Any]) -> tuple[float, float]:
    """What the best of several trials is chosen by: the larger, the better."""
    # Where images have several classes, the most probable one says little.
    main = result.get("mean_average_precision", result["accuracy"])
    return main, -held_out_loss(result)


def held_out_loss(result: Mapping[str, Any]) -> float:
    """The held-out loss of the weights that were judged: the average if there is one."""
    average = result.get("judged_weights") == "average"
    return result["curve"][-1]["ema_val_loss" if average else "val_loss"]


def check_folder_of(out: Path, command: str) -> None:
    """Raises a `UsageError` if `command` cannot write `out`, or another command wrote it."""
    check_folder(out)
    for other, patterns in _FILES.items():
        if other != command and any(next(out.glob(each), None) for each in patterns):
            raise UsageError(f"{out} is the folder of a {other}; choose another folder.")


def time_taken(results: Sequence[Mapping[str, Any]]) -> str:
    """How long the trials took, also in earlier calls: "3 runs in 12 min 5 s"."""
    seconds = sum(result["seconds"] for result in results)
    return f"{_number_of(len(results))} in {duration(seconds)}"


def print_total_time(trials: Sequence[Any], source: Any, out: Path) -> None:
    """Prints about how long all trials will take that are not finished, from some of their steps.

    Args:
        trials: the trials.
        source: the images.
        out: the folder of the trials.
    """

    times: dict[Any, float] = {}  # by what they depend on
    total, to_come = 0.0, [trial for trial in trials if not training.is_finished(trial, out)]
    for trial in to_come:
        kind = trial.model, dataclasses.replace(trial.recipe, seed=0, learning_rate=0.0)
        if kind not in times:
            with ProgressPrinter() as progress:
                name = trial.model or trial.weights
                progress.start_clock(f"compiling and timing some steps of {name}")
                weights = None if trial.model else trial.weights
                plan, _ = training.dry_run(
                    trial.model, source, trial.recipe, weights=weights, split=trial.split
                )
            if plan.too_large:
                raise UsageError(plan.too_large)
            times[kind] = plan.seconds
        total += times[kind]
    if to_come:
        what = f"{_number_of(len(to_come))}, measured with some steps"
        print(f"about {duration(total)} for {what}")


def print_time_left(results: Sequence[Mapping[str, Any]], trials: Sequence[Any], out: Path) -> None:
    """Prints about how long the trials that are still to come will take.

    Nothing is printed before one is finished, or if the next one only has to be read.

    Args:
        results: the results of the trials before.
        trials: the next trial and those after it.
        out: the folder of the trials.
    """

    times: dict[str, list[float]] = {}
    for result in results:
        if "diverged" not in result:
            times.setdefault(result["model"], []).append(result["seconds"])
    models = [trial.model for trial in trials if not training.is_finished(trial, out)]
    if not times or training.is_finished(trials[0], out):
        return
    means = {model: statistics.mean(of_model) for model, of_model in times.items()}
    usual = statistics.mean(means.values())
    seconds = sum(means.get(model, usual) for model in models)
    others = "" if means.keys() >= {*models} else ", if the others take as long"
    print(f"about {duration(seconds)} to go for {_number_of(len(models))}{others}")


def _number_of(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"


def _for_trials(message: str) -> str:
    """What was saved, for a command that always goes on where it stopped."""
    for of_train, advice in _ADVICE.items():
        if message.endswith(of_train):
            return f"{message.removesuffix(of_train)}; start the same command again {advice}"
    return message


def _print_plan(plan: Any) -> None:
    start = f", from step {plan.first_step:,}" if plan.first_step else ""
    print(
        f"{count(plan.parameters)} parameters, {plan.steps:,} steps of {plan.batch_size} of "
        f"{plan.examples:,} images{start}"
    )
