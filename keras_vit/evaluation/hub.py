"""A run as a folder for a hub: a model card in Markdown, and the weights for other libraries."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from keras_vit import _contracts, _files
from keras_vit._errors import UsageError
from keras_vit._markdown import code, table_lines
from keras_vit.data.sources import source_name
from keras_vit.evaluation.hub_folder import LAYOUTS, check_for_hub
from keras_vit.runs import AVERAGE, Run
from keras_vit.specs import ViTSpec
from keras_vit.weights import save_weights
from keras_vit.weights.catalogue import find_weights

_MOST_CLASSES = 50  # rows of the table of classes; of more, the ones with the lowest recall
_MOST_NAMES = 20
_FEW = 50  # held-out images of a class below which its recall says little
Loaded = dict[str, str]  # why a library cannot load the model, or "", by its name


def write_hub_folder(
    run: Run,
    out: Path,
    name: str,
    license: str | None = None,
) -> Path:
    """Writes a folder that can be uploaded to a hub, and returns the path of its README.md.

    It holds README.md, the card; model.safetensors and config.json, which timm and keras_vit read;
    and the same for transformers in the folder transformers/. A library that has no such model is
    named in the card with the reason.

    Args:
        run: an opened run folder, whose report (`evaluate`) and exports are part of the card.
        out: the folder; replaced as a whole.
        name: the name of the model on the hub: "USER/NAME".
        license: the identifier of the licence, such as "apache-2.0"; None leaves it open. The card
            has it in lower case, as hubs do.

    Raises:
        UsageError: the run was trained without classes, or see `check_for_hub`.
    """
    run.check_classifies()
    check_for_hub(out)
    model = run.model(average=run.has_average)
    with _files.replacing_folder(out) as folder:
        loaded: Loaded = {}
        for layout, below in LAYOUTS.items():
            file = folder / below / "model.safetensors"
            try:
                file.parent.mkdir(exist_ok=True)
                save_weights(model, file, layout)
                has_model = (file.parent / "config.json").is_file()
                loaded[layout] = "" if has_model else "it has no model with this ResNet"
            except UsageError as error:
                loaded[layout] = str(error).replace(str(file), file.name)
        if not (folder / "model.safetensors").is_file():
            save_weights(model, folder / "weights.npz")
        for below in filter(None, LAYOUTS.values()):
            if not any((folder / below).iterdir()):
                (folder / below).rmdir()
        _files.write_text(folder / "README.md", hub_card(run, model, name, loaded, license))
    return out / "README.md"


def hub_card(run: Run, model: Any, name: str, loaded: Loaded, license: str | None = None) -> str:
    """The card: what the model is, how to load it, its training, figures and limits.

    Texts from folders, such as names of classes, are in code spans, so they are never markup.

    Args:
        run, name, license: see `write_hub_folder`.
        model: the run's model.
        loaded: for timm and transformers, why the library cannot load it; "" if it can.
    """
    report = _report(run)
    sections = {
        "Use": _use(model, name, loaded),
        "Training": _training(run),
        "Figures": _figures(run, report),
        "Limits": _limits(run, report),
        "Citation": _citation(model),
    }
    lines = [
        *_front_matter(run, name, license, report, "keras" if loaded["timm"] else "timm"),
        f"# {name}",
        "",
        _summary(run, model),
    ]
    for title, content in sections.items():
        lines += ["", f"## {title}", "", *content]
    return "\n".join([*lines, ""])


def _front_matter(
    run: Run, name: str, license: str | None, report: _Report | None, library: str
) -> list[str]:
    """The header that hubs read. JSON strings are also YAML."""
    lines = ["---", f"library_name: {library}", "pipeline_tag: image-classification"]
    lines += [f"license: {json.dumps(license.lower())}"] if license else []
    lines += ["tags: [image-classification, keras, keras_vit]"]
    if report is not None:
        data = json.dumps(source_name(run.recipe["data"]))
        lines += [
            "model-index:",
            f"- name: {json.dumps(name)}",
            "  results:",
            "  - task: {type: image-classification}",
            f"    dataset: {{name: {data}, type: {data}}}",
            f"    metrics: [{{type: accuracy, value: {report.accuracy:.4f}}}]",
        ]
    return [*lines, "---", ""]


def _summary(run: Run, model: Any) -> str:
    height, width = model.image_size
    kind = "Vision Transformer" if isinstance(model.spec, ViTSpec) else "ResNet (BiT)"
    names = ", ".join(code(label) for label in run.labels[:_MOST_NAMES])
    more = ", ..." if len(run.labels) > _MOST_NAMES else ""
    return (
        f"A {kind}, {code(run.spec['model'])}, with {model.count_params():,} parameters. Its input "
        f"is {height} x {width} pixels, its classes, {len(run.labels):,}: {names}{more}."
    )


def _use(model: Any, name: str, loaded: Loaded) -> list[str]:
    file = "weights.npz" if loaded["timm"] and loaded["transformers"] else "model.safetensors"
    below = "transformers/" if loaded["timm"] and not loaded["transformers"] else ""
    programs = {
        "keras_vit": f"""
            import keras_vit
            from huggingface_hub import hf_hub_download

            model = keras_vit.model_from_weights(hf_hub_download("{name}", "{below}{file}"))
            scores = model(keras_vit.preprocess("picture.jpg", model))
            print(keras_vit.decode_predictions(scores, model))
            """,
        "timm": f"""
            import timm

            model = timm.create_model("hf-hub:{name}", pretrained=True).eval()
            data = timm.data.resolve_model_data_config(model)
            transform = timm.data.create_transform(**data, is_training=False)
            """,
        "transformers": f"""
            from transformers import AutoImageProcessor, AutoModelForImageClassification

            place = {{"subfolder": "transformers"}}
            processor = AutoImageProcessor.from_pretrained("{name}", **place)
            model = AutoModelForImageClassification.from_pretrained("{name}", **place)
            """,
    }
    lines = []
    for library, program in programs.items():
        if loaded.get(library):
            lines += [f"{library} cannot load it: {code(loaded[library])}.", ""]
        else:
            program = textwrap.dedent(program).strip()
            lines += [f"With {library}:", "", "```python", program, "```", ""]
    return [*lines, _preprocessing(model)]


def _preprocessing(model: Any) -> str:
    of = model.preprocessing
    if of.crop is None:
        resize = "the whole picture is resized to the model's size, which changes its proportions"
    else:
        resize = f"the short side is resized to the model's size / {of.crop:g}, the centre cut out"
    mean, scale = (
        ", ".join(f"{each:g}" for each in np.atleast_1d(values)) for values in (of.mean, of.scale)
    )
    return (
        f"Preprocessing: {resize} ({of.interpolation}, antialiased except with mediapipe and "
        f"nearest); then (pixel - {mean}) / {scale} for pixels from 0 to 255, "
        f"{'RGB' if of.channels == 3 else 'grey (the luma of RGB)'}."
    )


def _training(run: Run) -> list[str]:
    settings = run.recipe["recipe"]
    kept = ("duration", "batch_size", "optimizer", "learning_rate", "augment", "mixup", "seed")
    lines = [
        f"- Images: {code(source_name(run.recipe['data']))}, {run.training_images:,} for training",
        f"- Start: {_start(run)}",
        f"- Recipe: {code(run.recipe.get('preset') or 'settings of its own')}; "
        + ", ".join(f"{name} {code(settings[name])}" for name in kept if name in settings),
    ]
    if run.has_average:
        momentum = run.setting("ema", float)
        lines.append(f"- Weights: their average over the steps, momentum {momentum:g}")
    versions = run.recipe.get("versions", {})
    used = ", ".join(f"{name} {code(versions[name])}" for name in _packages(versions))
    return [*lines, *([f"- Versions: {used}"] if used else [])]


def _packages(versions: dict[str, str]) -> list[str]:
    """The packages that trained a run, of all that were installed.

    Runs of old versions do not say which Keras and which backend that was; they are left out.
    """
    keras, backend = versions.get("keras_flavour"), versions.get("backend")
    trained = [keras] if keras in ("keras", "tf_keras") else []
    trained += [backend] if backend in ("tensorflow", "jax") else []
    return [name for name in ("keras_vit", *trained, "python") if name in versions]


def _start(run: Run) -> str:
    """Where the first weights came from, with the licence of published ones."""
    weights = run.recipe.get("weights")
    if weights is None:
        return "random weights"
    try:
        published = find_weights(run.spec["model"], weights)
    except UsageError:
        return code(Path(weights).name)
    return f"published weights {code(published.name)}, licence {published.licence}"


def _figures(run: Run, report: _Report | None) -> list[str]:
    if report is None:
        return ["No report was written: `keras-vit evaluate` measures the held-out images."]
    lines = [f"Of {report.images:,} held-out images, {report.accuracy:.2%} are right.", ""]
    classes = sorted(report.classes, key=lambda each: each.recall)[:_MOST_CLASSES]
    if len(report.classes) > _MOST_CLASSES:
        lines += [f"The {_MOST_CLASSES} classes with the lowest recall:", ""]
    else:
        classes = report.classes
    rows = [
        [code(c.label), f"{c.precision:.2%}", f"{c.recall:.2%}", f"{c.f1:.2%}", f"{c.support:,}"]
        for c in classes
    ]
    lines += table_lines(["class", "precision", "recall", "f1", "images"], rows)
    return [*lines, *_exports(run.path / "export" / "table.json")]


def _exports(path: Path) -> list[str]:
    """The exported files with their accuracy, if there are any."""
    if not path.is_file():
        return []
    table = _files.read_record(path, _contracts.Table, format=1)
    rows = [
        [
            code(row.name or row.precision),
            "-" if row.accuracy is None else f"{row.accuracy:.2%}",
            f"{row.bytes / 2**20:.2f}",
        ]
        for row in table.rows
    ]
    note = f"As TFLite files, on {table.images:,} of the held-out images:"
    return ["", note, "", *table_lines(["file", "accuracy", "MiB"], rows)]


def _limits(run: Run, report: _Report | None) -> list[str]:
    lines = [
        "- It answers with one of its classes for every picture, also for one of something else.",
        "- The held-out images come from the same collection as the training images. Pictures of "
        "other cameras, places or times may be recognised less often; this was not measured.",
    ]
    if report is None:
        return lines
    missed = [c.label for c in report.classes if c.support and not c.recall]
    few = [c.label for c in report.classes if c.support < _FEW]
    if missed:
        lines.append(f"- Never recognised among the held-out images: {_listed(missed)}.")
    if few:
        lines.append(
            f"- Judged on fewer than {_FEW} held-out images, so that their figures are uncertain: "
            f"{_listed(few)}."
        )
    return lines


def _listed(labels: list[str]) -> str:
    more = f" and {len(labels) - _MOST_NAMES:,} more" if len(labels) > _MOST_NAMES else ""
    return ", ".join(map(code, labels[:_MOST_NAMES])) + more


def _citation(model: Any) -> list[str]:
    if isinstance(model.spec, ViTSpec):
        return [
            "Dosovitskiy et al., An Image is Worth 16x16 Words: Transformers for Image Recognition "
            "at Scale, ICLR 2021, arXiv 2010.11929.",
        ]
    return [
        "Kolesnikov et al., Big Transfer (BiT): General Visual Representation Learning, ECCV 2020, "
        "arXiv 1912.11370.",
    ]


class _ReportedClass(Struct):
    label: str
    precision: float
    recall: float
    f1: float
    support: int


class _Report(Struct):
    """report.json of a run's report."""

    images: int
    accuracy: Annotated[float, Meta(ge=0, le=1)]
    classes: list[_ReportedClass]


def _report(run: Run) -> _Report | None:
    """report.json of the weights that are uploaded, if `evaluate` wrote it."""
    folder = "report-average" if (run.path / AVERAGE).is_file() else "report"
    path = run.path / folder / "report.json"
    if not path.is_file():
        return None
    return _files.read_record(path, _Report, format=1)
