"""The exact rewrites of the inference graph, as passes over a model's weights.

Each pass reduces the cost of a forward pass without dropout, but does not change its result. It
takes the parameters of the previous pass, by keras_vit's names
("encoderblock_0/mlp/dense_0/kernel"), and replaces or removes some of them; `inference.py` uses the
remaining ones. Kernels are (inputs, outputs), convolutions (height, width, inputs, outputs). Sums
are computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping

import numpy as np

from keras_vit.deploy.graph.wiring import PROBED, Attention, Wiring, wiring
from keras_vit.encoder.dense_heads import HEAD_NORM_EPSILON
from keras_vit.encoder.patch_grids import Tokens
from keras_vit.encoder.poolings import POOLINGS
from keras_vit.encoder.positions import POSITION_EMBEDDINGS, rotation_factors
from keras_vit.specs import Preprocessing, ResNetSpec, Spec, ViTSpec

Parameters = MutableMapping[str, np.ndarray]
# A power of two, because dividing by it does not round. In half precision the square of a value
# above 255 overflows, and so does the sum of 768 squares with a root mean square above 9. Dividing
# by 16 raises these limits to 4,095 and 147.
STREAM_DIVISOR = 16.0


def rewrite(
    spec: Spec,
    parameters: Parameters,
    preprocessing: Preprocessing,
    rewrites: Iterable[str],
    uint8: bool,
    as_map: bool = False,
) -> Parameters:
    """Applies the passes of the named `REWRITES` in place, in the order of that table.

    Args:
        spec, parameters: the model, after `resolve_parameters`.
        preprocessing: mean and scale of uint8 pixels.
        rewrites: names in `REWRITES`.
        uint8: whether the input is pixels.
        as_map: whether the output is made of all patches.
    """
    rewrites = set(rewrites) - (set() if uint8 else {"uint8_input"})
    wired = wiring_of(spec, parameters, as_map)
    for name, apply in REWRITES.items():
        if name in rewrites and apply is not None:
            apply(spec, parameters, wired, preprocessing)
    return parameters


def wiring_of(spec: Spec, parameters: Parameters, as_map: bool = False) -> Wiring:
    """Who reads what in the graph of these parameters."""
    # Two classifiers that were not averaged each read a part of the features.
    one = "head/kernel" in parameters and "head/distillation_kernel" not in parameters
    return wiring(spec, one, as_map)


def resolve_parameters(spec: Spec, p: Parameters, grid: tuple[int, int]) -> None:
    """Replaces a model's weights in place by the parameters of the graph, before any rewrite.

    Weights of positions become the constants that the graph adds: "patch_encoder/positions" (1,
    patches, hidden_dim) and "patch_encoder/class_position" (1, prefix, hidden_dim) to the tokens,
    "attention/position_bias" (1, heads, tokens, tokens) in each block to the attention scores;
    those of a rotation become "rotation/turned" and "rotation/exchanged" (1, tokens, 1, head_dim).
    All learned tokens become "patch_encoder/class_token" (1, prefix, hidden_dim), and two
    classifiers the "head" whose logits are the mean of their logits. A BatchNorm before the head is
    multiplied into it. The factors of LayerScale are
    multiplied into the Dense layers before them; without that, `centre` would not be exact.
    """
    if isinstance(spec, ResNetSpec):
        return
    _join_tokens(spec, p)
    if spec.two_classifiers:
        _average_classifiers(p)
    if "head_norm/gamma" in p:
        _fold_head_norm(p)
    for scale, dense in wiring_of(spec, p).scales.items():
        factors = _wide(p.pop(scale))
        for part in ("kernel", "bias"):
            p[f"{dense}/{part}"] = _narrow(_wide(p[f"{dense}/{part}"]) * factors)
    kind, tokens = (
        POSITION_EMBEDDINGS[spec.position_embedding],
        Tokens(grid, spec.prefix_tokens, spec.registers),
    )
    encoder = "patch_encoder"
    if kind.table is not None:
        weights = {weight.name: p.pop(f"{encoder}/{weight.name}") for weight in kind.weights}
        table = np.asarray(kind.table(weights, tokens, spec.hidden_dim, np), np.float32)
        prefix = tokens.prefix_positions
        if kind.prefix_slots and prefix:
            first, table = table[:, :prefix], table[:, prefix:]
            p[f"{encoder}/class_position"] = first
        p[f"{encoder}/positions"] = table
    if kind.bias is not None:
        for name in (f"encoderblock_{i}/attention" for i in range(spec.depth)):
            weights = {w.name: p.pop(f"{name}/{w.name}") for w in kind.attention_weights}
            bias = np.asarray(kind.bias(weights, tokens, np), np.float32)
            p[f"{name}/position_bias"] = np.ascontiguousarray(bias)
    if spec.rotation != "none":
        factors = rotation_factors(spec.rotation, tokens, spec.head_dim)
        p.update(zip(("rotation/turned", "rotation/exchanged"), factors, strict=True))


def _join_tokens(spec: ViTSpec, p: Parameters) -> None:
    names = [f"patch_encoder/{name}" for name in POOLINGS[spec.pooling].tokens]
    if len(names) > 1:
        tokens = np.concatenate([p[name] for name in names], axis=1)  # (1, prefix, hidden_dim)
        p["patch_encoder/class_token"] = tokens
        for name in names[1:]:
            del p[name]


def _average_classifiers(p: Parameters) -> None:
    # Halving does not round. The input is that of both classifiers: (batch, 2 * hidden_dim).
    if "head/kernel" not in p:
        return
    kernels, biases = (
        [p[f"head/{part}"], p.pop(f"head/distillation_{part}")] for part in ("kernel", "bias")
    )
    p["head/kernel"] = np.concatenate(kernels) / 2  # (2 * hidden_dim, classes)
    p["head/bias"] = _narrow(_wide(biases[0]) / 2 + _wide(biases[1]) / 2)


def _fold_head_norm(p: Parameters) -> None:
    names = ("gamma", "beta", "moving_mean", "moving_variance")
    gamma, beta, mean, variance = (_wide(p.pop(f"head_norm/{name}")) for name in names)
    factors, kernel = gamma / np.sqrt(variance + HEAD_NORM_EPSILON), _wide(p["head/kernel"])
    p["head/bias"] = _narrow(_wide(p["head/bias"]) + (beta - mean * factors) @ kernel)
    p["head/kernel"] = _narrow(factors[:, None] * kernel)


def _fold_norms(spec: Spec, p: Parameters, wired: Wiring, _: Preprocessing) -> None:
    """LayerNorm's scale and shift are folded into the Dense layers that read it."""
    for norm, readers in wired.foldable(p).items():
        if not readers:
            continue
        gamma, beta = _wide(p.pop(f"{norm}/gamma")), _wide(p.pop(f"{norm}/beta"))
        for reader in readers:
            kernel = _wide(p[f"{reader}/kernel"])
            shift = repeated(beta, kernel)[:, 0] @ kernel
            p[f"{reader}/bias"] = _narrow(p.get(f"{reader}/bias", 0) + shift)
            p[f"{reader}/kernel"] = _narrow(repeated(gamma, kernel) * kernel)


def _attention_biases(spec: Spec, p: Parameters, wired: Wiring, _: Preprocessing) -> None:
    """1/sqrt(head_dim) is folded into the query, and the key's bias is removed.

    So are the scale and shift of the key's norm, where keys are normalised. The value's bias is
    moved through the output projection.
    """
    for layer in wired.attentions:
        scale = np.float32(spec.head_dim**-0.5)
        if f"{layer.key}/gamma" in p and not layer.rotated:
            # The scale multiplies what each query is multiplied with.
            scale = scale * p.pop(f"{layer.key}/gamma")
            p.pop(f"{layer.key}/beta")
        for part in ("kernel", "bias", "gamma", "beta"):  # of a Dense layer or of a norm
            if f"{layer.query}/{part}" in p:
                p[f"{layer.query}/{part}"] = p[f"{layer.query}/{part}"] * scale
        if not layer.rotated:
            # What is added to all keys does not change the softmax, whose rows sum to 1.
            p.pop(f"{layer.key}/bias", None)
        if f"{layer.value}/bias" in p:
            shift = _wide(p.pop(f"{layer.value}/bias")) @ _wide(p[f"{layer.out}/kernel"])
            p[f"{layer.out}/bias"] = _narrow(p[f"{layer.out}/bias"] + shift)


def _centre(spec: Spec, p: Parameters, wired: Wiring, _: Preprocessing) -> None:
    """Layers that write to the residual stream are centred, so that no norm computes a mean.

    Those whose outputs are normalised head by head are centred head by head. The output of a norm,
    of which there is at most one, cannot be centred by its weights; the graph subtracts its mean.
    """
    at_runtime = {f"{norm}/{part}" for norm in wired.stream_sources for part in ("gamma", "beta")}
    for name in wired.stream_writers(p):
        if name not in at_runtime:
            p[name] = _narrow(p[name] - _wide(p[name]).mean(-1, keepdims=True))
    for dense in wired.head_norms.values():
        for name in {f"{dense}/kernel", f"{dense}/bias"} & p.keys():
            shape = p[name].shape
            # (..., width) to (..., heads, head_dim) and back
            heads = _wide(p[name]).reshape(*shape[:-1], spec.num_heads, -1)
            p[name] = _narrow((heads - heads.mean(-1, keepdims=True)).reshape(shape))


def _constants(spec: Spec, p: Parameters, wired: Wiring, _: Preprocessing) -> None:
    """Constants are folded.

    The class token and its position, patch positions and patch bias, the pooling's probe and its
    key.
    """
    encoder = "patch_encoder"
    if f"{encoder}/class_token" in p and f"{encoder}/class_position" in p:
        token = p[f"{encoder}/class_token"] + p.pop(f"{encoder}/class_position")
        p[f"{encoder}/class_token"] = token
    if f"{encoder}/positions" in p:
        bias = p.pop(f"{encoder}/projection/bias", np.float32(0))
        p[f"{encoder}/positions"] = p[f"{encoder}/positions"] + bias
    for layer in wired.attentions:
        if layer.constant and not layer.rotated:
            _fold_query(spec, p, layer)


def _fold_query(spec: ViTSpec, p: Parameters, layer: Attention) -> None:
    """Replaces a constant query and the key's kernel by their product for each head."""
    p.pop(f"{layer.key}/bias", None)  # softmax ignores a constant added to all logits
    kernel, bias = (_wide(p.pop(f"{layer.query}/{part}")) for part in ("kernel", "bias"))
    query = _wide(p.pop(layer.constant))[0] @ kernel + bias
    query = query.reshape(spec.num_heads, -1)  # (1, hidden_dim) to (heads, head_dim)
    key = p.pop(f"{layer.key}/kernel")
    key = key.reshape(spec.hidden_dim, spec.num_heads, -1)  # (hidden_dim, heads, head_dim)
    name = f"{layer.key.rpartition('/')[0]}/{PROBED}/kernel"
    p[name] = _narrow(np.einsum("dhk,hk->dh", key, query))


def _uint8_input(spec: Spec, p: Parameters, wired: Wiring, preprocessing: Preprocessing) -> None:
    """Mean and scale of uint8 pixels are folded into the patch projection."""
    if not folds_uint8(spec):
        return
    name = "patch_encoder/projection"
    channels = spec.in_channels
    # (pixels * channels, hidden_dim) to (pixels, channels, hidden_dim)
    kernel = _wide(p[f"{name}/kernel"]).reshape(-1, channels, spec.hidden_dim)
    kernel /= np.broadcast_to(preprocessing.scale, channels)[:, None]
    mean = np.broadcast_to(preprocessing.mean, channels).astype(float)
    shift = np.einsum("pcd,c->d", kernel, mean)
    p[f"{name}/kernel"] = _narrow(kernel.reshape(p[f"{name}/kernel"].shape))
    p[f"{name}/bias"] = _narrow(p.get(f"{name}/bias", 0) - shift)


def _standardised_kernels(spec: Spec, p: Parameters, wired: Wiring, _: Preprocessing) -> None:
    """StdConv kernels are standardised once, and divided by `STREAM_DIVISOR`.

    The norms that read them undo the division.
    """
    for name in [n for n in p if "conv" in n and n.endswith("/kernel")]:
        p[name] = _narrow(standardise(_wide(p[name]), spec) / STREAM_DIVISOR)


def _scale_stream(spec: Spec, p: Parameters, wired: Wiring, _: Preprocessing) -> None:
    """The residual stream is divided by `STREAM_DIVISOR`, which is exact.

    So its squares fit into half precision. So is a factor of a product that only a norm reads.
    """
    factors = {f"{d}/{w}" for d in wired.scalable_factors.values() for w in ("kernel", "bias")}
    for name in (*wired.stream_writers(p), *(factors & p.keys())):
        p[name] = p[name] / np.float32(STREAM_DIVISOR)


# The rewrites by name, each with its pass; None if only the graph leaves something out. Their order
# matters: the shifts of norms become biases before biases are moved, and the stream is centred
# after the parameters that write to it have their final values.
REWRITES: dict[str, Callable[[Spec, Parameters, Wiring, Preprocessing], None] | None] = {
    "fold_norms": _fold_norms,
    "attention_biases": _attention_biases,
    "centre": _centre,
    "uint8_input": _uint8_input,
    "constants": _constants,
    "standardised_kernels": _standardised_kernels,
    # The last block computes queries, output and MLP only for the class and distillation tokens.
    "class_token_only": None,
    "scaled_stream": _scale_stream,
}


def repeated(channels: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """A value for each channel, repeated for each token that a kernel reads: (rows, 1)."""
    return np.tile(channels, len(kernel) // len(channels))[:, None]


def folds_uint8(spec: Spec) -> bool:
    """Whether pixel scaling can be folded into the first kernel: only if that does not pad."""
    return isinstance(spec, ViTSpec) and spec.stem is None


def standardise(kernel, spec: Spec, mean=np.mean, sqrt=np.sqrt):
    """The standardised kernel of `layers/std_conv.py`."""
    axes = (0, 1, 2)
    centred = kernel - mean(kernel, axes, keepdims=True)
    variance = mean(centred * centred, axes, keepdims=True)
    if isinstance(spec, ResNetSpec):
        return centred / sqrt(variance + 1e-10)
    return centred / (sqrt(variance) + 1e-5)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def _narrow(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.float32)
