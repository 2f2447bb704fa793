"""The vectors of texts on disk, because a text tower takes up to a second for each."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_vit import _files
from keras_vit._errors import UsageError
from keras_vit.weights.cache import cache_folder

_MOST_TEXTS = 200_000  # of one tower: 600 MB of vectors of 768 numbers
_SECONDS = 30  # between two times that they are saved
# A function of texts that yields their vectors in groups.
Encode = Callable[[Sequence[str]], Iterator[np.ndarray]]


def cached_vectors(
    tower: str,
    texts: Sequence[str],
    width: int,
    encode: Encode,
    on_progress: Callable[[int, int], None],
    on_warning: Callable[[str], None],
) -> np.ndarray:
    """The vectors (texts, width) of texts; only those that are not in the cache are computed.

    Those that are computed are saved from time to time, also if this is interrupted. If they cannot
    be saved, that is a warning.

    Args:
        tower: a hash of all that the vectors depend on besides the texts.
        texts: the texts.
        width: of a vector.
        encode: computes vectors, float32.
        on_progress: called with the numbers of finished texts and of all texts.
        on_warning: called with a sentence.
    """
    file = cache_folder() / "texts" / f"{tower}.npz"
    digests = {text: hashlib.sha256(text.encode()).digest() for text in texts}
    known, new, saved = _read(file, width), {}, time.monotonic()
    missing = [text for text, digest in digests.items() if digest not in known]
    places = iter(missing)
    on_progress(len(digests) - len(missing), len(digests))
    try:
        for vectors in encode(missing) if missing else ():
            new |= {digests[next(places)]: vector for vector in vectors}
            on_progress(len(digests) - len(missing) + len(new), len(digests))
            if time.monotonic() - saved > _SECONDS and len(new) < len(missing):
                _write(file, width, new, lambda _: None)
                saved = time.monotonic()
    finally:
        _write(file, width, new, on_warning)
    known |= new
    return np.stack([known[digests[text]] for text in texts])


def _read(file: Path, width: int) -> dict[bytes, np.ndarray]:
    """The vectors by the hashes of their texts; {} if there is no whole file of this width."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            digests, vectors = arrays["digests"], arrays["vectors"]
    except Exception:  # whatever a damaged file raises: the vectors are computed again
        return {}
    fits = (digests.dtype, digests.shape) == (np.uint8, (len(vectors), _DIGEST))
    if not fits or (vectors.dtype, vectors.shape[1:]) != (np.float32, (width,)):
        return {}
    if not (np.isfinite(vectors).all() and vectors.any(1).all()):
        return {}
    return dict(zip(map(bytes, digests), vectors, strict=True))


_DIGEST = hashlib.sha256().digest_size


def _write(
    file: Path,
    width: int,
    new: dict[bytes, np.ndarray],
    on_warning: Callable[[str], None],
) -> None:
    if not new:
        return
    # Another process may have added some since.
    latest = list((_read(file, width) | new).items())[-_MOST_TEXTS:]
    digests = np.stack([np.frombuffer(digest, np.uint8) for digest, _ in latest])
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with _files.replacing(file) as temporary, temporary.open("wb") as stream:
            np.savez(stream, digests=digests, vectors=np.stack([vector for _, vector in latest]))
    except (OSError, UsageError) as error:  # a full disk, a folder that cannot be written
        on_warning(f"the vectors of texts are not kept, {file} cannot be written: {error}")
