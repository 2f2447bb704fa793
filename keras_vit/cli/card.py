"""Writes a model card, and the weights, for a hub.

keras_vit, timm and transformers load the weights. The card says what the model is, how to load it,
what it was trained on, its figures and limits. The figures are those of the last `evaluate` and
`export` of the run.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from keras_vit import evaluation
from keras_vit._errors import UsageError
from keras_vit.cli._arguments import option
from keras_vit.cli._options import check_folder, check_run, open_run
from keras_vit.cli._printing import warn
from keras_vit.cli._program import load, spelled
from keras_vit.evaluation.hub_folder import check_for_hub


def _check_name(name: str, value: str) -> None:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", value):
        raise UsageError(
            f"{name} must be USER/NAME, of letters, digits, dots, - and _. Received: {value!r}."
        )


def _check_license(name: str, value: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9.+-]+", value):
        raise UsageError(
            f"{name} must be an identifier of letters, digits, dots, + and -, such as apache-2.0. "
            f"Received: {value!r}."
        )


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Options of the command."""

    run: Path | None = None
    """The run folder; default: the newest under runs/."""
    name: str = option("USER/MODEL", check=_check_name)
    """The model's name on the hub, which the programs in the card use."""
    license: str | None = option(None, check=_check_license)
    """The identifier of the licence, such as apache-2.0, which the card has in lower case; without
    it the card has none."""
    out: Path | None = None
    """The folder to write; default: hub/ in the run folder."""

    def __post_init__(self):
        check_run(self.run, newest=True)
        check_folder(self.out)
        if self.out is not None:
            check_for_hub(self.out)


def run(arguments: Arguments) -> None:
    """Writes the folder and prints where it is."""
    load("jinja2")

    run = open_run(arguments.run)
    out = arguments.out or run.path / "hub"
    card = evaluation.write_hub_folder(run, out, arguments.name, arguments.license)
    if "No report was written" in card.read_text(encoding="utf-8"):
        warn(f"the card has no figures; write them first with {spelled('evaluate')}.")
    print(f"card: {card}\nupload the whole folder, for example: hf upload {arguments.name} {out}")
