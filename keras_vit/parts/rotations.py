"""Rotary position embeddings: queries and keys turn by their patch's angles (Su et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keras_vit.parts.grids import Grid, Tokens

# For each kind a function of the grid and of head_dim that returns the angles of each patch, in
# radians (patches, head_dim / 2). They turn the pairs of a head's first and second half.
ROTATIONS: dict[str, Callable[[Grid, int], np.ndarray] | None] = {"none": None}


def rotation_factors(kind: str, tokens: Tokens, head_dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays (1, tokens, 1, head_dim): x * first + exchanged(x) * second is x, turned.

    `exchanged` exchanges the halves of the channels. Tokens before the patches do not turn.
    """
    angles = np.pad(ROTATIONS[kind](tokens.grid, head_dim), ((tokens.prefix, 0), (0, 0)))
    cos, sin = np.cos(angles), np.sin(angles)
    pairs = np.concatenate([cos, cos], -1), np.concatenate([-sin, sin], -1)
    return tuple(each.astype(np.float32)[None, :, None] for each in pairs)
