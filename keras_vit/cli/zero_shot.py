"""Makes a classifier of pictures from a list of words.

The weights are a folder of CLIP, SigLIP or SigLIP 2 with both towers: each label becomes a text,
the text tower turns it into a row of the head, and the image tower with this head is exported as
export does it. What was computed once is read from the cache.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from keras_vit import _checks, deploy
from keras_vit._errors import UsageError, shown
from keras_vit._files import read_lines
from keras_vit.cli._arguments import option
from keras_vit.cli._options import check_data, check_weights
from keras_vit.cli._printing import warn
from keras_vit.cli._program import load
from keras_vit.cli._progress import CountPrinter
from keras_vit.cli.export import PACKAGES, FileOptions, export_trained, save_memory
from keras_vit.deploy.bundle.folder import check_bundles_in
from keras_vit.deploy.precisions import precision_of
from keras_vit.zero_shot.texts import TEMPLATES, check_texts

_QUANTIZE = FileOptions.__dataclass_fields__["quantize"]


@dataclasses.dataclass(frozen=True)
class _ModelOptions:
    """An option of its own class, so that the help shows it before those of files."""

    weights: str | None = None
    """A folder as transformers writes it of CLIP, SigLIP or a SigLIP 2 of a fixed size, with both
    towers and the tokenizer; hf://OWNER/NAME on the Hugging Face Hub; or a published name such as
    google/siglip2-base-patch16-224."""
    labels: Path | None = None
    """A text file with a label in each line. Default: the names of the folders in --data."""
    templates: Path | None = None
    """A text file with a template in each line, which has {} where the label goes; their vectors
    are averaged. Default: those of the bundles to relabel, or 'This is a photo of {}.'"""
    data: str | None = option(None, check=check_data)
    """Labelled pictures to measure the accuracy on, and to measure ranges: a folder with one
    subfolder for each class, whose names are labels, or a source such as 'digits'. Default:
    random images are compared, and there is no accuracy."""
    image_size: int | tuple[int, int] | None = option(None, check=_checks.positive_integer)
    """One number, or height and width, in pixels; positions are resampled. Default: the model's."""
    relabel: Path | None = None
    """A folder of bundles that this command wrote from the same weights: those of --quantize in it
    get these labels, and nothing is converted or quantised again. It may be --out. Default:
    files are converted."""
    out: Path | None = None
    """The folder to write."""


@dataclasses.dataclass(frozen=True)
class Arguments(FileOptions, _ModelOptions):
    """Options of the command."""

    quantize: tuple[str, ...] = option(("float16",), **_QUANTIZE.metadata)
    output: Literal["logits", "probabilities"] | None = None
    """The file's output. Default: what the client needs, or probabilities if there is no client."""

    def __post_init__(self):
        missing = [f"--{name}" for name in ("weights", "out") if getattr(self, name) is None]
        missing += ["--labels"] if self.labels is self.data is None else []
        if missing:
            raise UsageError(
                "expected --weights FOLDER --labels labels.txt --out FOLDER. Received: no "
                f"{' and no '.join(missing)}."
            )
        _check_folder(self.weights)
        super().__post_init__()
        if self.relabel is not None:
            check_bundles_in(self.relabel, [precision_of(name).name for name in self.quantize])


def run(arguments: Arguments) -> None:
    """Makes the classifier and exports it."""
    labels = arguments.labels and _lines(arguments.labels)
    templates = _lines(arguments.templates) if arguments.templates else TEMPLATES
    if labels is not None:
        labels, templates = check_texts(labels, templates)  # before the seconds that imports take
    save_memory()
    load(*PACKAGES, "tokenizers", "sentencepiece")
    import keras_vit
    from keras_vit.data.sources import open_source

    if arguments.relabel and not arguments.templates:
        templates = _templates_of(arguments)
    source = arguments.data and open_source(arguments.data)
    if labels is None:
        labels = source.labels
    elif source:
        source = _with_names_of(source, labels)
    count = "1 template" if len(templates) == 1 else f"{len(templates):,} templates"
    print(f"texts     {len(labels):,} labels, {count}")
    build = functools.partial(
        keras_vit.zero_shot_model,
        arguments.weights,
        labels,
        templates,
        arguments.image_size,
        on_progress=CountPrinter("texts"),
        on_warning=warn,
    )
    if arguments.output is arguments.client is None:
        arguments = dataclasses.replace(arguments, output="probabilities")
    trained = deploy.of_model(build, source)
    export_trained(trained, arguments.out, arguments, relabel=arguments.relabel)


def _templates_of(arguments: Arguments) -> tuple[str, ...]:
    """Those of the bundles to relabel; they are read before the texts, which may take minutes."""
    from keras_vit.deploy.earlier_files import read_words

    names = [precision_of(name).name for name in arguments.quantize]
    [templates, *others] = [read_words(arguments.relabel / n).zero_shot.templates for n in names]
    if any(each != templates for each in others):
        raise UsageError(
            f"{arguments.relabel}: its bundles have different templates; give --templates."
        )
    return tuple(templates)


def _check_folder(weights: str) -> None:
    """Raises a `UsageError` for a run, for a bundle, and for what is nowhere."""
    check_weights(weights if Path(weights).exists() else None, None)
    if Path(weights).exists() or "://" in weights:
        return
    from keras_vit.weights.catalogue import named_weights

    try:
        named_weights(weights)
    except UsageError:
        raise UsageError(
            f"{weights}: there is no such folder, and no published one of this name; others on the "
            "Hugging Face Hub are hf://OWNER/NAME."
        ) from None


def _lines(file: Path) -> tuple[str, ...]:
    """The lines of a file; editors leave empty ones at its end."""
    lines = list(read_lines(file))
    while lines and not lines[-1].strip():
        lines.pop()
    return tuple(lines)


def _with_names_of(source: Any, labels: Sequence[str]) -> Any:
    """The pictures with the labels' spellings of the folders' names, if any is a label.

    Raises:
        UsageError: some folders are labels and others not, so accuracy could not be measured.
    """
    spelled = {label.replace("_", " "): label for label in labels}
    names = [spelled.get(name.replace("_", " ")) for name in source.labels]
    if not any(names):
        print("accuracy  is not measured: no folder of --data is named like a label")
        return source
    if None in names:
        raise UsageError(
            f"--data {source.name}: {shown(source.labels[names.index(None)])} is none of the "
            "labels, so accuracy cannot be measured; add it, or rename the folder."
        )
    if len(names) < len(labels):
        print("accuracy  a picture counts as wrong where a label without pictures is best")
    return dataclasses.replace(source, labels=tuple(names))
