"""What is known of the files of one architecture in one library."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from keras_vit._checks import Resampling
from keras_vit._errors import shown
from keras_vit.encoder.weight_rows import table_words
from keras_vit.specs import Preprocessing, ResNetSpec, Spec
from keras_vit.weights.names import official_keys
from keras_vit.weights.places import Place, Shape

# Gives the shape of a file's array by its name without the family's prefix; None if there is none.
ShapeOf = Callable[[str], Shape | None]
Places = Mapping[str, Place]
OtherPlaces = Mapping[str, Place | None]
FileLayout = Literal["official", "timm", "transformers", "eomt"]


# The array of a name that is no weight, without the prefix; None if the file lacks it.
ReadIgnored = Callable[[str], np.ndarray | None]


class Only(NamedTuple):
    """What a family can store of a field.

    Attributes:
        words: what it has, for messages.
        fits: whether a value is that.
    """

    words: str
    fits: Callable[[Any], bool]


ANY = Only("any", lambda value: True)
PLAIN_OR_GATED = Only("plain or gated MLPs", ("plain", "gated").__contains__)
# Names of PyTorch's models that are not weights. The decoder of a masked autoencoder predicts
# pixels; only its encoder is a ViT.
NOT_WEIGHTS = (
    r"(.*\.)?embeddings\.mask_token|.*\.position_ids|.*\.relative_position_index|decoder\..*"
)


@dataclasses.dataclass(frozen=True)
class Family:
    """The files of one architecture in one library.

    Attributes:
        name: for messages.
        library: the library, which is also the layout of `save_weights` that writes them.
        mark: a pattern of the key that identifies a file. The first group is what its own code
            writes before all names.
        bit: whether these are ResNets and not ViTs.
        places: the place of each official key; all keys are templates. Empty for the official
            layouts, which `dialects.py` reads by rules.
        other_places: the places that some files have instead, or None for weights that they do not
            use, from the shapes of a file's arrays and its config.json. The config of a file that
            `save_weights` wrote has the entry `METADATA`.
        places_of_spec: the places that are written instead for models of a spec.
        shown: the fields of the spec that names in a file and its config.json show beyond its
            official keys.
        prefix: what is written before the names of a model with a head, except before those of the
            layers after its pooling.
        headless_prefix: the same for a model without a head.
        not_weights: a pattern of names that are not weights of the model.
        numerics: the fields of the spec that neither weights nor config.json need to state.
        resampling: how the family's own code resamples positions.
        head_pooling: what a new head reads of a model without one; "" for what the weights show.
        only: fields that can have other values than the paper's, and which. Sizes, rates,
            activation and epsilon can have any unless they are here.
        refuses: what else it cannot store of a model, in words; None if nothing.
        files: the JSON files of a model, by name.
        unused: further arrays that the library expects in a file, by name, which no model uses.
        preprocessing: what arrays in a file that are not weights, by a function of their names, say
            of pictures, for an input of any size.
        masks_attention: whether models of the library mask attention, also to predict, if
            "attn_mask_probs" of a file are not 0.
        differences: whether files may hold the differences from an encoder's weights.
    """

    name: str
    library: FileLayout
    mark: str
    bit: bool = False
    places: Places = dataclasses.field(default_factory=dict)
    other_places: Callable[[ShapeOf, Mapping[str, Any]], OtherPlaces] = lambda shape_of, config: {}
    places_of_spec: Callable[[Spec], Places] = lambda spec: {}
    shown: Callable[[ShapeOf, Mapping[str, Any]], dict[str, Any]] = lambda shape_of, config: {}
    prefix: str = ""
    headless_prefix: str = ""
    not_weights: str = "$"
    numerics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    resampling: Resampling = "bilinear"
    head_pooling: str = ""
    only: Mapping[str, Only] = dataclasses.field(default_factory=dict)
    refuses: Callable[[Any], str | None] = lambda model: None
    files: Callable[[Any], dict[str, dict[str, Any]]] = lambda model: {}
    unused: Callable[[Any], dict[str, np.ndarray]] = lambda model: {}
    preprocessing: Callable[[ReadIgnored], Preprocessing | None] = lambda read: None
    masks_attention: bool = False
    differences: bool = False

    def refusals(self, spec: Spec) -> list[str]:
        """The fields of a spec that it cannot store, each in a sentence."""
        if isinstance(spec, ResNetSpec) != self.bit:
            return [f"{self.name} {'is a' if self.bit else 'has no'} ResNet"]
        found = []
        for field in dataclasses.fields(spec):
            value = getattr(spec, field.name)
            only = self.only.get(field.name)
            if only is None and field.name not in _FREE:
                words = f"{field.name}={shown(field.default)}"
                words = words if field.default is not None else f"no {field.name}"
                words = "no dense heads" if field.name == "dense_head" else words
                only = Only(words, {field.default}.__contains__)
            if only and not only.fits(value):
                found.append(f"{self.name} has {only.words}. Received: {field.name}={shown(value)}")
        return found


# Fields of the spec that all families can store.
_FREE = frozenset((
    "patch_size", "hidden_dim", "depth", "num_heads", "mlp_dim", "activation", "layer_norm_eps",
    "dropout", "attention_dropout", "drop_path", "in_channels", "resampling", "layers", "width",
    "head_activation",
))  # fmt: skip
# The weights of a layer: the ends of Keras' names and of PyTorch's; "" in a row of a single weight.
_ENDS = {"": "", "/kernel": ".weight", "/bias": ".bias", "/gamma": ".weight", "/beta": ".bias"}


def places_of(*tables: tuple[str, str, str], bit: bool = False) -> dict[str, Place]:
    """The places of official keys in PyTorch's layouts.

    Args:
        tables: each with prefixes for keras_vit's paths and for the layout's keys. Columns: a
            layer's path in a keras_vit model, its key in the layout, the form of its kernel, and
            part/parts. A row may also be of a single weight.
        bit: whether the model is a BiT.
    """
    # `reversed` keeps the first official key of each path.
    official = {path: key for key, path in reversed(official_keys(bit))}
    places = {}
    for table, *prefixes in tables:
        for layer, key, kernel_form, *stack in table_words(table, *prefixes):
            part, parts = map(int, stack[0].split("/")) if stack else (0, 1)
            for end, foreign_end in _ENDS.items():
                if layer + end in official:
                    form = kernel_form if end in ("", "/kernel") else "flat"
                    places[official[layer + end]] = Place(key + foreign_end, form, part, parts)
    return places
