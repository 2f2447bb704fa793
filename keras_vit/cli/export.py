"""Exports a model to TFLite files, compared with Keras.

Without --run or --weights the newest run under runs/ is exported. Each precision becomes a bundle:
a folder with model.tflite, model.json, golden.json and, of classes, labels.txt. A file that differs
from Keras by more than its budget is not written, and the exit code is 3.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any, Literal

from keras_vit import _checks, deploy
from keras_vit._errors import RefusedError, UsageError, shown
from keras_vit.cli._arguments import option
from keras_vit.cli._options import MeasuringOptions, ModelOptions, check_folder
from keras_vit.cli._printing import print_next, print_skipped, table
from keras_vit.cli._program import load
from keras_vit.deploy.clients import CLIENTS, Client, check_for, client_of
from keras_vit.deploy.precisions import PRECISIONS, check_calibration, precision_of


def _check_runtime(name: str, version: str) -> None:
    from keras_vit.tflite.runtimes import check_version

    check_version(version)


def _titles(client: Client) -> str:
    return ", or of masks ".join(task.title for task in client.tasks.values())


@dataclasses.dataclass(frozen=True)
class _PrecisionOptions:
    """An option of its own class, so that the help shows it before those for measurements."""

    quantize: tuple[str, ...] = option(
        ("none",),
        choices=PRECISIONS,
        help="One precision or several. "
        + " ".join(f"{name}: {precision.help}." for name, precision in PRECISIONS.items()),
    )


@dataclasses.dataclass(frozen=True)
class FileOptions(MeasuringOptions, _PrecisionOptions):
    """The files to write; other options describe the model, with `weights`, `data` and `out`."""

    recipe: Path | None = None
    """A recipe.json that auto wrote: auto keeps the same layers in float, without a new search.
    Default: auto searches."""
    client: str | None = option(
        None,
        choices=CLIENTS,
        help="A program that will run the files by itself, which needs their output and their "
        "input in its way. The files are judged with its own resize too, and run through it if it "
        "is installed. " + " ".join(f"{name}: {_titles(each)}." for name, each in CLIENTS.items()),
    )
    input: Literal["float32", "uint8"] | None = None
    """The file's input: preprocessed values, or RGB pixels of the right size. Default: what the
    client needs, or float32 if there is no client."""
    output: (
        Literal["logits", "probabilities", "features", "feature_map", "scores", "class_map"] | None
    ) = None
    """The file's output; features are the input of the head, a feature map has the features of each
    patch; of a segmenter, scores of the classes or a class map. Default: what the client needs, or
    logits if there is no client, features if there is no head, scores of a segmenter."""
    output_stride: int | None = option(None, check=_checks.positive_integer)
    """Of a segmenter: pixels of the image for a row or column of the output. Default: 1 for a class
    map, and for scores 4, or fewer if the head has finer cells."""
    normalize: bool = False
    """Divide features by their L2 norm, so that their products are cosines."""
    min_runtime: str | None = option(None, check=_check_runtime)
    """The oldest runtime that must run the files: a version of TFLite such as 2.16.1, or of LiteRT
    such as 'LiteRT 2.1'. Default: any."""
    rewrite: bool = True
    """the rewrites that make the graph faster with the same results: Keras' graph is exported as
    it is."""
    gpu: Literal["no", "auto", "yes"] = "no"
    """Run the files on a GPU too, or on SwiftShader (brought by Chromium), and emulate a GPU's half
    precision: auto where there is a Vulkan device, only reporting; yes refuses a file that is not
    right on both. On SwiftShader from 10 seconds to minutes for each file."""
    max_drop: float | None = option(None, check=_checks.not_negative)
    """Points of accuracy, or of a segmenter of mean IoU, that a quantised file may lose, compared
    with Keras; default: 0.5, for int4 1.5."""
    golden: Path | None = None
    """The picture to store in golden.json: all who have a bundle can see it. Default: one of those
    that are compared."""

    def __post_init__(self):
        check_folder(self.out, "export")
        precisions = [precision_of(name) for name in self.quantize]
        check_for(client_of(self.client), self.output, precisions)
        chooses = any(precision.base for precision in precisions)
        if chooses and self.recipe is not None and not self.recipe.is_file():
            raise UsageError(f"{self.recipe} does not exist.")
        if self.golden is not None and not self.golden.is_file():
            raise UsageError(f"--golden {self.golden}: there is no such file.")
        if self.weights is not None and self.data is None:
            for precision in precisions:
                check_calibration(precision, None)


@dataclasses.dataclass(frozen=True)
class Arguments(FileOptions, ModelOptions):
    """Options of the command."""

    def __post_init__(self):
        ModelOptions.__post_init__(self)
        FileOptions.__post_init__(self)


def run(arguments: Arguments) -> None:
    """Exports, and prints what was measured."""
    save_memory()
    load(*PACKAGES)
    trained = arguments.open()
    export_trained(trained, arguments.out or trained.folder / "export", arguments)


# What an export imports.
PACKAGES = (
    "tensorflow",
    "ai_edge_litert.interpreter",
    "ai_edge_quantizer",
    "matplotlib.figure",
    "jinja2",
)


def save_memory() -> None:
    """Sets what must be set before TensorFlow starts.

    oneDNN's allocator keeps the memory that a model has freed, and the converter needs it.
    """
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")


def export_trained(
    trained: deploy.TrainedModel, out: Path, arguments: FileOptions, **more: Any
) -> None:
    """Exports a model to a folder, and prints what was measured.

    Args:
        trained, out: the model and the folder.
        arguments: the options of the files.
        more: other keywords of `export_bundles`.
    """
    from keras_vit.data.folders import listed
    from keras_vit.labels import answers_of, count_of

    data = arguments.data
    if trained.source:
        print_skipped(trained.source)
    preprocessing = trained.preprocessing
    classes = count_of(answers_of(trained.labels)) if trained.labels else "without a head"
    print(f"from      {trained.folder or arguments.weights}")
    print(f"exporting {trained.name}, {preprocessing.height} x {preprocessing.width}, {classes}")
    source, known = trained.source, answers_of(trained.labels)
    if source and known and source.multi_hot is None and not trained.labelled:
        expected, received = (listed(map(shown, each)) for each in (known, source.labels))
        print(f"labels    not used: expected {expected}. Received: {received}")
    # The options of this command alone have the names of the function's arguments.
    own = {name: getattr(arguments, name) for name in FileOptions.__annotations__}
    bundles = deploy.export_bundles(
        trained,
        out,
        arguments.quantize,
        max_images=arguments.images,
        calibrate=arguments.calibrate,
        threads=sorted(set(arguments.threads)),
        say=lambda line: print(f"  {line}"),
        **own,
        **more,
    )
    if bundles.written:
        print(f"\n{deploy.recommendation(bundles.written)}")
        print(f"\n{table(*deploy.table(bundles.written, bundles.measured))}\n")
        for line in deploy.notes(bundles.written):
            print(line)
        print(f"bundles: {', '.join(str(out / name) for name in bundles.written)}")
        print(f"card:    {out / 'card.md'}")
        best = deploy.recommended(bundles.written)
        if bundles.written[best]["output"]["kind"] == "features" and data and Path(data).is_dir():
            print_next("index", "--bundle", out / best, data)
        else:
            print_next("run", "--bundle", out / best, "--verify")
    if bundles.refused:
        raise RefusedError("\n".join(f"{name}: {why}" for name, why in bundles.refused.items()))
