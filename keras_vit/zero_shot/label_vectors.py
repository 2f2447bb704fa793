"""The vectors of class names, by the text tower that was trained with the image tower."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_vit._errors import UsageError, shown
from keras_vit.models.text_tower import text_tower
from keras_vit.weights.hashing import sha256_of_file
from keras_vit.weights.text_weights import TextTower, open_text_tower
from keras_vit.zero_shot.embedding_cache import cached_vectors
from keras_vit.zero_shot.tokenizers import Tokenizer, open_tokenizer

_BATCH = 32
# Of the vectors in the cache: a change of the computation is another number.
_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class LabelTexts:
    """The texts of labels, and the open tower that turns them into vectors.

    Attributes:
        tower: the text tower.
        tokenizer: its tokenizer.
        labels, templates: as for `zero_shot_model`.
        cut: the number of texts that are too long for the tower and lose their ends.
    """

    tower: TextTower
    tokenizer: Tokenizer
    labels: tuple[str, ...]
    templates: tuple[str, ...]
    cut: int

    @property
    def exclusive(self) -> bool:
        """Whether the labels exclude each other, so that the softmax compares them."""
        return self.tower.family == "clip"

    @property
    def width(self) -> int:
        """Of a vector."""
        return self.tower.spec.projection_dim

    @functools.cached_property
    def weights_sha256(self) -> str:
        """The hash of the weights' file, which takes seconds."""
        return sha256_of_file(self.tower.tensors.path)

    def vectors(
        self, on_progress: Callable[[int, int], None], on_warning: Callable[[str], None]
    ) -> np.ndarray:
        """The vector of each label (labels, width): the mean over templates, of length 1.

        Source: Radford et al. 2021, section 3.1.4.

        Args:
            on_progress, on_warning: as for `zero_shot_model`.
        """
        spec, tokenizer = self.tower.spec, self.tokenizer
        files = self.weights_sha256, tokenizer.sha256
        parts = (_FORMAT, *files, tokenizer.pads, self.tower.family, spec)
        key = hashlib.sha256(repr(parts).encode()).hexdigest()
        texts = _texts(self.labels, self.templates)
        options = self.width, self._encoded, on_progress, on_warning
        vectors = _of_length_1(cached_vectors(key, texts, *options).astype(np.float64))
        # (templates * labels, width) to (templates, labels, width)
        vectors = vectors.reshape(len(self.templates), len(self.labels), -1)
        return _of_length_1(vectors.mean(0)).astype(np.float32)

    def _encoded(self, texts: Sequence[str]) -> Iterator[np.ndarray]:
        """The vectors of texts, in groups."""
        ids, ends, _ = self.tokenizer(texts)
        used, ids = np.unique(ids, return_inverse=True)
        ids = ids.reshape(len(texts), -1).astype(np.int32)
        model = text_tower(self.tower.spec, len(used), ids.shape[1])
        self.tower.load_into(model, used)
        for first in range(0, len(texts), _BATCH):
            # The last group is filled, because another size would be compiled again.
            rows = np.minimum(np.arange(first, first + _BATCH), len(texts) - 1)
            vectors = model.predict_on_batch({"ids": ids[rows], "ends": ends[rows]})
            vectors = np.asarray(vectors, np.float32)[: len(texts) - first]
            if not (np.isfinite(vectors).all() and vectors.any(1).all()):
                raise UsageError(
                    f"{self.tower.tensors.path} is damaged: its text tower gives vectors of zeros "
                    "or with values that are not finite."
                )
            yield vectors


@contextlib.contextmanager
def open_label_texts(
    folder: Path, labels: tuple[str, ...], templates: tuple[str, ...]
) -> Iterator[LabelTexts]:
    """Opens the text tower and the tokenizer of a folder, and divides the texts.

    Args:
        folder: of transformers' CLIP or SigLIP, with the tokenizer.
        labels, templates: as for `zero_shot_model`.

    Raises:
        UsageError: the folder has no text tower or no tokenizer, they do not fit each other, or two
            labels are the same text for them.
    """
    with open_text_tower(folder) as tower:
        place = tower.tensors.path.parent
        tokenizer = open_tokenizer(place, tower.family, tower.spec.length)
        _check_fit(tower, tokenizer, place)
        ids, _, cut = tokenizer(_texts(labels, templates))
        _check_different(labels, ids.reshape(len(templates), len(labels), -1), cut)
        found = LabelTexts(tower, tokenizer, labels, templates, cut)
        if found.exclusive and len(labels) < 2:
            raise UsageError(
                "CLIP compares labels with each other, so it needs two or more. Received: 1; add "
                "what else a picture may show."
            )
        yield found


def _texts(labels: Sequence[str], templates: Sequence[str]) -> list[str]:
    # Names of folders often have underscores where texts have spaces.
    words = [label.replace("_", " ") for label in labels]
    return [template.replace("{}", each) for template in templates for each in words]


def _check_fit(tower: TextTower, tokenizer: Tokenizer, place: Path) -> None:
    if tokenizer.vocabulary > tower.vocabulary:
        raise UsageError(
            f"{place}: the tokenizer has {tokenizer.vocabulary:,} tokens and the text tower knows "
            f"{tower.vocabulary:,}; they belong to different models."
        )
    if tower.end_id not in (None, tokenizer.end):
        raise UsageError(
            f"{place}: config.json states that texts end with token {tower.end_id}, and the "
            f"tokenizer ends them with {tokenizer.end}; they belong to different models."
        )


def _check_different(labels: Sequence[str], ids: np.ndarray, cut: int) -> None:
    """Checks that no two labels have the same ids (templates, labels, tokens) in all texts."""
    seen: dict[bytes, str] = {}
    for i, label in enumerate(labels):
        other = seen.setdefault(hashlib.sha256(ids[:, i].tobytes()).digest(), label)
        if other != label:
            why = "without the ends that are too long for it" if cut else "as it reads them"
            raise UsageError(
                f"the labels {shown(other)} and {shown(label)} are the same text for the text "
                f"tower, {why}; remove one of them."
            )


def _of_length_1(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
