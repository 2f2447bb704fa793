"""Conversion of graphs to files: TFLite's converter, quantisation and SavedModels."""
