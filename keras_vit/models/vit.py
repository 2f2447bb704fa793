"""The Vision Transformer of Dosovitskiy et al. 2021."""

from __future__ import annotations

import math

from keras_vit._keras import keras, register
from keras_vit.encoder.block import BLOCK_OPTIONS
from keras_vit.encoder.embedding import EMBEDDING_OPTIONS, TOKENS
from keras_vit.encoder.poolings import POOLINGS
from keras_vit.layers import (
    AttentionScores,
    DistilledHead,
    GroupNorm,
    PatchEncoder,
    Patches,
    QueryTokens,
    ResidualUnit,
    StdConv,
    TransformerBlock,
)
from keras_vit.layers.pooling import POOLING_LAYERS
from keras_vit.models.dense_head_layers import DENSE_HEAD_LAYERS, patch_tokens
from keras_vit.models.image_model import ImageModel, head
from keras_vit.specs import ResNetStem, ViTSpec


@register
class ViT(ImageModel):
    """A functional `keras.Model`: images to logits (batch, num_classes).

    With a `dense_head` of the spec the output is a dict. Of "linear" it has the "scores" of
    classes, float32 (batch, rows, columns, num_classes), before a resize to the image. Of "eomt" it
    has "masks", logits of the cells of each query, float32 (batch, rows, columns, num_queries),
    and "classes", logits of each query's class (batch, num_queries, num_classes + 1), of which the
    last is "nothing"; attention is never masked.

    Images are (batch, height, width, spec.in_channels).

    It compiles, fits, saves (`.keras`), loads and exports like any Keras model. Layers have the
    official names: `encoderblock_0` ..., `encoder_norm`, `pre_logits`, `head`; a hybrid's stem has
    `conv_root`, `gn_root` and `block1_unit1` ...

    The names for `intermediates` are: "patch_embeddings" (batch, patches, hidden_dim), the
    projected patches; "embedded" (batch, tokens, hidden_dim), with class token and positions;
    "attention_{i}" (batch, heads, tokens, tokens), the attention scores of block i;
    "encoderblock_{i}", the output of block i; "encoded", all tokens after the final norm, if it
    comes before the pooling, with EoMT's queries first; "feature_map" (batch, rows, columns,
    hidden_dim), its patches; "pre_logits", the input of the head; "logits". Hybrids also have
    "gn_root" (batch, height / 2, width / 2, channels), before its relu, and the output of each
    "block{i}_unit{j}".

    Args:
        spec: the hyperparameters.
        num_classes: number of logits of the zero-initialised head. With 0 there is no head, and
            the output is the representation (batch, hidden_dim, representation_dim or
            projection_dim).
        image_size: input size in pixels, one number or (height, width).
        preprocessing: default: images are stretched to the size, pixels scaled to [-1, 1]. None if
            the input has other channels than 1 or 3, because it is not made from pictures.
        labels: the class names, in the order of the logits.
        head_bias: initial bias of the head (-10 for sigmoid pre-training on ImageNet-21k).
        dtype: a dtype policy or its name, such as "mixed_bfloat16", for every layer except the
            head, whose logits are always float32; default: Keras' global policy.
        name: name of the model; default: "vit".

    With `spec.pooling == "none"` the head reads every token: (batch, tokens, num_classes). With
    "distilled" the representation is (batch, 2 * hidden_dim), and the head is a `DistilledHead`.

    Raises:
        UsageError: a keyword is unknown (the message suggests one), the patches do not divide the
            image, the preprocessing is for another size or other channels, or the number of labels
            is not the number of classes.
    """

    spec_type, default_name = ViTSpec, "vit"

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.spec.grid(self.image_size)

    @property
    def intermediate_names(self) -> list[str]:
        """The names that `intermediates` accepts, from input to output."""
        blocks = range(self.spec.depth)
        return [
            *_stem_names(self.spec),
            "patch_embeddings",
            "embedded",
            *(name for i in blocks for name in (f"attention_{i}", f"encoderblock_{i}")),
            "encoded",
            "feature_map",
            "pre_logits",
            *(("logits",) if self.spec.dense is None else self.spec.dense.outputs),
        ]

    def _intermediate(self, name: str):
        if name == "patch_embeddings":
            return self.get_layer("patch_encoder").projection(self.get_layer("patches").output)
        if name.startswith("attention_"):
            block = self.get_layer(f"encoderblock_{name.removeprefix('attention_')}")
            scores = AttentionScores(block, dtype=block.dtype_policy, name=name)
            return scores(block.input)
        if name == "feature_map":
            patches = self._intermediate("encoded")[:, -math.prod(self.grid) :]
            # (batch, patches, hidden_dim) to (batch, rows, columns, hidden_dim)
            return keras.layers.Reshape((*self.grid, self.spec.hidden_dim))(patches)
        if name == "pre_logits" and self.spec.dense is not None:
            name = "patch_tokens"
        elif name == "pre_logits" and self.spec.normalized_features:
            name = "normalized"
        elif name == "pre_logits" and self.spec.projection_dim:
            name = "projection"
        elif name == "pre_logits" and not self.spec.representation_dim:
            pooled = POOLINGS[self.spec.pooling].call and not self.spec.norm_after_pooling
            name = "pooling" if pooled else "encoder_norm"
        last = f"encoderblock_{self.spec.depth - 1}"
        encoded = last if self.spec.norm_after_pooling else "encoder_norm"
        layers = {"embedded": "patch_encoder", "encoded": encoded}
        return super()._intermediate(layers.get(name, name))

    @staticmethod
    def _forward(images, spec: ViTSpec, num_classes: int, head_bias: float):
        grid = spec.grid(tuple(images.shape)[1:3])
        x = images if spec.stem is None else _stem(images, spec.stem)
        x = Patches(spec.patch_size, name="patches")(x)
        settings = {"position_embedding": spec.position_embedding, "grid": grid}
        settings |= {name: name in POOLINGS[spec.pooling].tokens for name in TOKENS}
        settings["registers"] = spec.registers
        settings |= {name: getattr(spec, name) for name in EMBEDDING_OPTIONS}
        x = PatchEncoder(spec.hidden_dim, **settings, name="patch_encoder")(x)
        x = keras.layers.Dropout(spec.dropout, name="dropout")(x)
        sizes = (spec.num_heads, spec.mlp_dim, spec.activation, spec.layer_norm_eps)
        rates = (spec.dropout, spec.attention_dropout)
        positions = (spec.position_embedding, grid, spec.class_token)
        options = {name: getattr(spec, name) for name in BLOCK_OPTIONS}
        queries = spec.num_queries if num_classes else 0
        for i in range(spec.depth):
            if queries and i == spec.depth - spec.query_blocks:
                x = QueryTokens(queries, name="query_tokens")(x)
            drop_path, name = spec.drop_path * i / max(spec.depth - 1, 1), f"encoderblock_{i}"
            x = TransformerBlock(*sizes, *rates, drop_path, *positions, **options, name=name)(x)
        norm = keras.layers.LayerNormalization(epsilon=spec.layer_norm_eps, name="encoder_norm")
        x = x if spec.norm_after_pooling else norm(x)
        if spec.dense is not None:
            layers = DENSE_HEAD_LAYERS[spec.dense_head]
            return layers(x, spec, grid, num_classes) if num_classes else patch_tokens(x, grid)
        if POOLINGS[spec.pooling].call:
            x = POOLING_LAYERS[spec.pooling](spec, "pooling")(x)
        x = norm(x) if spec.norm_after_pooling else x
        if spec.representation_dim:
            x = keras.layers.Dense(
                spec.representation_dim,
                activation="tanh",
                kernel_initializer="lecun_normal",
                name="pre_logits",
            )(x)
        if spec.projection_dim:
            options = {"use_bias": False, "kernel_initializer": "lecun_normal"}
            x = keras.layers.Dense(spec.projection_dim, **options, name="projection")(x)
        if spec.normalized_features:
            # In float32, because squares overflow in half precision.
            x = keras.layers.UnitNormalization(dtype="float32", name="normalized")(x)
        if spec.two_classifiers and num_classes:
            bias = keras.initializers.Constant(head_bias)
            return DistilledHead(num_classes, bias, dtype="float32", name="head")(x)
        return head(x, num_classes, head_bias)


def _stem(images, stem: ResNetStem):
    x = StdConv(stem.root_channels, 7, strides=2, name="conv_root")(images)
    x = GroupNorm(name="gn_root")(x)
    x = keras.layers.ReLU(name="relu_root")(x)
    x = keras.layers.MaxPooling2D(3, 2, "same", name="pool_root")(x)
    for unit in stem.units:
        x = ResidualUnit(unit.features, unit.strides, name=unit.name)(x)
    return x


def _stem_names(spec: ViTSpec) -> list[str]:
    return ["gn_root", *(unit.name for unit in spec.stem.units)] if spec.stem else []
