"""What each layer of a model costs, counted from its spec without building it.

Of operations only matrix products and convolutions count, a multiplication and an addition as two.
The rest (norms, activations, softmax) is a few percent of a ViT and runs at the speed of the
memory.

The values that the backward pass holds are an estimate. They are multiples of the sizes of a
layer's arrays, and the factors were fitted to what XLA allocates on CPUs for small models; a device
with fused attention needs less. For five other models, from ViT-Pico to BiT-R50x1, the estimate was
0.81 to 1.03 of it.

The memory is computed before training and not measured in the first step, because the number of
parts that a batch is divided into must be known before that step: on a CPU, a step that does not
fit ends the process. On a GPU, the stated memory of a step was 1.04 to 1.35 times JAX's peak for
ViTs and a hybrid whose weights were all trained, and about twice the peak for ResNets
(docs/evidence-training.md, "Estimates before training").
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from keras_vit.encoder.block import transformer_block
from keras_vit.encoder.dense_heads import DENSE_FIELDS
from keras_vit.encoder.embedding import embed
from keras_vit.encoder.encode import encode
from keras_vit.encoder.ops import Ops
from keras_vit.specs import ResNetUnit, Spec, ViTSpec, as_size
from keras_vit.weights.names import weight_names

# How often the backward pass holds the output of an activation, the scores of attention and the
# output of a convolution; it holds the outputs of other layers once.
_ACTIVATION, _SCORES, _CONVOLUTION = 2, 3.5, 4
_PIXEL_SCORES = 3  # those of a segmenter: resized, their softmax, and the gradient
# How often it holds what dropout leaves, by the layer's name, and the same of attention's scores.
_DROPOUT = {"drop_attention": 1, "drop_hidden": 2, "drop_output": 1}
_DROPPED_SCORES = 2


@dataclasses.dataclass(frozen=True)
class LayerCost:
    """The costs of a layer, for one image.

    Attributes:
        name: the layer's name in the model.
        parameters: the number of its weights.
        flops: operations of its matrix products and convolutions in the forward pass; a
            multiplication and an addition are two.
        held: the number of values that the backward pass holds, an estimate.
    """

    name: str
    parameters: int
    flops: int
    held: int


def profile(
    spec: Spec, num_classes: int = 1000, image_size: int | tuple[int, int] = 224
) -> list[LayerCost]:
    """The costs of the layers that have any, from input to output.

    >>> from keras_vit.models.profile import profile
    >>> layers = profile(keras_vit.ViT_S16().spec)
    >>> sum(layer.parameters for layer in layers)
    22050664

    Args:
        spec: the hyperparameters.
        num_classes: number of logits; 0 for no head.
        image_size: input size in pixels, one number or (height, width).
    """
    if spec.dense is not None and not num_classes:
        spec = dataclasses.replace(spec, **DENSE_FIELDS)
    ops = _Counter(spec, num_classes, image_size)
    if isinstance(spec, ViTSpec):
        if spec.stem is not None:
            ops.convolutions(spec.stem.units)
        patches = encode(ops, None, as_map=spec.dense is not None)
        ops.answer_queries(patches) if spec.num_queries else ops.classify(patches)
    else:
        ops.convolutions(spec.units)
        ops.classify((spec.channels,))
    return ops.layers()


def forward_flops(
    spec: Spec, num_classes: int = 1000, image_size: int | tuple[int, int] = 224
) -> dict[str, int]:
    """The operations of each layer that has any for one image, by its name; see `profile`."""
    layers = profile(spec, num_classes, image_size)
    return {layer.name: layer.flops for layer in layers if layer.flops}


def masked_patch_profile(
    spec: ViTSpec, image_size: int | tuple[int, int], values: int
) -> list[LayerCost]:
    """The costs of a `MaskedPatchPredictor` that predicts `values` numbers for each patch.

    The operations of the exchange of patches, a small product, do not count.
    """
    patches = math.prod(spec.grid(image_size))
    images, embedding, *blocks = _encoder(spec, image_size, patches)
    # The embedding of a corrupted patch is a weight.
    embedding = dataclasses.replace(embedding, parameters=embedding.parameters + spec.hidden_dim)
    return [images, embedding, *blocks, _dense("predictions", patches, spec.hidden_dim, values)]


def autoencoder_profile(
    spec: ViTSpec,
    image_size: int | tuple[int, int],
    visible: int,
    decoder_dim: int,
    decoder_depth: int,
    decoder_heads: int,
) -> list[LayerCost]:
    """The costs of a `MaskedAutoencoder`, whose ViT sees `visible` patches of each image.

    The operations of the choice of patches and their order, small products, do not count.
    """
    patches, prefix = math.prod(spec.grid(image_size)), spec.prefix_tokens
    sizes = (spec.patch_size, decoder_dim, 1, decoder_heads, 4 * decoder_dim)
    _, _, block, norm = _encoder(ViTSpec(*sizes, spec.pooling), image_size, patches)
    return [
        *_encoder(spec, image_size, visible),
        _dense("decoder_embedding", visible + prefix, spec.hidden_dim, decoder_dim),
        # The token of a hidden patch, and the positions.
        LayerCost("restored", (1 + prefix + patches) * decoder_dim, 0, 0),
        *(dataclasses.replace(block, name=f"decoderblock_{i}") for i in range(decoder_depth)),
        dataclasses.replace(norm, name="decoder_norm"),
        _dense("predictions", patches, decoder_dim, spec.in_channels * spec.patch_size**2),
    ]


def grouped(layers: Sequence[LayerCost]) -> list[LayerCost]:
    """Layers that follow each other and cost the same, as one: "encoderblock_0 to 11"."""
    joined = []
    for kind, group in itertools.groupby(layers, _kind):
        names = [layer.name for layer in group]
        last = re.search(r"\d+$", names[-1])
        name = f"{names[0]} to {last[0]}" if len(names) > 1 else names[0]
        joined.append(LayerCost(name, *(len(names) * each for each in kind[1:])))
    return joined


class _Counter(Ops):
    """Counts operations and held values by layer; its tensors are the shapes for one image."""

    def __init__(self, spec: Spec, num_classes: int, image_size: int | tuple[int, int]):
        self.spec, self.size = spec, as_size(image_size)
        names = weight_names(spec, num_classes, self.size)
        self.shapes = {weight.path: weight.shape for weight in names}
        self.flops: Counter[str] = Counter()
        self.held = Counter(images=spec.in_channels * math.prod(self.size))

    def layers(self) -> list[LayerCost]:
        """What was counted, and the parameters of all layers."""
        parameters = Counter(images=0)
        for path, shape in self.shapes.items():
            parameters[_layer(path)] += math.prod(shape)
        return [
            LayerCost(name, count, self.flops[name], round(self.held[name]))
            for name, count in parameters.items()
        ]

    def convolutions(self, units: Iterable[ResNetUnit]) -> None:
        """Counts those of a ResNet up to the last unit."""
        size = _halved(self.size)
        self._convolution("conv_root", size)
        size = _halved(size)  # pool_root
        for unit in units:
            after = _halved(size) if unit.strides == 2 else size
            self._convolution(f"{unit.name}/conv1", size)
            self._convolution(f"{unit.name}/conv2", after)
            self._convolution(f"{unit.name}/conv3", after)
            if unit.projects:
                self._convolution(f"{unit.name}/conv_proj", after)
            size = after

    def _convolution(self, path: str, size: tuple[int, int]) -> None:
        kernel = self.shapes[f"{path}/kernel"]
        self.flops[_layer(path)] += 2 * math.prod(size) * math.prod(kernel)
        self.held[_layer(path)] += _CONVOLUTION * math.prod(size) * kernel[-1]

    def classify(self, x: tuple[int, ...]) -> None:
        """Counts the head, also that of two classifiers, each of which reads a half of x.

        The backward pass of a dense head holds the scores of all pixels.
        """
        for path, shape in self.shapes.items():
            if re.fullmatch(r"head/(distillation_)?kernel", path):
                self.flops["head"] += 2 * math.prod(x[:-1]) * math.prod(shape)
                if self.spec.dense is not None:
                    self.held["head"] += _PIXEL_SCORES * math.prod(self.size) * shape[-1]

    def answer_queries(self, patches: tuple[int, ...]) -> None:
        """Counts EoMT's head: upscaled patches, and the class and the mask of each query."""
        queries, (count, width) = self.spec.num_queries, patches
        for path, shape in self.shapes.items():
            if re.fullmatch(r"(head|mask_dense_\d)/kernel", path):
                self.flops[_layer(path)] += 2 * queries * math.prod(shape)
            elif match := re.fullmatch(r"upscaling_(\d)_(conv_transpose|depthwise)/kernel", path):
                larger = count * 4 ** (int(match[1]) + 1)
                places = larger if match[2] == "depthwise" else larger // 4
                self.flops[_layer(path)] += 2 * places * math.prod(shape)
                # The outputs of the convolution and of what follows it: a GELU, or a norm.
                self.held[_layer(path)] += _ACTIVATION * larger * width
        cells = count * self.spec.head_cells**2
        self.flops["head"] += 2 * cells * queries * width  # the products are the masks
        self.held["head"] += _PIXEL_SCORES * cells * queries

    def _hold(self, x: tuple[int, ...], times: float = 1) -> tuple[int, ...]:
        """Counts an array of a block; those of other parts are few."""
        if self.path.startswith("encoderblock_"):
            self.held[_layer(self.path)] += times * math.prod(x)
        return x

    def dense(self, name, x):
        kernel = math.prod(self.shapes[f"{self.path}{name}/kernel"])
        self.flops[_layer(self.path + name)] += 2 * math.prod(x[:-1]) * kernel
        return self._hold((*x[:-1], kernel // x[-1]))

    def norm(self, name, x):
        return self._hold(x)

    def activation(self, name, x):
        return self._hold(x, _ACTIVATION)

    def dropout(self, name, x):
        return self._hold(x, _DROPOUT.get(name, 0) if self.spec.dropout else 0)

    def add(self, name, x, y):
        return self._hold(x)

    def attend(self, query, key, value):
        self.flops[_layer(self.path)] += 4 * query[0] * key[0] * query[-1]
        times = _SCORES + (_DROPPED_SCORES if self.spec.attention_dropout else 0)
        self._hold((self.spec.num_heads, query[0], key[0]), times)
        return self._hold(query)

    def constant(self, name, x):
        return self.shapes[self.path + name][1:]

    def tokens(self, x):
        count = self.spec.prefix_tokens - self.spec.registers
        return (count, x[-1]) if count else None

    def positions(self, x):
        return None, None

    def patches(self, images):
        rows, columns, channels, _ = self.shapes["patch_encoder/projection/kernel"]
        return (math.prod(self.spec.grid(self.size)), rows * columns * channels)

    def scale(self, name, x):
        return x

    def product(self, x, y):
        return x

    def heads(self, x):
        return x

    tanh = rotate = normalized = heads

    def concat(self, parts, axis=1):
        # Tokens after tokens, or the channels of images, which have no other axis here.
        return (sum(part[0] for part in parts), *parts[0][1:])

    def first(self, x, count):
        return (count, x[-1])

    def rest(self, x, count):
        return (x[0] - count, x[-1])

    def mean(self, x):
        return x[1:]

    def flat(self, x):
        return (math.prod(x),)


_AFTER_NORM = ("pooling", "pre_logits", "projection")


def _encoder(spec: ViTSpec, image_size: int | tuple[int, int], patches: int) -> list[LayerCost]:
    """The costs of a ViT up to its last norm, if the blocks see this number of patches."""
    ops = _Counter(spec, 0, image_size)
    ops.part("patch_encoder", embed, None)
    for i in range(spec.depth):
        tokens = (patches + spec.prefix_tokens, spec.hidden_dim)
        ops.part(f"encoderblock_{i}", transformer_block, tokens)
    return [layer for layer in ops.layers() if layer.name not in _AFTER_NORM]


def _dense(name: str, rows: int, inputs: int, units: int) -> LayerCost:
    return LayerCost(name, (inputs + 1) * units, 2 * rows * inputs * units, 0)


def _layer(path: str) -> str:
    return path.partition("/")[0]


def _halved(size: tuple[int, int]) -> tuple[int, int]:
    return -(-size[0] // 2), -(-size[1] // 2)


def _kind(layer: LayerCost) -> tuple[str | int, ...]:
    return re.sub(r"\d+$", "", layer.name), *dataclasses.astuple(layer)[1:]
