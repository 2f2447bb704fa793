"""What a model says of pictures, printed: classes, similar pictures, or masks in a folder."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_vit import _files
from keras_vit._errors import UsageError, shown
from keras_vit.cli._program import spelled

if TYPE_CHECKING:  # the help of commands does not wait for it
    import numpy as np


# The tasks of models that give a class to each pixel.
WITH_MASKS = ("segmentation", "panoptic")


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
    at_once = 32  # pictures; only their inputs are kept
    gives_masks = False

    def prepared(self, image: np.ndarray) -> np.ndarray:
        """What is kept of an image (height, width, 3): the model's input."""
        import keras_vit

        return keras_vit.preprocess(image, self.model)

    def answers(
        self, prepared: Sequence[np.ndarray], top_k: int
    ) -> Iterator[dict[str, list[tuple[str, float]]]]:
        """The best "predictions", labels with probabilities, of each image.

        With a gallery also the most "similar" pictures, names with cosines.
        """
        import numpy as np

        import keras_vit

        scores = self.scores(np.concatenate(prepared))
        if self.gallery is None:
            labels, is_logits = _labels(self.model), self.from_logits
            found = keras_vit.decode_predictions(scores, labels, top_k, is_logits, self.activation)
            yield from ({"predictions": predictions} for predictions in found)
            return
        both = self.gallery.named(scores, top_k), self.gallery.similar(scores, top_k)
        for each in zip(*both, strict=True):
            yield dict(zip(("predictions", "similar"), each, strict=True))


@dataclasses.dataclass(frozen=True)
class MaskPredictor:
    """What gives masks to pictures.

    Attributes:
        description, model: as of a `Predictor`.
        scores: what `decode_masks` reads, of a batch of inputs: a dict.
    """

    description: str
    model: Any
    scores: Callable[[Any], Any]
    at_once = 4  # pictures, at their own sizes
    gives_masks = True

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes."""
        return _labels(self.model)

    def prepared(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is kept of an image: it and the model's input."""
        import keras_vit

        return image, keras_vit.preprocess(image, self.model)

    def answers(
        self, prepared: Sequence[tuple[np.ndarray, np.ndarray]], top_k: int
    ) -> Iterator[dict[str, Any]]:
        """The "classes" with their shares of what the model sees of each image, the largest first.

        And the image with what was predicted of it, for `mask_of`.
        """
        import numpy as np

        from keras_vit.data.luma_and_crop import shown_size
        from keras_vit.decoded_masks import decode_masks, shares_of

        preprocessing = self.model.preprocessing
        images, inputs = zip(*prepared, strict=True)
        predicted = self.scores(np.concatenate(inputs))
        for i, image in enumerate(images):
            output = {name: each[i : i + 1] for name, each in predicted.items()}
            # Padding is no part of the image.
            sizes = [shown_size(image.shape[:2], preprocessing)] if preprocessing.pad else None
            [mask] = decode_masks(output, self.model, sizes)
            yield {"classes": shares_of(mask, self.labels), "mask": (image, output)}

    def mask_of(self, image: np.ndarray, output: dict[str, np.ndarray]) -> np.ndarray:
        """The class of each pixel of an image, uint8 (height, width)."""
        from keras_vit.decoded_masks import decode_masks

        [mask] = decode_masks(output, self.model, [image.shape[:2]])
        return mask


def check_out(out: Path) -> None:
    """Raises a `UsageError` unless the folder is new, or has what was written here before alone."""
    _files.check_replaceable(out, "masks")
    others = sorted({each.name for each in out.iterdir()} - _OWN) if out.is_dir() else []
    if others:
        raise UsageError(
            f"{out} has other files than masks, such as {shown(others[0])}, which would be lost; "
            "choose another folder."
        )


def check_predicts(task: str, place: object) -> None:
    """Raises a `UsageError` if there is no predictor for a model's task."""
    if task not in ("classification", *WITH_MASKS):
        raise UsageError(
            f"{place}: expected a model for classification, {' or '.join(WITH_MASKS)}. Received: "
            f"one for {task}."
        )


def of_bundle(folder: Path, bundle: Any) -> Predictor | MaskPredictor:
    """The predictor of an opened bundle."""
    if bundle.is_mask:
        predict = bundle.predict
        return MaskPredictor(
            _described(folder, bundle), bundle, lambda inputs: {"scores": predict(inputs)}
        )
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
        _described(folder, bundle),
        bundle,
        bundle.predict,
        bundle.from_logits,
        bundle.head_activation,
        bundle.gallery,
    )


def _described(folder: Path, bundle: Any) -> str:
    return f"bundle {folder}: {size(bundle)}, {bundle.precision}"


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
    predictor: Predictor | MaskPredictor,
    pictures: list[Path],
    top_k: int,
    as_json: bool,
    out: Path | None = None,
) -> None:
    """Prints what the model says of each picture; names those that cannot be read.

    Args:
        predictor: the model.
        pictures: their files.
        top_k: how many classes are printed.
        as_json: whether a line for each picture is a JSON object.
        out: the folder to write masks into.

    Raises:
        UsageError: no picture could be read, or `out` is not for this model.
    """
    from keras_vit.data.decoding import printable

    print(printable(predictor.description), file=sys.stderr if as_json else sys.stdout)
    if out is None:
        for picture, answer in _answered(predictor, pictures, top_k):
            answer.pop("mask", None)
            if predictor.gives_masks:
                answer["classes"] = answer["classes"][:top_k]
            print(_shown(printable(picture), answer, as_json))
        return
    if not predictor.gives_masks:
        raise UsageError("--out is for the masks of a segmenter. Received: another model.")
    from keras_vit.evaluation.mask_folder import names_of, write_mask, write_page

    earlier = out.resolve()  # what lies there is of an earlier call
    pictures = [each for each in pictures if earlier not in each.resolve().parents]
    names = dict(zip(pictures, names_of(pictures), strict=True)) if pictures else {}
    shown = []
    with _files.replacing_folder(out) as folder:
        for picture, answer in _answered(predictor, pictures, top_k):
            name, (image, output) = names[picture], answer["mask"]
            write_mask(folder, name, image, predictor.mask_of(image, output), predictor.labels)
            shown.append((name, answer["classes"]))
            answer["classes"] = answer["classes"][:top_k]
            answer["mask"] = str(out / "masks" / f"{name}.png")
            print(_shown(printable(picture), answer, as_json))
        write_page(folder, f"Masks of {predictor.model.name}", shown, predictor.labels)
    if not as_json:
        print(f"\nmasks:   {out / 'masks'}, whose values are the classes of {out / 'labels.txt'}")
        print(f"page:    {out / 'masks.html'}")


def _answered(
    predictor: Predictor | MaskPredictor, pictures: list[Path], top_k: int
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The pictures that can be read, with what the model says of each."""
    from keras_vit.data.images import read_picture

    read = 0
    for first in range(0, len(pictures), predictor.at_once):
        prepared = {}
        for picture in pictures[first : first + predictor.at_once]:
            try:
                image = read_picture(picture)
            except UsageError as error:
                print(f"skipped {error}", file=sys.stderr)
                continue
            # At once: a batch of photographs at their own size would need gigabytes.
            prepared[picture] = predictor.prepared(image)
        read += len(prepared)
        if prepared:
            yield from zip(prepared, predictor.answers([*prepared.values()], top_k), strict=True)
    if not read:
        none = "the picture could not" if len(pictures) == 1 else "no picture could"
        raise UsageError(f"{none} be read.")


def _labels(model: Any) -> tuple[str, ...] | None:
    from keras_vit.labels import numbered

    # decode_predictions has the names of ImageNet's 1000 classes.
    unknown = model.labels is None and model.num_classes != 1000
    return tuple(f"class {i}" for i in numbered(model.num_classes)) if unknown else model.labels


def _shown(picture: str, answer: dict[str, Any], as_json: bool) -> str:
    if as_json:
        found = {
            kind: [dict(zip(_FIELDS[kind], each, strict=True)) for each in of]
            if kind in _FIELDS
            else of
            for kind, of in answer.items()
        }
        return json.dumps({"picture": picture} | found)
    named = answer.get("predictions") or answer.get("classes", ())
    lines = [f"  {_percent(part):>6}  {label}" for label, part in named]
    lines += [f"  {cosine:6.3f}  like {name}" for name, cosine in answer.get("similar", ())]
    return "\n".join([f"\n{picture}", *lines])


def _percent(part: float) -> str:
    # Probabilities of labels that do not exclude each other may all be tiny, which 0.0% would hide.
    return "<0.1%" if 0 < part < 0.0005 else f"{part:.1%}"


# What `print_predictions` writes.
_OWN = {"masks", "overlays", "labels.txt", "masks.html"}
# Of an answer in JSON.
_FIELDS = {
    "predictions": ("label", "probability"),
    "classes": ("label", "share"),
    "similar": ("picture", "similarity"),
}
