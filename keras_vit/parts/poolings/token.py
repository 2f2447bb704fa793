"""The class token's output (paper, equation 4)."""

from __future__ import annotations

from keras_vit.parts.poolings.pooling import Pooling


def _layer(spec):
    from keras_vit.layers.pooling import TokenPooling

    return TokenPooling(name="pooling")


TOKEN = Pooling(
    class_token=True,
    layer=_layer,
    infer=lambda graph, x: graph.first_tokens(x, 1),
    reads_only_prefix=True,
    averages=True,
)
