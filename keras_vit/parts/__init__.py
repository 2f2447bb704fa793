"""What a ViT is made of, described once, without Keras and without TensorFlow.

A part (block, embedding, pooling) is two things: the rows of its weights (`rows.py`) and a function
of a machine's verbs (`machine.py`). Keras layers, the exported graph, its exact rewrites and the
count of operations are machines, so none of them has a description of its own. Position embeddings
are records with functions of arrays.
"""
