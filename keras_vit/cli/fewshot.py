"""Measures what frozen features are worth with a few labels.

A linear classifier is fitted in closed form to a few images of each class, as in the paper, for all
--shots, --l2 and --seeds. The model comes from a run or from weights, the images from --data: they
need not be the training images. The nearest neighbours vote too. Features are kept in the folder
--out, so that other --shots take seconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

from keras_vit import _checks, data, evaluation
from keras_vit._errors import UsageError
from keras_vit.cli import _options
from keras_vit.cli._arguments import option
from keras_vit.cli._printing import print_next, print_skipped, table, warn
from keras_vit.cli._program import load
from keras_vit.cli._progress import CountPrinter

_SHOTS = (1, 5, 10, 25)


@dataclasses.dataclass(frozen=True)
class Arguments(_options.WeightsOptions):
    """Options of the command."""

    average: bool = False
    """Judge the average of the weights of a run that was trained with --ema."""
    shots: tuple[int, ...] = option(_SHOTS, check=_checks.positive_integer)
    """Numbers of images of each class."""
    l2: tuple[float, ...] = option((1024.0,), check=_options.check_positive)
    """Regularisations to try."""
    seeds: int = option(3, check=_checks.positive_integer)
    """Number of random choices of the images."""
    crop: float | None = option(None, check=_options.check_part)
    """Resize the short side to the model's size divided by this, and cut out the centre; 0.875 is
    the paper's 224 of 256 pixels. Default: as for the weights."""
    neighbours: int = option(20, check=_checks.positive_integer)
    """Number of nearest neighbours that vote."""
    linear: bool = False
    """Also fit logistic regression to all training images, which may take minutes."""
    batch_size: int = option(64, check=_checks.positive_integer)
    """Number of images that the model computes at a time."""
    out: Path | None = None
    """The folder for the features and results; default: fewshot/ in the run folder, fewshot-NAME/
    for another --data with that name, or, with --weights, runs/ and the name of the model."""

    def __post_init__(self):
        if self.weights is not None and self.average:
            raise UsageError("--average is for a run; give its weights_ema.npz as --weights.")
        if self.weights is not None and self.data is None:
            raise UsageError("--weights need --data, the images to judge the features on.")
        _options.check_folder(self.out)
        super().__post_init__()


def run(arguments: Arguments) -> None:
    """Computes the features, fits the classifiers and prints their accuracies."""
    load("tensorflow")
    from keras_vit import _files
    from keras_vit.evaluation.features import check_can_probe
    from keras_vit.labels import count_of

    model, source, split, out = _opened(arguments)
    print(
        f"{len(split.train):,} images of {count_of(source.labels)} to learn from, "
        f"{len(split.held_out):,} to test on"
    )
    check_can_probe(source)
    shots, linear = _possible(arguments, source, split)
    features = dataclasses.astuple(
        evaluation.split_features(
            model, source, split, arguments.batch_size, out / "features.npz", CountPrinter()
        )
    )
    accuracies = evaluation.fewshot_sweep(*features, shots, arguments.l2, range(arguments.seeds))
    if shots:
        print(f"\n{_table(arguments, shots, accuracies)}\n")
    neighbours = min(arguments.neighbours, len(split.train))
    nearest = evaluation.knn_accuracy(*features, neighbours)
    print(f"{neighbours} nearest neighbour{'' if neighbours == 1 else 's'}: {nearest:.2%}")
    logistic = None
    if linear:
        print("fitting logistic regression ...")
        logistic = evaluation.linear_probe_accuracy(*features)
        print(f"logistic regression: {logistic:.2%}")
    content = {
        "format": 1,
        "model": model.name,
        "data": source.locator,
        "train_images": len(split.train),
        "test_images": len(split.held_out),
        "fewshot": [
            {"shots": count, "l2": l2, "seed": seed, "accuracy": accuracies[i, j, seed]}
            for i, count in enumerate(shots)
            for j, l2 in enumerate(arguments.l2)
            for seed in range(arguments.seeds)
        ],
        "nearest_neighbours": {"neighbours": neighbours, "accuracy": nearest},
        "logistic_regression": None if logistic is None else {"accuracy": logistic},
    }
    _files.write_json(out / "fewshot.json", content)
    print(f"results: {out / 'fewshot.json'}")
    if arguments.weights is not None and arguments.model is not None:
        start = "--weights", arguments.weights, "--model", arguments.model
        print_next("fit", "--data", arguments.data, *start)


def _opened(arguments: Arguments) -> tuple[Any, Any, Any, Path]:
    """The model, the images, their split and the folder to write."""

    split = None
    if arguments.weights is None:
        run = _options.open_run(arguments.run)
        own = arguments.data is None
        source = run.source() if own else data.open_source(arguments.data)
        with contextlib.nullcontext() if own else contextlib.suppress(UsageError):
            split = run.split(source)  # also of the run's images in another folder
        model = run.model(average=arguments.average)
        name = "fewshot-average" if arguments.average else "fewshot"
        is_other = not own and source.locator != run.recipe["data"]
        out = run.path / (f"{name}-{data.source_name(arguments.data)}" if is_other else name)
    else:
        model = _options.model_of_weights(arguments.weights, arguments.model)
        source, out = data.open_source(arguments.data), Path("runs") / f"fewshot-{model.name}"
    print_skipped(source)
    warn(data.repeats_warning(source))
    split = split or data.split_source(source)
    if arguments.crop is not None:
        model.preprocessing = dataclasses.replace(model.preprocessing, crop=arguments.crop)
    return model, source, split, arguments.out or out


def _possible(arguments: Arguments, source: Any, split: Any) -> tuple[tuple[int, ...], bool]:
    """The numbers of shots, and whether logistic regression is possible.

    Of the usual numbers, those that a class has too few images for are left out.
    """
    import numpy as np

    from keras_vit.evaluation.probes import check_shots

    targets = source.targets[split.train]
    counts = np.bincount(targets, minlength=len(source.labels))
    label, fewest = source.labels[int(counts.argmin())], int(counts.min())
    shots = arguments.shots
    if shots == _SHOTS and fewest < max(_SHOTS):
        shots = tuple(count for count in _SHOTS if count <= fewest)
        warn(f"{label!r} has only {fewest} to learn from, so larger shots are left out.")
    for count in shots:
        check_shots(targets, count, source.labels)
    if arguments.linear and fewest < 2:
        warn(f"logistic regression needs 2 images of each class; {label!r} has {fewest}.")
    return shots, arguments.linear and fewest >= 2


def _table(arguments: Arguments, shots: tuple[int, ...], accuracies: Any) -> str:
    """The mean accuracy over the seeds, and their standard deviation."""

    def cell(of_seeds: Any) -> str:
        deviation = f" \u00b1 {100 * of_seeds.std(ddof=1):.2f}" if arguments.seeds > 1 else ""
        return f"{100 * of_seeds.mean():.2f}{deviation}"

    rows = [[str(count), *map(cell, of)] for count, of in zip(shots, accuracies, strict=True)]
    return table(["images of a class", *(f"l2 = {l2:g}, %" for l2 in arguments.l2)], rows)
