"""Downloads a model's folder from the Hugging Face Hub, with the Hub's own client and its cache.

What transformers or timm has downloaded is therefore not downloaded again. The client reads
HF_TOKEN, HF_HOME, HF_ENDPOINT and HF_HUB_OFFLINE.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Sequence
from pathlib import Path

from keras_vit._errors import UsageError, check_installed
from keras_vit.weights.download import is_offline
from keras_vit.weights.hashing import sha256_of_file

WEIGHTS = "model.safetensors"
FILES = ("config.json", "preprocessor_config.json", "processor_config.json", WEIGHTS)
_URL = re.compile(r"hf://([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?", re.ASCII)


def fetch_folder(url: str, sha256: str | None = None, further: Sequence[str] = ()) -> Path:
    """The folder of a model on the Hub, in the cache of the Hub's client: configs and weights.

    What is in the cache is used as it is, also if its owner has changed a branch since.

    Args:
        url: "hf://OWNER/NAME", or "hf://OWNER/NAME@REVISION" of a branch, a tag or a commit.
        sha256: the expected hash of model.safetensors, in hexadecimal.
        further: names of other files, of which the folder may lack all but one.

    Raises:
        UsageError: there is no such folder, its licence is not accepted, it has no
            model.safetensors or one with another hash, the network fails, or `KERAS_VIT_OFFLINE` is
            set and the folder is not in the cache; or huggingface_hub is not installed.
    """
    parts = _URL.fullmatch(url)
    if parts is None:
        raise UsageError(f"expected hf://OWNER/NAME or hf://OWNER/NAME@REVISION. Received: {url}.")
    check_installed(["huggingface_hub"])
    try:
        weights = _downloaded(*parts.groups(), further) / WEIGHTS
    except Exception as error:  # the errors of connections depend on the client's version
        raise UsageError(f"{url}: {_reason(parts[1], error)}") from None
    if not weights.is_file():
        raise UsageError(
            f"{url} has no {WEIGHTS}: its weights are pickles, which are never read, or in several "
            f"files; load them with the library that wrote them and save them as one {WEIGHTS}."
        )
    if sha256 is not None and (received := sha256_of_file(weights)) != sha256:
        raise UsageError(
            f"{weights} has another sha256 than expected: {received}, not {sha256}; delete "
            f"it and try again. If its owner has replaced it, the weights {url!r} accept any."
        )
    return weights.parent


def _downloaded(name: str, revision: str | None, further: Sequence[str]) -> Path:
    """The folder, which is in the cache or downloaded now."""
    from huggingface_hub import errors, snapshot_download

    files = [*FILES, *further]
    fetch = functools.partial(snapshot_download, name, revision=revision, allow_patterns=files)
    with contextlib.suppress(errors.LocalEntryNotFoundError):
        folder = Path(fetch(local_files_only=True))
        has_further = not further or any((folder / file).is_file() for file in further)
        if has_further and (folder / WEIGHTS).is_file():
            return folder
    if is_offline():
        raise errors.LocalEntryNotFoundError(f"{WEIGHTS} is not in the cache")
    return Path(fetch())


def _reason(name: str, error: Exception) -> str:
    from huggingface_hub import errors

    line = next(iter(str(error).strip().splitlines()), "")
    page = f"https://huggingface.co/{name}"
    login = "log in with 'hf auth login', or set HF_TOKEN"
    if isinstance(error, errors.HFValidationError):
        return f"the Hub has no such names: {line}"
    if isinstance(error, errors.GatedRepoError):
        return f"its licence must be accepted first, on {page}; then {login}."
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"there is no such model on the Hub, or it is private; if it is yours, {login}."
    if isinstance(error, errors.RevisionNotFoundError):
        return "there is no such revision of it."
    if isinstance(error, errors.LocalEntryNotFoundError):
        return (
            "it is not in the cache and the Hub cannot be reached; download it where there is a "
            f"network with 'hf download {name} --local-dir FOLDER', and pass the folder as weights."
        )
    return f"the download failed ({type(error).__name__}: {line}); try again, it is continued."
