"""The naming table: each official key, its shape, and where the weight lives in our models.

Source: the published `.npz` files of google-research/vision_transformer and of
google-research/big_transfer; big_vision for MAP.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from keras_vit._errors import UsageError
from keras_vit.layers.position_tables import relative_entries
from keras_vit.specs import ResNetSpec, ResNetStem, ResNetUnit, Spec, ViTSpec

# Official key, our layer and its weight, official shape. D hidden, H heads, d = D/H, M mlp,
# P patch, I the channels that patches are cut from, N tokens, R what the head reads, C classes;
# w channels of a ResNet's root, i into a unit, n inside it, o out of it. Our kernels are the same
# numbers in the same order, reshaped to two dimensions.
_EMBEDDING = """
embedding/kernel    patch_encoder/projection/kernel    P P I D
embedding/bias      patch_encoder/projection/bias      D
"""
_CLASS_TOKEN = "cls    patch_encoder/class_token    1 1 D"
_POSITIONS = "Transformer/posembed_input/pos_embedding    patch_encoder/positions    1 N D"
# Keys of our own from here: no official file has these two kinds of positions.
_POSITIONS_2D = """
Transformer/posembed_input/column_embedding    patch_encoder/columns    columns D/2
Transformer/posembed_input/row_embedding       patch_encoder/rows       rows D/2
"""
_RELATIVE = "{theirs}/relative_position_bias    {ours}/relative_position_bias    offsets H"
# To here.
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
_STEM = """
conv_root/kernel    conv_root/kernel    7 7 3 w
gn_root/scale       gn_root/gamma       1 1 1 w
gn_root/bias        gn_root/beta        1 1 1 w
"""
_UNIT = """
{theirs}/conv1/kernel    {ours}/conv1/kernel    1 1 i n
{theirs}/gn1/scale       {ours}/gn1/gamma       1 1 1 n
{theirs}/gn1/bias        {ours}/gn1/beta        1 1 1 n
{theirs}/conv2/kernel    {ours}/conv2/kernel    3 3 n n
{theirs}/gn2/scale       {ours}/gn2/gamma       1 1 1 n
{theirs}/gn2/bias        {ours}/gn2/beta        1 1 1 n
{theirs}/conv3/kernel    {ours}/conv3/kernel    1 1 n o
{theirs}/gn3/scale       {ours}/gn3/gamma       1 1 1 o
{theirs}/gn3/bias        {ours}/gn3/beta        1 1 1 o
"""
_PROJECTION = """
{theirs}/conv_proj/kernel    {ours}/conv_proj/kernel    1 1 i o
{theirs}/gn_proj/scale       {ours}/gn_proj/gamma       1 1 1 o
{theirs}/gn_proj/bias        {ours}/gn_proj/beta        1 1 1 o
"""
_BIT_ROOT = """
resnet/root_block/standardized_conv2d/kernel    conv_root/kernel    7 7 3 w
"""
_BIT_UNIT = """
{theirs}/a/group_norm/gamma              {ours}/gn1/gamma       i
{theirs}/a/group_norm/beta               {ours}/gn1/beta        i
{theirs}/a/standardized_conv2d/kernel    {ours}/conv1/kernel    1 1 i n
{theirs}/b/group_norm/gamma              {ours}/gn2/gamma       n
{theirs}/b/group_norm/beta               {ours}/gn2/beta        n
{theirs}/b/standardized_conv2d/kernel    {ours}/conv2/kernel    3 3 n n
{theirs}/c/group_norm/gamma              {ours}/gn3/gamma       n
{theirs}/c/group_norm/beta               {ours}/gn3/beta        n
{theirs}/c/standardized_conv2d/kernel    {ours}/conv3/kernel    1 1 n o
"""
_BIT_PROJECTION = """
{theirs}/a/proj/standardized_conv2d/kernel    {ours}/conv_proj/kernel    1 1 i o
"""
_BIT_NORM = """
resnet/group_norm/gamma    group_norm/gamma    R
resnet/group_norm/beta     group_norm/beta     R
"""
_BIT_HEAD = """
resnet/head/conv2d/kernel    head/kernel    1 1 R C
resnet/head/conv2d/bias      head/bias      C
"""


@dataclasses.dataclass(frozen=True)
class WeightName:
    """One weight: its key in official files, its place in our model, its official shape."""

    key: str
    path: str
    shape: tuple[int, ...]

    def variable(self, model: Any) -> Any:
        """The Keras variable of `model` that holds this weight.

        Raises:
            UsageError: `model.quantize` has replaced it by integers.
        """
        layer, *attributes = self.path.split("/")
        found = model.get_layer(layer)
        for attribute in attributes:
            holder, found = found, getattr(found, attribute)
        if getattr(holder, "quantization_mode", None) is not None:
            raise UsageError(
                f"{model.name}: Keras has quantised {self.path} ({holder.quantization_mode}); "
                "use the model as it was before quantize()."
            )
        return found


def weight_names(
    spec: Spec, num_classes: int, image_size: int | tuple[int, int]
) -> list[WeightName]:
    """Every weight of a ViT, a hybrid or a BiT, in the order of the forward pass."""
    if isinstance(spec, ResNetSpec):
        return _bit(spec, num_classes)
    return [*_stem(spec.stem), *_vit(spec, num_classes, image_size)]


def parameter_count(
    spec: Spec, num_classes: int = 1000, image_size: int | tuple[int, int] = 224
) -> int:
    """The exact number of parameters of a model, without building it."""
    return sum(math.prod(name.shape) for name in weight_names(spec, num_classes, image_size))


def _vit(spec: ViTSpec, num_classes: int, image_size: int | tuple[int, int]) -> list[WeightName]:
    rows, columns = spec.grid(image_size)
    sizes = {
        "D": spec.hidden_dim,
        "D/2": spec.hidden_dim // 2,
        "H": spec.num_heads,
        "d": spec.head_dim,
        "M": spec.mlp_dim,
        "P": spec.patch_size,
        "I": spec.stem.channels if spec.stem else 3,
        "N": rows * columns + int(spec.class_token),
        "R": spec.representation_dim or spec.hidden_dim,
        "C": num_classes,
        "rows": rows,
        "columns": columns,
        "offsets": relative_entries((rows, columns), spec.class_token),
    }
    return _parse(_vit_rows(spec, num_classes), sizes)


def _stem(stem: ResNetStem | None) -> list[WeightName]:
    if stem is None:
        return []
    names = _parse([_STEM], {"w": stem.root_channels})
    for unit in stem.units:
        rows = [_UNIT, _PROJECTION] if unit.projects else [_UNIT]
        names += _unit(rows, f"block{unit.block}/unit{unit.unit}", unit)
    return names


def _bit(spec: ResNetSpec, num_classes: int) -> list[WeightName]:
    names = _parse([_BIT_ROOT], {"w": 64 * spec.width})
    for unit in spec.units:
        rows = [_BIT_UNIT, _BIT_PROJECTION] if unit.projects else [_BIT_UNIT]
        names += _unit(rows, f"resnet/block{unit.block}/unit{unit.unit:02}", unit)
    tail = [_BIT_NORM, _BIT_HEAD] if num_classes else [_BIT_NORM]
    return names + _parse(tail, {"R": spec.channels, "C": num_classes})


def _unit(rows: list[str], theirs: str, unit: ResNetUnit) -> list[WeightName]:
    sizes = {"i": unit.inputs, "n": unit.features, "o": 4 * unit.features}
    return _parse([row.format(theirs=theirs, ours=unit.name) for row in rows], sizes)


def _parse(rows: list[str], sizes: dict[str, int]) -> list[WeightName]:
    lines = (line.split() for line in "\n".join(rows).splitlines() if line.strip())
    return [
        WeightName(key, path, tuple(sizes[s] if s in sizes else int(s) for s in shape))
        for key, path, *shape in lines
    ]


def _vit_rows(spec: ViTSpec, num_classes: int) -> list[str]:
    rows = [_EMBEDDING]
    if spec.class_token:
        rows.append(_CLASS_TOKEN)
    rows += {"learned": [_POSITIONS], "learned2d": [_POSITIONS_2D]}.get(spec.position_embedding, [])
    attention = "MultiHeadDotProductAttention_1"
    for i in range(spec.depth):
        theirs, ours = f"Transformer/encoderblock_{i}", f"encoderblock_{i}"
        rows += _transformer(
            theirs,
            ours,
            norms={"LayerNorm_0": "norm_attention", "LayerNorm_2": "norm_mlp"},
            attention=attention,
            mlp="MlpBlock_3",
        )
        if spec.position_embedding == "relative":
            rows.append(_RELATIVE.format(theirs=f"{theirs}/{attention}", ours=f"{ours}/attention"))
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
    return rows


def _transformer(theirs: str, ours: str, norms: dict, attention: str, mlp: str) -> list[str]:
    return [
        *(_NORM.format(theirs=f"{theirs}/{t}", ours=f"{ours}/{o}") for t, o in norms.items()),
        _ATTENTION.format(theirs=f"{theirs}/{attention}", ours=f"{ours}/attention"),
        _MLP.format(theirs=f"{theirs}/{mlp}", ours=f"{ours}/mlp"),
    ]
