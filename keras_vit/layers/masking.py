"""Layers that hide patches for self-supervised training: random orders, and what they select.

The first patches of a random order are kept, or corrupted, so that every image has as many of them.
"""

from __future__ import annotations

import math

import numpy as np

from keras_vit._keras import LEGACY, keras, ops, register
from keras_vit.encoder.patch_grids import as_grid
from keras_vit.encoder.positions import sincos_2d
from keras_vit.layers.base import ConfiguredLayer, named_build
from keras_vit.layers.patch_encoder import PatchEncoder


@register
class PatchNoise(ConfiguredLayer):
    """Random numbers for the patches of each image, whose order is a random order of the patches.

    (batch, ...) to float32 (batch, patches). In training they are new in each call; otherwise they
    depend only on the size of the batch, so that evaluations can be compared.

    Args:
        patches: number of patches in an image.
    """

    def __init__(self, patches: int, **kwargs):
        super().__init__(**kwargs)
        self.patches = patches
        # Keras' own layer keeps the state of the random generator, which checkpoints store.
        self.noise = keras.layers.GaussianNoise(1.0, dtype="float32")

    def build(self, input_shape):
        """Creates the state of the random generator, which a resumed run restores."""
        named_build(self.noise, (input_shape[0], self.patches))
        self.built = True

    def call(self, images, training=None):
        """The numbers for `images` (batch, ...)."""
        shape = (ops.shape(images)[0], self.patches)
        if training:
            return self.noise(ops.zeros(shape, dtype="float32"), training=True)
        return ops.stateless_normal(shape) if LEGACY else keras.random.normal(shape, seed=0)

    def compute_output_shape(self, input_shape):
        """(batch, patches)."""
        return input_shape[0], self.patches


@register
class CorruptedPatches(ConfiguredLayer):
    """The tokens of a `PatchEncoder` for patches of which some are corrupted (appendix B.1.2).

    Of the corrupted embeddings, 80% become a learned embedding, 10% that of another patch of the
    same image, chosen at random, and 10% stay as they are, rounded to whole patches. Positions are
    added afterwards.

    Inputs: patches (batch, n, pixels) and noise (batch, n). Outputs: tokens (batch, prefix + n,
    hidden_dim), and 1 for corrupted patches and 0 for others, float32 (batch, n).

    Args:
        encoder: the layer whose weights are used.
        corrupted: number of corrupted patches of an image.
    """

    def __init__(self, encoder: PatchEncoder, corrupted: int, **kwargs):
        super().__init__(autocast=False, **kwargs)  # in half precision, many numbers are equal
        self.encoder, self.corrupted = encoder, corrupted
        self.learned = round(0.8 * corrupted)
        self.exchanged = round(0.9 * corrupted) - self.learned
        self.embedding = None

    def build(self, input_shape):
        """Creates the learned embedding."""
        self.embedding = _token(self, "mask_embedding", self.encoder.hidden_dim)
        self.built = True

    def call(self, inputs):
        """The tokens and the mask of `inputs`, patches and noise."""
        patches, noise = inputs
        count = patches.shape[1]
        x = self.encoder.projection(patches)  # (batch, n, hidden_dim)
        # The place of each patch in the order of the noise, (batch, n).
        place = ops.argsort(ops.argsort(noise, axis=-1), axis=-1)
        other = selected(x, _others(noise, count))
        place = place[..., None]
        x = ops.where(place < self.learned + self.exchanged, other, x)
        x = ops.where(place < self.learned, ops.cast(self.embedding, x.dtype), x)
        return self.encoder.encode(x), ops.cast(place[..., 0] < self.corrupted, "float32")

    def compute_output_shape(self, input_shape):
        """The shapes of both outputs."""
        patches, noise = input_shape
        return self.encoder.compute_output_shape(patches), tuple(noise)


@register
class VisibleTokens(ConfiguredLayer):
    """The tokens of a `PatchEncoder` without those of the hidden patches (He et al. 2022).

    Inputs: patches (batch, n, pixels) and noise (batch, n). Outputs: tokens (batch, prefix +
    visible, hidden_dim) with their positions, the patches in the order of the noise; the place of
    each patch in this order, int (batch, n); and 1 for hidden patches and 0 for others, float32
    (batch, n).

    Args:
        encoder: the layer whose weights are used.
        visible: number of patches of an image that are kept: the first of the order.
    """

    def __init__(self, encoder: PatchEncoder, visible: int, **kwargs):
        super().__init__(autocast=False, **kwargs)  # as above
        self.encoder, self.visible = encoder, visible

    def build(self, input_shape):
        """Nothing: the encoder has its weights."""
        self.built = True

    def call(self, inputs):
        """The outputs for `inputs`, patches and noise."""
        patches, noise = inputs
        order = ops.argsort(noise, axis=-1)
        x = self.encoder(patches)  # (batch, prefix + n, hidden_dim)
        prefix = x.shape[1] - patches.shape[1]
        kept = selected(x[:, prefix:], order[:, : self.visible])
        x = ops.concatenate([x[:, :prefix], kept], axis=1) if prefix else kept
        places = ops.argsort(order, axis=-1)
        return x, places, ops.cast(places >= self.visible, "float32")

    def compute_output_shape(self, input_shape):
        """The shapes of the outputs."""
        patches, noise = map(tuple, input_shape)
        batch, tokens, width = self.encoder.compute_output_shape(patches)
        return (batch, tokens - patches[1] + self.visible, width), noise, noise


@register
class RestoredTokens(ConfiguredLayer):
    """Visible tokens and a learned token for each hidden patch, in raster order, with positions.

    Inputs: tokens (batch, prefix + visible, width) and places (batch, n) of `VisibleTokens`.
    Output: (batch, prefix + n, width). The positions are sines and cosines, zero for the prefix;
    they are a weight that is not trained, as in transformers' `ViTMAEDecoder`.

    Args:
        grid: rows and columns of patches.
        prefix: number of tokens before the patches.
    """

    def __init__(self, grid: tuple[int, int], prefix: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.grid, self.prefix = as_grid(grid), prefix
        self.mask_token = self.positions = None

    def build(self, input_shape):
        """Creates the learned token and the positions."""
        width = input_shape[0][-1]
        self.mask_token = _token(self, "mask_token", width)
        positions = np.zeros((1, self.prefix + math.prod(self.grid), width), np.float32)
        positions[0, self.prefix :] = sincos_2d(self.grid, width, endpoint=False)
        self.positions = self.add_weight(
            shape=positions.shape,
            initializer=lambda shape, dtype=None: ops.convert_to_tensor(positions),
            trainable=False,
            name="positions",
        )
        self.built = True

    def call(self, inputs):
        """The tokens for `inputs`, tokens and places."""
        x, places = inputs
        width = x.shape[-1]
        hidden = places.shape[1] + self.prefix - x.shape[1]
        token = ops.cast(self.mask_token, x.dtype)
        token = ops.broadcast_to(token, (ops.shape(x)[0], hidden, width))
        patches = selected(ops.concatenate([x[:, self.prefix :], token], axis=1), places)
        if self.prefix:
            patches = ops.concatenate([x[:, : self.prefix], patches], axis=1)
        return patches + ops.cast(self.positions, x.dtype)

    def compute_output_shape(self, input_shape):
        """(batch, prefix + n, width)."""
        (batch, _, width), (_, count) = input_shape
        return batch, self.prefix + count, width


def selected(x, places):
    """The rows of `x` (batch, n, width) at `places` (batch, k): (batch, k, width).

    A product with zeros and ones, which every device computes fast, forwards and backwards.
    """
    chosen = ops.one_hot(places, x.shape[1], dtype=x.dtype)  # (batch, k, n)
    return ops.matmul(chosen, x)


def _others(noise, count):
    """For each patch the place of another one, int (batch, n), each of them equally likely.

    The order of the noise is in the first digits of its numbers; the others are as random.
    """
    digits = 64 * noise
    part = ops.minimum(digits - ops.floor(digits), 1 - 1e-6)
    further = 1 + ops.cast(part * (count - 1), "int32")
    return (ops.arange(count) + further) % count


def _token(layer, name: str, width: int):
    normal = keras.initializers.RandomNormal(stddev=0.02)
    return layer.add_weight(shape=(1, 1, width), initializer=normal, name=name)
