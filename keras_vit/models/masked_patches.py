"""Masked patch prediction, the paper's self-supervision (appendix B.1.2)."""

from __future__ import annotations

import math
from typing import Any, Literal

from keras_vit._checks import choice
from keras_vit._keras import building, keras, register
from keras_vit._masked import CELLS, check_cells, check_colours, check_plain, masked_count
from keras_vit.layers.masking import CorruptedPatches
from keras_vit.models.vit import ViT
from keras_vit.specs import ViTSpec

PatchTarget = Literal["colour", "colours", "pixels"]
COLOURS = 512  # three bits for each of three channels


@register
class MaskedPatchPredictor(keras.Model):
    """A ViT that predicts the patches whose embeddings were corrupted.

    Inputs are a dict of `images` (batch, height, width, c), preprocessed for the ViT, and `noise`
    (batch, patches), whose order chooses the corrupted patches: see `CorruptedPatches`. Outputs are
    a dict of `predictions` (batch, patches, values), float32, and `mask` (batch, patches), 1 where
    a patch was corrupted.

    The values of a patch are, by `target`:

    - "colour": the logits of its mean colour, out of 512 with three bits for each channel;
    - "colours": those of each of 4 x 4 cells, 16 times 512;
    - "pixels": its pixels in the order of `Patches`, as in the ViT's input.

    Args:
        vit: the model to train, whose layers and weights are used. Its head has no part in it.
        target: what is predicted.
        corrupted: the fraction of corrupted patches.

    Raises:
        UsageError: the ViT is a hybrid or its input has no colours, or patches cannot be divided
            into 4 x 4 cells.
    """

    def __init__(
        self,
        vit: ViT,
        target: PatchTarget = "colour",
        corrupted: float = 0.5,
        name: str = "masked_patch_predictor",
    ):
        check_masked_vit(vit)
        choice("target", target, ("colour", "colours", "pixels"))
        if target != "pixels":
            check_colours(vit.spec)
        if target == "colours":
            check_cells(vit.spec)
        count = masked_count(vit.grid, corrupted)
        with building:
            inputs = masked_inputs(vit)
            corrupt = CorruptedPatches(vit.get_layer("patch_encoder"), count, name="corrupted")
            x, mask = corrupt([vit.get_layer("patches")(inputs["images"]), inputs["noise"]])
            x = encoded(vit, x)[:, vit.spec.prefix_tokens :]  # (batch, patches, hidden_dim)
            predictions = keras.layers.Dense(
                values_of(target, vit.spec),
                kernel_initializer="glorot_uniform",
                dtype="float32",
                name="predictions",
            )(x)
            super().__init__(inputs, {"predictions": predictions, "mask": mask}, name=name)
        object.__setattr__(self, "_vit", lambda: vit)  # not tracked: its head is not trained
        self.target, self.corrupted = target, corrupted

    def get_config(self) -> dict[str, Any]:
        """The arguments that build this model again, with the ViT's."""
        vit = keras.saving.serialize_keras_object(self._vit())
        return {"vit": vit, "target": self.target, "corrupted": self.corrupted, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> MaskedPatchPredictor:
        """The model that `get_config` describes, with new weights."""
        vit = keras.saving.deserialize_keras_object(config["vit"], custom_objects)
        return cls(**{**config, "vit": vit})


def values_of(target: PatchTarget, spec: ViTSpec) -> int:
    """The number of values that are predicted for a patch."""
    return {
        "colour": COLOURS,
        "colours": CELLS**2 * COLOURS,
        "pixels": spec.in_channels * spec.patch_size**2,
    }[target]


def check_masked_vit(vit: ViT) -> None:
    """Raises a `UsageError` unless the model is a ViT that cuts its patches from the image."""
    check_plain(getattr(vit, "spec", None), getattr(vit, "name", type(vit).__name__))


def masked_inputs(vit: ViT) -> dict[str, Any]:
    """The symbolic inputs: images, and noise for their patches."""
    return {
        "images": keras.Input(vit.input_shape[1:], name="images"),
        "noise": keras.Input((math.prod(vit.grid),), name="noise"),
    }


def encoded(vit: ViT, x):
    """Tokens (batch, tokens, hidden_dim) through the blocks and the final norm of a ViT."""
    x = vit.get_layer("dropout")(x)
    for i in range(vit.spec.depth):
        x = vit.get_layer(f"encoderblock_{i}")(x)
    return vit.get_layer("encoder_norm")(x)
