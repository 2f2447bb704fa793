"""Layers that Keras 3 must not quantise, because they have no matrix."""

from __future__ import annotations


class StaysFloat:
    """A second base class for layers that `model.quantize` leaves unchanged.

    Without it, Keras warns about every innermost layer that has no `quantize` method.
    """

    def quantize(self, mode=None, type_check=True, config=None):
        """Changes nothing."""
