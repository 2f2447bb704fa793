"""How much the scores of a file differ between runtimes, for the tolerance in golden.json.

XNNPACK, LiteRT's own kernels and older runtimes round integers differently, and each rounding
changes all later results. LiteRT's own kernels differ from XNNPACK as much as older runtimes do
(`benchmarks/runtimes.py`), and they are available wherever a file is exported.
"""

from __future__ import annotations

import numpy as np

from keras_vit.deploy.runner import Runner

# Images that both kernels run: the slower ones take a quarter of a second per image for S/16.
_IMAGES = 16
# TFLite 2.13 to LiteRT 1.4 stay within the largest difference (`benchmarks/runtimes.py`); the
# margin is for runtimes that were not tried.
_MARGIN = 2.0


def runtime_tolerance(content: bytes, inputs: np.ndarray, runner: Runner) -> float:
    """How much a score may differ between two correct runtimes.

    Args:
        content: the file.
        inputs: inputs of the file (n, height, width, 3); a few of them are run.
        runner: the same file, loaded with XNNPACK.
    """
    few = inputs[:: max(len(inputs) // _IMAGES, 1)][:_IMAGES]
    own = Runner(content, xnnpack=False).predict(few)
    return _MARGIN * float(np.abs(own - runner.predict(few)).max())
