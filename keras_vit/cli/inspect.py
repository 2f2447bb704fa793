"""Shows what a model has learned, as a page of figures.

These are filters, positions, attention, features and errors. The model comes from a run (--run) or
from weights (--weights); by default from the newest run under runs/. Pictures are the run's
held-out ones, those of --data, or your own. Written are index.html, which needs no other file, each
figure as SVG, and the numbers as inspection.json.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_vit import _checks, data, evaluation
from keras_vit._errors import UsageError
from keras_vit.cli import _options
from keras_vit.cli._arguments import option
from keras_vit.cli._printing import print_skipped, warn
from keras_vit.cli._program import load
from keras_vit.cli._progress import ChangingLine


@dataclasses.dataclass(frozen=True)
class Arguments(_options.ModelOptions):
    """Options of the command."""

    pictures: tuple[Path, ...] = option((), positional="PICTURE")
    """Picture files, and folders of them, to look at; default: some of the model's data."""
    data: str | None = option(None, check=_options.check_data)
    """Where the run's pictures are now, if they were moved; with --weights, a folder with one
    subfolder for each class, or a source such as 'digits'. Default: the pictures of the run; with
    --weights only your own."""
    out: Path | None = None
    """The folder to write; default: inspection/ in the run folder."""
    average: bool = False
    """Inspect the average of the weights of a run that was trained with --ema, instead of its last
    weights."""
    show: int = option(6, check=_checks.positive_integer)
    """Show at most this many pictures; of the data, one of each class first."""
    images: int = option(128, check=_checks.positive_integer)
    """Average the attention distance over at most this many images; the paper takes 128."""
    judge: int = option(2000, check=_checks.positive_integer)
    """Classify at most this many images of the data for the errors by class."""
    block: int | None = option(None, check=_checks.positive_integer)
    """The block whose heads are shown, from 1; default: the last one."""

    def __post_init__(self):
        super().__post_init__()
        if self.average and self.weights is not None:
            raise UsageError("--average is only used with a run; weights are one file.")
        _options.check_pictures(self.pictures)
        _options.check_folder(self.out, "inspection")


@dataclasses.dataclass(frozen=True)
class _Opened:
    """A model, where its pictures are, and whether they have its classes."""

    model: Any
    out: Path
    description: dict[str, str]
    source: Any = None
    indices: Any = None
    is_labelled: bool = False


def run(arguments: Arguments) -> None:
    """Inspects the model and writes the page."""
    load("tensorflow", "sklearn.metrics", "matplotlib.figure", "jinja2")

    opened = _of_run(arguments) if arguments.weights is None else _of_weights(arguments)
    evaluation.check_for_inspection(opened.out)
    pictures, captions = _shown(arguments, opened)
    averaged = _random(opened, arguments.images)
    images = None if averaged is None else (opened.source.image(int(i)) for i in averaged)
    report = _progress(len(pictures) if averaged is None else len(averaged))
    if pictures:
        print(f"looking at {len(pictures):,} picture{'' if len(pictures) == 1 else 's'}")
    found = evaluation.inspect_model(opened.model, pictures, images, arguments.block, report)
    errors = None
    # There are no answers after training without classes.
    if found.logits is not None and _options.has_trained_head(opened.model):
        captions = _with_answers(captions, found.logits, opened.model)
        if opened.is_labelled:
            judged = _random(opened, arguments.judge)
            print(f"classifying {len(judged):,} images")
            errors = evaluation.class_report(opened.model, opened.source, judged)
    page = evaluation.write_inspection(
        opened.out, opened.model, found, captions, errors, opened.description
    )
    print(f"page: {page}")


def _of_run(arguments: Arguments) -> _Opened:
    import keras_vit
    from keras_vit import runs

    run = _options.open_run(arguments.run)
    if run.is_being_trained:
        warn(f"{run.path} is still being trained; these are its newest weights.")
    if arguments.image_size is None:
        model = run.model(average=arguments.average)
    else:
        weights = run.path / (runs.AVERAGE if arguments.average else "weights.npz")
        model = keras_vit.model_from_weights(weights, image_size=arguments.image_size)
    source = run.source(arguments.data)
    own = "Distance and errors" if arguments.pictures else "Images"
    description = {own: f"{source.name}, held out from training"}
    if arguments.average:
        description["Weights"] = "their average over the steps"
    out = arguments.out or run.path / "inspection"
    return _Opened(model, out, description, source, run.images(source), is_labelled=True)


def _of_weights(arguments: Arguments) -> _Opened:
    import numpy as np

    from keras_vit.labels import answers_of

    model = _options.model_of_weights(arguments.weights, arguments.model, arguments.image_size)
    print(f"weights {arguments.weights}: {model.name}")
    if arguments.data is None:
        return _Opened(model, arguments.out, {})
    source = data.as_answered(data.open_source(arguments.data), model.labels)
    print_skipped(source)
    own = "Distance and errors" if arguments.pictures else "Images"
    description, indices = {own: source.name}, np.arange(len(source))
    warn(_options.seen_warning(arguments.weights, source, indices))
    is_labelled = source.labels == answers_of(model.labels or ())
    return _Opened(model, arguments.out, description, source, indices, is_labelled)


def _shown(arguments: Arguments, opened: _Opened) -> tuple[list[Any], list[str]]:
    """The pictures to look at, and the file or the class of each."""
    if arguments.pictures:
        return _own(arguments)
    if opened.source is None:
        warn("no pictures were given, so only what needs none is shown.")
        return [], []
    chosen = _one_of_each_class(opened)[: arguments.show]
    images = [opened.source.image(int(i)) for i in chosen]
    return images, [opened.source.labels[opened.source.targets[i]] for i in chosen]


def _own(arguments: Arguments) -> tuple[list[Any], list[str]]:
    """The first pictures in the files and folders of the user that can be read."""
    from keras_vit.data.decoding import printable
    from keras_vit.data.images import find_pictures, read_picture

    images, names = [], []
    for path in find_pictures(arguments.pictures):
        if len(images) == arguments.show:
            warn(f"only the first {arguments.show} pictures are shown; --show shows more.")
            break
        try:
            images.append(read_picture(path))
            names.append(printable(path.name))
        except UsageError as error:
            print(f"skipped {error}", file=sys.stderr)
    if not images:
        raise UsageError("no picture could be read.")
    return images, names


def _one_of_each_class(opened: _Opened) -> Any:
    """The images in random order, but first one of each class, then a second one, and so on."""
    import numpy as np

    indices = _random(opened, len(opened.indices))
    targets, turns = opened.source.targets[indices], np.zeros(len(indices), int)
    for target in np.unique(targets):
        turns[targets == target] = np.arange((targets == target).sum())
    return indices[np.argsort(turns, kind="stable")]


def _random(opened: _Opened, count: int) -> Any:
    """At most `count` images of the data in random order, always the same; None without data."""
    import numpy as np

    if opened.source is None:
        return None
    return np.random.default_rng(0).permutation(opened.indices)[:count]


def _with_answers(captions: list[str], logits: Any, model: Any) -> list[str]:
    """Captions with the class that the model finds most probable."""
    from keras_vit.labels import answer_scores, answers_of, numbered

    answers = answers_of(model.labels or [f"class {i}" for i in numbered(model.num_classes)])
    places = answer_scores(logits).argmax(-1)
    return [
        f"{caption}; the model says {answers[i]}"
        for caption, i in zip(captions, places, strict=True)
    ]


def _progress(total: int) -> Callable[[int], None]:
    """A function that prints how many images are done."""
    line = ChangingLine()

    def show(done: int) -> None:
        text = f"attention of {done:,} of {total:,} images"
        if done >= total:
            line.keep(text)
        elif line.is_due():
            line.show(text)

    return show
