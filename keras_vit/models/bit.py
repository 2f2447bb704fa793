"""BiT, the ResNet-V2 of Kolesnikov et al. 2020, which is the baseline in the ViT paper."""

from __future__ import annotations

from keras_vit._keras import keras, register
from keras_vit.layers import GroupNorm, PreActivationUnit, StdConv
from keras_vit.layers.std_conv import BIT_CONV
from keras_vit.models.image_model import ImageModel, head
from keras_vit.specs import ResNetSpec


@register
class BiT(ImageModel):
    """A functional `keras.Model`: images to logits (batch, num_classes).

    Images are (batch, height, width, spec.in_channels).

    A ResNet-V2 with group normalisation and standardised convolutions. Layers: `conv_root`,
    `block1_unit1` ..., `group_norm`, `head`. Any image size is allowed.

    The names for `intermediates` are: "conv_root" (batch, height / 2, width / 2, channels);
    "block{i}_unit{j}", the output of each unit; "encoded", after the final norm and relu (batch,
    height / 32, width / 32, channels) if there are four blocks; "feature_map", the same;
    "pre_logits" (batch, channels), the input of the head; "logits". Sizes are rounded up.

    Args:
        spec: the hyperparameters.
        num_classes: number of logits of the zero-initialised head. With 0 there is no head, and
            the output is the representation (batch, channels).
        image_size: input size in pixels, one number or (height, width).
        preprocessing: default: images are stretched to the size, pixels scaled to [-1, 1]. None if
            the input has other channels than 1 or 3, because it is not made from pictures.
        labels: the class names, in the order of the logits.
        head_bias: initial bias of the head (-10 for sigmoid pre-training on ImageNet-21k).
        dtype: a dtype policy or its name, such as "mixed_bfloat16", for every layer except the
            head, whose logits are always float32; default: Keras' global policy.
        name: name of the model; default: "bit".

    Raises:
        UsageError: a keyword is unknown (the message suggests one), the preprocessing is for
            another size or other channels, or the number of labels is not the number of classes.
    """

    spec_type, default_name = ResNetSpec, "bit"

    @property
    def intermediate_names(self) -> list[str]:
        """The names that `intermediates` accepts, from input to output."""
        units = [unit.name for unit in self.spec.units]
        return ["conv_root", *units, "encoded", "feature_map", "pre_logits", "logits"]

    def _intermediate(self, name: str):
        layers = {"encoded": "relu", "feature_map": "relu", "pre_logits": "pooling"}
        return super()._intermediate(layers.get(name, name))

    @staticmethod
    def _forward(images, spec: ResNetSpec, num_classes: int, head_bias: float):
        x = StdConv(64 * spec.width, 7, strides=2, name="conv_root", **BIT_CONV)(images)
        # Not padding="same", which ignores the padding in the maximum. Here the zeros must count.
        x = keras.layers.ZeroPadding2D(1, name="pad_root")(x)
        x = keras.layers.MaxPooling2D(3, 2, "valid", name="pool_root")(x)
        for unit in spec.units:
            x = PreActivationUnit(unit.features, unit.strides, name=unit.name)(x)
        x = GroupNorm(epsilon=1e-5, name="group_norm")(x)
        x = keras.layers.ReLU(name="relu")(x)
        x = keras.layers.GlobalAveragePooling2D(name="pooling")(x)
        return head(x, num_classes, head_bias)
