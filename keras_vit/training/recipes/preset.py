"""A named recipe: its settings, what they reproduce, and what to expect of them."""

from __future__ import annotations

import dataclasses
from typing import Literal

from keras_vit.recipe import Recipe


@dataclasses.dataclass(frozen=True)
class Preset:
    """A recipe with a name: a row of `PRESETS`."""

    recipe: Recipe
    """The settings."""
    model: str = "ViT_Ti16"
    """The model to train if none is chosen."""
    data: str | None = None
    """The source that it is for; None for all sources."""
    weights: str = ""
    """The published weights that it starts from; empty if it starts from random ones."""
    title: str = ""
    """What it is for, in a few words."""
    source: str = ""
    """Where the settings come from: paper, section or table, arXiv number."""
    expected: str = ""
    """The score to expect, with its model."""
    evidence: Literal["published", "measured here", "measured here: not yet"] = (
        "measured here: not yet"
    )
    """Whether the score is the source's, or was reached with this library."""
    cost: str = ""
    """What the training costs."""
    family: str = ""
    """The group in which it is listed."""
    learning_rates: tuple[float, ...] = ()
    """The learning rates that the source tries; `keras-vit sweep` tries them too."""
    development: float = 0.1
    """The fraction of the training images on which the source compares learning rates."""

    def options(self, name: str) -> str:
        """The options of the command `fit` that train it; FOLDER and RUN are the user's own.

        Args:
            name: its name in `PRESETS`.
        """
        given = {
            "--recipe": name,
            "--data": "" if self.data else "FOLDER",
            "--weights": self.weights,
            "--teacher": "" if self.recipe.distillation == "none" else "RUN",
        }
        return " ".join(f"{option} {value}" for option, value in given.items() if value)
