"""The base of layers that run a part with options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from keras_vit._keras import keras


class PartLayer(keras.layers.Layer):
    """A layer whose options are keywords, attributes and part of its configuration.

    Attributes:
        options: the names of the options, with their defaults.
    """

    options: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **kwargs):
        chosen = {name: kwargs.pop(name, default) for name, default in self.options.items()}
        super().__init__(**kwargs)
        for name, value in chosen.items():
            setattr(self, name, value)

    def chosen(self, names: Iterable[str]) -> dict[str, Any]:
        """The values of some options."""
        return {name: getattr(self, name) for name in names}

    def get_config(self):
        """The configuration of the base class, and the options."""
        return {**super().get_config(), **self.chosen(self.options)}
