"""A base class for layers that Keras 3 must not quantise because they have no matrix."""

from __future__ import annotations


class StaysFloat:
    """Mixin for layers that `model.quantize` leaves unchanged.

    Without it, Keras warns about every layer without sublayers that has no `quantize` method.
    """

    def quantize(self, mode=None, type_check=True, config=None):
        """Changes nothing."""
