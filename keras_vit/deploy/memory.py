"""Returns memory to the system."""

from __future__ import annotations

import contextlib
import ctypes
import gc


def release_memory() -> None:
    """Returns unused memory to the system, before work that needs a lot of it.

    The C library keeps what was freed, here and in TensorFlow: gigabytes after a large model.
    """
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # only glibc has this function
        ctypes.CDLL(None).malloc_trim(0)
