"""How a graph becomes a file: TFLite's converter, quantisation, the SavedModel."""
