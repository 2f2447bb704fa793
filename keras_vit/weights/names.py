"""The naming table: each official key, its shape, and where the weight lives in our models.

Source: the published `.npz` files of google-research/vision_transformer; big_vision for MAP.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from keras_vit.specs import ViTSpec

# Official key, our layer and its weight, official shape. D hidden, H heads, d = D/H, M mlp,
# P patch, N tokens, R what the head reads, C classes. Our kernels are the same numbers in the
# same order, reshaped to two dimensions.
_EMBEDDING = """
embedding/kernel    patch_encoder/projection/kernel    P P 3 D
embedding/bias      patch_encoder/projection/bias      D
"""
_CLASS_TOKEN = "cls    patch_encoder/class_token    1 1 D"
_POSITIONS = "Transformer/posembed_input/pos_embedding    patch_encoder/positions    1 N D"
_ATTENTION = """
{theirs}/query/kernel    {ours}/query/kernel    D H d
{theirs}/query/bias      {ours}/query/bias      H d
{theirs}/key/kernel      {ours}/key/kernel      D H d
{theirs}/key/bias        {ours}/key/bias        H d
{theirs}/value/kernel    {ours}/value/kernel    D H d
{theirs}/value/bias      {ours}/value/bias      H d
{theirs}/out/kernel      {ours}/out/kernel      H d D
{theirs}/out/bias        {ours}/out/bias        D
"""
_NORM = """
{theirs}/scale    {ours}/gamma    D
{theirs}/bias     {ours}/beta     D
"""
_MLP = """
{theirs}/Dense_0/kernel    {ours}/dense_0/kernel    D M
{theirs}/Dense_0/bias      {ours}/dense_0/bias      M
{theirs}/Dense_1/kernel    {ours}/dense_1/kernel    M D
{theirs}/Dense_1/bias      {ours}/dense_1/bias      D
"""
_REPRESENTATION = """
pre_logits/kernel    pre_logits/kernel    D R
pre_logits/bias      pre_logits/bias      R
"""
_HEAD = """
head/kernel    head/kernel    R C
head/bias      head/bias      C
"""


@dataclasses.dataclass(frozen=True)
class WeightName:
    """One weight: its key in official files, its place in our model, its official shape."""

    key: str
    path: str
    shape: tuple[int, ...]

    def variable(self, model: Any) -> Any:
        """The Keras variable of `model` that holds this weight."""
        layer, *attributes = self.path.split("/")
        found = model.get_layer(layer)
        for attribute in attributes:
            found = getattr(found, attribute)
        return found


def weight_names(
    spec: ViTSpec, num_classes: int, image_size: int | tuple[int, int]
) -> list[WeightName]:
    """Every weight of a plain ViT, in the order of the forward pass."""
    rows, columns = spec.grid(image_size)
    sizes = {
        "D": spec.hidden_dim,
        "H": spec.num_heads,
        "d": spec.head_dim,
        "M": spec.mlp_dim,
        "P": spec.patch_size,
        "N": rows * columns + int(spec.class_token),
        "R": spec.representation_dim or spec.hidden_dim,
        "C": num_classes,
    }
    names = []
    for line in _rows(spec, num_classes).splitlines():
        if line.strip():
            key, path, *shape = line.split()
            names.append(WeightName(key, path, tuple(sizes.get(s) or int(s) for s in shape)))
    return names


def parameter_count(
    spec: ViTSpec, num_classes: int = 1000, image_size: int | tuple[int, int] = 224
) -> int:
    """The exact number of parameters of a model, without building it."""
    return sum(math.prod(name.shape) for name in weight_names(spec, num_classes, image_size))


def _rows(spec: ViTSpec, num_classes: int) -> str:
    rows = [_EMBEDDING]
    if spec.class_token:
        rows.append(_CLASS_TOKEN)
    if spec.position_embedding == "learned":
        rows.append(_POSITIONS)
    for i in range(spec.depth):
        theirs, ours = f"Transformer/encoderblock_{i}", f"encoderblock_{i}"
        rows += _transformer(
            theirs,
            ours,
            norms={"LayerNorm_0": "norm_attention", "LayerNorm_2": "norm_mlp"},
            attention="MultiHeadDotProductAttention_1",
            mlp="MlpBlock_3",
        )
    rows.append(_NORM.format(theirs="Transformer/encoder_norm", ours="encoder_norm"))
    if spec.pooling == "map":
        rows.append("MAPHead_0/probe    pooling/probe    1 1 D")
        rows += _transformer(
            "MAPHead_0",
            "pooling",
            norms={"LayerNorm_0": "norm"},
            attention="MultiHeadDotProductAttention_0",
            mlp="MlpBlock_0",
        )
    if spec.representation_dim:
        rows.append(_REPRESENTATION)
    if num_classes:
        rows.append(_HEAD)
    return "\n".join(rows)


def _transformer(theirs: str, ours: str, norms: dict, attention: str, mlp: str) -> list[str]:
    return [
        *(_NORM.format(theirs=f"{theirs}/{t}", ours=f"{ours}/{o}") for t, o in norms.items()),
        _ATTENTION.format(theirs=f"{theirs}/{attention}", ours=f"{ours}/attention"),
        _MLP.format(theirs=f"{theirs}/{mlp}", ours=f"{ours}/mlp"),
    ]
