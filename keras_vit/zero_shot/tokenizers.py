"""From texts to the ids of a text tower, by the tokenizer in its folder.

Sources: transformers `tokenization_clip.py`, `tokenization_siglip.py`, `tokenization_siglip2.py`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from keras_vit import _files
from keras_vit._errors import UsageError, check_installed, one_line

# Gemma's, of 256,000 tokens, has 34 MB.
_MOST_BYTES, _MOST_CONFIG = 128 << 20, 1 << 20
_JSON, _PIECES, _CONFIG = "tokenizer.json", "spiece.model", "tokenizer_config.json"
# The files of a folder of the Hugging Face Hub that are read here.
FILES = (_JSON, _PIECES, _CONFIG)
_SPACE = "\u2581"  # SentencePiece's sign for the beginning of a word
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclasses.dataclass(frozen=True)
class Tokenizer:
    """The tokenizer of a text tower.

    Attributes:
        split: the ids of each text, without those below.
        start, end: the ids before and after them; no start: None.
        pad: the id that fills shorter texts.
        length: the number of ids of each text at most; a longer text loses its last ones.
        pads: where `pad` is put, and that all texts have `length` ids; None where nothing reads
            what follows `end`.
        vocabulary: one more than the largest id.
        sha256: the hash of its file.
    """

    split: Callable[[Sequence[str]], list[list[int]]]
    start: int | None
    end: int
    pad: int
    length: int
    pads: Literal["left", "right"] | None
    vocabulary: int
    sha256: str

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, int]:
        """The ids of texts, and where each of them is read.

        Returns:
            int32 (texts, ids): of `length` ids, or of as many as the longest text has; int32
            (texts,): the place of the first `end`, or, with `pads`, the last one; and the number of
            texts that were cut.
        """
        start = [] if self.start is None else [self.start]
        room = self.length - len(start) - 1
        every = self.split(texts)
        rows = [[*start, *ids[:room], self.end] for ids in every]
        length = self.length if self.pads else max(map(len, rows))
        ids = np.full((len(rows), length), self.pad, np.int32)
        for row, values in zip(ids, rows, strict=True):
            place = length - len(values) if self.pads == "left" else 0
            row[place : place + len(values)] = values
        ends = np.argmax(ids == self.end, axis=1) if self.pads is None else length - 1
        cut = sum(len(ids) > room for ids in every)
        return ids, np.broadcast_to(ends, len(rows)).astype(np.int32), cut


def open_tokenizer(folder: Path, family: Literal["clip", "siglip"], length: int) -> Tokenizer:
    """The tokenizer in the folder of a text tower.

    Args:
        folder: has tokenizer.json or, of the first SigLIP, spiece.model.
        family: the rules of the tower: CLIP's has a start and is read at its end; SigLIP's has only
            an end, is filled to `length` and read at its last place.
        length: the number of ids of each text at most.

    Raises:
        UsageError: the folder has no tokenizer, it is damaged, or lacks the tokens that it needs;
            or `sentencepiece` or `tokenizers` is not installed.
    """
    if family == "siglip" and (folder / _PIECES).is_file():
        return _siglip(folder / _PIECES, length)
    if not (folder / _JSON).is_file():
        raise UsageError(
            f"{folder} has no tokenizer: expected {_JSON}"
            f"{f' or {_PIECES}' if family == 'siglip' else ''} beside the weights."
        )
    return _clip(folder / _JSON, length) if family == "clip" else _siglip2(folder, length)


def _clip(file: Path, length: int) -> Tokenizer:
    tokenizer, common = _of_json(file)
    start, end = (_id(tokenizer, file, f"<|{name}oftext|>") for name in ("start", "end"))
    return Tokenizer(
        _splitting(tokenizer, file), start, end, pad=end, length=length, pads=None, **common
    )


def _siglip2(folder: Path, length: int) -> Tokenizer:
    from tokenizers import normalizers

    tokenizer, common = _of_json(folder / _JSON)
    # The towers were trained on lower case; only the files of some versions say so.
    own = [tokenizer.normalizer] if tokenizer.normalizer else []
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])
    end, pad = (_id(tokenizer, folder / _JSON, name) for name in ("<eos>", "<pad>"))
    side = _padding_side(folder / _CONFIG)
    return Tokenizer(_splitting(tokenizer, folder / _JSON), None, end, pad, length, side, **common)


def _siglip(file: Path, length: int) -> Tokenizer:
    check_installed(["sentencepiece"])
    import sentencepiece

    content = _files.read_bounded(file, _MOST_BYTES)
    try:
        pieces = sentencepiece.SentencePieceProcessor(model_proto=content)
        end, count = pieces.piece_to_id("</s>"), pieces.get_piece_size()
        has_end = pieces.id_to_piece(end) == "</s>"
    except Exception as error:  # of several types
        raise _damaged(file, error) from None
    if not has_end:
        raise UsageError(f"{file} has no token </s>, so it is not SigLIP's tokenizer.")

    # As transformers: after other text, whose ids are removed. Among several ways to divide a word
    # that are equally good, what precedes it can decide.
    before, count_before = "<unk>", len(pieces.encode("<unk>"))

    def split(texts: Sequence[str]) -> list[list[int]]:
        return [
            ids[count_before:] for ids in pieces.encode([before + _canonical(t) for t in texts])
        ]

    sha256 = hashlib.sha256(content).hexdigest()
    return Tokenizer(split, None, end, end, length, "right", count, sha256)


def _canonical(text: str) -> str:
    """The form in which SigLIP was trained: lower case, no punctuation, single spaces."""
    words = re.sub(r"\s+", " ", text.replace(_SPACE, " ").lower().translate(_PUNCTUATION))
    return f"{_SPACE}{words}".strip()


def _of_json(file: Path) -> tuple[Any, dict[str, Any]]:
    check_installed(["tokenizers"])
    import tokenizers

    content = _files.read_bounded(file, _MOST_BYTES)
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(content)
    except Exception as error:  # the package has no type of its own
        raise _damaged(file, error) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    sha256 = hashlib.sha256(content).hexdigest()
    vocabulary = 1 + max(tokenizer.get_vocab().values(), default=-1)
    return tokenizer, {"vocabulary": vocabulary, "sha256": sha256}


def _splitting(tokenizer: Any, file: Path) -> Callable[[Sequence[str]], list[list[int]]]:
    def split(texts: Sequence[str]) -> list[list[int]]:
        try:
            found = tokenizer.encode_batch(list(texts), add_special_tokens=False)
        except Exception as error:  # of a file that cannot divide these texts
            raise _damaged(file, error) from None
        return [each.ids for each in found]

    return split


def _id(tokenizer: Any, file: Path, token: str) -> int:
    found = tokenizer.token_to_id(token)
    if found is None:
        raise UsageError(f"{file} has no token {token}, so it does not belong to these weights.")
    return found


class _Config(msgspec.Struct):
    """What is read of tokenizer_config.json; the other fields are of any size."""

    padding_side: Literal["left", "right"] = "right"


def _padding_side(file: Path) -> Literal["left", "right"]:
    if not file.is_file():
        return _Config().padding_side
    try:
        return msgspec.json.decode(
            _files.read_bounded(file, _MOST_CONFIG), type=_Config
        ).padding_side
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UsageError(f"{file}: {one_line(error)}; download it again.") from None


def _damaged(file: Path, error: Exception) -> UsageError:
    return UsageError(f"{file} is not a tokenizer: {one_line(error)}; download it again.")
