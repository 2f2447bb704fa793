"""Files that end early: to look at a tensor inside a graph, where no runtime would show it."""

from __future__ import annotations

from keras_vit.deploy.convert.buffers import embed_weights, packed


def ending_at(content: bytes, tensor: int) -> bytes:
    """A file whose output is a tensor of another file, and which computes nothing after it.

    Args:
        content: a `.tflite` file of one graph.
        tensor: the index of a tensor that one of its operators writes.
    """
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(embed_weights(content))
    [graph] = model.subgraphs
    last = next(i for i, op in enumerate(graph.operators) if tensor in op.outputs)
    graph.operators = graph.operators[: last + 1]
    graph.outputs = [tensor]
    model.signatureDefs = model.metadata = model.metadataBuffer = None  # about the whole file
    return bytes(packed(model, len(content) + len(content) // 64 + 2**20))
