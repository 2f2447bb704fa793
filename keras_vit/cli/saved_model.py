"""Exports a model to a SavedModel for serving.

Without --run or --weights the newest run under runs/ is exported. The SavedModel takes any number
of uint8 images, or of JPEG and PNG files, and marks files that it cannot read; it returns scores
and labels, and needs only TensorFlow. It is compared with Keras before it is written. TensorFlow
Serving expects a number as the folder's name: --out flowers/1.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from keras_vit import _checks, deploy
from keras_vit.cli._arguments import option
from keras_vit.cli._options import ModelOptions, check_data, check_folder
from keras_vit.cli._program import load


@dataclasses.dataclass(frozen=True)
class Arguments(ModelOptions):
    """Options of the command."""

    data: str | None = option(None, check=check_data)
    """Pictures to compare the results on: a folder with one subfolder for each class, or a source
    such as 'digits'. Default: the pictures of the run; with --weights there are none, and random
    images are compared."""
    out: Path | None = None
    """The folder to write; default: export/saved_model in the run folder."""
    top_k: int = option(5, check=_checks.positive_integer)
    """How many classes the SavedModel names for each image."""
    images: int = option(100, check=_checks.positive_integer)
    """Compare on at most this many images; of a run these are held-out images."""

    def __post_init__(self):
        super().__post_init__()
        check_folder(self.out, "SavedModel")


def run(arguments: Arguments) -> None:
    """Exports, and prints how it compares with Keras."""
    load("tensorflow")
    from keras_vit.labels import answers_of, count_of

    trained = arguments.open()
    out = arguments.out or trained.folder / "export" / "saved_model"
    preprocessing, classes = trained.preprocessing, count_of(answers_of(trained.labels))
    print(f"model    {trained.name}, {preprocessing.height} x {preprocessing.width}, {classes}")
    print(f"compare  with Keras on {trained.compared_from}")
    images, model = trained.pictures(arguments.images), trained.load()
    content = deploy.export_serving(model, out, images, arguments.top_k, trained.compared_from)
    parity = content["parity"]
    print(
        f"scores   within {parity['max_difference'] / parity['scale']:.1e} of their scale on "
        f"{parity['images']} images, the same class on {parity['agreement']:.2%}"
    )
    print(f"pixels   of {parity['pictures']} PNG files equal those of keras_vit.preprocess")
    print(f"wrote    {out}")
