"""Reads, runs and examines `.tflite` files, whoever made them; `keras_vit.deploy` makes them."""
