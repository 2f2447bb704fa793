"""What a ViT is made of, described once, without Keras and without TensorFlow.

A part (block, embedding, pooling) is two things: the rows of its weights (`weight_rows.py`) and a
function of operations (`ops.py`). Keras layers, the exported graph, its exact rewrites and the
count of operations implement these operations, so none of them has a description of its own.
Position embeddings are records with functions of arrays.
"""
