"""Names the most probable classes of pictures.

The model comes from a run (--run), an exported bundle (--bundle) or weights (--weights); by default
from the newest run under runs/. A picture that cannot be read is named on standard error and
skipped; the exit code is 2 if none could be read.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_vit import _checks, deploy
from keras_vit._errors import UsageError
from keras_vit.cli import _options
from keras_vit.cli._arguments import option
from keras_vit.cli._printing import print_next, warn
from keras_vit.cli._program import load, spelled
from keras_vit.deploy.bundle.folder import check_bundle

_BATCH = 32  # pictures in memory


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


@dataclasses.dataclass(frozen=True)
class Predictor:
    """What gives scores to pictures.

    Attributes:
        description: a line about it.
        model: a keras_vit model or an opened bundle, with labels and preprocessing.
        scores: the scores, or features, of a batch of inputs.
        from_logits: whether the scores are logits; otherwise they are probabilities.
        activation: what makes probabilities of logits.
        gallery: the pictures that features are compared with.
    """

    description: str
    model: Any
    scores: Callable[[Any], Any]
    from_logits: bool = True
    activation: str = "softmax"
    gallery: Any = None

    def answers(self, inputs: Any, top_k: int) -> list[dict[str, list[tuple[str, float]]]]:
        """The best "predictions", labels with probabilities, of each input.

        With a gallery also the most "similar" pictures, names with cosines.
        """
        import keras_vit

        scores = self.scores(inputs)
        if self.gallery is None:
            labels, is_logits = _labels(self.model), self.from_logits
            found = keras_vit.decode_predictions(scores, labels, top_k, is_logits, self.activation)
            return [{"predictions": predictions} for predictions in found]
        both = self.gallery.named(scores, top_k), self.gallery.similar(scores, top_k)
        return [
            dict(zip(("predictions", "similar"), each, strict=True))
            for each in zip(*both, strict=True)
        ]


def run(arguments: Arguments) -> None:
    """Prints the classes of each picture."""
    from keras_vit.data.images import find_pictures

    pictures = find_pictures(arguments.pictures)
    load(*(["ai_edge_litert.interpreter"] if arguments.bundle else []))
    print_predictions(_predictor(arguments), pictures, arguments.top_k, arguments.json)
    if not arguments.json and arguments.weights is arguments.bundle is None:
        from keras_vit import runs

        print()
        run = arguments.run or runs.newest_run()
        print_next("export", "--run", run, "--quantize", "float16", "int8")


def _predictor(arguments: Arguments) -> Predictor:
    from keras_vit import runs

    if arguments.bundle is not None:
        return of_bundle(arguments.bundle, deploy.open_bundle(arguments.bundle, trusted=False))
    if arguments.weights is not None:
        model = _options.model_of_weights(arguments.weights, arguments.model)
        _checks.classifies(model, arguments.weights)
        if not model.num_classes:
            raise UsageError(f"{arguments.weights} holds a model without a classification head.")
        if not _options.has_trained_head(model):
            warn("the head is all zeros, so every class is equally probable; train it first.")
        description = f"weights {arguments.weights}: {size(model)}"
        activation = model.head_activation
    else:
        run = runs.open_run(arguments.run or runs.newest_run())
        run.check_classifies()
        model, description = run.model(), f"{'run' if arguments.run else 'newest run'} {run}"
        activation = run.loss
    scores = functools.partial(model.predict, verbose=0)
    return Predictor(description, model, scores, activation=activation)


def of_bundle(folder: Path, bundle: Any) -> Predictor:
    """The predictor of an opened bundle."""
    if bundle.output_kind == "feature_map":
        raise UsageError(
            f"{folder} gives a feature map, which names no class; look at it on a page, made by: "
            f"{spelled('web')} --bundle {folder}"
        )
    bundle.check_one_row()
    if bundle.gives_features and bundle.gallery is None:
        raise UsageError(
            f"{folder} gives features, and has no gallery of pictures to compare with; make one "
            f"with: {spelled('index')} --bundle {folder} PICTURES"
        )
    return Predictor(
        f"bundle {folder}: {size(bundle)}, {bundle.precision}",
        bundle,
        bundle.predict,
        bundle.from_logits,
        bundle.head_activation,
        bundle.gallery,
    )


def size(model: Any) -> str:
    """The name, the input size and the number of classes of a model or bundle."""
    from keras_vit.labels import answers_of, count_of, numbered

    preprocessing = model.preprocessing
    if getattr(model, "gives_features", False):
        held = len(model.gallery.names)
        count = f"{held:,} picture{'' if held == 1 else 's'} in its gallery"
    else:
        count = count_of(answers_of(model.labels or numbered(model.num_classes)))
    pixels = f"{preprocessing.height} x {preprocessing.width} pixels"
    return f"{model.name}, {pixels}, {count}"


def print_predictions(
    predictor: Predictor, pictures: list[Path], top_k: int, as_json: bool
) -> None:
    """Prints the most probable classes of each picture; names those that cannot be read.

    Raises:
        UsageError: no picture could be read.
    """
    from keras_vit.data.decoding import printable

    stream = sys.stderr if as_json else sys.stdout
    print(printable(predictor.description), file=stream)
    read = 0
    for first in range(0, len(pictures), _BATCH):
        for picture, answer in _answered(predictor, pictures[first : first + _BATCH], top_k):
            read += 1
            print(_shown(printable(picture), answer, as_json))
    if not read:
        none = "the picture could not" if len(pictures) == 1 else "no picture could"
        raise UsageError(f"{none} be read.")


def _answered(
    predictor: Predictor, pictures: list[Path], top_k: int
) -> list[tuple[Path, dict[str, Any]]]:
    import numpy as np

    import keras_vit
    from keras_vit.data.images import read_picture

    inputs = {}
    for picture in pictures:
        try:
            image = read_picture(picture)
        except UsageError as error:
            print(f"skipped {error}", file=sys.stderr)
            continue
        # At once: a batch of photographs at their own size would need gigabytes.
        inputs[picture] = keras_vit.preprocess(image, predictor.model)
    if not inputs:
        return []
    answers = predictor.answers(np.concatenate(list(inputs.values())), top_k)
    return list(zip(inputs, answers, strict=True))


def _labels(model: Any) -> tuple[str, ...] | None:
    from keras_vit.labels import numbered

    # decode_predictions has the names of ImageNet's 1000 classes.
    unknown = model.labels is None and model.num_classes != 1000
    return tuple(f"class {i}" for i in numbered(model.num_classes)) if unknown else model.labels


def _shown(picture: str, answer: dict[str, list[tuple[str, float]]], as_json: bool) -> str:
    if as_json:
        found = {
            kind: [dict(zip(_FIELDS[kind], each, strict=True)) for each in of]
            for kind, of in answer.items()
        }
        return json.dumps({"picture": picture} | found)
    lines = [f"  {_percent(p):>6}  {label}" for label, p in answer["predictions"]]
    lines += [f"  {cosine:6.3f}  like {name}" for name, cosine in answer.get("similar", ())]
    return "\n".join([f"\n{picture}", *lines])


def _percent(probability: float) -> str:
    # Those of labels that do not exclude each other may all be tiny, which 0.0% would hide.
    return "<0.1%" if 0 < probability < 0.0005 else f"{probability:.1%}"


# Of an answer in JSON.
_FIELDS = {"predictions": ("label", "probability"), "similar": ("picture", "similarity")}
