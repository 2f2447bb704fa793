"""Names the classes of pictures, or of their pixels.

A classifier names the most probable classes of each picture. A segmenter names the classes of its
pixels with their shares, and writes masks (--out). The model comes from a run (--run), an exported
bundle (--bundle) or weights (--weights); by default from the newest run under runs/. A picture that
cannot be read is named on standard error and skipped; the exit code is 2 if none could be read.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

from keras_vit import _checks, deploy
from keras_vit._errors import UsageError
from keras_vit.cli import _options
from keras_vit.cli._arguments import option
from keras_vit.cli._predictions import (
    WITH_MASKS,
    MaskPredictor,
    Predictor,
    check_out,
    check_predicts,
    of_bundle,
    print_predictions,
    size,
)
from keras_vit.cli._printing import print_next, warn
from keras_vit.cli._program import load, spelled
from keras_vit.deploy.bundle.folder import check_bundle


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Options of the command."""

    pictures: tuple[Path, ...] = option((), positional="PICTURE")
    """Picture files, and folders of them."""
    run: Path | None = None
    """A run folder; default: the newest under runs/."""
    bundle: Path | None = None
    """Instead of a run: an exported folder, such as runs/demo/export/int8."""
    weights: str | None = None
    """Instead of a run: a file or a folder of weights in any layout, its URL (hf://OWNER/NAME on
    the Hugging Face Hub), a full published name such as facebook/dinov2-small, or, with --model,
    one such as augreg."""
    model: str | None = option(None, check=_options.check_model)
    """The model that --weights are for, such as ViT_B16; --model all lists every name. Default:
    the model that the file holds."""
    top_k: int = option(5, check=_checks.positive_integer)
    """How many classes, and similar pictures of a gallery, of each picture are printed."""
    out: Path | None = None
    """Of a segmenter: the folder to write masks into, with a page of them, masks.html."""
    json: bool = False
    """Print a JSON object on a line for each picture."""

    def __post_init__(self):
        if not self.pictures:
            raise UsageError(f"expected pictures, as in: {spelled('predict')} photo.jpg")
        given = [f"--{n}" for n in ("run", "bundle", "weights") if getattr(self, n) is not None]
        if len(given) > 1:
            raise UsageError(
                f"expected one of --run, --bundle and --weights. Received: {' '.join(given)}."
            )
        if self.model is not None and self.weights is None:
            raise UsageError("--model is only used with --weights; runs and bundles have a model.")
        if self.bundle is not None:
            check_bundle(self.bundle, spelled("export"))
        _options.check_weights(self.weights, self.model)
        _options.check_run(self.run, newest=self.bundle is self.weights is None)
        _options.check_pictures(self.pictures)
        if self.out is not None:
            check_out(self.out)


def run(arguments: Arguments) -> None:
    """Prints the classes of each picture."""
    from keras_vit.data.images import find_pictures

    pictures = find_pictures(arguments.pictures)
    load(*(["ai_edge_litert.interpreter"] if arguments.bundle else []))
    predictor = _predictor(arguments)
    print_predictions(predictor, pictures, arguments.top_k, arguments.json, arguments.out)
    if not arguments.json and arguments.weights is arguments.bundle is None:
        from keras_vit import runs

        print()
        run = arguments.run or runs.newest_run()
        if predictor.gives_masks and arguments.out is None:
            print_next("predict", "--run", run, *arguments.pictures, "--out", "predicted")
        else:
            print_next("export", "--run", run, "--quantize", "float16", "int8")


def _predictor(arguments: Arguments) -> Predictor | MaskPredictor:
    from keras_vit import runs

    if arguments.bundle is not None:
        return of_bundle(arguments.bundle, deploy.open_bundle(arguments.bundle, trusted=False))
    if arguments.weights is not None:
        model = _options.model_of_weights(arguments.weights, arguments.model)
        check_predicts(model.task, arguments.weights)
        if not model.num_classes:
            raise UsageError(f"{arguments.weights} holds a model without a classification head.")
        if not _options.has_trained_head(model):
            warn("the head is all zeros, so every class is equally probable; train it first.")
        description = f"weights {arguments.weights}: {size(model)}"
        activation = model.head_activation
    else:
        run = runs.open_run(arguments.run or runs.newest_run())
        check_predicts(run.task, run.path)
        run.check_trained_with_classes()
        model, description = run.model(), f"{'run' if arguments.run else 'newest run'} {run}"
        activation = run.loss
    predict = functools.partial(model.predict, verbose=0)
    if model.task in WITH_MASKS:
        return MaskPredictor(description, model, predict)
    return Predictor(description, model, predict, activation=activation)
