"""The inference graph: a TensorFlow function for a spec and its weights, with exact rewrites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_vit._keras import LEGACY
from keras_vit.deploy.graph.balance import balance, balances
from keras_vit.deploy.graph.graph_options import DEFAULTS, GraphOptions
from keras_vit.deploy.graph.resnet import bit, stem
from keras_vit.deploy.graph.rewrites import Parameters, folds_uint8, resolve_parameters, rewrite
from keras_vit.deploy.graph.tensorflow_machine import TensorFlowMachine
from keras_vit.parts.encoder import encode
from keras_vit.specs import Preprocessing, ResNetSpec, Spec, ViTSpec


def inference_module(
    spec: Spec,
    parameters: Parameters,
    image_size: tuple[int, int],
    preprocessing: Preprocessing,
    options: GraphOptions = DEFAULTS,
    calibration: np.ndarray | None = None,
    tail: Any = None,
) -> tf.Module:
    """A `tf.Module` whose `serve(images)` gives {options.output: tensor}.

    The weights are variables, so that a model of more than 2 GB can be saved and converted.

    Args:
        spec: spec of a ViT, a hybrid or a BiT.
        parameters: its weights by keras_vit's names. The dict is emptied, so that the weights are
            in memory only once.
        image_size: height and width in pixels.
        preprocessing: mean and scale of the pixels, for `options.input == "uint8"`.
        options: the graph's input, output and rewrites.
        calibration: input images (n, height, width, 3), for a graph that will be quantised: its
            outlier channels are balanced (see `balance`) if `balances` allows it.
        tail: a Keras model from the features to the output, which replaces keras_vit's head.
    """
    has_tail = tail is not None
    prepare(spec, parameters, image_size, preprocessing, options, calibration, has_tail)
    return prepared_module(spec, parameters, image_size, preprocessing, options, tail)


def prepared_module(
    spec: Spec,
    parameters: Parameters,
    image_size: tuple[int, int],
    preprocessing: Preprocessing,
    options: GraphOptions,
    tail: Any = None,
) -> tf.Module:
    """`inference_module` of parameters that `prepare` has changed."""
    weights = {}
    while parameters:
        name, array = parameters.popitem()
        weights[name] = tf.Variable(array, trainable=False, name=name)

    def scores(images):
        outputs = forward(spec, weights, images, preprocessing, options)
        return outputs if tail is None else tail(outputs, training=False)

    variables = [*weights.values(), *variables_of(tail)]
    return module_of_scores(scores, (*image_size, spec.in_channels), options, variables)


def module_of_scores(
    scores: Callable[[tf.Tensor], tf.Tensor],
    input_shape: tuple[int, int, int],
    options: GraphOptions,
    variables: list[tf.Variable],
) -> tf.Module:
    """A `tf.Module` whose `serve(images)` gives {options.output: scores(images)}."""
    shape = (options.batch, *input_shape)

    @tf.function(
        input_signature=[tf.TensorSpec(shape, tf.as_dtype(options.input), name="images")],
        autograph=False,
    )
    def serve(images):
        return {options.output: scores(images)}

    module = tf.Module()
    module.serve = serve
    # Only variables that are attributes of the module are saved.
    module.variables_of_graph = variables
    return module


def prepare(
    spec: Spec,
    parameters: Parameters,
    image_size: tuple[int, int],
    preprocessing: Preprocessing,
    options: GraphOptions,
    calibration: np.ndarray | None = None,
    has_tail: bool = False,
) -> None:
    """Turns the weights of a model into those that `forward` takes, in place.

    The arguments are those of `inference_module`.
    """
    grid = spec.grid(image_size) if isinstance(spec, ViTSpec) else (0, 0)
    resolve_parameters(spec, parameters, grid)
    if options.output == "features" or has_tail:
        for part in ("kernel", "bias"):
            parameters.pop(f"head/{part}", None)
    rewrite(spec, parameters, preprocessing, options.rewrites, options.input == "uint8")
    if calibration is not None and balances(spec, options.rewrites):
        balance(
            spec, parameters, channel_ranges(spec, parameters, calibration, preprocessing, options)
        )


def variables_of(tail: Any) -> list[tf.Variable]:
    """The TensorFlow variables of a Keras model; none without a model."""
    # A variable of Keras 3 wraps a TensorFlow variable; a variable of tf_keras is one.
    return [] if tail is None else [v if LEGACY else v.value for v in tail.variables]


def forward(
    spec: Spec,
    weights: dict[str, Any],
    images: tf.Tensor,
    preprocessing: Preprocessing,
    options: GraphOptions,
    taps: dict[str, tf.Tensor] | None = None,
) -> tf.Tensor:
    """The graph itself: from `images` (batch, height, width, 3) to `options.output`.

    Args:
        taps: filled with the inputs of quantised layers and the outputs of blocks, by name.
    """
    m = TensorFlowMachine(spec, weights, options.rewrites, {} if taps is None else taps)
    if options.input == "uint8" and not ("uint8_input" in options.rewrites and folds_uint8(spec)):
        with tf.name_scope("pixels"):
            images = tf.cast(images, tf.float32)
            scale = np.asarray(preprocessing.scale, np.float32)
            images = (images - preprocessing.mean) * (1 / scale)
    if isinstance(spec, ResNetSpec):
        features = bit(m, images)
    else:
        only = m.wiring.first_tokens if "class_token_only" in options.rewrites else None
        features = encode(m, stem(m, images) if spec.stem else images, only)
    if "head/kernel" not in weights:
        return features
    logits = m.dense("head", features)
    return probabilities_of(logits) if options.output == "probabilities" else logits


def probabilities_of(logits: tf.Tensor) -> tf.Tensor:
    """The softmax of logits (..., classes), or the sigmoid of a single one (..., 1)."""
    return tf.nn.softmax(logits) if logits.shape[-1] > 1 else tf.nn.sigmoid(logits)


def channel_ranges(
    spec: Spec,
    weights: Parameters,
    images: np.ndarray,
    preprocessing: Preprocessing,
    options: GraphOptions,
) -> dict[str, np.ndarray]:
    """The largest magnitude of each channel in each tap of `forward`, over images and positions."""
    ranges: dict[str, np.ndarray] = {}
    for image in images:
        taps: dict[str, tf.Tensor] = {}
        forward(spec, weights, tf.constant(image[None]), preprocessing, options, taps)
        for name, x in taps.items():
            largest = np.abs(x.numpy()).reshape(-1, x.shape[-1]).max(0)
            ranges[name] = np.maximum(ranges.get(name, 0), largest)
    return ranges
