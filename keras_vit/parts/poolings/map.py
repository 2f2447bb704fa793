"""Multihead attention pooling (Zhai et al. 2022; big_vision `MAPHead`); there is no class token."""

from __future__ import annotations

import numpy as np

from keras_vit.parts.poolings.pooling import InferenceGraph, Pooling

_ATTENTION = "pooling/attention"
# The product of the probe's query and the key's kernel, for each head.
_PROBED = f"{_ATTENTION}/probed"


def _layer(spec):
    from keras_vit.layers.pooling import MAPPooling

    return MAPPooling(spec.num_heads, spec.mlp_dim, spec.gelu, spec.layer_norm_eps, name="pooling")


def _infer(graph: InferenceGraph, x):
    if f"{_PROBED}/kernel" in graph.weights:
        x = _attend_from_constant_query(graph, x)
    else:
        x = graph.attention(_ATTENTION, graph.for_each_image(graph.weights["pooling/probe"], x), x)
    x += graph.mlp("pooling/mlp", graph.norm("pooling/norm", x, centred=False))
    return graph.first_tokens(x, 1)


def _attend_from_constant_query(graph: InferenceGraph, keys):
    with graph.scope("attention"):
        logits = graph.scaled(graph.dense(_PROBED, keys))  # (batch, keys, heads)
        logits = graph.ops.transpose(logits, (0, 2, 1))
        value = graph.heads(graph.dense(f"{_ATTENTION}/value", keys))
        # (batch, heads, keys) to (batch, heads, 1, keys)
        logits = graph.ops.reshape(logits, (-1, graph.spec.num_heads, 1, keys.shape[1]))
        return graph.attended(_ATTENTION, logits, value)  # (batch, 1, hidden_dim)


def _fold_probe(spec, weights):
    weights.pop(f"{_ATTENTION}/key/bias", None)  # softmax ignores a constant added to all logits
    kernel, bias = (
        weights.pop(f"{_ATTENTION}/query/{part}").astype(float) for part in ("kernel", "bias")
    )
    query = weights.pop("pooling/probe").astype(float)[0] @ kernel + bias
    query = query.reshape(spec.num_heads, -1)  # (1, hidden_dim) to (heads, head_dim)
    key = weights.pop(f"{_ATTENTION}/key/kernel")
    key = key.reshape(spec.hidden_dim, spec.num_heads, -1)  # (hidden_dim, heads, head_dim)
    weights[f"{_PROBED}/kernel"] = np.einsum("dhk,hk->dh", key, query).astype(np.float32)


MAP = Pooling(
    class_token=False,
    layer=_layer,
    weights="""
MAPHead_0/probe                                           probe                     1 1 D
MAPHead_0/LayerNorm_0/scale                               norm/gamma                D
MAPHead_0/LayerNorm_0/bias                                norm/beta                 D
MAPHead_0/MultiHeadDotProductAttention_0/query/kernel     attention/query/kernel    D H d
MAPHead_0/MultiHeadDotProductAttention_0/query/bias       attention/query/bias      H d
MAPHead_0/MultiHeadDotProductAttention_0/key/kernel       attention/key/kernel      D H d
MAPHead_0/MultiHeadDotProductAttention_0/key/bias         attention/key/bias        H d
MAPHead_0/MultiHeadDotProductAttention_0/value/kernel     attention/value/kernel    D H d
MAPHead_0/MultiHeadDotProductAttention_0/value/bias       attention/value/bias      H d
MAPHead_0/MultiHeadDotProductAttention_0/out/kernel       attention/out/kernel      H d D
MAPHead_0/MultiHeadDotProductAttention_0/out/bias         attention/out/bias        D
MAPHead_0/MlpBlock_0/Dense_0/kernel                       mlp/dense_0/kernel        D M
MAPHead_0/MlpBlock_0/Dense_0/bias                         mlp/dense_0/bias          M
MAPHead_0/MlpBlock_0/Dense_1/kernel                       mlp/dense_1/kernel        M D
MAPHead_0/MlpBlock_0/Dense_1/bias                         mlp/dense_1/bias          D
""",
    infer=_infer,
    # The query reads the probe, not the norm.
    readers=(_PROBED, f"{_ATTENTION}/key", f"{_ATTENTION}/value"),
    norms={"pooling/norm": ["pooling/mlp/dense_0"]},
    fold_constants=_fold_probe,
)
