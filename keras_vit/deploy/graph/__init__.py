"""What is computed: the inference graph, its exact rewrites, its outlier channels balanced."""
