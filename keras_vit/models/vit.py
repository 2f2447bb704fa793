"""The Vision Transformer of Dosovitskiy et al. 2021."""

from __future__ import annotations

import dataclasses
from typing import Any

from keras_vit._errors import UsageError, did_you_mean
from keras_vit._keras import keras, register
from keras_vit.layers import (
    AttentionWeights,
    AveragePooling,
    MAPPooling,
    PatchEncoder,
    Patches,
    TokenPooling,
    TransformerBlock,
)
from keras_vit.specs import Preprocessing, ViTSpec, as_size


@register
class ViT(keras.Model):
    """A functional `keras.Model`: images (batch, height, width, 3) to logits (batch, num_classes).

    It compiles, fits, saves (`.keras`), loads and exports as any Keras model. Layers bear the
    official names: `encoderblock_0` ..., `encoder_norm`, `pre_logits`, `head`.

    Args:
        spec: the hyperparameters.
        num_classes: logits of the zero-initialised head; 0 for no head, which makes the output
            the representation (batch, hidden_dim or representation_dim).
        image_size: input size in pixels, one number or (height, width).
        preprocessing: how images become inputs; default: stretched to the size, [-1, 1].
        head_bias: initial bias of the head (-10 for sigmoid pre-training on ImageNet-21k).

    With `spec.pooling == "none"` the head reads every token: (batch, tokens, num_classes).

    Raises:
        UsageError: the patches do not divide the image, or the preprocessing is for another size.
    """

    def __init__(
        self,
        spec: ViTSpec,
        num_classes: int = 1000,
        image_size: int | tuple[int, int] = 224,
        preprocessing: Preprocessing | None = None,
        head_bias: float = 0.0,
        name: str = "vit",
        **kwargs,
    ):
        if isinstance(num_classes, bool) or not isinstance(num_classes, int) or num_classes < 0:
            raise UsageError(
                "num_classes must be 0 (no head) or a positive integer. "
                f"Received: num_classes={num_classes!r}."
            )
        height, width = as_size(image_size)
        preprocessing = preprocessing or Preprocessing(height, width)
        if (preprocessing.height, preprocessing.width) != (height, width):
            raise UsageError(
                f"preprocessing must be for image_size={height} x {width}. "
                f"Received: {preprocessing.height} x {preprocessing.width}."
            )
        spec.grid((height, width))
        inputs = keras.Input((height, width, 3), name="images")
        outputs = _forward(inputs, spec, num_classes, head_bias)
        super().__init__(inputs=inputs, outputs=outputs, name=name, **kwargs)
        self.spec = spec
        self.num_classes = num_classes
        self.image_size = (height, width)
        self.preprocessing = preprocessing
        self.head_bias = head_bias

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.spec.grid(self.image_size)

    @property
    def inner_names(self) -> list[str]:
        """What `inner` offers, from input to output."""
        blocks = range(self.spec.depth)
        return [
            "patch_embeddings",
            "embedded",
            *(name for i in blocks for name in (f"attention_{i}", f"encoderblock_{i}")),
            "encoded",
            "pre_logits",
            "logits",
        ]

    def inner(self, *names: str) -> keras.Model:
        """A model of the same images and weights whose output is a dict of named inner outputs.

        Args:
            names: of `inner_names`: "patch_embeddings" (batch, patches, hidden_dim), projected;
                "embedded" (batch, tokens, hidden_dim), with class token and positions;
                "attention_{i}" (batch, heads, tokens, tokens), the weights of block i;
                "encoderblock_{i}", its output; "encoded", after the final norm, all tokens;
                "pre_logits", what the head reads; "logits".
        """
        for name in names:
            if name not in self.inner_names:
                raise UsageError(
                    f"no inner output {name!r}; {did_you_mean(name, self.inner_names)}"
                )
        return keras.Model(self.input, {name: self._inner(name) for name in names})

    def _inner(self, name: str):
        if name == "patch_embeddings":
            return self.get_layer("patch_encoder").projection(self.get_layer("patches").output)
        if name.startswith("attention_"):
            block = self.get_layer(f"encoderblock_{name.removeprefix('attention_')}")
            return AttentionWeights(block, name=name)(block.input)
        if name == "logits":
            return self.output
        layer = {
            "embedded": "patch_encoder",
            "encoded": "encoder_norm",
            "pre_logits": "pre_logits" if self.spec.representation_dim else "pooling",
        }.get(name, name)
        if layer == "pooling" and self.spec.pooling == "none":
            layer = "encoder_norm"
        return self.get_layer(layer).output

    def get_config(self) -> dict[str, Any]:
        """The arguments that build this model again, as plain values."""
        return {
            "spec": self.spec.to_dict(),
            "num_classes": self.num_classes,
            "image_size": self.image_size,
            "preprocessing": self.preprocessing.to_dict(),
            "head_bias": self.head_bias,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> ViT:
        """The model of `get_config`, with fresh weights."""
        config = dict(config)
        config["spec"] = ViTSpec.from_dict(config["spec"])
        config["image_size"] = tuple(config["image_size"])
        config["preprocessing"] = Preprocessing.from_dict(config["preprocessing"])
        return cls(**config)


def _forward(images, spec: ViTSpec, num_classes: int, head_bias: float):
    x = Patches(spec.patch_size, name="patches")(images)
    x = PatchEncoder(
        spec.hidden_dim, spec.class_token, spec.position_embedding, name="patch_encoder"
    )(x)
    x = keras.layers.Dropout(spec.dropout, name="dropout")(x)
    for i in range(spec.depth):
        x = TransformerBlock(
            spec.num_heads,
            spec.mlp_dim,
            spec.gelu,
            spec.layer_norm_eps,
            spec.dropout,
            spec.attention_dropout,
            drop_path=spec.drop_path * i / max(spec.depth - 1, 1),
            name=f"encoderblock_{i}",
        )(x)
    x = keras.layers.LayerNormalization(epsilon=spec.layer_norm_eps, name="encoder_norm")(x)
    x = _pool(x, spec)
    if spec.representation_dim:
        x = keras.layers.Dense(
            spec.representation_dim,
            activation="tanh",
            kernel_initializer="lecun_normal",
            name="pre_logits",
        )(x)
    if num_classes:
        # Logits are float32 under every mixed precision policy: losses want them so.
        x = keras.layers.Dense(
            num_classes,
            kernel_initializer="zeros",
            bias_initializer=keras.initializers.Constant(head_bias),
            dtype="float32",
            name="head",
        )(x)
    return x


def _pool(x, spec: ViTSpec):
    if spec.pooling == "token":
        return TokenPooling(name="pooling")(x)
    if spec.pooling == "gap":
        return AveragePooling(name="pooling")(x)
    if spec.pooling == "map":
        return MAPPooling(
            spec.num_heads, spec.mlp_dim, spec.gelu, spec.layer_norm_eps, name="pooling"
        )(x)
    return x


def with_overrides(spec: ViTSpec, overrides: dict[str, Any]) -> ViTSpec:
    """`spec` with some fields replaced; an unknown field raises with the nearest names."""
    fields = [f.name for f in dataclasses.fields(ViTSpec)]
    for name in overrides:
        if name not in fields:
            raise UsageError(f"ViTSpec has no field {name!r}; {did_you_mean(name, fields)}")
    return dataclasses.replace(spec, **overrides)
