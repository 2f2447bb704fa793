"""Tries learning rates, then trains with the best.

They are tried on a part of the training images; the best one trains on all of them.

Each of --learning-rates is tried on a development split: a tenth of the training images of each
class, or what the recipe says, is held out to compare them. The final training uses all training
images, and only then the held-out images. A command that was stopped goes on where it stopped when
it is started again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_vit import _checks, _files, data, training
from keras_vit._errors import RefusedError
from keras_vit.cli import _trials, fit
from keras_vit.cli._arguments import option
from keras_vit.cli._options import check_model, check_positive, check_weights
from keras_vit.cli._printing import print_next, table, warn
from keras_vit.cli._program import load
from keras_vit.training.recipes import PRESETS, Preset, Recipe

_MANY = 100  # images on which learning rates are compared: one is one point of accuracy
_FACTORS = (0.3, 1.0, 3.0)  # of the recipe's learning rate, if its source names no others


@dataclasses.dataclass(frozen=True)
class Arguments(_trials.TrialArguments):
    """Options of the command."""

    model: str | None = option(PRESETS["scratch"].model, check=check_model)
    """The model to train, such as ViT_S16 or BiT_R50x1; --model all lists every name. Default: the
    model that --weights hold, and without them or for a name such as augreg, the recipe's."""
    learning_rates: tuple[float, ...] = option((), check=check_positive)
    """The learning rates to try. Default: those of the recipe's source, or 0.3, 1 and 3 times the
    recipe's."""
    development: float = option(0.1, check=_checks.inner_fraction)
    """Fraction of the training images on which they are compared."""

    def __post_init__(self):
        super().__post_init__()
        # This imports NumPy, which --help does not need.
        from keras_vit.training.settings import check_recipe

        check_weights(self.weights, self.model, run_instead="{}/weights.npz")
        check_recipe(self.settings, self.model)


def defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe, its settings, its model and its learning rates, where they are not given."""
    found = fit.defaults(given)
    preset, rate = PRESETS.get(found["recipe"], Preset(Recipe())), found["settings"].learning_rate
    if "learning_rate" in given:
        rates = tuple(factor * given["learning_rate"] for factor in _FACTORS)
    else:
        rates = preset.learning_rates or tuple(factor * rate for factor in _FACTORS)
    return {**found, "learning_rates": rates, "development": preset.development}


def run(arguments: Arguments) -> None:
    """Trains what is not trained yet, and prints a table."""
    out = arguments.folder("sweep")
    load("tensorflow", "sklearn.metrics")

    source, split = arguments.images()
    development = data.development_split(source, split, arguments.development)
    compared = len(development.held_out)
    print(
        f"{len(split.train):,} images for training, {compared:,} of them to compare learning "
        f"rates; {len(split.held_out):,} held out"
    )
    if compared < _MANY:
        warn(
            f"learning rates are compared on {compared} images, of which each is "
            f"{100 / compared:.0f} points of accuracy: the best may be the best by chance; give "
            "more images, or a larger --development."
        )
    recipe = training.fixed_budget(arguments.settings, len(split.train))
    rates = sorted(set(arguments.learning_rates))
    tries = {rate: _trial(arguments, recipe, "lr", rate, development) for rate in rates}
    # Named after its learning rate, because another one may be the best in a later call.
    finals = {rate: _trial(arguments, recipe, "final-lr", rate, split) for rate in rates}
    for trial in (*tries.values(), *finals.values()):
        training.check_trial(trial, source, out)
    final = min(finals.values(), key=lambda trial: training.is_finished(trial, out))
    _trials.print_total_time([*tries.values(), final], source, out)
    runner = _trials.TrialRunner(source, out, arguments, arguments.recipe)
    results = {}
    for i, (rate, trial) in enumerate(tries.items()):
        to_come = [*list(tries.values())[i:], finals[rate]]
        results[rate] = runner.run_first(to_come, trial.name, "development")
    best = _trials.best_of(results)
    if best is None:
        raise RefusedError(f"no learning rate of {rates} trains; try lower --learning-rates.")
    final = runner.run_first([finals[best]], finals[best].name)
    tried = [{"learning_rate": rate, "result": each} for rate, each in results.items()]
    content = {"format": 1, "tried": tried, "best": best, "final": final}
    _files.write_json(out / "sweep.json", content)
    if "diverged" in final:
        raise RefusedError(f"the final training with learning rate {best:g} diverged.")
    print(f"\n{_table(results, best, final)}\n\n{_trials.time_taken(runner.results)}")
    print(f"run: {out / finals[best].name}")
    print_next("evaluate", "--run", out / finals[best].name)


def _trial(arguments: Arguments, recipe: Recipe, name: str, rate: float, images: Any) -> Any:
    name, tags = f"{name}-{rate:g}", {"learning_rate": rate}
    settings = dataclasses.replace(recipe, learning_rate=rate)
    return training.Trial(name, arguments.model, settings, images, arguments.weights, tags)


def _table(results: Mapping[float, Any], best: float, final: Any) -> str:
    of = " of the average" if final.get("judged_weights") == "average" else ""
    names = {"accuracy": f"accuracy{of}", "mean_average_precision": "mean average precision"}
    names = {key: name for key, name in names.items() if key in final}
    header = ["learning rate", "images", *names.values(), f"loss{of}", "seconds"]

    def row(name: str, on: str, result: Any) -> list[str]:
        if "diverged" in result:
            return [name, on, "diverged", *[""] * (len(header) - 3)]
        figures = [f"{result[key]:.2%}" for key in names]
        loss = _trials.held_out_loss(result)
        return [name, on, *figures, f"{loss:.4f}", f"{result['seconds']:,.0f}"]

    rows = [
        row(f"{rate:g}{' (best)' if rate == best else ''}", "development", each)
        for rate, each in results.items()
    ]
    return table(header, [*rows, row(f"{best:g}, final", "held-out", final)])
