"""The inference graph, its exact rewrites and the balancing of its outlier channels."""
