"""How much the scores of a file differ between runtimes, for the tolerance in golden.json.

XNNPACK, LiteRT's own kernels and older runtimes round integers differently, and each rounding
changes all later results. LiteRT's own kernels differ from XNNPACK as much as older runtimes do
(`benchmarks/runtimes.py`), and they are available wherever a file is exported.
"""

from __future__ import annotations

import numpy as np

from keras_vit.deploy.inspect.flatbuffer import MappedFile
from keras_vit.deploy.runner import Runner

# Bounds of the number of images that both kernels run, and the weights that they read in all: the
# slower ones take a quarter of a second per image for S/16 (23 MB).
_FEWEST, _MOST, _BYTES = 16, 128, 2**28
# TFLite 2.13 to LiteRT 1.4 stay within the largest difference (`benchmarks/runtimes.py`), other
# clients within 1.2 times that of 128 images (`benchmarks/clients.py`); the margin is for those
# that were not tried.
_MARGIN = 2.0
# Where activations are quantised at run time, few images show less of it: MediaPipe's probabilities
# of 120 images differed by up to 3.8 times as much as those of 16 images between these kernels.
_DYNAMIC_MARGIN = 5.0


def runtime_tolerance(
    content: MappedFile | bytes, inputs: np.ndarray, runner: Runner, dynamic: bool = False
) -> float:
    """How much a score may differ between two correct runtimes.

    Args:
        content: the file or its content.
        inputs: inputs of the file (n, height, width, 3); a few of them are run.
        runner: the same file, loaded with XNNPACK.
        dynamic: whether activations are quantised at run time.
    """
    count = min(max(_FEWEST, _BYTES // len(content)), _MOST)
    few = inputs[:: max(len(inputs) // count, 1)][:count]
    own = Runner(content, xnnpack=False).predict(few)
    margin = _DYNAMIC_MARGIN if dynamic and count < _MOST else _MARGIN
    return margin * float(np.abs(own - runner.predict(few)).max())
