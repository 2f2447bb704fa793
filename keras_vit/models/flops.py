"""Floating-point operations of models, counted from their specs without building them.

Only matrix products and convolutions count, a multiplication and an addition as two operations. The
rest (norms, activations, softmax) is a few percent of a ViT and runs at the speed of the memory.
"""

from __future__ import annotations

from collections.abc import Iterable

from keras_vit.specs import ResNetUnit, Spec, ViTSpec, as_size


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
    layers, _ = _resnet(spec.in_channels, 64 * spec.width, spec.units, size)
    return layers | _head(1, spec.channels, num_classes)


def masked_patch_flops(
    spec: ViTSpec, image_size: int | tuple[int, int], values: int
) -> dict[str, int]:
    """Those of a `MaskedPatchPredictor` that predicts so many values of each patch.

    The exchange of patches, a small product, does not count.
    """
    layers = _encoder(spec, as_size(image_size))
    return layers | {"predictions": _product(_patches(spec, image_size), spec.hidden_dim, values)}


def autoencoder_flops(
    spec: ViTSpec,
    image_size: int | tuple[int, int],
    visible: int,
    decoder_dim: int,
    decoder_depth: int,
    decoder_mlp_dim: int,
) -> dict[str, int]:
    """Those of a `MaskedAutoencoder`, whose ViT sees `visible` patches of each image.

    The choice of patches and their order, small products, do not count.
    """
    layers = _encoder(spec, as_size(image_size), visible)
    tokens = _patches(spec, image_size) + spec.prefix_tokens
    inputs = visible + spec.prefix_tokens
    layers["decoder_embedding"] = _product(inputs, spec.hidden_dim, decoder_dim)
    for i in range(decoder_depth):
        layers[f"decoderblock_{i}"] = _block(tokens, decoder_dim, decoder_mlp_dim)
    patches = _patches(spec, image_size)
    layers["predictions"] = _product(patches, decoder_dim, spec.in_channels * spec.patch_size**2)
    return layers


def _vit(spec: ViTSpec, num_classes: int, size: tuple[int, int]) -> dict[str, int]:
    layers = _encoder(spec, size)
    width, tokens = spec.hidden_dim, _patches(spec, size) + spec.prefix_tokens
    if spec.pooling == "map":
        # One probe attends to all tokens.
        projections = _product(2 + 2 * tokens, width, width)
        scores = 2 * _product(1, width, tokens)
        layers["pooling"] = projections + scores + 2 * _product(1, width, spec.mlp_dim)
    if spec.representation_dim:
        layers["pre_logits"] = _product(1, width, spec.representation_dim)
        width = spec.representation_dim
    classifiers = 2 if spec.distillation_token else 1
    return layers | _head(tokens if spec.pooling == "none" else classifiers, width, num_classes)


def _encoder(spec: ViTSpec, size: tuple[int, int], visible: int | None = None) -> dict[str, int]:
    """The layers up to the last block; with `visible` the blocks see only so many patches."""
    layers: dict[str, int] = {}
    channels = spec.in_channels
    if spec.stem is not None:
        layers, _ = _resnet(channels, spec.stem.root_channels, spec.stem.units, size)
        channels = spec.stem.channels
    patches = _patches(spec, size)
    layers["patch_encoder"] = _product(patches, channels * spec.patch_size**2, spec.hidden_dim)
    tokens = (patches if visible is None else visible) + spec.prefix_tokens
    for i in range(spec.depth):
        layers[f"encoderblock_{i}"] = _block(tokens, spec.hidden_dim, spec.mlp_dim)
    return layers


def _patches(spec: ViTSpec, size: int | tuple[int, int]) -> int:
    rows, columns = spec.grid(size)
    return rows * columns


def _block(tokens: int, width: int, mlp_dim: int) -> int:
    attention = 4 * _product(tokens, width, width) + 2 * _product(tokens, width, tokens)
    return attention + 2 * _product(tokens, width, mlp_dim)


def _resnet(
    inputs: int, root: int, units: Iterable[ResNetUnit], size: tuple[int, int]
) -> tuple[dict[str, int], tuple[int, int]]:
    """The layers up to the last unit, and the size of its output."""
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
    return layers, size


def _head(positions: int, width: int, num_classes: int) -> dict[str, int]:
    return {"head": _product(positions, width, num_classes)} if num_classes else {}


def _product(rows: int, inner: int, columns: int) -> int:
    return 2 * rows * inner * columns


def _convolution(size: tuple[int, int], side: int, inputs: int, outputs: int) -> int:
    return 2 * size[0] * size[1] * side * side * inputs * outputs


def _halved(size: tuple[int, int]) -> tuple[int, int]:
    return -(-size[0] // 2), -(-size[1] // 2)
