"""The inference graph: a TensorFlow function for a spec and its weights, with exact rewrites."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_vit._keras import LEGACY
from keras_vit.deploy.graph.balance import balance, balances
from keras_vit.deploy.graph.graph_options import GraphOptions, InferenceGraph
from keras_vit.deploy.graph.mask_outputs import cells_of, mask_of, mask_size
from keras_vit.deploy.graph.resnet import bit, stem
from keras_vit.deploy.graph.rewrites import folds_uint8, resolve_parameters, rewrite
from keras_vit.deploy.graph.tensorflow_ops import TensorFlowOps
from keras_vit.encoder.encode import encode
from keras_vit.specs import ResNetSpec, ViTSpec, head_activation


def inference_module(graph: InferenceGraph) -> tf.Module:
    """A `tf.Module` whose `serve(images)` gives {options.output: tensor}.

    The weights are variables, so that a model of more than 2 GB can be saved and converted.

    Args:
        graph: a prepared graph. With its weights on disk, they are in memory only once.
    """
    variables = {
        name: tf.Variable(graph.weights[name], trainable=False, name=name)
        # Files have the variables in this order.
        for name in reversed(list(graph.weights))
    }
    filled = dataclasses.replace(graph, weights=variables)
    shape = (*graph.image_size, graph.spec.in_channels)
    every = [*variables.values(), *variables_of(graph.tail)]
    return module_of(lambda images: forward(filled, images), shape, graph.options, every)


def module_of(
    scores: Callable[[tf.Tensor], tf.Tensor],
    input_shape: tuple[int, int, int],
    options: GraphOptions,
    variables: list[tf.Variable],
    autograph: bool = False,
) -> tf.Module:
    """A `tf.Module` whose `serve(images)` gives {options.output: scores(images)}."""
    images = tf.TensorSpec((options.batch, *input_shape), tf.as_dtype(options.input), "images")

    @tf.function(input_signature=[images], autograph=autograph)
    def serve(images):
        return {options.output: scores(images)}

    module = tf.Module()
    module.serve = serve
    # Only variables that are attributes of the module are saved: without them, a file without
    # weights would be converted, without an error.
    module.variables_of_graph = variables
    return module


def prepare(graph: InferenceGraph, calibration: np.ndarray | None = None) -> InferenceGraph:
    """Turns the weights of a model into those that `forward` takes, in place.

    Args:
        graph: the graph.
        calibration: input images (n, height, width, 3), for a graph that will be quantised: its
            outlier channels are balanced (see `balance`) if `balances` allows it.
    """
    spec, parameters, options = graph.spec, graph.weights, graph.options
    grid = spec.grid(graph.image_size) if isinstance(spec, ViTSpec) else (0, 0)
    resolve_parameters(spec, parameters, grid)
    for name in [name for name in parameters if _is_unread(name, graph)]:
        del parameters[name]
    uint8, as_map = options.input == "uint8", options.reads_patches
    rewrite(spec, parameters, graph.preprocessing, options.rewrites, uint8, as_map)
    if calibration is not None and balances(spec, options.rewrites):
        balance(spec, parameters, channel_ranges(graph, calibration), as_map)
    return graph


def _is_unread(name: str, graph: InferenceGraph) -> bool:
    """Whether the output does not depend on a parameter; all that follows a map is left out."""
    part = name.partition("/")[0]
    if graph.options.is_map:
        norm = getattr(graph.spec, "norm_after_pooling", False) and part == "encoder_norm"
        return norm or part in ("pooling", "pre_logits", "projection", "head_norm", "head")
    return part == "head" and (graph.options.output == "features" or graph.tail is not None)


def variables_of(model: Any) -> list[tf.Variable]:
    """The TensorFlow variables of a Keras model; none without a model."""
    # A variable of Keras 3 wraps a TensorFlow variable; a variable of tf_keras is one.
    return [] if model is None else [v if LEGACY else v.value for v in model.variables]


def forward(
    graph: InferenceGraph, images: tf.Tensor, taps: dict[str, tf.Tensor] | None = None
) -> tf.Tensor:
    """A prepared graph's output for `images` (batch, height, width, 3).

    Args:
        graph: the graph; its weights may be tensors or variables.
        images: the images.
        taps: filled with the inputs of Dense layers and the outputs of blocks, by name.
    """
    spec, options, preprocessing = graph.spec, graph.options, graph.preprocessing
    ops = TensorFlowOps(graph, {} if taps is None else taps)
    if options.input == "uint8" and not ("uint8_input" in options.rewrites and folds_uint8(spec)):
        with tf.name_scope("pixels"):
            images = tf.cast(images, tf.float32)
            scale = np.asarray(preprocessing.scale, np.float32)
            images = (images - preprocessing.mean) * (1 / scale)
    if isinstance(spec, ResNetSpec):
        x = bit(ops, images, options.is_map)
    else:
        only = ops.wiring.first_tokens if "class_token_only" in options.rewrites else None
        x = encode(ops, stem(ops, images) if spec.stem else images, only, options.reads_patches)
        if options.is_map:
            # (batch, patches, hidden_dim) to (batch, rows, columns, hidden_dim)
            x = tf.reshape(x, (-1, *spec.grid(graph.image_size), spec.hidden_dim))
    if options.is_map:
        return x
    if graph.tail is not None:
        return graph.tail(x, training=False)
    if "head/kernel" not in graph.weights:
        is_unit = getattr(spec, "normalized_features", False)
        return ops.normalized(x) if options.normalize and not is_unit else x
    logits = ops.dense("head", x)
    if options.is_mask:
        cells = cells_of(logits, spec, graph.image_size)
        return mask_of(cells, mask_size(graph.image_size, spec.cell, options), options.output)
    if options.output == "probabilities":
        return HEAD_ACTIVATIONS[head_activation(spec, logits.shape[-1])](logits)
    return logits


HEAD_ACTIVATIONS = {"softmax": tf.nn.softmax, "sigmoid": tf.nn.sigmoid}


def channel_ranges(graph: InferenceGraph, images: np.ndarray) -> dict[str, np.ndarray]:
    """The largest magnitude of each channel in each tap of `forward`, over images and positions."""
    ranges: dict[str, np.ndarray] = {}
    for image in images:
        taps: dict[str, tf.Tensor] = {}
        forward(graph, tf.constant(image[None]), taps)
        for name, x in taps.items():
            largest = np.abs(x.numpy()).reshape(-1, x.shape[-1]).max(0)
            ranges[name] = np.maximum(ranges.get(name, 0), largest)
    return ranges
