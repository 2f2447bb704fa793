"""How far apart runtimes are on one file: what the tolerance of a golden case must allow.

Integers are rounded differently by XNNPACK, by LiteRT's own kernels and by older runtimes, and each
rounding moves what follows. LiteRT's own kernels differ from XNNPACK as older runtimes do
(`benchmarks/runtimes.py`), and they are at hand wherever a file is exported.
"""

from __future__ import annotations

import numpy as np

from keras_vit.deploy.runner import Runner

# Images that are run on both: the slower kernels take a quarter of a second for S/16.
_IMAGES = 16
# TFLite 2.13 to LiteRT 1.4 stay within the largest difference (`benchmarks/runtimes.py`); as much
# again for runtimes that were not tried.
_MARGIN = 2.0


def runtime_tolerance(content: bytes, inputs: np.ndarray, runner: Runner) -> float:
    """How much a score may differ between two runtimes that are both right.

    Args:
        content: the file.
        inputs: images as it takes them (n, height, width, 3); the first few are run.
        runner: the same file, loaded with XNNPACK.
    """
    few = inputs[:: max(len(inputs) // _IMAGES, 1)][:_IMAGES]
    own = Runner(content, xnnpack=False).predict(few)
    return _MARGIN * float(np.abs(own - runner.predict(few)).max())
