"""Floating-point operations of models, counted from their specs without building them.

Only matrix products and convolutions count, a multiplication and an addition as two operations. The
rest (norms, activations, softmax) is a few percent of a ViT and runs at the speed of the memory.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from keras_vit.parts.block import transformer_block
from keras_vit.parts.embedding import embed
from keras_vit.parts.encoder import encode
from keras_vit.parts.machine import Machine
from keras_vit.specs import ResNetUnit, Spec, ViTSpec, as_size
from keras_vit.weights.names import weight_names


def forward_flops(
    spec: Spec, num_classes: int = 1000, image_size: int | tuple[int, int] = 224
) -> dict[str, int]:
    """The operations of each layer for one image, by the layer's name, from input to output.

    Args:
        spec: the hyperparameters.
        num_classes: number of logits; 0 for no head.
        image_size: input size in pixels, one number or (height, width).
    """
    size = as_size(image_size)
    if isinstance(spec, ViTSpec):
        return _vit(spec, num_classes, size)
    layers = _resnet(spec.in_channels, 64 * spec.width, spec.units, size)
    return layers | _head(1, spec.channels, num_classes)


def masked_patch_flops(
    spec: ViTSpec, image_size: int | tuple[int, int], values: int
) -> dict[str, int]:
    """The operations of a `MaskedPatchPredictor` that predicts `values` numbers for each patch.

    The exchange of patches, a small product, does not count.
    """
    patches = math.prod(spec.grid(image_size))
    layers = _blocks(spec, image_size, patches + spec.prefix_tokens)
    return layers | {"predictions": _product(patches, spec.hidden_dim, values)}


def autoencoder_flops(
    spec: ViTSpec,
    image_size: int | tuple[int, int],
    visible: int,
    decoder_dim: int,
    decoder_depth: int,
    decoder_mlp_dim: int,
) -> dict[str, int]:
    """The operations of a `MaskedAutoencoder`, whose ViT sees `visible` patches of each image.

    The choice of patches and their order, small products, do not count.
    """
    patches, prefix = math.prod(spec.grid(image_size)), spec.prefix_tokens
    layers = _blocks(spec, image_size, visible + prefix)
    layers["decoder_embedding"] = _product(visible + prefix, spec.hidden_dim, decoder_dim)
    block = dataclasses.replace(
        spec,
        hidden_dim=decoder_dim,
        depth=1,
        num_heads=1,
        mlp_dim=decoder_mlp_dim,
        position_embedding="none",
    )
    flops = _blocks(block, image_size, patches + prefix)["encoderblock_0"]
    layers |= {f"decoderblock_{i}": flops for i in range(decoder_depth)}
    layers["predictions"] = _product(patches, decoder_dim, spec.in_channels * spec.patch_size**2)
    return layers


class _Counter(Machine):
    """Counts operations by layer; its tensors are the shapes of those for one image."""

    def __init__(self, spec: ViTSpec, image_size: int | tuple[int, int]):
        names = weight_names(spec, 0, image_size)
        self.sizes = {weight.path: math.prod(weight.shape) for weight in names}
        self.spec, self.patch_count = spec, math.prod(spec.grid(image_size))
        self.flops: dict[str, int] = {}

    def _count(self, path: str, operations: int) -> None:
        layer = path.split("/")[0]
        self.flops[layer] = self.flops.get(layer, 0) + operations

    def dense(self, name, x):
        path = self.path + name
        kernel = self.sizes[f"{path}/kernel"]
        self._count(path, 2 * math.prod(x[:-1]) * kernel)
        return (*x[:-1], kernel // x[-1])

    def norm(self, name, x):
        return x

    scale = activation = norm

    def constant(self, name, x):
        return (self.sizes[self.path + name] // x[-1], x[-1])

    def tokens(self, x):
        return (self.spec.prefix_tokens, x[-1]) if self.spec.prefix_tokens else None

    def positions(self, x):
        return None, None

    def attend(self, query, key, value):
        self._count(self.path, 4 * query[0] * key[0] * query[-1])
        return query

    def patches(self, images):
        inputs = self.sizes["patch_encoder/projection/kernel"] // self.spec.hidden_dim
        return (self.patch_count, inputs)

    def heads(self, x):
        return x

    tanh = rotate = heads

    def add(self, name, x, y):
        return x

    def product(self, x, y):
        return x

    def concat(self, parts):
        return (sum(tokens for tokens, _ in parts), parts[0][-1])

    def first(self, x, count):
        return (count, x[-1])

    def mean(self, x):
        return x[1:]

    def flat(self, x):
        return (math.prod(x),)


def _vit(spec: ViTSpec, num_classes: int, size: tuple[int, int]) -> dict[str, int]:
    m = _Counter(spec, size)
    *positions, width = encode(m, None)
    if spec.distillation_token:  # two classifiers, each of which reads a half
        positions, width = [2], width // 2
    return _stem(spec, size) | m.flops | _head(math.prod(positions), width, num_classes)


def _blocks(spec: ViTSpec, image_size: int | tuple[int, int], tokens: int) -> dict[str, int]:
    """The operations up to the last block, if the blocks see so many tokens."""
    m = _Counter(spec, image_size)
    m.part("patch_encoder", embed, None)
    for i in range(spec.depth):
        m.part(f"encoderblock_{i}", transformer_block, (tokens, spec.hidden_dim))
    return _stem(spec, as_size(image_size)) | m.flops


def _stem(spec: ViTSpec, size: tuple[int, int]) -> dict[str, int]:
    if spec.stem is None:
        return {}
    return _resnet(spec.in_channels, spec.stem.root_channels, spec.stem.units, size)


def _resnet(
    inputs: int, root: int, units: Iterable[ResNetUnit], size: tuple[int, int]
) -> dict[str, int]:
    """The operations up to the last unit."""
    size = _halved(size)
    layers = {"conv_root": _convolution(size, 7, inputs, root)}
    size = _halved(size)  # pool_root
    for unit in units:
        inner, outer = unit.features, 4 * unit.features
        after = _halved(size) if unit.strides == 2 else size
        flops = _convolution(size, 1, unit.inputs, inner) + _convolution(after, 3, inner, inner)
        flops += _convolution(after, 1, inner, outer)
        if unit.projects:
            flops += _convolution(after, 1, unit.inputs, outer)
        layers[unit.name], size = flops, after
    return layers


def _head(positions: int, width: int, num_classes: int) -> dict[str, int]:
    return {"head": _product(positions, width, num_classes)} if num_classes else {}


def _product(rows: int, inner: int, columns: int) -> int:
    return 2 * rows * inner * columns


def _convolution(size: tuple[int, int], side: int, inputs: int, outputs: int) -> int:
    return 2 * size[0] * size[1] * side * side * inputs * outputs


def _halved(size: tuple[int, int]) -> tuple[int, int]:
    return -(-size[0] // 2), -(-size[1] // 2)
