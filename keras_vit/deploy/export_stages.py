"""The stages of an export: a model is resolved, converted, quantised and compared with Keras."""

from __future__ import annotations

import dataclasses
import math
import warnings
from pathlib import Path
from typing import Any

from keras_vit.deploy.convert.converter import Converter, MadeFile
from keras_vit.deploy.convert.float_layers import choose_float_layers, read_recipe
from keras_vit.deploy.convert.quantize import check_layers
from keras_vit.deploy.earlier_files import EarlierFiles
from keras_vit.deploy.export_options import ExportOptions
from keras_vit.deploy.graph.mask_outputs import mask_size
from keras_vit.deploy.judge.client_verdict import (
    as_resized_by,
    check_model_for,
    judge_client,
    seen_by,
)
from keras_vit.deploy.judge.judged_file import JudgedFile, check, compared, judge_file
from keras_vit.deploy.precisions import Precision
from keras_vit.deploy.reference_scores import ParityError, Reference, reference_of
from keras_vit.deploy.representative_data import samples_of
from keras_vit.deploy.resolve import NOT_KERAS_VIT, NOT_WANTED, About, Resolved, resolve
from keras_vit.deploy.sample_images import Samples, spread, to_pixels
from keras_vit.deploy.trained_model import TrainedModel
from keras_vit.tflite.processes import release_memory

_RANKED = 8  # images for ranking layers
# Of the outputs that are compared, 0.25 GiB. The comparison has some ten copies of them in memory.
_MOST_VALUES = 1 << 26


def resolved_for(model: Any, options: ExportOptions) -> Resolved:
    """Finds out whether a Keras model or a `TrainedModel` can be exported with these options."""
    name, labels = None, options.labels
    if isinstance(model, TrainedModel):
        name, labels, model = model.name, labels or model.labels, model.load()
    check_model_for(options.wanted_client, model)
    graph = options.graph(model)
    resolved = resolve(model, graph, options.rewrite, labels, options.preprocessing, name)
    if options.recipe is None:
        return resolved
    bases = {precision.base for precision in options.precisions if precision.base}
    recipe = read_recipe(options.recipe, resolved.about.name, bases)
    return dataclasses.replace(resolved, about=dataclasses.replace(resolved.about, recipe=recipe))


def prepared(
    resolved: Resolved, model: Any, data: Any, options: ExportOptions
) -> tuple[Converter | EarlierFiles, Samples]:
    """Computes Keras' scores and writes the graphs; `resolved` is not needed afterwards.

    Args:
        resolved: the result of `resolved_for`.
        model: a `TrainedModel`, which has images, or a Keras model.
        data: representative data of a Keras model; None for random images.
        options: the options of the export.
    """
    release_memory()  # TensorFlow keeps the initial values of weights that were read from a file
    about, earlier = resolved.about, None
    if options.relabel is not None:  # before the scores, which may take minutes
        earlier = EarlierFiles(resolved, Path(options.relabel), options.precisions)
    options = _compared_at_once(resolved, options)
    if isinstance(model, TrainedModel):
        samples = model.samples(options)
    else:
        classes = about.num_outputs if about.options.is_mask else None
        samples = samples_of(data, resolved.input_shape, about.preprocessing, options, classes)
    samples = _scored(resolved, samples, options)
    if options.client and isinstance(model, TrainedModel) and model.source:
        samples = _seen(model, samples, about, options)
    if earlier:
        return earlier, samples  # those that measured the ranges are not compared here either
    options.say("writing the graph")
    converter = Converter(
        resolved, options.quantize, samples.calibration, options.min_runtime, samples.compared
    )
    if converter.about.note not in ("", NOT_KERAS_VIT, NOT_WANTED):
        warnings.warn(
            f"the model is exported as it is, without exact rewrites: {converter.about.note}.",
            stacklevel=3,  # the caller of a public function
        )
    if recipe := about.recipe:
        check_layers(converter.float_file(recipe["base"]), recipe["float_layers"])
    return converter, samples


def _seen(model: TrainedModel, samples: Samples, about: About, options: ExportOptions) -> Samples:
    """The images, with the compared ones also as the client resizes them."""
    client, count = options.wanted_client, len(samples.compared.inputs)
    task, masks = client.tasks[_task(about)], None
    if about.options.is_mask and model.labelled:
        changed = as_resized_by(client, about.preprocessing)
        options = ExportOptions(None, count, preprocessing=changed)
        masks = model.samples(options).compared.targets
    pictures = model.pictures(count)
    return seen_by(client, samples, pictures, about.preprocessing, task.shortest_side, masks)


def _task(about: About) -> str:
    return "segmentation" if about.options.is_mask else "classification"


def _compared_at_once(resolved: Resolved, options: ExportOptions) -> ExportOptions:
    """The options with no more images than whose outputs fit into memory."""
    values = math.prod(_values_of(resolved))
    most = max(_MOST_VALUES // values, 1)
    if options.max_images <= most:
        return options
    options.say(f"comparing at most {most:,} images, because each has {values:,} values")
    return dataclasses.replace(options, max_images=most)


def _values_of(resolved: Resolved) -> tuple[int, ...]:
    """The shape of the file's output for an image."""
    options = resolved.about.options
    if not options.is_mask:
        return resolved.keras.output_shape[1:]
    size = mask_size(resolved.input_shape[:2], resolved.cell, options)
    return size if options.output == "class_map" else (*size, resolved.about.num_outputs)


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
        for_float_layers=samples.for_float_layers and scored(samples.for_float_layers),
        calibration=as_read(samples.calibration),
    )


def judged_file_of(
    converter: Converter | EarlierFiles,
    samples: Samples,
    precision: Precision,
    options: ExportOptions,
) -> JudgedFile:
    """Makes and compares a file; raises a `RefusedError` if it does not meet the options."""
    name, layers, recipe = precision.quantize, options.float_layers, None
    if precision.base and options.relabel is None:
        recipe = converter.about.recipe
        recipe = recipe or _chosen(converter, samples.for_float_layers, precision, options)
        layers = tuple(recipe["float_layers"])
    doing = "converting" if options.relabel is None else "replacing the head"
    options.say(f"{name}: {doing}")
    made = converter.made(name, layers, recipe)
    options.say(f"{name}: comparing with Keras")
    judged = judge_file(made, samples.compared, options.gpu)
    check(judged, options.max_drop, options.min_runtime, options.gpu)
    client = options.wanted_client
    if client is None:
        return judged
    task = _task(made.about)
    options.say(f"{name}: as {client.tasks[task].title} sees it")
    tolerances = judged.score_tolerance, task, judged.most_changed_pixels
    found = judge_client(client, judged.content, samples, *tolerances)
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
