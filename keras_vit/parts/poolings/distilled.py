"""The outputs of a class token and of a distillation token (Touvron et al. 2021, section 4)."""

from __future__ import annotations

from keras_vit.parts.poolings.pooling import Pooling


def _layer(spec):
    from keras_vit.layers.pooling import DistilledPooling

    return DistilledPooling(name="pooling")


DISTILLED = Pooling(
    class_token=True,
    distillation_token=True,
    layer=_layer,
    infer=lambda graph, x: graph.first_tokens(x, 2),
    reads_only_prefix=True,
    averages=True,
)
