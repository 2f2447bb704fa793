"""One line about images that cannot be read any more, where TensorFlow reads them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.data.picture_index import state_of
from keras_vit.data.source import Encoded, Source

# What TensorFlow's message contains if an image could not be read, by Python or by itself. These
# reasons name the file ...
_NAMED = (
    r"(UsageError|FileNotFoundError|PermissionError|IsADirectoryError): .*"
    r"|[^{}\n]*; (No such file or directory|Permission denied|Is a directory)"
)
# ... and these do not.
_UNNAMED = (
    r"Invalid (JPEG|PNG) data|Unknown image file format|(corrupted|truncated) record at \d+"
    r"|Dataset was empty|Could not parse example|Feature: \S+ .* could not be found"
)


@contextlib.contextmanager
def naming_unreadable(source: Source, before: str = "") -> Iterator[None]:
    """A context in which batches of the source are read.

    Args:
        source: the images.
        before: the beginning of the message.

    Raises:
        UsageError: an image was deleted, damaged or replaced since the source was opened. Other
            errors of TensorFlow, such as too little memory on an accelerator, stay as they are.
    """
    import tensorflow as tf

    try:
        yield
    except tf.errors.ResourceExhaustedError:
        raise
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        # TensorFlow's message may quote the bytes of a file, which need not be text.
        is_text = not isinstance(error, UnicodeDecodeError)
        message = error.message if is_text else error.object.decode(errors="replace")
        reason = _reason(source, message)
        if not reason:
            raise
        raise UsageError(f"{before}{reason}") from error


def in_memory(values: Any) -> Any:
    """A tensor in main memory, outside of any graph, which must not hold a copy."""
    import tensorflow as tf

    with tf.init_scope(), tf.device("CPU:0"):
        return tf.constant(values)


def changed(files: Sequence[Path], before: np.ndarray) -> str:
    """A line about the first file that is no longer as it was, or "".

    Args:
        files: the files.
        before: the `state_of` each when they were opened.
    """
    for file, (size, time) in zip(files, before.tolist(), strict=True):
        received = "a file that was changed later"
        try:
            now = state_of(file)
            if now == (size, time):
                continue
            if now[0] != size:
                received = f"{now[0]:,} bytes"
        except OSError as error:
            received = error.strerror
        return (
            f"{file}: expected the file of {size:,} bytes that was there when the data was opened. "
            f"Received: {received}; put it back, or start again."
        )
    return ""


def _reason(source: Source, message: str) -> str:
    if isinstance(source.image, Encoded) and (fault := source.image.fault(message)):
        return fault
    if named := re.search(_NAMED, message):
        return named[0]
    if unnamed := re.search(_UNNAMED, message):
        return f"{source.locator}: an image cannot be read ({unnamed[0]}); write its file again."
    return ""
