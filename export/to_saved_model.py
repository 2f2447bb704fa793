"""Exports a model to a SavedModel for serving, checked against Keras before it gets its name.

Without --run or --weights the newest run under runs/ is exported. The SavedModel takes uint8
images, or JPEG and PNG files, any number of either, and marks files that it cannot read; it gives
scores and labels, and needs TensorFlow alone. TensorFlow Serving wants a number as the folder's
name: --out flowers/1.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from keras_vit import _checks, _command
from keras_vit._errors import UsageError


@dataclasses.dataclass(frozen=True)
class Arguments:
    run: Path | None = None
    """The run folder; default: the newest under runs/."""
    weights: str | None = None
    """Instead of a run: a file of weights in any layout, a URL, or, with --model, a published name
    such as augreg."""
    model: str | None = None
    """What --weights are of, a name of keras_vit.list_models(); default: the file tells."""
    out: Path | None = None
    """The folder to write; default: export/saved_model in the run folder."""
    image_size: tuple[int, ...] | None = None
    """One number or height and width, in pixels; positions are resampled. Default: the weights'."""
    top_k: int = 5
    """How many classes are named for each image."""
    images: int = 100
    """At most this many images are compared, evenly chosen: a run's held-out ones."""
    data: Path | None = None
    """Where the run's pictures are, if not where they were; with --weights, pictures to compare
    on, a folder with one subfolder a class. Without, weights are compared on random images."""

    def __post_init__(self):
        for field in ("top_k", "images"):
            _checks.positive_integer(field, getattr(self, field))
        for side in self.image_size or ():
            _checks.positive_integer("image_size", side)
        if self.image_size is not None and not 1 <= len(self.image_size) <= 2:
            raise UsageError(f"image_size must be one number or two. Received: {self.image_size}.")
        if self.weights is None and self.model is not None:
            raise UsageError("--model says what --weights are of; a run knows its model.")
        if self.weights is not None and self.run is not None:
            raise UsageError("expected --run or --weights. Received: both.")
        if self.weights is not None and self.out is None:
            raise UsageError("--weights need --out, the folder to write.")


def main(arguments: Arguments) -> None:
    from keras_vit.deploy.serving.serving import export_serving
    from keras_vit.deploy.subject import of_run, of_weights

    size = None if arguments.image_size is None else (arguments.image_size * 2)[:2]
    if arguments.weights is None:
        subject = of_run(arguments.run, arguments.data, size)
    else:
        subject = of_weights(arguments.weights, arguments.model, arguments.data, size)
    out = arguments.out or subject.folder / "export" / "saved_model"
    model, (height, width) = subject.model, subject.model.image_size
    print(f"model    {subject.name}, {height} x {width}, {model.num_classes} classes", flush=True)
    print(f"compare  with Keras on {subject.images_from}", flush=True)
    images = subject.pictures(arguments.images)
    parity = export_serving(model, out, images, arguments.top_k, subject.images_from)["parity"]
    print(
        f"scores   within {parity['max_difference'] / parity['scale']:.1e} of their scale on "
        f"{parity['images']} images, the same class on {parity['agreement']:.2%}"
    )
    print(f"pixels   of {parity['pictures']} PNG files as keras_vit.preprocess's, to the last bit")
    print(f"wrote    {out}")


if __name__ == "__main__":
    _command.run(main, Arguments)
