"""The exchangeable parts of a ViT: position embeddings and poolings, one file for each kind.

Each kind is described in one place: its weights and their official names, the computation in the
Keras layer and in the exported graph, and its other properties. Importing these modules does not
import Keras, because `specs` needs their tables.
"""
