"""Trains several models alike and compares them on one page.

Each model is trained for the same number of steps of the same batch size, unless --variations
change them, on each of --fractions of the training images and with --seeds random seeds. Images
are chosen at random in each class; a smaller fraction lies inside a larger one. A run that
diverges is shown as diverged. A command that was stopped goes on where it stopped when it is
started again.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_vit import data, evaluation, training
from keras_vit._errors import RefusedError, UsageError
from keras_vit.cli import _trials, fit
from keras_vit.cli._arguments import option
from keras_vit.cli._options import check_model, check_part
from keras_vit.cli._printing import print_next, table
from keras_vit.cli._program import load
from keras_vit.training.ablations import ABLATIONS, varied

# What the page says of a setting, if all trials have the same.
_SHOWN = (
    ("optimizer", "{}"),
    ("learning_rate", "learning rate {:g}"),
    ("schedule", "{}"),
    ("augment", "augmentation {}"),
)
# What is the same in all variations, and the option that sets it.
_FIXED = {
    "seed": "the seed; use --seeds",
    "held_out": "which images are held out; use --held-out",
}


def _check_seeds(name: str, seeds: int) -> None:
    if seeds < 1:
        raise UsageError(
            f"{name} is how many seeds to train with, 1 or more, not which. Received: {seeds}."
        )


@dataclasses.dataclass(frozen=True)
class Arguments(_trials.TrialArguments):
    """Options of the command."""

    models: tuple[str, ...] = option(("ViT_Pico4", "R_ViT_Pico4", "BiT_R8x1"), check=check_model)
    """The models to compare."""
    ablation: str | None = option(None, choices=ABLATIONS)
    """Vary one thing of each model: its position embedding, its pooling, the size of its patches,
    or its depth against its width."""
    variations: tuple[str, ...] = ()
    """Variations of each model: fields of the model or of the recipe, as in pooling=gap
    depth=8,hidden_dim=48."""
    fractions: tuple[float, ...] = option((1.0,), check=check_part)
    """Fractions of the training images to train on, such as 0.1 0.3 1.0."""
    seeds: tuple[int, ...] = option((1,), check=_check_seeds)
    """Number of runs with different random seeds: one number, or one for each fraction."""

    def __post_init__(self):
        super().__post_init__()
        # This imports NumPy, which --help does not need.
        from keras_vit.training.settings import adapted, check_recipe

        if self.ablation is not None and self.variations:
            raise UsageError("expected --ablation or --variations. Received: both.")
        if len(self.seeds) not in (1, len(self.fractions)):
            raise UsageError(
                "--seeds is how many seeds to train with, not which: one number, or one for each "
                f"of {len(self.fractions)} --fractions. Received: {len(self.seeds)} numbers."
            )
        for model, variation in self.varied():
            try:
                recipe = varied(adapted(self.settings, model), variation)
                for field, what in _FIXED.items():
                    if getattr(recipe, field) != getattr(self.settings, field):
                        raise UsageError(f"--variations cannot set {what}.")
                _trials.check_classifies(recipe)
                check_recipe(recipe, model)
            except UsageError as error:
                raise UsageError(f"{labelled(model, variation)}: {error}") from None

    def varied(self) -> list[tuple[str, str]]:
        """Each model with each of its variations; "" for the model itself."""
        from keras_vit.specs import ViTSpec
        from keras_vit.variant_specs import VARIANTS, find_variant

        found = []
        for name in dict.fromkeys(map(find_variant, self.models)):
            spec = VARIANTS[name]
            if self.ablation is None:
                variations = tuple(dict.fromkeys(self.variations)) or ("",)
            elif isinstance(spec, ViTSpec):
                variations = ABLATIONS[self.ablation](spec)
            else:
                raise UsageError(f"--ablation is for Vision Transformers. Received: {name}.")
            found += [(name, variation) for variation in variations]
        return found


def labelled(model: str, variation: str) -> str:
    """What a variation of a model is called."""
    return f"{model} {variation}".strip()


def defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe and its settings, where they are not given; with a run its model and weights."""
    found = fit.defaults({name: given[name] for name in given if name != "model"})
    model = found.pop("model")
    if given.get("run") and model is None:
        raise UsageError(
            f"{given['run']} trained the model of its weights, which has no name; give --models."
        )
    if given.get("run"):
        return {"models": (model,), **found}
    if "models" in given:
        from keras_vit.training.settings import in_usual_size

        with contextlib.suppress(UsageError):  # an unknown model is refused later
            found["settings"] = in_usual_size(found["settings"], given["models"])
    return found


def run(arguments: Arguments) -> None:
    """Trains what is not trained yet, and writes the page."""
    out = arguments.folder("compare")
    load("tensorflow", "sklearn.metrics", "matplotlib.figure", "jinja2")

    source, split = arguments.images()
    print(f"{len(split.train):,} images for training, {len(split.held_out):,} held out")
    trials = _trials_of(arguments, source, split)
    for trial in trials:
        training.check_trial(trial, source, out / "trials")
    _trials.print_total_time(trials, source, out / "trials")
    runner = _trials.TrialRunner(source, out / "trials", arguments, arguments.recipe)
    results = runner.results
    for i, trial in enumerate(trials, 1):
        runner.run_first(trials[i - 1 :], f"[{i} of {len(trials)}] {trial.name}")
        facts = _facts(arguments, source, split, trials, results)
        page = evaluation.write_comparison(out, _title(arguments, source), facts, results)
    print(f"\n{table(*evaluation.summary(results))}\n\n{_trials.time_taken(results)}\npage: {page}")
    best = _trials.best_of(dict(enumerate(results)))
    if best is None:
        raise RefusedError("every run diverged; try a lower --learning-rate in another folder.")
    print_next("evaluate", "--run", out / "trials" / trials[best].name)


def _title(arguments: Arguments, source: Any) -> str:
    models = list(dict.fromkeys(model for model, _ in arguments.varied()))
    varied = arguments.ablation is not None or arguments.variations
    what = f"Variations of {', '.join(models)}" if varied else "Models"
    return f"{what} on {source.name}"


def _trials_of(arguments: Arguments, source: Any, split: Any) -> list[Any]:

    recipe = training.fixed_budget(arguments.settings, len(split.train))
    each = arguments.seeds * (len(arguments.fractions) if len(arguments.seeds) == 1 else 1)
    seeds = dict(zip(arguments.fractions, each, strict=True))
    is_one = len({model for model, _ in arguments.varied()}) == 1
    return [
        training.Trial(
            "-".join(filter(None, [model, variation, f"{fraction:g}", f"seed{seed}"])),
            model,
            varied(training.with_seed(recipe, model, recipe.seed + seed), variation),
            data.subset(source, split, fraction, recipe.seed + seed),
            arguments.weights,
            {
                "model": variation if is_one and variation else labelled(model, variation),
                "fraction": fraction,
                "seed": recipe.seed + seed,
            },
        )
        for seed in range(max(seeds.values()))
        for fraction in sorted(seeds)
        if seed < seeds[fraction]
        for model, variation in arguments.varied()
    ]


def _facts(
    arguments: Arguments, source: Any, split: Any, trials: list[Any], results: list[Any]
) -> dict[str, str]:
    to_come = len(trials) - len(results)
    return {
        "Done": f"{_trials.time_taken(results)}{f', {to_come} to come' if to_come else ''}",
        "Images": f"{source.name}: {len(split.train):,} for training, {len(split.held_out):,} held "
        "out",
        "Budget": _budget(trials),
        "Start": arguments.weights or "random weights",
        "Recipe": f"{arguments.recipe}: {', '.join(_shared(trials, *each) for each in _SHOWN)}",
    } | _judged_weights(trials)


def _values(trials: list[Any], name: str) -> list[Any]:
    """The values of a setting, each once."""
    return list(dict.fromkeys(getattr(trial.recipe, name) for trial in trials))


def _shared(trials: list[Any], name: str, text: str) -> str:
    """A setting in words, or that it is varied."""
    values = _values(trials, name)
    return text.format(*values) if len(values) == 1 else f"{name.replace('_', ' ')} varied"


def _budget(trials: list[Any]) -> str:
    durations, sizes = _values(trials, "duration"), _values(trials, "batch_size")
    if len(durations) == len(sizes) == 1:
        return f"{durations[0]} of {sizes[0]} images for every model, fraction and seed"
    duration = _shared(trials, "duration", "duration {}")
    return f"{duration}, {_shared(trials, 'batch_size', 'batch size {}')}"


def _judged_weights(trials: list[Any]) -> dict[str, str]:
    """The fact about the average of the weights, if any trial has one."""
    momenta = _values(trials, "ema")
    if not any(momenta):
        return {}
    if len(momenta) > 1:
        return {"Weights": "ema varied: their average, or the last ones where it is 0"}
    return {"Weights": f"their average with momentum {momenta[0]:g}"}
