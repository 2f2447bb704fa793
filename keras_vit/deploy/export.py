"""Exports a model: it is resolved, converted, quantised and compared before a file is written."""

from __future__ import annotations

import dataclasses
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_vit import _checks, _files, runs
from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.bundle.bundle import About, check_replaceable, write_bundle
from keras_vit.deploy.bundle.report import withdraw_report, write_report
from keras_vit.deploy.clients.clients import Client, check_for, client_of, input_for
from keras_vit.deploy.clients.judging import Seen, check_model_for, judge_client, seen_by
from keras_vit.deploy.convert.auto import choose_float_layers, read_recipe
from keras_vit.deploy.convert.converter import Converter
from keras_vit.deploy.convert.quantize import check_layers, for_runtime
from keras_vit.deploy.images import CALIBRATED, Part, Samples, samples_of, to_pixels
from keras_vit.deploy.inspect.runtimes import check_version
from keras_vit.deploy.judge.blocks import first_difference, layer_differences
from keras_vit.deploy.judge.choosing import spread
from keras_vit.deploy.judge.files import JudgedFile, MadeFile, check, compared, judge_file
from keras_vit.deploy.judge.gpu import GpuChoice, check_gpu_choice
from keras_vit.deploy.judge.measure import Measured, measure
from keras_vit.deploy.judge.parity import ParityError, Verdict
from keras_vit.deploy.judge.reference import Reference, reference_of
from keras_vit.deploy.memory import release_memory
from keras_vit.deploy.precisions import PRECISIONS, Precision, check_calibration, precision_of
from keras_vit.deploy.resolve import NOT_KERAS_VIT, NOT_WANTED, Resolved, hash_of, resolve
from keras_vit.deploy.subject import OwnImages, Subject, of_run
from keras_vit.labels import numbered
from keras_vit.specs import Preprocessing

# Numbers of images for ranking layers, and for finding the layer where a difference begins.
_RANKED, _WATCHED = 8, 4
_MOST_BATCH = 1024
# The largest float file, in bytes, that is run with all its intermediates kept in memory.
_LARGEST_COMPARED = 2**31


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
    from keras_vit.deploy.graph.inference import GraphOptions

    if not isinstance(quantize, (str, type(None))):
        raise UsageError(
            f"export_tflite writes one file: quantize must be one name. Received: {quantize!r}; "
            "use deploy.export_bundles for several."
        )
    precision = precision_of(quantize)
    batch = _checks.positive_integer("batch", batch, _MOST_BATCH)
    if batch > 1 and (client or gpu != "no"):
        raise UsageError(f"a client or a GPU takes batch=1. Received: batch={batch}.")
    demands = Demands(max_drop, min_runtime, max_images, gpu=gpu)
    float_layers = tuple(float_layers)
    if float_layers and not precision.rules:
        raise UsageError("float_layers are for quantised files. Received: quantize='none'.")
    if float_layers and precision.base:
        raise UsageError(f"{precision.quantize} chooses the float layers; leave out float_layers.")
    if Path(path).is_dir():
        raise UsageError(f"{path} is a folder; name the .tflite file.")
    _check_recipe(recipe, [precision])
    for_runtime(precision, min_runtime)
    wanted = client_of(client)
    check_model_for(wanted, model)
    tensors = _tensors(wanted, input, output, [precision], getattr(model, "preprocessing", None))
    resolved = resolve(model, GraphOptions(*tensors, batch), rewrite)
    known = _known_recipe(recipe, [precision], resolved.name)
    request = _Request((precision,), demands, known)
    samples = _given_samples(
        representative_data, resolved.input_shape, resolved.preprocessing, request
    )
    export = _begin(resolved, samples, request)
    _warn_if_unexpected(export.converter.graphs.note)
    export.check_recipe()
    judged = dataclasses.replace(export, watched=False).judged(precision, float_layers)
    if wanted is not None:
        judge_client(wanted, judged.content, None)
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
        model: a Keras model, as for `export_tflite`; or the folder of a run, which has its own
            images. A `Subject` is accepted too and loses its model, so that a large model is not in
            memory during its conversion: it is exported once.
        folder: the folder to write bundles to, each in a subfolder named after its precision.
        quantize: one or several names in `deploy.PRECISIONS`.
        representative_data: as for `export_tflite`; only for a Keras model.
        max_images: the largest number of images to compare; "auto" chooses layers on as many more.
        input, output, max_drop, min_runtime, recipe, rewrite, gpu: as for `export_tflite`.
        client: as for `export_tflite`. For a run or a `Subject` with pictures, model.json and the
            card also have the files' accuracy with the client's own resize.
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
    from keras_vit.deploy.graph.inference import GraphOptions

    folder, wanted = Path(folder), client_of(client)
    demands = Demands(max_drop, min_runtime, max_images, calibrate, gpu)
    quantize = [quantize] if isinstance(quantize, str) else quantize
    precisions = list(dict.fromkeys(precision_of(name) for name in quantize))
    _files.check_replaceable(folder, "export")
    for precision in precisions:
        check_replaceable(folder / precision.name)
    _files.check_unlocked(folder)  # before a subject loses its model
    _check_recipe(recipe, precisions)
    subject = _as_subject(model, representative_data)
    resized = preprocessing or getattr(subject.model if subject else model, "preprocessing", None)
    check_model_for(wanted, subject.model if subject else model)
    options = GraphOptions(*_tensors(wanted, input, output, precisions, resized))
    refused = dict(_too_new(precisions, min_runtime))
    precisions = [precision for precision in precisions if precision.name not in refused]
    written: dict[str, dict[str, Any]] = {}
    if not precisions:
        return Bundles(folder, written, refused, {})
    if subject is None:
        resolved = resolve(model, options, rewrite, labels, preprocessing)
    else:
        names = labels or subject.labels
        resolved = resolve(subject.model, options, rewrite, names, preprocessing, subject.name)
    known = _known_recipe(recipe, precisions, resolved.name)
    request = _Request(tuple(precisions), demands, known, say)
    about = _about(resolved)
    if subject is None:
        samples = _given_samples(
            representative_data, resolved.input_shape, resolved.preprocessing, request
        )
    else:
        samples = _own_samples(subject.images, request)
        # Removed, so that a large model is not in memory during its conversion.
        subject.model = None
    with _files.locked(folder):
        export = _begin(resolved, samples, request)
        _warn_if_unexpected(export.converter.graphs.note)
        del model, resolved
        export.check_recipe()
        seen = wanted and subject and _seen(wanted, export.compared_on, subject.images, about)
        figures: dict[str, Measured] = {}
        for precision in precisions:
            try:
                judged = export.judged(precision)
                if wanted is not None:
                    say(f"{precision.quantize}: as {wanted.title} sees it")
                    found = judge_client(
                        wanted, judged.content, seen or None, judged.score_tolerance
                    )
                    judged = dataclasses.replace(judged, client=found)
            except RefusedError as error:
                refused[precision.name] = str(error)
                continue
            if not written:
                figures = withdraw_report(folder)
            written[precision.name] = write_bundle(
                folder / precision.name, judged, about, samples.picture, max_drop
            )
        measured = _reported(folder, written, refused, threads, figures, say)
    return Bundles(folder, written, refused, measured)


@dataclasses.dataclass(frozen=True)
class Demands:
    """The requirements of an export.

    Attributes:
        max_drop: points of accuracy that a quantised file may lose if labels are known; None for
            its precision's own limit, `Budget.drop`.
        min_runtime: the oldest runtime that must run the files; None for any.
        images: the largest number of images to compare; auto chooses layers on as many more.
        calibrate: the largest number of images to measure ranges on.
        gpu: whether files are run on a GPU, and must run right there.

    Raises:
        UsageError: one of them is out of range, `min_runtime` is no version, or there is no Vulkan
            device for gpu="yes".
    """

    max_drop: float | None = None
    min_runtime: str | None = None
    images: int = 500
    calibrate: int = CALIBRATED
    gpu: GpuChoice = "no"

    def __post_init__(self):
        check_gpu_choice(self.gpu)
        _checks.positive_integer("max_images", self.images)
        _checks.positive_integer("calibrate", self.calibrate)
        if self.max_drop is not None:
            _checks.not_negative("max_drop", self.max_drop)
        if self.min_runtime is not None:
            check_version(self.min_runtime)


@dataclasses.dataclass(frozen=True)
class _Request:
    """The files to make: their precisions, and the demands on them."""

    precisions: tuple[Precision, ...]
    demands: Demands
    recipe: dict[str, Any] | None
    say: Callable[[str], None] = lambda line: None

    @property
    def calibrate(self) -> int | None:
        """The largest number of images to measure ranges on; None if no ranges are measured."""
        in_float = all(precision.is_float for precision in self.precisions)
        return None if in_float else self.demands.calibrate

    @property
    def searches(self) -> bool:
        """Whether float layers are searched for."""
        return any(row.base and not self.recipe_of(row) for row in self.precisions)

    def recipe_of(self, precision: Precision) -> dict[str, Any] | None:
        """The given recipe, if it is for this precision."""
        fits = self.recipe is not None and self.recipe["base"] == precision.base
        return self.recipe if fits else None


def _begin(resolved: Resolved, samples: Samples, request: _Request) -> _Export:
    """Computes Keras' scores and writes the graphs; the model is not needed afterwards."""
    release_memory()  # TensorFlow keeps the initial values of weights that were read from a file

    def inputs_of(images: Any) -> Any:
        as_floats = images is None or resolved.options.input == "float32"
        return images if as_floats else to_pixels(images, resolved.preprocessing)

    def reference(part: Part) -> Reference:
        request.say(f"Keras on {len(part.images)} {part.images_from}")
        inputs = inputs_of(part.images)
        return reference_of(resolved, inputs, part.targets, part.images_from)

    compared_on = reference(samples.compared)
    chosen_on = samples.choosing and reference(samples.choosing)
    request.say("writing the graph")
    converter = Converter(
        resolved,
        [precision.quantize for precision in request.precisions],
        inputs_of(samples.calibration),
        request.demands.min_runtime,
        compared_on,
    )
    return _Export(converter, compared_on, chosen_on, request, resolved.name)


@dataclasses.dataclass(frozen=True)
class _Export:
    """The common state of all files of one export."""

    converter: Converter
    compared_on: Reference
    chosen_on: Reference | None
    request: _Request
    model: str
    watched: bool = True  # whether the differences of blocks are recorded

    def judged(self, precision: Precision, float_layers: tuple[str, ...] = ()) -> JudgedFile:
        """Makes and compares a file; raises a `RefusedError` if it does not meet the demands."""
        recipe = None
        if precision.base:
            recipe = self.request.recipe_of(precision) or self.search(precision)
        layers = tuple(recipe["float_layers"]) if recipe else float_layers
        self.request.say(f"{precision.quantize}: converting")
        made = self.converter.made(precision.quantize, layers, recipe)
        self.request.say(f"{precision.quantize}: comparing with Keras")
        judged = judge_file(made, self.compared_on, self.request.demands.gpu)
        differences = self.differences(judged.made) if self.watched else None
        try:
            demands = self.request.demands
            check(judged, demands.max_drop, demands.min_runtime, demands.gpu)
        except ParityError as error:
            _, layers = differences or self.differences(judged.made)
            raise ParityError(
                f"{error} This file was not written.{_place(layers)}{_choice(precision, recipe)}"
            ) from None
        return dataclasses.replace(judged, differences=differences[0] if differences else {})

    def check_recipe(self) -> None:
        """Raises a `UsageError` if the recipe names layers that the model does not have."""
        recipe = self.request.recipe
        if recipe is not None:
            check_layers(self.converter.float_file(recipe["base"]), recipe["float_layers"])

    def search(self, precision: Precision) -> dict[str, Any]:
        """Searches for the layers that must stay in float; returns a recipe."""

        def holds(content: Any) -> bool:
            made = MadeFile(precision, content, self.converter.options)
            try:
                compared(made, self.chosen_on).check(self.request.demands.max_drop)
            except ParityError:
                return False
            return True

        inputs = self.chosen_on.inputs
        few = inputs[spread(_RANKED, len(inputs))]
        base, say = precision.base, self.request.say
        choice = choose_float_layers(self.converter, base, few, holds, say)
        return choice.to_dict(base, self.model, f"{len(inputs)} {self.chosen_on.images_from}")

    def differences(self, made: MadeFile) -> tuple[dict[str, float], dict[str, float]]:
        """The differences of blocks and of layers from the float file."""
        reference = self.converter.float_file(made.precision.quantize)
        if not made.precision.rules or len(reference) > _LARGEST_COMPARED:
            return {}, {}
        return layer_differences(reference, made.content, self.compared_on.inputs[:_WATCHED])


def _as_subject(model: Any, representative_data: Any) -> Subject | None:
    """A run with its images; None for a Keras model."""
    if isinstance(model, runs.Run):
        model = model.path
    if isinstance(model, (str, os.PathLike)):
        model = of_run(model)
    if not isinstance(model, Subject):
        return None
    if representative_data is not None:
        raise UsageError("representative_data is for Keras models; a run has its own images.")
    if model.model is None:
        raise UsageError(
            f"{model.name} was exported before, which removed its model to free memory; open it "
            "again for another export."
        )
    return model


def _given_samples(
    data: Any,
    shape: tuple[int, int, int],
    preprocessing: Preprocessing | None,
    request: _Request,
) -> Samples:
    if data is None:
        _check_images(request.precisions)
    return samples_of(
        data,
        shape,
        preprocessing,
        request.demands.images,
        request.calibrate,
        request.searches,
    )


def _own_samples(images: OwnImages, request: _Request) -> Samples:
    if images.source is None:
        _check_images(request.precisions)
    return images.samples(request.demands.images, request.calibrate, request.searches)


def _tensors(
    client: Client | None,
    input: str | None,
    output: str | None,
    precisions: Iterable[Precision],
    preprocessing: Preprocessing | None,
) -> tuple[str, str]:
    """The input and the output of the files: as given, or as a client needs them."""
    check_for(client, output, precisions)
    wanted = output or (client.output if client else "logits")
    return input_for(client, input, preprocessing), wanted


def _seen(client: Client, own: Reference, images: OwnImages, about: About) -> Seen | None:
    """The compared images as a client sees them; None for random images."""
    pictures = images.pictures(len(own.inputs))
    if pictures is None:
        return None
    return seen_by(client, own.inputs, own.targets, pictures, about.preprocessing)


def _check_images(precisions: Iterable[Precision]) -> None:
    for precision in precisions:
        check_calibration(precision, None)


def _check_recipe(recipe: str | os.PathLike | None, precisions: Iterable[Precision]) -> None:
    if recipe is not None and not any(precision.base for precision in precisions):
        choosing = " or ".join(name for name, row in PRECISIONS.items() if row.base)
        names = ", ".join(precision.quantize for precision in precisions)
        raise UsageError(
            f"recipe can only be used with quantize={choosing!r}. Received: quantize={names!r}."
        )


def _known_recipe(
    recipe: str | os.PathLike | None, precisions: Iterable[Precision], model: str
) -> dict[str, Any] | None:
    """The recipe; None if there is none or no precision that would use it."""
    bases = {precision.base for precision in precisions if precision.base}
    return None if recipe is None or not bases else read_recipe(recipe, model, bases)


def _too_new(precisions: list[Precision], min_runtime: str | None) -> Iterable[tuple[str, str]]:
    """The precisions that no file for the oldest runtime can have, each with the reason."""
    for precision in precisions:
        try:
            for_runtime(precision, min_runtime)
        except RefusedError as error:
            yield precision.name, str(error)


def _about(resolved: Resolved) -> About:
    channels = resolved.input_shape[-1]
    if channels not in _checks.PICTURE_CHANNELS:
        raise UsageError(
            "a bundle is for pictures, of 1 channel or 3. Received: a model that reads "
            f"{channels}; use export_tflite."
        )
    if resolved.preprocessing is None:
        raise UsageError(
            "a bundle needs the preprocessing of the model. Received: a model without one; pass "
            "preprocessing=keras_vit.Preprocessing(height, width, ...)."
        )
    return About(
        resolved.name,
        resolved.labels or numbered(resolved.num_outputs),
        resolved.preprocessing,
        resolved.parameters,
        hash_of(resolved.weights, resolved.tail),
    )


def _reported(
    folder: Path,
    written: dict[str, dict[str, Any]],
    refused: Mapping[str, str],
    threads: Sequence[int],
    earlier_figures: Mapping[str, Measured],
    say: Callable[[str], None],
) -> dict[str, Measured]:
    if not written or not threads:
        return {}
    say("measuring latency, memory and load time")
    files = {name: folder / name / "model.tflite" for name in written}
    measured = measure(files, sorted(set(threads)))
    write_report(folder, written, measured, refused, earlier_figures)
    return measured


def _warn_if_unexpected(note: str) -> None:
    """Warns the caller of a public function that a model was changed and is not rewritten."""
    if note not in ("", NOT_KERAS_VIT, NOT_WANTED):
        warnings.warn(
            f"the model is exported as it is, without exact rewrites: {note}.", stacklevel=3
        )


def _place(differences: dict[str, float]) -> str:
    """A sentence about the layer where a file begins to differ."""
    first = first_difference(differences)
    if first is None:
        return ""
    worst = max(differences, key=differences.get)
    return (
        f" Its layers differ from those of the float file by more than 10% from {first} on, most "
        f"in {worst} ({differences[worst]:.0%})."
    )


def _choice(precision: Precision, recipe: dict[str, Any] | None) -> str:
    """A sentence about the layers that were chosen to stay in float."""
    if recipe is None:
        return ""
    return (
        f" {precision.quantize} kept {len(recipe['float_layers'])} layers in float, chosen on "
        f"{recipe['chosen_on']}: more images give a better choice."
    )
