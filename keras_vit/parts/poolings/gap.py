"""The mean of all tokens; there is no class token."""

from __future__ import annotations

from keras_vit.parts.poolings.pooling import Pooling


def _layer(spec):
    from keras_vit.layers.pooling import AveragePooling

    return AveragePooling(name="pooling")


GAP = Pooling(
    class_token=False,
    layer=_layer,
    infer=lambda graph, x: graph.ops.mean(x, axis=1),
    averages=True,
)
