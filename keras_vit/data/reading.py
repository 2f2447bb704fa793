"""One line about images that cannot be read any more, where TensorFlow reads them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.data.readers import Encoded
from keras_vit.data.source import Source

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
        reason = _reason(
            source, error.message if is_text else error.object.decode(errors="replace")
        )
        if not reason:
            raise
        raise UsageError(f"{before}{reason}") from error


def states(files: Sequence[Path]) -> np.ndarray:
    """The size and the time of change of each file, int64 (n, 2), for `changed`."""
    found = [file.stat() for file in files]
    return np.array([(each.st_size, each.st_mtime_ns) for each in found], np.int64).reshape(-1, 2)


def changed(files: Sequence[Path], before: np.ndarray) -> str:
    """A line about the first file that is no longer as it was, or "".

    Args:
        files: the files.
        before: their `states` when they were opened.
    """
    for file, (size, time) in zip(files, before.tolist(), strict=True):
        try:
            status = file.stat()
        except OSError as error:
            received = error.strerror
        else:
            if (status.st_size, status.st_mtime_ns) == (size, time):
                continue
            has_other_size = status.st_size != size
            received = (
                f"{status.st_size:,} bytes" if has_other_size else "a file that was changed later"
            )
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
