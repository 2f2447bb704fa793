"""What `model.quantize` of Keras 3 finds in layers that have no matrix to quantise."""

from __future__ import annotations


class StaysFloat:
    """A base beside `keras.layers.Layer` for layers that `model.quantize` leaves as they are.

    Keras warns of every innermost layer that has no `quantize` of its own.
    """

    def quantize(self, mode=None, type_check=True, config=None):
        """Changes nothing."""
