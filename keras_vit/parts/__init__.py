"""The exchangeable parts of a ViT: position embeddings and poolings, one kind a file.

Each kind is described once: its weights and their official names, what the Keras layer and the
exported graph compute, and what else other rooms must know of it. Nothing here imports Keras when
it is imported, because `specs` reads these tables.
"""
