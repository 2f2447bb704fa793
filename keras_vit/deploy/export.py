"""The way of a model: resolved, computed, converted, quantised, judged, and only then written."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_vit import _checks, _files, runs
from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.bundle.bundle import About, check_replaceable, write_bundle
from keras_vit.deploy.bundle.report import write_report
from keras_vit.deploy.convert.auto import BASE, choose_float_layers, read_recipe
from keras_vit.deploy.convert.converter import Converter
from keras_vit.deploy.convert.quantize import check_calibration, check_layers, for_runtime
from keras_vit.deploy.images import CALIBRATED, Part, Samples, samples_of, to_pixels
from keras_vit.deploy.inspect.runtimes import check_version
from keras_vit.deploy.judge.blocks import first_difference, layer_differences
from keras_vit.deploy.judge.choosing import spread
from keras_vit.deploy.judge.files import JudgedFile, MadeFile, check, compared, judge_file
from keras_vit.deploy.judge.measure import Measured, measure
from keras_vit.deploy.judge.parity import ParityError, Verdict
from keras_vit.deploy.judge.reference import Reference, reference_of
from keras_vit.deploy.precisions import Precision, precision_of
from keras_vit.deploy.resolve import NOT_KERAS_VIT, NOT_WANTED, Resolved, hash_of, resolve
from keras_vit.deploy.subject import Subject, of_run
from keras_vit.specs import Preprocessing

# Images that are enough to rank layers by, and to see in which layer a difference begins.
_RANKED, _WATCHED = 8, 4
# Bytes of a float file that is run with all its intermediates kept, beside the one it became.
_LARGEST_COMPARED = 2**31


def export_tflite(
    model: Any,
    path: str | os.PathLike,
    quantize: str | None = None,
    representative_data: Any = None,
    max_images: int = 100,
    *,
    input: str = "float32",
    output: str = "logits",
    float_layers: Iterable[str] = (),
    max_drop: float | None = None,
    min_runtime: str | None = None,
    recipe: str | os.PathLike | None = None,
    rewrite: bool = True,
) -> Verdict:
    """Converts a model, runs the result with LiteRT against Keras, and only then names it `path`.

    Args:
        model: a `keras_vit` model, or one of ours without a head and other Keras layers after it:
            its graph is rewritten for speed, exactly. Any other Keras model of one float32 image
            input is converted as it is, and so is one of ours whose layers were changed after it
            was built; the verdict says so.
        path: the `.tflite` file, replaced whole.
        quantize: a name in `deploy.PRECISIONS`; None is "none", float32.
        representative_data: inputs as the model takes them, preprocessed: an array
            (n, height, width, 3), with its integer labels a tuple (images, labels), or an iterable
            or tf.data.Dataset of such batches. Half of them, at most 32, measure ranges of
            activations, and others are compared, both chosen from all over the data; "auto"
            chooses layers on half of those others. Of an iterable the first 10,000 images are
            read, so it may go on for ever. Without any, random images are compared, a weaker check
            than real ones, and precisions that need ranges are refused.
        max_images: how many of them are compared at most.
        input: "float32", as Keras takes it, or "uint8": RGB pixels, scaled inside the file.
        output: "logits", "probabilities" or "features"; with layers of others after ours, what
            these give is what the file gives.
        float_layers: names of `deploy.quantizable_layers` that stay float.
        max_drop: points of accuracy that a quantised file may lose, where labels are known; None:
            0.5, of int4 1.5.
        min_runtime: the oldest runtime that must run the file: "2.16.1" of TFLite, "LiteRT 2.1";
            None for any.
        recipe: a recipe.json that "auto" wrote into a bundle, in place of a search.
        rewrite: False exports the model as it is, by Keras' own graph, without exact rewrites.

    Returns:
        The comparison: agreement, largest difference and so on; its `notes()` say what the images
        prove and what they leave open.

    Raises:
        ParityError: the file differs by more than its precision explains; none is written.
        RefusedError: the file has sizes known at run time only, or `min_runtime` does not run it.
        UsageError: an unknown precision; data is missing or of another shape; `path` is a folder;
            a model of another backend than TensorFlow that isn't ours.
    """
    from keras_vit.deploy.graph.inference import GraphOptions

    precision, options = precision_of(quantize), GraphOptions(input, output)
    demands = Demands(max_drop, min_runtime, max_images)
    float_layers = tuple(float_layers)
    if float_layers and not precision.rules:
        raise UsageError("float_layers are for quantised files. Received: quantize='none'.")
    if float_layers and precision.base:
        raise UsageError(f"{precision.quantize} chooses the float layers; leave float_layers out.")
    if Path(path).is_dir():
        raise UsageError(f"{path} is a folder; name the .tflite file.")
    for_runtime(precision, min_runtime)
    resolved = resolve(model, options, rewrite)
    known = _known_recipe(recipe, [precision], resolved.name)
    if representative_data is None:
        check_calibration(precision, None)
    samples = samples_of(
        representative_data,
        resolved.input_shape,
        resolved.preprocessing,
        max_images,
        None if precision.is_float else CALIBRATED,
        _searches([precision], known),
    )
    export = _begin(resolved, samples, [precision], options, demands, known)
    if note := _surprise(export.converter.graphs.note):
        warnings.warn(note, stacklevel=2)
    export.check_recipe()
    judged = dataclasses.replace(export, watched=False).judged(precision, float_layers)
    with _files.replacing(path) as temporary:
        temporary.write_bytes(judged.content)
    return judged.verdict


@dataclasses.dataclass(frozen=True)
class Bundles:
    """What `export_bundles` did.

    Attributes:
        folder: where the bundles, the card and the table are.
        written: what each model.json says, by the name of the bundle's folder.
        refused: why a file does not meet the demands and was not written, by the same names.
        measured: what each file costs, by the same names.
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
    input: str = "float32",
    output: str = "logits",
    max_drop: float | None = None,
    min_runtime: str | None = None,
    recipe: str | os.PathLike | None = None,
    rewrite: bool = True,
    calibrate: int = CALIBRATED,
    threads: Sequence[int] = (1, 2),
    labels: Sequence[str] | None = None,
    preprocessing: Preprocessing | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Bundles:
    """Writes a bundle for each precision, in a folder of its name, with a card that compares them.

    >>> bundles = deploy.export_bundles(
    ...     model, "bundles", ["none", "int8", "auto"], (images, classes), labels=names
    ... )
    >>> bundles.written["int8"]["parity"]["accuracy"], bundles.refused
    >>> deploy.open_bundle("bundles/int8").predict(images)

    Args:
        model: a Keras model, as `export_tflite` takes it; or the folder of a run, which has images
            of its own.
        folder: of the bundles.
        quantize: a name in `deploy.PRECISIONS`, or several.
        representative_data: as `export_tflite` takes it, for a Keras model.
        max_images: at most this many images are compared; "auto" chooses on as many others.
        input, output, max_drop, min_runtime, recipe, rewrite: as `export_tflite` takes them.
        calibrate: at most this many images measure ranges.
        threads: the numbers of threads that latency is measured with; none to measure nothing and
            to write no card.
        labels: the classes' names, in place of the model's own.
        preprocessing: how images become the model's input, in place of the model's own. Only
            keras_vit models have their own.
        say: is called with each line of progress.

    Raises:
        ParityError: Keras' own scores prove nothing.
        UsageError: an unknown precision, images that one needs are missing, a recipe of something
            else, or a folder that holds no bundle would be replaced; nothing is written.
    """
    from keras_vit.deploy.graph.inference import GraphOptions

    folder, options = Path(folder), GraphOptions(input, output)
    demands = Demands(max_drop, min_runtime, max_images, calibrate)
    quantize = [quantize] if isinstance(quantize, str) else quantize
    wanted = list(dict.fromkeys(precision_of(name) for name in quantize))
    for precision in wanted:
        check_replaceable(folder / precision.name)
    _check_recipe(recipe, wanted)
    subject = _as_subject(model, representative_data)
    known = None
    if subject is not None:
        known = _known_recipe(recipe, wanted, subject.name)
    refused = dict(_too_new(wanted, min_runtime))
    wanted = [precision for precision in wanted if precision.name not in refused]
    written: dict[str, dict[str, Any]] = {}
    if not wanted:
        return Bundles(folder, written, refused, {})
    if subject is None:
        resolved = resolve(model, options, rewrite, labels, preprocessing)
        known = _known_recipe(recipe, wanted, resolved.name)
        samples = _given_samples(representative_data, resolved, wanted, demands, known)
    else:
        if subject.source is None:
            _check_images(wanted)
        # Taken out: a large model and its conversion need not be in memory together.
        model, subject.model = subject.model, None
        names = labels or subject.labels
        resolved = resolve(model, options, rewrite, names, preprocessing, subject.name)
        samples = subject.samples(
            demands.images, _calibrated(wanted, demands), _searches(wanted, known)
        )
    about = _about(resolved)
    export = _begin(resolved, samples, wanted, options, demands, known, say)
    del model, resolved
    export.check_recipe()
    for precision in wanted:
        say(f"{precision.quantize}: converting, then comparing")
        try:
            judged = export.judged(precision)
        except RefusedError as error:
            refused[precision.name] = str(error)
            continue
        written[precision.name] = write_bundle(
            folder / precision.name, judged, about, samples.picture, max_drop
        )
    return Bundles(folder, written, refused, _reported(folder, written, refused, threads, say))


@dataclasses.dataclass(frozen=True)
class Demands:
    """What is asked of the files.

    Attributes:
        max_drop: points of accuracy that a quantised file may lose, where labels are known; None:
            0.5, of int4 1.5.
        min_runtime: the oldest runtime that must run them; None for any.
        images: at most this many are compared; auto chooses on as many others.
        calibrate: at most this many measure ranges.

    Raises:
        UsageError: one of them is out of range, or `min_runtime` is no version.
    """

    max_drop: float | None = None
    min_runtime: str | None = None
    images: int = 500
    calibrate: int = CALIBRATED

    def __post_init__(self):
        _checks.positive_integer("max_images", self.images)
        _checks.positive_integer("calibrate", self.calibrate)
        if self.max_drop is not None:
            _checks.not_negative("max_drop", self.max_drop)
        if self.min_runtime is not None:
            check_version(self.min_runtime)


def _begin(
    resolved: Resolved,
    samples: Samples,
    precisions: list[Precision],
    options: Any,
    demands: Demands,
    recipe: dict[str, Any] | None,
    say: Callable[[str], None] = lambda line: None,
) -> _Export:
    """Asks Keras for its scores and writes the graphs; the model is not needed afterwards."""

    def given(images: Any) -> Any:
        as_floats = images is None or options.input == "float32"
        return images if as_floats else to_pixels(images, resolved.preprocessing)

    def reference(part: Part) -> Reference:
        say(f"Keras on {len(part.images)} {part.images_from}")
        inputs = given(part.images)
        return reference_of(resolved, options, inputs, part.targets, part.images_from)

    compared_on = reference(samples.compared)
    chosen_on = samples.choosing and reference(samples.choosing)
    converter = Converter(
        resolved,
        [precision.quantize for precision in precisions],
        options,
        given(samples.calibration),
        demands.min_runtime,
        compared_on,
    )
    if note := _surprise(converter.graphs.note):
        say(note)
    return _Export(converter, compared_on, chosen_on, demands, recipe, say, resolved.name)


@dataclasses.dataclass(frozen=True)
class _Export:
    """What the files of one export share."""

    converter: Converter
    compared_on: Reference
    chosen_on: Reference | None
    demands: Demands
    recipe: dict[str, Any] | None
    say: Callable[[str], None]
    model: str
    watched: bool = True  # whether the difference of each block is for the record

    def judged(self, precision: Precision, float_layers: tuple[str, ...] = ()) -> JudgedFile:
        """A file that meets the demands; raises a `RefusedError` where it does not."""
        recipe = (self.recipe or self.search(precision)) if precision.base else None
        layers = tuple(recipe["float_layers"]) if recipe else float_layers
        judged = judge_file(
            self.converter.made(precision.quantize, layers, recipe), self.compared_on
        )
        differences = self.differences(judged.made) if self.watched else None
        try:
            check(judged, self.demands.max_drop, self.demands.min_runtime)
        except ParityError as error:
            _, layers = differences or self.differences(judged.made)
            raise ParityError(
                f"{error} This file was not written.{_place(layers)}{_choice(recipe)}"
            ) from None
        return dataclasses.replace(judged, differences=differences[0] if differences else {})

    def check_recipe(self) -> None:
        """Raises a `UsageError` where a given recipe names other layers than the model has."""
        if self.recipe is not None:
            check_layers(self.converter.float_file(BASE), self.recipe["float_layers"])

    def search(self, precision: Precision) -> dict[str, Any]:
        """Which layers must stay float, as a recipe."""

        def holds(content: Any) -> bool:
            made = MadeFile(precision, content, self.converter.options)
            try:
                compared(made, self.chosen_on).check(self.demands.max_drop)
            except ParityError:
                return False
            return True

        inputs = self.chosen_on.inputs
        few = inputs[spread(_RANKED, len(inputs))]
        choice = choose_float_layers(self.converter, few, holds, self.say)
        return choice.to_dict(self.model, f"{len(inputs)} {self.chosen_on.images_from}")

    def differences(self, made: MadeFile) -> tuple[dict[str, float], dict[str, float]]:
        """Of blocks and of layers, from the float file."""
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
        raise UsageError("representative_data is for Keras models; a run has images of its own.")
    return model


def _given_samples(
    data: Any,
    resolved: Resolved,
    wanted: list[Precision],
    demands: Demands,
    recipe: dict[str, Any] | None,
) -> Samples:
    if data is None:
        _check_images(wanted)
    return samples_of(
        data,
        resolved.input_shape,
        resolved.preprocessing,
        demands.images,
        _calibrated(wanted, demands),
        _searches(wanted, recipe),
    )


def _check_images(wanted: list[Precision]) -> None:
    for precision in wanted:
        check_calibration(precision, None)


def _calibrated(wanted: list[Precision], demands: Demands) -> int | None:
    return None if all(precision.is_float for precision in wanted) else demands.calibrate


def _searches(wanted: list[Precision], recipe: dict[str, Any] | None) -> bool:
    return recipe is None and any(precision.base for precision in wanted)


def _check_recipe(recipe: str | os.PathLike | None, wanted: list[Precision]) -> None:
    if recipe is not None and not any(precision.base for precision in wanted):
        names = ", ".join(precision.quantize for precision in wanted)
        raise UsageError(f"a recipe is for auto. Received: quantize={names}.")


def _known_recipe(
    recipe: str | os.PathLike | None, wanted: list[Precision], model: str
) -> dict[str, Any] | None:
    _check_recipe(recipe, wanted)
    return None if recipe is None else read_recipe(recipe, model)


def _too_new(wanted: list[Precision], min_runtime: str | None) -> Iterable[tuple[str, str]]:
    """The precisions that the oldest runtime runs no file of, before anything is converted."""
    for precision in wanted:
        try:
            for_runtime(precision, min_runtime)
        except RefusedError as error:
            yield precision.name, str(error)


def _about(resolved: Resolved) -> About:
    if resolved.preprocessing is None:
        raise UsageError(
            "a bundle says how images become the model's input. Received: a model that does not "
            "know; pass preprocessing=keras_vit.Preprocessing(height, width, ...)."
        )
    labels = resolved.labels or tuple(str(i) for i in range(resolved.num_outputs))
    return About(
        resolved.name,
        tuple(labels),
        resolved.preprocessing,
        resolved.parameters,
        hash_of(resolved.weights, resolved.tail),
    )


def _reported(
    folder: Path,
    written: dict[str, dict[str, Any]],
    refused: Mapping[str, str],
    threads: Sequence[int],
    say: Callable[[str], None],
) -> dict[str, Measured]:
    if not written or not threads:
        return {}
    say("measuring: latency in turn, memory and load time on their own")
    files = {name: folder / name / "model.tflite" for name in written}
    measured = measure(files, sorted(set(threads)))
    write_report(folder, written, measured, refused)
    return measured


def _surprise(note: str) -> str:
    """What to tell of a model that is exported as it is where that was not to be expected."""
    if note in ("", NOT_KERAS_VIT, NOT_WANTED):
        return ""
    return f"the model is exported as it is, without exact rewrites: {note}."


def _place(differences: dict[str, float]) -> str:
    """Where a file begins to differ, in words."""
    first = first_difference(differences)
    if first is None:
        return ""
    worst = max(differences, key=differences.get)
    return (
        f" Its layers differ from the float file's by more than a tenth from {first} on, most "
        f"in {worst} ({differences[worst]:.0%})."
    )


def _choice(recipe: dict[str, Any] | None) -> str:
    """What auto had chosen, in words."""
    if recipe is None:
        return ""
    return (
        f" auto left {len(recipe['float_layers'])} layers float, chosen on {recipe['chosen_on']}: "
        "with more images it chooses better."
    )
