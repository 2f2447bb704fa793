"""A run as a folder for a hub: a model card in Markdown, and the weights for other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct, defstruct

from keras_vit import _files, _json
from keras_vit._errors import UsageError
from keras_vit._pages import rendered
from keras_vit.data.sources import source_name
from keras_vit.evaluation.classification import METRICS
from keras_vit.evaluation.hub_folder import LAYOUTS, check_for_hub
from keras_vit.evaluation.results_page import read_results
from keras_vit.runs import AVERAGE, Run
from keras_vit.specs import ViTSpec
from keras_vit.tflite.phone_records import measured_on_phones
from keras_vit.weights import save_weights
from keras_vit.weights.catalogue import find_weights
from keras_vit.weights.published_weights import PublishedWeights

# The settings in the card.
_SHOWN = ("duration", "batch_size", "optimizer", "learning_rate", "augment", "mixup", "seed")
Loaded = dict[str, str]  # why a library cannot load the model, or "", by its name


def write_hub_folder(run: Run, out: Path, name: str, license: str | None = None) -> Path:
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
    folder = "report-average" if (run.path / AVERAGE).is_file() else "report"
    weights, preprocessing = run.recipe.get("weights"), model.preprocessing
    return rendered(
        "evaluation/hub.md.j2",
        run=run,
        model=model,
        is_vit=isinstance(model.spec, ViTSpec),
        name=name,
        loaded=loaded,
        license=license,
        source=source_name(run.recipe["data"]),
        mean=np.atleast_1d(preprocessing.mean).tolist(),
        scale=np.atleast_1d(preprocessing.scale).tolist(),
        published=_published(run),
        weights=weights and Path(weights).name,
        shown=[each for each in _SHOWN if each in run.recipe["recipe"]],
        versions=_versions(run.recipe.get("versions", {})),
        report=read_results(run.path / folder / "report.json", _Report),
        exports=read_results(run.path / "export" / "table.json", _json.Table),
        phones=measured_on_phones(run.path / "export"),
    )


def _versions(versions: dict[str, str]) -> dict[str, str]:
    """The versions of the packages that trained a run, of all that were installed.

    Runs of old versions do not say which Keras and which backend that was; they are left out.
    """
    trained = {"keras_vit", versions.get("keras_flavour"), versions.get("backend"), "python"}
    names = ("keras_vit", "keras", "tf_keras", "tensorflow", "jax", "python")
    return {name: versions[name] for name in names if name in versions.keys() & trained}


def _published(run: Run) -> PublishedWeights | None:
    """The published weights that training began with, if it did."""
    weights = run.recipe.get("weights")
    try:
        return None if weights is None else find_weights(run.spec["model"], weights)
    except UsageError:
        return None


_METRICS = [(metric, float) for metric in METRICS]
_ReportedClass = defstruct("_ReportedClass", [("label", str), *_METRICS, ("support", int)])


class _Report(Struct):
    """report.json of a run's report."""

    images: int
    accuracy: Annotated[float, Meta(ge=0, le=1)]
    classes: list[_ReportedClass]
