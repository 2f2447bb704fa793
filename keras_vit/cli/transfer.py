"""Fine-tunes weights on the paper's data sets and VTAB-1k.

Of each task whose images are on this machine, the learning rates are compared on development
images; the best one trains on all training images, and that model is judged on the test images.
Models of ImageNet are also judged on the classes of ImageNet-ReaL.
The other tasks are listed with what prepares their images; nothing is downloaded. At the end there
is a table beside the figures of Dosovitskiy et al. 2021. A command that was stopped goes on where
it stopped when it is started again.

Each task has the settings of its recipe (finetune-imagenet, -cifar10, -cifar100, -pets, -flowers,
-vtab); those given below replace them in all tasks. If only --duration is given, the warmup stays
the same fraction of it.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_vit import _checks, _files, data, evaluation, training
from keras_vit._errors import RefusedError, UsageError, did_you_mean
from keras_vit.cli import _options, _trials
from keras_vit.cli._arguments import option
from keras_vit.cli._printing import table
from keras_vit.cli._program import load
from keras_vit.cli._progress import CountPrinter
from keras_vit.training.recipes import PRESETS, Recipe
from keras_vit.training.transfer_tasks import SUITES, TASKS, TransferTask

_BASE = PRESETS["finetune-pets"].recipe


def _check_task(name: str, task: str) -> None:
    if task not in TASKS:
        raise UsageError(f"{name}: unknown value {task!r}; {did_you_mean(task, TASKS)}")


def _check_source(pair: str) -> None:
    task, separator, source = pair.partition("=")
    if not separator or not source:
        raise UsageError(
            "--sources must be a task, = and its images, such as cifar10=cifar10:FOLDER. "
            f"Received: {pair!r}."
        )
    _check_task("--sources", task)


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Options of the command."""

    weights: str | None = None
    """The weights to begin with: a file or a folder in any layout, its URL (hf://OWNER/NAME on the
    Hugging Face Hub), or a published name such as imagenet21k."""
    model: str = option(PRESETS["finetune-cifar10"].model, check=_options.check_model)
    """The model of the weights, such as ViT_B16."""
    run: Path | None = None
    """Instead of weights and a model: the folder of a trained run, whose weights are used."""
    suite: str = option("all", choices=tuple(SUITES))
    """The tasks: the paper's data sets, VTAB's 19 tasks, or all."""
    tasks: tuple[str, ...] = option((), check=_check_task)
    """Only these tasks, such as cifar10 vtab-clevr-count; --dry-run lists all."""
    sources: tuple[str, ...] = ()
    """Other images for a task, with declared splits: TASK=SOURCE, such as cifar10=cifar10:FOLDER,
    where SOURCE is a --data of fit."""
    out: Path | None = None
    """The folder to write; default: runs/, transfer- and the model's name."""
    learning_rates: tuple[float, ...] = option((), check=_options.check_positive)
    """The learning rates to try in every task. Default: those of its recipe."""
    seeds: int = option(1, check=_checks.positive_integer)
    """Number of final runs with different random seeds; the paper's figures are means of 3."""
    dry_run: bool = False
    """List the tasks with their images, steps and learning rates, and what is missing; train
    nothing."""
    checkpoint_every: str = "5 minutes"
    """How often the state of a run is saved: '5 minutes', '1 epoch', '500 steps'."""
    settings: Recipe = _BASE
    # The names of the settings that were given.
    changed: tuple[str, ...] = option((), internal=True)

    def __post_init__(self):
        # This imports NumPy, which --help does not need.
        from keras_vit.training.settings import check_recipe

        if self.weights is None and self.run is None:
            raise UsageError(
                "transfer begins with weights. Received: none; give some, such as --weights "
                "imagenet21k, or --run FOLDER."
            )
        if self.weights is not None and self.run is not None:
            raise UsageError("expected --run or --weights. Received: both.")
        for pair in self.sources:
            _check_source(pair)
        _options.check_run(self.run)
        _options.check_weights(self.weights, self.model)
        _trials.check_settings(self.settings, self.checkpoint_every)
        model, _ = self.start
        # The run's model may differ from the one of its name.
        is_own = self.run is not None and not self.settings.overrides
        if is_own and (own := self._overrides(model)):
            settings = dataclasses.replace(self.settings, overrides=own)
            object.__setattr__(self, "settings", settings)
            object.__setattr__(self, "changed", (*self.changed, "overrides"))
        for task in self.chosen:
            check_recipe(self.recipe(task), model)

    def _overrides(self, model: str) -> str:
        from keras_vit.specs import RATES, ViTSpec, spec_from_dict
        from keras_vit.training.ablations import difference
        from keras_vit.variant_specs import VARIANTS

        spec, usual = spec_from_dict(self._run_spec().spec), VARIANTS[model]
        if spec.dense is not None:
            raise UsageError(f"{self.run}: expected a classifier. Received: {spec.dense.task}.")
        if not isinstance(usual, ViTSpec):
            return ""
        # A head's hidden layer and rates of training are those of the recipes.
        kept = {name: getattr(usual, name) for name in ("representation_dim", *RATES)}
        return difference(dataclasses.replace(spec, **kept), usual)

    def _run_spec(self) -> Any:
        from keras_vit.specs import RunSpec

        return _files.read_record(self.run / "spec.json", RunSpec, format=1)

    @property
    def chosen(self) -> list[TransferTask]:
        """The tasks, in the order of the suites."""
        names = {*(self.tasks or SUITES[self.suite])}
        names |= {TASKS[name].trained_as for name in names}
        return [task for name, task in TASKS.items() if name in names]

    @property
    def start(self) -> tuple[str, str]:
        """The name of the model and its initial weights."""
        from keras_vit.variant_specs import find_variant

        if self.run is None:
            return find_variant(self.model), self.weights
        spec = self._run_spec()
        try:
            return find_variant(spec.model), str(self.run / "weights.npz")
        except UsageError as error:
            raise UsageError(f"{self.run}: {error}") from None

    def recipe(self, task: TransferTask) -> Recipe:
        """The settings of a task."""
        return task.recipe({name: getattr(self.settings, name) for name in self.changed})

    def rates(self, task: TransferTask) -> list[float]:
        """The learning rates that are compared."""
        given = (self.settings.learning_rate,) if "learning_rate" in self.changed else ()
        return sorted(set(self.learning_rates or given or task.learning_rates))

    def locators(self, task: TransferTask) -> tuple[str, ...]:
        """Where its images may be."""
        other = dict(pair.split("=", 1) for pair in self.sources)
        return (other[task.name],) if task.name in other else task.sources


def defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Which settings replace those of the tasks."""
    fields = {field.name for field in dataclasses.fields(Recipe)}
    return {"changed": tuple(name for name in given if name in fields), "settings": _BASE}


def run(arguments: Arguments) -> None:
    """Trains what is not trained yet, and writes the page after each task."""
    model, weights = arguments.start
    out = arguments.out or Path("runs") / f"transfer-{model}"
    _trials.check_folder_of(out, "transfer")
    load("tensorflow", "sklearn.metrics", "jinja2")

    found, missing = _searched(arguments)
    if arguments.dry_run:
        rows = [_planned(arguments, task, found.get(task.name)) for task in arguments.chosen]
        print(table(["task", "images", "test", "steps", "images each", "learning rates"], rows))
    _print_missing(missing)
    if arguments.dry_run:
        print("\ndry run: nothing was trained or written")
        return
    if not found:
        raise UsageError(
            f"none of {len(missing)} tasks has its images on this machine; prepare them as said "
            "above, or give others with --sources."
        )
    published = evaluation.published_transfer(_published_name(model, weights))
    done: list[dict[str, Any]] = []  # the results of all trials
    results: dict[str, Any] = {}
    for number, (name, locator) in enumerate(found.items(), 1):
        print(f"\n[{number} of {len(found)}] {name}")
        task, source = TASKS[name], _options.open_images(locator)
        images = {"source": source.locator, "is_own": task.is_own(locator)}
        if task.trained_as:
            trained = results[task.trained_as]
            images["is_own"] = images["is_own"] and trained["is_own"]
            results[name] = images | _judged(arguments, task, source, out, trained)
        else:
            runner = _trials.TrialRunner(source, out / name, arguments, task.preset)
            results[name] = images | _transferred(task, runner)
            done += runner.results
        facts = _facts(arguments, results, missing, done)
        known = {name: {"missing": reason} for name, reason in missing.items()} | results
        figures = [
            {"task": task.name, "group": task.group, **known[task.name]}
            for task in arguments.chosen
            if task.name in known  # the others are still to come
        ]
        page = evaluation.write_transfer(out, f"Transfer of {model}", facts, figures, published)
    print(f"\n{table(*evaluation.transfer_table(figures, published))}")
    if missing:
        print(f"not on this machine: {', '.join(missing)}")
    print(f"\n{_trials.time_taken(done)}\npage: {page}")
    if all("diverged" in each for each in results.values()):
        raise RefusedError("every run diverged; try lower --learning-rates.")


def _searched(arguments: Arguments) -> tuple[dict[str, str], dict[str, str]]:
    """By task: the source that is on this machine, and for the others how to prepare it."""

    found, missing = {}, {}
    for task in arguments.chosen:
        reasons = []
        for locator in arguments.locators(task):
            try:
                data.check_present(locator)
            except UsageError as error:
                reasons.append(getattr(error, "preparation", str(error)))
            else:
                found[task.name] = locator
                break
        else:
            missing[task.name] = reasons[0]
        if task.trained_as in missing and found.pop(task.name, None):
            missing[task.name] = missing[task.trained_as]  # without its models
    return found, missing


def _print_missing(missing: Mapping[str, str]) -> None:
    """Prints what prepares the images of the tasks; several tasks may have the same."""
    if missing:
        print("\nmissing on this machine, each with the command that prepares it:")
    for reason in dict.fromkeys(missing.values()):
        names = ", ".join(name for name, each in missing.items() if each == reason)
        print(f"  {names}: {reason}")


def _planned(arguments: Arguments, task: TransferTask, locator: str | None) -> list[str]:
    """A row of the dry run."""
    recipe, rates = arguments.recipe(task), arguments.rates(task)
    if task.trained_as and locator is not None:
        judged = f"{len(_options.open_images(locator)):,}"
        return [task.name, "", judged, f"the models of {task.trained_as}", "", ""]
    numbers = ["missing", ""]
    if locator is not None:
        _, final = task.splits(_options.open_images(locator))
        numbers = [f"{len(final.train):,}", f"{len(final.held_out):,}"]
    side = recipe.image_size if isinstance(recipe.image_size, int) else max(recipe.image_size)
    of = f"{recipe.batch_size} of {side} px"
    return [task.name, *numbers, recipe.duration, of, " ".join(f"{rate:g}" for rate in rates)]


def _transferred(task: TransferTask, runner: _trials.TrialRunner) -> dict[str, Any]:
    """The result of a task: of its final trials, or why there is none.

    Args:
        task: what is trained.
        runner: of the task's trials, all to come.
    """
    arguments, rates = runner.arguments, runner.arguments.rates(task)
    tries, finals = _trials_of(arguments, task, runner.source, runner.folder)

    def result(trials: Sequence[Any]) -> dict[str, Any]:
        return runner.run_first(trials, f"{task.name}: {trials[0].name}")

    to_come = [*tries.values(), *finals[rates[0]]]
    tried = {rate: result(to_come[i:]) for i, rate in enumerate(tries)}
    best = _trials.best_of(tried) if tried else rates[0]
    if best is None:
        return {"diverged": f"with every learning rate of {rates}"}
    last = [result(finals[best][seed:]) for seed in range(arguments.seeds)]
    if bad := [each["diverged"] for each in last if "diverged" in each]:
        return {"diverged": bad[0]}
    accuracies = [each["accuracy"] for each in last]
    return {
        "accuracy": statistics.mean(accuracies),
        "accuracies": accuracies,
        "learning_rate": best,
        "tried": {f"{rate:g}": r["accuracy"] for rate, r in tried.items() if "accuracy" in r},
        "images": len(finals[best][0].split.train),
        "test_images": len(finals[best][0].split.held_out),
        "steps": last[0]["steps"],
        "seconds": sum(each["seconds"] for each in runner.results),
    }


def _judged(
    arguments: Arguments, task: TransferTask, source: Any, out: Path, trained: dict[str, Any]
) -> dict[str, Any]:
    """The result of a task that judges the final models of another one.

    Args:
        arguments, task, source: what is judged, on which images.
        out: the folder with a folder for each task.
        trained: the result of the other task.
    """
    import numpy as np

    from keras_vit import runs

    if "diverged" in trained:
        return {"diverged": f"{task.trained_as} {trained['diverged']}"}
    rate = trained["learning_rate"]
    indices, accuracies = source.splits.get(task.test, np.arange(len(source))), []
    for seed in range(arguments.seeds):
        run = runs.open_run(out / task.trained_as / _final(rate, seed))
        model = run.model(average=run.has_average)
        accuracy = evaluation.accuracy_on(model, source, indices, report=CountPrinter())
        print(f"seed {seed}: accuracy {accuracy.top1:.2%}")
        accuracies.append(accuracy.top1)
    return {
        "accuracy": statistics.mean(accuracies),
        "accuracies": accuracies,
        "learning_rate": rate,
        "images": trained["images"],
        "test_images": accuracy.images,
        "steps": trained["steps"],
        "seconds": 0.0,
    }


def _final(rate: float, seed: int) -> str:
    """The name of a final trial."""
    return f"final-lr-{rate:g}-seed{seed}"


def _trials_of(
    arguments: Arguments, task: TransferTask, source: Any, folder: Path
) -> tuple[dict[float, Any], dict[float, list[Any]]]:
    """By learning rate: the trials that compare them, and the final ones.

    Raises:
        UsageError: the folder holds other trials.
    """

    development, final = task.splits(source)
    rates, seeds = arguments.rates(task), range(arguments.seeds)
    model, weights = arguments.start

    def trial(name: str, rate: float, images: Any, seed: int = 0) -> Any:
        recipe = dataclasses.replace(arguments.recipe(task), learning_rate=rate)
        recipe = training.with_seed(recipe, model, recipe.seed + seed)
        tags = {"task": task.name, "learning_rate": rate, "seed": recipe.seed}
        return training.Trial(name, model, recipe, images, weights, tags)

    compared = rates if len(rates) > 1 else ()  # of one there is nothing to compare
    tries = {rate: trial(f"lr-{rate:g}", rate, development) for rate in compared}
    finals = {
        rate: [trial(_final(rate, seed), rate, final, seed) for seed in seeds] for rate in rates
    }
    for each in (*tries.values(), *itertools.chain(*finals.values())):
        training.check_trial(each, source, folder)
    return tries, finals


def _published_name(model: str, weights: str) -> str | None:
    """The name in the catalogue of the weights, if it has them."""
    from keras_vit.weights import find_weights

    if Path(weights).exists():
        return None
    try:
        return find_weights(model, weights).name
    except UsageError:  # a URL, or no such file, which is said when the first model is built
        return None


def _facts(
    arguments: Arguments,
    results: Mapping[str, Any],
    missing: Mapping[str, str],
    done: Sequence[Any],
) -> dict[str, str]:
    model, weights = arguments.start
    settings, tasks = arguments.settings, arguments.chosen
    changes = [f"{x.replace('_', ' ')} {getattr(settings, x)}" for x in arguments.changed]
    if arguments.learning_rates:
        changes.append(f"learning rates {' '.join(map(str, arguments.learning_rates))}")
    to_come = len(tasks) - len(missing) - len(results)
    left = f", {to_come} tasks to come" if to_come else ""
    changed = f", except {', '.join(changes)}" if changes else ""
    return {
        "Done": f"{len(results)} of {len(tasks)} tasks, {_trials.time_taken(done)}{left}",
        "Start": f"{model} from {weights}",
        "Settings": f"those of each task's recipe{changed}",
        "Seeds": str(arguments.seeds),
    }
