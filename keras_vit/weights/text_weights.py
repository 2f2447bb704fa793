"""The text towers in files of transformers' CLIP and SigLIP, and how texts meet images there.

Sources: transformers `models/clip` and `models/siglip`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from keras_vit._errors import UsageError, shown
from keras_vit.encoder.text_spec import TextSpec
from keras_vit.encoder.weight_rows import table_words
from keras_vit.specs import MOST_BLOCKS
from keras_vit.weights.families.clip import BLOCK
from keras_vit.weights.hub_config import stated_numerics
from keras_vit.weights.places import Place
from keras_vit.weights.tensors import Tensors, display, open_tensors

TextFamily = Literal["clip", "siglip"]
_TEXT = re.compile(r"text_(model|projection)\.(?!embeddings\.position_ids)")
_TOKENS = "text_model.embeddings.token_embedding.weight"
_POSITIONS = "text_model.embeddings.position_embedding.weight"
_LAYERS = "text_model.encoder.layers."
# The last layer, by which a family is known.
_HEADS: dict[TextFamily, str] = {"clip": "text_projection", "siglip": "text_model.head"}
# What config.json need not state, because it is the default of transformers' configurations.
_DEFAULTS: dict[TextFamily, dict[str, Any]] = {
    "clip": {"activation": "quick", "layer_norm_eps": 1e-5},
    "siglip": {"activation": "tanh", "layer_norm_eps": 1e-6},
}
# The default number of heads belongs to the default width.
_HEADS_OF_WIDTH: dict[tuple[TextFamily, int], int] = {("clip", 512): 8, ("siglip", 768): 12}
_LARGEST_LOGIT_SCALE = 10.0  # CLIP's is at most log(100) = 4.6
_SHORTEST = 3  # a start, a token and an end
_VARIABLES = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
# An end token that configurations of 2022 state and transformers does not use.
_OLD_END = 2


@dataclasses.dataclass(frozen=True)
class TextTower:
    """The text tower in an open file.

    Attributes:
        tensors: the file.
        family: whose rules it follows.
        spec: its hyperparameters.
        vocabulary: the number of ids that it knows.
        end_id: the id of the token that is read, if config.json states it.
        scale, bias: logits are scale * cosine + bias.
    """

    tensors: Tensors
    family: TextFamily
    spec: TextSpec
    vocabulary: int
    end_id: int | None
    scale: float
    bias: float

    def load_into(self, model: Any, ids: np.ndarray) -> None:
        """Assigns the weights to a `models.text_tower` whose vocabulary is these ids, in order.

        Of the table of all ids only these rows are read.

        Raises:
            UsageError: an array is absent, has another shape or is not finite, or there are others.
        """
        tensors, places = self.tensors, dict(self._places(model))
        self._check_keys({_TOKENS, _POSITIONS, *places})
        encoder = model.get_layer("token_encoder")
        encoder.tokens.assign(_finite(tensors, _TOKENS, tensors.read(_TOKENS, ids)))
        encoder.positions.assign(_finite(tensors, _POSITIONS, tensors.read(_POSITIONS)))
        for key, (variable, form) in places.items():
            place, shape = Place(key, form), tuple(variable.shape)
            if not place.fits(tensors.shapes[key], shape):
                raise UsageError(
                    f"{tensors.path}: {display(key)} must be {place.stored_shape(shape)}. "
                    f"Received: {tensors.shapes[key]}."
                )
            variable.assign(_finite(tensors, key, place.official(tensors.read(key), shape)))

    def _places(self, model: Any) -> Iterator[tuple[str, tuple[Any, str]]]:
        """The file's keys, each with its variable in the model and its form in the file."""
        rows = [["encoder_norm", "text_model.final_layer_norm", "flat"]]
        rows += [["projection", _HEADS[self.family], "in"]]
        for i in range(self.spec.depth):
            rows += table_words(BLOCK, f"encoderblock_{i}/", f"{_LAYERS}{i}.")
        for path, key, form in rows:
            first, *inner = path.split("/")
            layer = functools.reduce(getattr, inner, model.get_layer(first))
            for name, foreign in _VARIABLES.items():
                variable = getattr(layer, name, None)
                if variable is not None:
                    yield f"{key}.{foreign}", (variable, form if name == "kernel" else "flat")

    def _check_keys(self, expected: set[str]) -> None:
        found = {key for key in self.tensors.shapes if _TEXT.match(key)}
        if found != expected:
            missing, others = sorted(expected - found), sorted(found - expected)
            raise UsageError(
                f"{self.tensors.path} has another text tower than transformers' CLIP or SigLIP: "
                f"missing {shown(missing)}, unknown {shown(others)}."
            )


@contextlib.contextmanager
def open_text_tower(path: str | os.PathLike) -> Iterator[TextTower]:
    """Opens the text tower in a folder of transformers' CLIP or SigLIP with both towers.

    Raises:
        UsageError: the file is absent or damaged, it has no text tower, or its config.json
            contradicts it.
    """
    with open_tensors(path) as tensors:
        heads = [name for name, key in _HEADS.items() if f"{key}.weight" in tensors.shapes]
        if len(heads) != 1 or not {_TOKENS, _POSITIONS} <= tensors.shapes.keys():
            raise UsageError(
                f"{path} has no text tower; expected a folder with both towers as transformers "
                "writes them, of CLIP, SigLIP or a SigLIP 2 of a fixed size, such as "
                "hf://google/siglip2-base-patch16-224."
            )
        if "logit_scale" not in tensors.shapes:
            raise UsageError(f"{path} has no logit_scale, without which there are no scores.")
        yield _text_tower(tensors, heads[0])


def _text_tower(tensors: Tensors, family: TextFamily) -> TextTower:
    shapes, config = tensors.shapes, tensors.config.get("text_config")
    config = config if isinstance(config, dict) else {}
    head = f"{_HEADS[family]}.weight"
    for key in (_TOKENS, _POSITIONS, head):
        if len(shapes[key]) != 2:
            raise UsageError(f"{tensors.path}: {display(key)} must have two axes.")
    vocabulary, width = shapes[_TOKENS]
    length, its_width = shapes[_POSITIONS]
    if its_width != width or length < _SHORTEST:
        raise UsageError(
            f"{tensors.path}: {_POSITIONS} must have {_SHORTEST} rows or more of {width} numbers. "
            f"Received: {shapes[_POSITIONS]}."
        )
    layers = {key[len(_LAYERS) :].split(".")[0] for key in shapes if key.startswith(_LAYERS)}
    sizes = {
        "hidden_dim": width,
        "depth": len(layers),
        "mlp_dim": (shapes.get(f"{_LAYERS}0.mlp.fc1.weight") or (0,))[0],
    }
    try:
        stated = stated_numerics(config, sizes, class_token=False)
    except UsageError as error:
        raise UsageError(f"{tensors.path}: of the text tower, {error}") from None
    numerics = {name: stated.get(name, usual) for name, usual in _DEFAULTS[family].items()}
    heads = stated.get("num_heads", _HEADS_OF_WIDTH.get((family, width)))
    if heads is None:
        raise UsageError(
            f"{tensors.path}: the config.json beside it does not state num_attention_heads in its "
            "text_config; use the one that belongs to the weights."
        )
    spec = TextSpec(
        length=length,
        **sizes,
        **numerics,
        num_heads=heads,
        projection_dim=shapes[head][0],
        projection_bias=family == "siglip",
        causal=family == "clip",
    )
    if not 0 < spec.depth <= MOST_BLOCKS or not sizes["mlp_dim"] or width % spec.num_heads:
        raise UsageError(
            f"{tensors.path}: its text tower has {spec.depth} layers of width {width} and "
            f"{spec.num_heads} heads, which must divide the width; its config.json belongs to "
            "other weights."
        )
    end = config.get("eos_token_id") if family == "clip" else None
    end = end if isinstance(end, int) and end != _OLD_END else None
    logarithm = _number(tensors, "logit_scale")
    if logarithm > _LARGEST_LOGIT_SCALE:
        raise UsageError(
            f"{tensors.path}: logit_scale must be at most {_LARGEST_LOGIT_SCALE}. Received: "
            f"{logarithm:g}."
        )
    scale = float(np.exp(logarithm))
    bias = _number(tensors, "logit_bias") if "logit_bias" in shapes else 0.0
    return TextTower(tensors, family, spec, vocabulary, end, scale, bias)


def _number(tensors: Tensors, key: str) -> float:
    [number] = _finite(tensors, key, tensors.read(key)).reshape(-1)[:1]
    return float(number)


def _finite(tensors: Tensors, key: str, array: np.ndarray) -> np.ndarray:
    if not np.isfinite(array).all():
        raise UsageError(f"{tensors.path}: {display(key)} has NaN or infinite values.")
    return array
