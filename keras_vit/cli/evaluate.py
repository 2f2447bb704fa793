"""Evaluates a run, or weights, and writes a report.

Without --run the newest run under runs/ is evaluated, on its held-out images. The report is a
folder in the run: figures and a page to look at. --split test takes the test images that the data
declares instead.

With --weights, a file or published weights are evaluated with their own preprocessing on --data,
whose classes must be among those of the weights: 'imagenet2012' (the validation images),
'imagenet2012_real', 'imagenet_v2', a folder, or another source of fit. Where an accuracy on
ImageNet is published for the weights, it is printed too.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

from keras_vit import _checks, data, evaluation
from keras_vit._errors import RefusedError, UsageError
from keras_vit.cli import _options
from keras_vit.cli._arguments import option
from keras_vit.cli._printing import print_next, table, warn
from keras_vit.cli._program import load, spelled
from keras_vit.cli._progress import CountPrinter

SPLITS = ("held_out", "validation", "test")


@dataclasses.dataclass(frozen=True)
class Arguments(_options.WeightsOptions):
    """Options of the command."""

    data: str | None = option(None, check=_options.check_data)
    """With --weights: the images. Of a run: where its pictures are now, if they were moved."""
    out: Path | None = None
    """With --weights: the folder for a report. Default: none is written."""
    split: str = option("held_out", choices=SPLITS)
    """The images: those that training held out, or a split that the data declares and that training
    did not use. With --weights, held_out means validation, or else test, or else all images."""
    average: bool = False
    """Judge the average of the weights of a run that was trained with --ema, instead of its last
    weights."""
    batch_size: int = option(64, check=_checks.positive_integer)
    """Number of images that the model computes at a time."""
    wrong: bool = False
    """Of a run: print only the pictures that are classified wrongly, the most certain first, as
    lines of path, class, predicted class and probability with tabs between them; of masks the
    pictures with wrong pixels, the worst first, as lines of path and mean IoU."""
    min_accuracy: float = option(0.0, check=_checks.probability)
    """Exit with code 3 if the accuracy, or the mean IoU of masks, is lower; from 0 to 1."""

    def __post_init__(self):
        for name in ("model", "out"):
            if self.weights is None and getattr(self, name) is not None:
                raise UsageError(f"--{name} is only used with --weights.")
        super().__post_init__()
        if self.weights is None:
            return
        if self.wrong:
            raise UsageError("--wrong is for a run. Received: --weights.")
        if self.data is None:
            raise UsageError("--weights need --data, the images, such as --data imagenet2012.")
        if self.average:
            raise UsageError("--average is for a run; give its weights_ema.npz as --weights.")
        _options.check_folder(self.out)


def run(arguments: Arguments) -> None:
    """Evaluates and prints the results."""
    if arguments.weights is None:
        _evaluate_run(arguments)
    else:
        _evaluate_weights(arguments)


def _evaluate_weights(arguments: Arguments) -> None:
    """Prints the accuracy of weights, beside the published one if there is one."""
    load("tensorflow", *(["jinja2"] if arguments.out else []))
    from keras_vit.labels import imagenet2012_ids

    data.check_present(arguments.data)  # before the weights are downloaded
    model, published = _opened(arguments.weights, arguments.model)
    _checks.classifies(model, arguments.weights)
    judged = f"{model.name} from {published.name if published else arguments.weights}"
    preprocessing = _described(model.preprocessing)
    print(f"{judged}\npreprocessing: {preprocessing}")
    source = _options.open_images(arguments.data)
    indices = _indices(source, arguments.split)
    if model.labels is None and not {*source.labels} <= {*imagenet2012_ids()}:
        warn("the weights do not name their classes; the data's names are used, in order.")
    warn(_options.seen_warning(arguments.weights, source, indices))
    accuracy = evaluation.accuracy_on(
        model, source, indices, arguments.batch_size, report=CountPrinter()
    )
    results = _results(source, accuracy, published)
    width = max(map(len, results))
    print("\n".join(f"{name.ljust(width)}  {value}" for name, value in results.items()))
    if arguments.out is not None:
        title = f"{model.name} on {source.name}"
        facts = {**results, "Model": judged, "Preprocessing": preprocessing}
        print(f"report: {evaluation.write_accuracy(arguments.out, title, facts, accuracy)}")
    if accuracy.top1 < arguments.min_accuracy:
        raise _too_low("an accuracy", arguments.min_accuracy, accuracy.top1)


def _opened(weights: str, name: str | None) -> tuple[Any, Any]:
    """The model of weights, and their entry in the catalogue or None."""
    from keras_vit.weights import find_weights, named_weights

    published = None
    if not Path(weights).exists() and "://" not in weights:
        published = named_weights(weights) if name is None else find_weights(name, weights)
    return _options.model_of_weights(weights, name), published


def _indices(source: Any, split: str) -> Any:
    """The images to judge on."""
    import numpy as np

    declared = {name: each for name, each in source.splits.items() if len(each)}
    for name in ("validation", "test") if split == "held_out" else (split,):
        if name in declared:
            return declared[name]
    if split != "held_out":
        names = f"the splits {' and '.join(declared)}" if declared else "no splits"
        raise UsageError(f"{source.locator} declares {names}. Received: split={split!r}.")
    return np.arange(len(source))


def _described(preprocessing: Any) -> str:
    """The preprocessing in words."""
    height, width, crop = preprocessing.height, preprocessing.width, preprocessing.crop
    part = "the whole image" if crop is None else f"the centre {crop:.1%} of the short side"
    part = "the whole image, padded and" if preprocessing.pad else part
    scaled = f"{preprocessing.mean} subtracted, divided by {preprocessing.scale}"
    grey = ", made grey" if preprocessing.channels == 1 else ""
    return f"{part} resized to {height} x {width} ({preprocessing.interpolation}){grey}, {scaled}"


def _results(source: Any, accuracy: Any, published: Any) -> dict[str, str]:
    """The figures in words; the first one is the most important."""
    several = source.multi_hot is not None
    judged = "the most probable class is one of the image's" if several else "top-1"
    left_out = f"; {accuracy.unlabelled:,} without a class left out" if several else ""
    results = {
        "Accuracy": f"{accuracy.top1:.2%} ({judged})",
        **({"Top-5": f"{accuracy.top5:.2%}"} if len(accuracy.classes or source.labels) > 5 else {}),
        "Images": f"{accuracy.images:,} of {source.locator}{left_out}",
    }
    if published is not None and published.top1 is not None:
        note = "on ImageNet's validation images"
        if source.name == "imagenet2012":
            note = f"difference {100 * accuracy.top1 - published.top1:+.2f} points"
        results["Published"] = f"{published.top1:.2f}%, {note}"
    return results


def _evaluate_run(arguments: Arguments) -> None:
    """Prints a table of the classes, and writes the report into the run."""
    load("tensorflow", "sklearn.metrics", "matplotlib.figure", "jinja2")

    about = sys.stderr if arguments.wrong else sys.stdout
    run = _options.open_run(arguments.run, about)
    print(file=about)
    if run.is_being_trained:
        warn(f"{run.path} is still being trained; these are its newest weights.")
    report, page = evaluation.evaluate(
        run, arguments.batch_size, arguments.data, arguments.split, arguments.average
    )
    if arguments.wrong:
        for each in report.wrong:
            # A tab or a line break in a name would end a column or a line.
            path = "".join(c if c.isprintable() else repr(c)[1:-1] for c in each.path)
            _, *others = dataclasses.astuple(each)
            figures = [f"{x:.4f}" if isinstance(x, float) else x for x in others]
            print(path, *figures, sep="\t")
    else:
        _print_report(report, page, run, arguments)
    name, score = report.score
    if score < arguments.min_accuracy:
        raise _too_low(f"a {report.kind} {name}", arguments.min_accuracy, score)


def _too_low(what: str, least: float, accuracy: float) -> RefusedError:
    return RefusedError(f"expected {what} of {least:.2%} or more. Received: {accuracy:.2%}.")


def _print_report(report: Any, page: Path, run: Any, arguments: Arguments) -> None:
    """The table of the classes and the main figures."""
    from keras_vit.deploy.graph.graph_options import OUTPUTS

    print(table(*report.table))
    warning = report.warning(run.may_weight_classes)
    if warning:
        fit = f"{spelled('fit')} --class-weights balanced"
        warn(warning.replace("class_weights='balanced'", fit))
    print(f"\n{report.headline}; report: {page}")
    if run.has_average and not arguments.average:
        print("the run also has an average of its weights, which --average judges")
    if run.task in OUTPUTS:
        print_next("export", "--run", run.path, "--quantize", "float16", "int8")
