"""Exports a model: `.tflite` files are made and compared with Keras before one is written."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_vit import _files, runs
from keras_vit._errors import RefusedError, UsageError
from keras_vit.data.images import read_picture
from keras_vit.deploy.bundle.export_report import withdraw_report, write_report
from keras_vit.deploy.bundle.gallery import FOLDER as GALLERY
from keras_vit.deploy.bundle.writing import check_bundles, write_bundle
from keras_vit.deploy.convert.quantize import for_runtime
from keras_vit.deploy.export_options import CALIBRATED, ExportOptions
from keras_vit.deploy.export_stages import judged_file_of, prepared, resolved_for
from keras_vit.deploy.judge.gpu import GpuChoice
from keras_vit.deploy.judge.verdict import Verdict
from keras_vit.deploy.trained_model import TrainedModel, of_run
from keras_vit.specs import Preprocessing
from keras_vit.tflite.measure import Measured, measure


def export_tflite(
    model: Any,
    path: str | os.PathLike,
    quantize: str | None = None,
    representative_data: Any = None,
    max_images: int = 100,
    *,
    input: str | None = None,
    output: str | None = None,
    output_stride: int | None = None,
    normalize: bool = False,
    float_layers: Iterable[str] = (),
    max_drop: float | None = None,
    min_runtime: str | None = None,
    recipe: str | os.PathLike | None = None,
    rewrite: bool = True,
    gpu: GpuChoice = "no",
    client: str | None = None,
    batch: int = 1,
) -> Verdict:
    """Converts a model, compares the result with Keras, and then writes it to `path`.

    >>> verdict = keras_vit.export_tflite(model, "model.tflite", "float16", inputs)
    >>> verdict.agreement
    1.0

    Args:
        model: a `keras_vit` model, or a `keras_vit` model without a head followed by other Keras
            layers: its graph is rewritten for speed, with the same result. Any other Keras model
            with one float32 image input is converted as it is, and so is a `keras_vit` model whose
            layers were changed after it was built; the verdict says so.
        path: the `.tflite` file, replaced as a whole.
        quantize: a name in `deploy.PRECISIONS`; None is "none", float32.
        representative_data: preprocessed inputs of the model: an array (n, height, width, 3), a
            tuple (images, labels) with integer labels, of one logit 0 and 1, of a segmenter masks
            (n, height, width) with 255 where no class is, or an iterable or tf.data.Dataset of such
            batches. Half of the images, at most 32, measure ranges of
            activations and others are compared, both chosen from the whole data; "auto" chooses
            layers on half of those others. Only the first 10,000 images of an iterable are read,
            so it may be endless.
            Without data, random images are compared, which is a weaker check, and precisions that
            need ranges are refused.
        max_images: the largest number of images to compare.
        input: "float32", the input of the Keras model, or "uint8": RGB pixels, scaled in the file.
            None: what the client needs, or "float32" if there is no client.
        output: "logits", "probabilities", "features", the input of the head, or "feature_map", the
            features of each patch (rows, columns, features): of a ViT the patches' tokens after the
            last norm, of a BiT what is averaged. With other layers after a `keras_vit` model,
            the output of these layers; they are probabilities if the layers end in a softmax or a
            sigmoid. A segmenter has "scores" of classes (rows, columns, classes), or a "class_map"
            of the class with the highest score, uint8 (rows, columns). None: what the client needs;
            without a client "logits", "features" of a model without a head, "scores" of a
            segmenter.
        output_stride: of a segmenter, the pixels of the image for a row or column of the output.
            None: 1 for a class map, and for scores 4, or fewer if the head has finer cells.
        normalize: whether features are divided by their L2 norm, so that products are cosines.
        float_layers: names of `deploy.quantizable_layers` that stay in float.
        max_drop: points of accuracy, or of a segmenter of mean IoU, that a quantised file may lose
            if labels are known; None for its precision's own limit, `Budget.drop`.
        min_runtime: the oldest runtime that must run the file: "2.16.1" for TFLite, "LiteRT 2.1";
            None for any.
        recipe: a recipe.json that "auto" wrote into a bundle, used instead of a search.
        rewrite: False exports Keras' own graph, without rewrites.
        gpu: "auto" also runs the file on a GPU, or on SwiftShader, if this machine has a Vulkan
            device, and emulates half precision; "yes" demands that it is right on both. It is not
            the default because SwiftShader takes from 10 seconds to minutes for each file.
        client: a name in `deploy.CLIENTS`, a program that will run the file by itself, such as
            "mediapipe": the file is as it needs it, and is run through it if it is installed.
        batch: images of each call of the file. It is fixed, because delegates need static shapes:
            `resize_tensor_input` to another number fails. Apps and clients take one image.

    Returns:
        The comparison with Keras; its `notes()` say which loss of accuracy the images exclude, and
        why the graph was not rewritten.

    Raises:
        ParityError: the file differs by more than its precision explains; nothing is written.
        RefusedError: the file has dynamic sizes, or `min_runtime`, the client or a GPU does not run
            it.
        UsageError: the precision or the client is unknown, or cannot use the other settings; data
            is missing or has another shape; `path` is a folder; or the backend is not TensorFlow
            and this is not a `keras_vit` model.
    """
    if not isinstance(quantize, (str, type(None))):
        raise UsageError(
            f"export_tflite writes one file: quantize must be one name. Received: {quantize!r}; "
            "use deploy.export_bundles for several."
        )
    options = ExportOptions.among(locals())
    if Path(path).is_dir():
        raise UsageError(f"{path} is a folder; name the .tflite file.")
    [precision] = options.precisions
    for_runtime(precision, options.min_runtime)
    resolved = resolved_for(model, options)
    converter, samples = prepared(resolved, model, representative_data, options)
    judged = judged_file_of(converter, samples, precision, options)
    with _files.replacing(path) as temporary:
        shutil.copyfile(judged.content, temporary)
    return judged.verdict


@dataclasses.dataclass(frozen=True)
class Bundles:
    """The result of `export_bundles`.

    Attributes:
        folder: the folder of the bundles, the card and the table.
        written: the content of each model.json, by the name of the bundle's folder.
        refused: why other files were not written, by the same names.
        measured: the measurements of each file, by the same names.
    """

    folder: Path
    written: dict[str, dict[str, Any]]
    refused: dict[str, str]
    measured: dict[str, Measured]


def export_bundles(
    model: Any,
    folder: str | os.PathLike,
    quantize: str | Sequence[str] = ("none",),
    representative_data: Any = None,
    max_images: int = 500,
    *,
    input: str | None = None,
    output: str | None = None,
    output_stride: int | None = None,
    normalize: bool = False,
    max_drop: float | None = None,
    min_runtime: str | None = None,
    recipe: str | os.PathLike | None = None,
    rewrite: bool = True,
    gpu: GpuChoice = "no",
    client: str | None = None,
    calibrate: int = CALIBRATED,
    threads: Sequence[int] = (1, 2),
    labels: Sequence[str] | None = None,
    preprocessing: Preprocessing | None = None,
    golden: str | os.PathLike | None = None,
    relabel: str | os.PathLike | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Bundles:
    """Writes a bundle for each precision, and a card that compares them.

    >>> bundles = keras_vit.deploy.export_bundles(
    ...     model, "bundles", ["none", "dynamic"], (inputs, classes), labels=names
    ... )
    >>> bundles.refused
    {}
    >>> sorted(bundles.written)
    ['dynamic', 'float32']
    >>> accuracy = bundles.written["dynamic"]["parity"]["accuracy"]

    Args:
        model: a Keras model, as for `export_tflite`; or the folder of a run or a `TrainedModel`,
            which have their own images, and are not in memory when they are converted.
        folder: the folder to write bundles to, each in a subfolder named after its precision.
        quantize: one or several names in `deploy.PRECISIONS`.
        representative_data: as for `export_tflite`; only for a Keras model.
        max_images: the largest number of images to compare; "auto" chooses layers on as many more.
        input, output, output_stride, normalize, max_drop, min_runtime, recipe, rewrite, gpu: as for
            `export_tflite`.
        client: as for `export_tflite`. For a run or a `TrainedModel` with pictures, model.json
            and the card also have the files' accuracy with the client's own resize.
        calibrate: the largest number of images to measure ranges on.
        threads: the numbers of threads to measure latency with; if empty, nothing is measured and
            no card is written.
        labels: the classes' names, instead of the model's.
        preprocessing: how images become the model's input, instead of the model's. Only keras_vit
            models have a preprocessing.
        golden: the picture to store in each golden.json, made smaller: all who have a bundle can
            see it. None: one of the compared images.
        relabel: a folder of bundles of a `zero_shot_model` with the same image tower: their files
            get the head and the labels of this one, and nothing is converted or quantised again.
            A model that was saved and loaded does not know that its head was made of texts.
        say: called with each line of progress.

    Raises:
        ParityError: a comparison with Keras' scores would prove nothing.
        UsageError: a precision is unknown, images that it needs are missing, the recipe is for
            another model, `folder` holds other files and no bundles, a folder that is not a bundle
            would be replaced, the golden picture cannot be read, or another process exports to
            `folder`; nothing is written.
    """
    options, folder = ExportOptions.among(locals()), Path(folder)
    _files.check_replaceable(folder, "export")
    for precision in options.precisions:
        _files.check_replaceable(folder / precision.name, "bundle")
    _files.check_unlocked(folder)
    if isinstance(model, (str, os.PathLike, runs.Run)):
        model = of_run(model.path if isinstance(model, runs.Run) else model)
    if isinstance(model, TrainedModel) and representative_data is not None:
        raise UsageError("representative_data is for Keras models; a run has its own images.")
    picture = None if golden is None else read_picture(Path(golden))
    bundles = Bundles(folder, {}, dict(_too_new(options)), {})
    kept = [each.quantize for each in options.precisions if each.name not in bundles.refused]
    if not kept:
        return bundles
    options = dataclasses.replace(options, quantize=kept)
    resolved = resolved_for(model, options)
    check_bundles(resolved)
    with _files.locked(folder):
        converter, samples = prepared(resolved, model, representative_data, options)
        del resolved, model  # a large model is not in memory when it is converted
        picture = samples.picture if picture is None else picture
        for precision in options.precisions:
            try:
                judged = judged_file_of(converter, samples, precision, options)
            except RefusedError as error:
                bundles.refused[precision.name] = str(error)
                continue
            if not bundles.written:
                earlier = withdraw_report(folder)
            place = folder / precision.name
            had_gallery = (place / GALLERY).is_dir()
            written = write_bundle(place, judged, picture, max_drop)
            bundles.written[precision.name] = written
            if had_gallery and not (place / GALLERY).is_dir():
                say(f"{precision.quantize}: its gallery, of other vectors, is removed; index again")
        if bundles.written and threads:
            say("measuring latency, memory and load time")
            _report(bundles, threads, earlier)
    return bundles


def _too_new(options: ExportOptions) -> Iterable[tuple[str, str]]:
    """The precisions that no file for the oldest runtime can have, each with the reason."""
    for precision in options.precisions:
        try:
            for_runtime(precision, options.min_runtime)
        except RefusedError as error:
            yield precision.name, str(error)


def _report(bundles: Bundles, threads: Sequence[int], earlier: Mapping[str, Measured]) -> None:
    folder, written = bundles.folder, bundles.written
    files = {name: folder / name / "model.tflite" for name in written}
    bundles.measured.update(measure(files, sorted(set(threads))))
    write_report(folder, written, bundles.measured, bundles.refused, earlier)
