"""Exports a model: it is resolved, converted, quantised and compared before a file is written."""

from __future__ import annotations

import dataclasses
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_vit import _files, runs
from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.bundle.export_report import withdraw_report, write_report
from keras_vit.deploy.bundle.writing import check_bundles, write_bundle
from keras_vit.deploy.convert.converter import Converter, MadeFile
from keras_vit.deploy.convert.float_layers import choose_float_layers, read_recipe
from keras_vit.deploy.convert.quantize import check_layers, for_runtime
from keras_vit.deploy.export_options import CALIBRATED, ExportOptions
from keras_vit.deploy.judge.client_verdict import check_model_for, judge_client, seen_by
from keras_vit.deploy.judge.gpu import GpuChoice
from keras_vit.deploy.judge.judged_file import JudgedFile, check, compared, judge_file
from keras_vit.deploy.judge.parity import Verdict
from keras_vit.deploy.precisions import Precision
from keras_vit.deploy.reference_scores import ParityError, Reference, reference_of
from keras_vit.deploy.representative_data import samples_of
from keras_vit.deploy.resolve import NOT_KERAS_VIT, NOT_WANTED, Resolved, resolve
from keras_vit.deploy.sample_images import Samples, spread, to_pixels
from keras_vit.deploy.trained_model import TrainedModel, of_run
from keras_vit.specs import Preprocessing
from keras_vit.tflite.measure import Measured, measure
from keras_vit.tflite.processes import release_memory

_RANKED = 8  # images for ranking layers


def export_tflite(
    model: Any,
    path: str | os.PathLike,
    quantize: str | None = None,
    representative_data: Any = None,
    max_images: int = 100,
    *,
    input: str | None = None,
    output: str | None = None,
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
            tuple (images, labels) with integer labels, of one logit 0 and 1, or an iterable or
            tf.data.Dataset of such batches. Half of the images, at most 32, measure ranges of
            activations and others are compared, both chosen from the whole data; "auto" chooses
            layers on half of those others. Only the first 10,000 images of an iterable are read,
            so it may be endless.
            Without data, random images are compared, which is a weaker check, and precisions that
            need ranges are refused.
        max_images: the largest number of images to compare.
        input: "float32", the input of the Keras model, or "uint8": RGB pixels, scaled in the file.
            None is what the client needs, without one "float32".
        output: "logits", "probabilities" or "features". With other layers after a `keras_vit`
            model, the output of these layers; they are probabilities if the layers end in a
            softmax or a sigmoid. None is what the client needs, without one "logits".
        float_layers: names of `deploy.quantizable_layers` that stay in float.
        max_drop: points of accuracy that a quantised file may lose if labels are known; None for
            its precision's own limit, `Budget.drop`.
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
    resolved = _resolved_for(model, options)
    converter, samples = _prepared(resolved, model, representative_data, options)
    judged = _judged_file(converter, samples, precision, options)
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
        input, output, max_drop, min_runtime, recipe, rewrite, gpu: as for `export_tflite`.
        client: as for `export_tflite`. For a run or a `TrainedModel` with pictures, model.json
            and the card also have the files' accuracy with the client's own resize.
        calibrate: the largest number of images to measure ranges on.
        threads: the numbers of threads to measure latency with; if empty, nothing is measured and
            no card is written.
        labels: the classes' names, instead of the model's.
        preprocessing: how images become the model's input, instead of the model's. Only keras_vit
            models have a preprocessing.
        say: called with each line of progress.

    Raises:
        ParityError: a comparison with Keras' scores would prove nothing.
        UsageError: a precision is unknown, images that it needs are missing, the recipe is for
            another model, `folder` holds other files and no bundles, a folder that is not a bundle
            would be replaced, or another process exports to `folder`; nothing is written.
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
    bundles = Bundles(folder, {}, dict(_too_new(options)), {})
    kept = [each.quantize for each in options.precisions if each.name not in bundles.refused]
    if not kept:
        return bundles
    options = dataclasses.replace(options, quantize=kept)
    resolved = _resolved_for(model, options)
    check_bundles(resolved)
    with _files.locked(folder):
        converter, samples = _prepared(resolved, model, representative_data, options)
        del resolved, model  # a large model is not in memory when it is converted
        for precision in options.precisions:
            try:
                judged = _judged_file(converter, samples, precision, options)
            except RefusedError as error:
                bundles.refused[precision.name] = str(error)
                continue
            if not bundles.written:
                earlier = withdraw_report(folder)
            place = folder / precision.name
            written = write_bundle(place, judged, samples.picture, max_drop)
            bundles.written[precision.name] = written
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


def _resolved_for(model: Any, options: ExportOptions) -> Resolved:
    """Finds out whether a Keras model or a `TrainedModel` can be exported with these options."""
    name, labels = None, options.labels
    if isinstance(model, TrainedModel):
        name, labels, model = model.name, labels or model.labels, model.load()
    check_model_for(options.wanted_client, model)
    graph = options.graph(model)
    resolved = resolve(model, graph, options.rewrite, labels, options.preprocessing, name)
    _known_recipe(options, resolved.about.name)
    return resolved


def _prepared(
    resolved: Resolved, model: Any, data: Any, options: ExportOptions
) -> tuple[Converter, Samples]:
    """Computes Keras' scores and writes the graphs; `resolved` is not needed afterwards.

    Args:
        resolved: the result of `_resolved_for`.
        model: a `TrainedModel`, which has images, or a Keras model.
        data: representative data of a Keras model; None for random images.
        options: the options of the export.
    """
    release_memory()  # TensorFlow keeps the initial values of weights that were read from a file
    about = resolved.about
    if isinstance(model, TrainedModel):
        samples = model.samples(options)
    else:
        samples = samples_of(data, resolved.input_shape, about.preprocessing, options)
    samples = _scored(resolved, samples, options)
    if options.client and isinstance(model, TrainedModel) and model.source:
        pictures = model.pictures(len(samples.compared.inputs))
        samples = seen_by(options.wanted_client, samples, pictures, about.preprocessing)
    options.say("writing the graph")
    converter = Converter(
        resolved, options.quantize, samples.calibration, options.min_runtime, samples.compared
    )
    if converter.about.note not in ("", NOT_KERAS_VIT, NOT_WANTED):
        warnings.warn(
            f"the model is exported as it is, without exact rewrites: {converter.about.note}.",
            stacklevel=3,  # the caller of a public function
        )
    if recipe := _known_recipe(options, about.name):
        check_layers(converter.float_file(recipe["base"]), recipe["float_layers"])
    return converter, samples


def _scored(resolved: Resolved, samples: Samples, options: ExportOptions) -> Samples:
    """The images as the files read them, with Keras' scores."""

    def as_read(inputs: Any) -> Any:
        as_floats = inputs is None or resolved.about.options.input == "float32"
        return inputs if as_floats else to_pixels(inputs, resolved.about.preprocessing)

    def scored(images: Reference) -> Reference:
        options.say(f"Keras on {len(images.inputs)} {images.images_from}")
        return reference_of(resolved, dataclasses.replace(images, inputs=as_read(images.inputs)))

    return dataclasses.replace(
        samples,
        compared=scored(samples.compared),
        choosing=samples.choosing and scored(samples.choosing),
        calibration=as_read(samples.calibration),
    )


def _judged_file(
    converter: Converter, samples: Samples, precision: Precision, options: ExportOptions
) -> JudgedFile:
    """Makes and compares a file; raises a `RefusedError` if it does not meet the options."""
    name, layers, recipe = precision.quantize, options.float_layers, None
    if precision.base:
        recipe = _known_recipe(options, converter.about.name)
        recipe = recipe or _chosen(converter, samples.choosing, precision, options)
        layers = tuple(recipe["float_layers"])
    options.say(f"{name}: converting")
    made = converter.made(name, layers, recipe)
    options.say(f"{name}: comparing with Keras")
    judged = judge_file(made, samples.compared, options.gpu)
    check(judged, options.max_drop, options.min_runtime, options.gpu)
    client = options.wanted_client
    if client is None:
        return judged
    options.say(f"{name}: as {client.title} sees it")
    found = judge_client(client, judged.content, samples, judged.score_tolerance)
    return dataclasses.replace(judged, client=found)


def _chosen(
    converter: Converter, images: Reference, precision: Precision, options: ExportOptions
) -> dict[str, Any]:
    """Searches for the layers that must stay in float; returns a recipe."""

    def holds(content: Any) -> bool:
        made = MadeFile(precision, content, converter.about)
        try:
            compared(made, images).check(options.max_drop)
        except ParityError:
            return False
        return True

    count = len(images.inputs)
    few = images.inputs[spread(_RANKED, count)]
    choice = choose_float_layers(converter, precision.base, few, holds, options.say)
    return dataclasses.asdict(choice) | {"chosen_on": f"{count} {images.images_from}"}


def _known_recipe(options: ExportOptions, model: str) -> dict[str, Any] | None:
    """The recipe that is used instead of a search; None if there is none."""
    if options.recipe is None:
        return None
    bases = {precision.base for precision in options.precisions if precision.base}
    return read_recipe(options.recipe, model, bases)
