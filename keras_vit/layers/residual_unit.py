"""The bottleneck units of ResNets: post-activation in hybrids, pre-activation in BiT."""

from __future__ import annotations

from typing import Any, ClassVar

from keras_vit._checks import positive_integer
from keras_vit._keras import ops, register
from keras_vit.layers.base import ConfiguredLayer, named_build
from keras_vit.layers.group_norm import GroupNorm
from keras_vit.layers.std_conv import BIT_CONV, StdConv


class _Unit(ConfiguredLayer):
    """Three convolutions, 1x1, 3x3 and 1x1; only the 3x3 one has a stride.

    Args:
        features: channels of the first two convolutions; the output has four times as many.
        strides: stride of the unit, 1 or 2.
    """

    _CONV: ClassVar[dict[str, Any]] = {}
    _EPSILON = 1e-6

    def __init__(self, features: int, strides: int = 1, **kwargs):
        super().__init__(**kwargs)
        self.features = positive_integer("features", features)
        self.strides = positive_integer("strides", strides)
        self.conv_proj = None

    def build(self, input_shape):
        """Creates the convolutions, and a projection if channels or size change."""
        channels, features, outputs = input_shape[-1], self.features, 4 * self.features
        self.conv1 = self._conv("conv1", channels, features, 1)
        self.conv2 = self._conv("conv2", features, features, 3, self.strides)
        self.conv3 = self._conv("conv3", features, outputs, 1)
        if self.strides != 1 or channels != outputs:
            self.conv_proj = self._conv("conv_proj", channels, outputs, 1, self.strides)
        self._add_norms(channels, features, outputs)
        self.built = True

    def compute_output_shape(self, input_shape):
        """(batch, height / strides, width / strides, 4 * features), rounded up."""
        batch, height, width, _ = input_shape
        return batch, -(-height // self.strides), -(-width // self.strides), 4 * self.features

    def _conv(self, name: str, channels: int, filters: int, size: int, strides: int = 1):
        conv = StdConv(filters, size, strides, dtype=self.dtype_policy, name=name, **self._CONV)
        named_build(conv, (None, None, None, channels), self.trainable)
        return conv

    def _norm(self, name: str, channels: int, **settings):
        norm = GroupNorm(epsilon=self._EPSILON, dtype=self.dtype_policy, name=name, **settings)
        named_build(norm, (None, None, None, channels), self.trainable)
        return norm


@register
class ResidualUnit(_Unit):
    """relu(residual + gn3(conv3(relu(gn2(conv2(relu(gn1(conv1(x))))))))), the unit of hybrids.

    (batch, height, width, channels) to (batch, height / strides, width / strides, 4 * features).
    The residual is x, or gn_proj(conv_proj(x)) if channels or size change. The scale of gn3 starts
    at zero, so that a new unit returns relu(residual). Source: the official `models_resnet.py`.

    Args:
        features: channels of the first two convolutions; the output has four times as many.
        strides: stride of the 3x3 convolution and the projection, 1 or 2.
    """

    def call(self, x):
        """Transforms `x` (batch, height, width, channels)."""
        residual = x if self.conv_proj is None else self.gn_proj(self.conv_proj(x))
        y = ops.relu(self.gn1(self.conv1(x)))
        y = ops.relu(self.gn2(self.conv2(y)))
        return ops.relu(residual + self.gn3(self.conv3(y)))

    def _add_norms(self, channels: int, features: int, outputs: int) -> None:
        self.gn1 = self._norm("gn1", features)
        self.gn2 = self._norm("gn2", features)
        self.gn3 = self._norm("gn3", outputs, gamma_initializer="zeros")
        self.gn_proj = self._norm("gn_proj", outputs) if self.conv_proj is not None else None


@register
class PreActivationUnit(_Unit):
    """residual + conv3(relu(gn3(conv2(relu(gn2(conv1(a))))))) with a = relu(gn1(x)), as in BiT.

    (batch, height, width, channels) to (batch, height / strides, width / strides, 4 * features).
    The residual is x, or conv_proj(a) if channels or size change. Source: He et al. 2016 and
    google-research/big_transfer.

    Args:
        features: channels of the first two convolutions; the output has four times as many.
        strides: stride of the 3x3 convolution and the projection, 1 or 2.
    """

    _CONV = BIT_CONV
    _EPSILON = 1e-5

    def call(self, x):
        """Transforms `x` (batch, height, width, channels)."""
        active = ops.relu(self.gn1(x))
        residual = x if self.conv_proj is None else self.conv_proj(active)
        y = ops.relu(self.gn2(self.conv1(active)))
        y = ops.relu(self.gn3(self.conv2(y)))
        return residual + self.conv3(y)

    def _add_norms(self, channels: int, features: int, outputs: int) -> None:
        self.gn1 = self._norm("gn1", channels)
        self.gn2 = self._norm("gn2", features)
        self.gn3 = self._norm("gn3", features)
