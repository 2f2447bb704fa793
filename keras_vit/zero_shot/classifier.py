"""Image classifiers from names of classes, without training."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.models.pretrained import locate, model_from_weights
from keras_vit.models.vit import ViT
from keras_vit.zero_shot.label_vectors import open_label_texts
from keras_vit.zero_shot.texts import TEMPLATES, check_texts
from keras_vit.zero_shot.tokenizers import FILES


def zero_shot_model(
    weights: str | os.PathLike,
    labels: Sequence[str],
    templates: Sequence[str] = TEMPLATES,
    image_size: int | tuple[int, int] | None = None,
    *,
    name: str | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    on_warning: Callable[[str], None] = warnings.warn,
) -> ViT:
    """A classifier of these labels: the image tower, and a head that its text tower computes.

    It is an ordinary model with `normalized_features` and can be saved, exported and trained. Its
    logits are those of transformers' CLIPModel and SiglipModel: scale * cosine + bias.

    >>> model = keras_vit.zero_shot_model("siglip2", ["a cat", "a dog"])
    >>> scores = model.predict(keras_vit.preprocess("photo.jpg", model), verbose=0)
    >>> [(best, _)] = keras_vit.decode_predictions(scores, model, top=2)
    >>> best[0] in model.labels
    True

    Args:
        weights: a folder as transformers writes it of CLIP, SigLIP or a SigLIP 2 of a fixed size,
            with both towers and the tokenizer; "hf://OWNER/NAME" on the Hugging Face Hub; or a
            published name such as "google/siglip2-base-patch16-224".
        labels: the names of the classes. An underscore is a space in their texts.
        templates: the texts to put them into, in place of "{}". Several are averaged.
        image_size: as in `create_model`.
        name: name of the model; default: that of the image tower.
        on_progress: called with the numbers of finished texts and of all texts. What was computed
            once is read from the cache.
        on_warning: called with a sentence, if texts are cut or the cache cannot be written.

    Returns:
        The model. Its head_activation is "softmax" for CLIP, whose labels are compared with each
        other, and "sigmoid" for SigLIP, where each label is judged by itself.

    Raises:
        UsageError: a label is empty or there twice, also for the tower, which may read lower case
            only; a template lacks "{}"; the folder has no text tower or no tokenizer, or they do
            not fit each other.
        MissingPackageError: `tokenizers` or `sentencepiece` is not installed.
    """
    labels, templates = check_texts(labels, templates)
    folder, _ = locate(weights, further=FILES)
    with open_label_texts(folder, labels, templates) as texts:
        if texts.cut:
            on_warning(
                f"{texts.cut:,} of {len(labels) * len(templates):,} texts are longer than the "
                f"{texts.tower.spec.length} tokens that the text tower reads, and lose their ends."
            )
        # Before the texts, which may take minutes.
        model = model_from_weights(
            folder,
            len(labels),
            image_size,
            labels=labels,
            name=name,
            normalized_features=True,
            head_activation="softmax" if texts.exclusive else "sigmoid",
            # CLIP projects images too; SigLIP's pooling has that width already.
            projection_dim=texts.width if texts.exclusive else None,
        )
        head, tower = model.get_layer("head"), texts.tower
        if head.kernel.shape[0] != texts.width:
            raise UsageError(
                f"{folder}: its images have {head.kernel.shape[0]} features and its texts "
                f"{texts.width}, so they cannot be compared."
            )
        vectors = texts.vectors(on_progress, on_warning)
    head.kernel.assign(vectors.T * np.float32(tower.scale))
    head.bias.assign(np.full(len(labels), tower.bias, np.float32))
    model.describe_head(
        {
            # No path, because bundles are shared.
            "weights": None if Path(weights).exists() else str(weights),
            "templates": list(templates),
            "scale": tower.scale,
            "bias": tower.bias,
            "weights_sha256": texts.weights_sha256,
            "tokenizer_sha256": texts.tokenizer.sha256,
        }
    )
    return model
