"""Finds a token that full integers cannot compute together with the others.

Norms divide each token by the root of its mean square. In a trained ViT a register, the class token
or a patch of background may be some ten times larger than the others (Darcet et al. 2024, arXiv
2309.16588), or have a channel that is hundreds of times larger (Sun et al. 2024, arXiv 2402.17762).
With the one scale that integers have for the mean squares of all tokens, those of the others are
zero. Outlier channels can be balanced (`graph/balance.py`), a token cannot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keras_vit.deploy.judge.layer_differences import values_at
from keras_vit.tflite.flatbuffer import Model, read_graph

# int8 has 255 steps, so that the median token has fewer than 8.
_HEAVY = 32.0


class HeavyToken(NamedTuple):
    """A token that is much larger than the others.

    Attributes:
        norm: the norm where it is largest, such as "encoderblock_3/norm_mlp".
        token: its number. Learned tokens are the first.
        times: its mean square divided by that of the median token.
    """

    norm: str
    token: int
    times: float


def heavy_token(content: Model, images: np.ndarray) -> HeavyToken | None:
    """The heaviest token in a norm of a float32 file; None if none is too heavy for int8.

    Args:
        content: a float32 file of a ViT that was rebuilt.
        images: inputs of the file (n, height, width, 3).
    """
    graph = read_graph(content)
    norms = {graph.layer(o): o.inputs[0] for o in graph.operators if o.name == "RSQRT"}
    heaviest = None
    for (_, norm), squares in values_at(content, norms, images):
        of_tokens = squares.reshape(-1)  # (1, tokens, 1) to (tokens,)
        times = of_tokens / max(np.median(of_tokens), 1e-12)
        if times.max() > (heaviest.times if heaviest else _HEAVY):
            heaviest = HeavyToken(norm, int(times.argmax()), float(times.max()))
    return heaviest
