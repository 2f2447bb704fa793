"""The inference graph: a TensorFlow function for a spec and its weights, with exact rewrites.

It is written for the CPU and GPU delegates of LiteRT: every shape is static, tensors have at most
four dimensions, and only arithmetic broadcasts. Tokens have the shape (batch, tokens, hidden_dim).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

import numpy as np
import tensorflow as tf

from keras_vit import _legacy_ops
from keras_vit._errors import UsageError
from keras_vit._keras import LEGACY
from keras_vit.deploy.graph.balance import balance, balances
from keras_vit.deploy.graph.rewrites import (
    REWRITES,
    STREAM_DIVISOR,
    Parameters,
    check_rewrites,
    folds_uint8,
    resolve_parameters,
    rewrite,
    standardise,
)
from keras_vit.parts.poolings import POOLINGS
from keras_vit.specs import Preprocessing, ResNetSpec, ResNetUnit, Spec, ViTSpec

Input = Literal["float32", "uint8"]
Output = Literal["logits", "probabilities", "features"]
_GROUPS = 32


@dataclasses.dataclass(frozen=True)
class GraphOptions:
    """The input, the output and the rewrites of a graph.

    Attributes:
        input: "float32", preprocessed as for Keras; "uint8", RGB or grey pixels of the
            right size.
        output: "logits"; "probabilities", their softmax, or of one logit its sigmoid; "features",
            the input of the head.
        batch: a fixed number of images; None for any.
        rewrites: names in `REWRITES`.

    Raises:
        UsageError: an unknown input, output or rewrite.
    """

    input: Input = "float32"
    output: Output = "logits"
    batch: int | None = 1
    rewrites: frozenset[str] = frozenset(REWRITES)

    def __post_init__(self):
        object.__setattr__(self, "rewrites", check_rewrites(self.rewrites))
        for field, choices in (("input", Input), ("output", Output)):
            if getattr(self, field) not in get_args(choices):
                raise UsageError(
                    f"{field} must be one of {', '.join(get_args(choices))}. "
                    f"Received: {field}={getattr(self, field)!r}."
                )


def inference_module(
    spec: Spec,
    parameters: Parameters,
    image_size: tuple[int, int],
    preprocessing: Preprocessing,
    options: GraphOptions = GraphOptions(),
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
    module = tf.Module()
    weights = {}
    while parameters:
        name, array = parameters.popitem()
        weights[name] = tf.Variable(array, trainable=False, name=name)
    # Only variables that are attributes of the module are saved.
    module.variables_of_graph = [*weights.values(), *variables_of(tail)]
    shape = (options.batch, *image_size, spec.in_channels)

    signature = [tf.TensorSpec(shape, tf.as_dtype(options.input), name="images")]

    @tf.function(input_signature=signature, autograph=False)
    def serve(images):
        outputs = forward(spec, weights, images, preprocessing, options)
        return {options.output: outputs if tail is None else tail(outputs, training=False)}

    module.serve = serve
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
    if not has_tail and options.output != "features" and "head/kernel" not in parameters:
        raise UsageError(
            f"a model without a head only has output='features'. Received: {options.output!r}."
        )
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
    graph = _Graph(spec, weights, options, {} if taps is None else taps)
    if options.input == "uint8" and not ("uint8_input" in options.rewrites and folds_uint8(spec)):
        with tf.name_scope("pixels"):
            images = tf.cast(images, tf.float32)
            scale = np.asarray(preprocessing.scale, np.float32)
            images = (images - preprocessing.mean) * (1 / scale)
    features = graph.bit(images) if isinstance(spec, ResNetSpec) else graph.vit(images)
    if "head/kernel" not in weights:
        return features
    logits = graph.dense("head", features)
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


class _Graph:
    """One forward pass: the spec, the weights and the rewrites, shared by its parts.

    Poolings use it as an `InferenceGraph`.
    """

    # Poolings do not import TensorFlow; they use its functions under the names of `keras.ops`.
    ops = _legacy_ops
    scope = tf.name_scope

    def __init__(self, spec: Spec, weights: dict, options: GraphOptions, taps: dict):
        self.spec = spec
        self.weights = weights
        self.rewrites = options.rewrites
        self.divisor = STREAM_DIVISOR if "scaled_stream" in options.rewrites else 1.0
        self.taps = taps

    def vit(self, images):
        spec, pooling = self.spec, POOLINGS[self.spec.pooling]
        x = images if spec.stem is None else self.stem(images)
        x = self.embed(x)
        for i in range(spec.depth):
            prefix_only = i == spec.depth - 1 and pooling.reads_only_prefix
            prefix_only = prefix_only and "class_token_only" in self.rewrites
            with tf.name_scope(f"encoderblock_{i}"):
                x = self.block(f"encoderblock_{i}", x, prefix_only)
            self.taps[f"encoderblock_{i}"] = x
        x = self.norm("encoder_norm", x, "centre" in self.rewrites)
        with tf.name_scope("pooling"):
            x = pooling.infer(self, x)
        if spec.representation_dim:
            with tf.name_scope("pre_logits"):
                x = tf.nn.tanh(self.dense("pre_logits", x))
        return x

    def embed(self, x):
        spec = self.spec
        with tf.name_scope("patch_encoder"):
            # The pixels of a patch are in raster order, channels last, as in the kernel.
            x = tf.cast(x, tf.float32)
            rows, columns = (side // spec.patch_size * spec.patch_size for side in x.shape[1:3])
            if (rows, columns) != (x.shape[1], x.shape[2]):
                x = x[:, :rows, :columns]  # a hybrid crops what does not fill a patch
            x = tf.nn.space_to_depth(x, spec.patch_size) if spec.patch_size > 1 else x
            _, rows, columns, pixels = x.shape
            x = tf.reshape(x, (-1, rows * columns, pixels))  # (batch, patches, pixels)
            x = self.dense("patch_encoder/projection", x)
            if "patch_encoder/positions" in self.weights:
                x += self.weights["patch_encoder/positions"]
            if not spec.class_token:
                return x
            prefix = self.weights["patch_encoder/class_token"]  # (1, prefix, hidden_dim)
            if "patch_encoder/class_position" in self.weights:
                prefix = prefix + self.weights["patch_encoder/class_position"]
            prefix = self.for_each_image(prefix, x)
            return tf.concat([prefix, x], axis=1)  # (batch, prefix + patches, hidden_dim)

    def for_each_image(self, constant, x):
        """A constant (1, n, hidden_dim), repeated for the batch of `x`: (batch, n, hidden_dim)."""
        return constant if x.shape[0] == 1 else tf.tile(constant, (tf.shape(x)[0], 1, 1))

    def block(self, name, x, prefix_only):
        """A transformer block; if `prefix_only`, for the tokens before the patches.

        Then the output is (batch, prefix, hidden_dim).
        """
        centred = "centre" in self.rewrites
        keys = queries = self.norm(f"{name}/norm_attention", x, centred)
        if prefix_only:
            queries, x = (each[:, : self.spec.prefix_tokens] for each in (keys, x))
        y = self.attention(f"{name}/attention", queries, keys)
        x = tf.add(x, y, name="attended")
        y = self.mlp(f"{name}/mlp", self.norm(f"{name}/norm_mlp", x, centred))
        return tf.add(x, y, name="output")

    def attention(self, name, queries, keys):
        with tf.name_scope("attention"):
            query = self.heads(self.scaled(self.dense(f"{name}/query", queries)))
            key = self.heads(self.dense(f"{name}/key", keys), (0, 2, 3, 1))
            value = self.heads(self.dense(f"{name}/value", keys))
            # GPU delegates ignore `transpose_b`, so the keys are transposed above.
            logits = tf.matmul(query, key)  # (batch, heads, queries, keys)
            bias = self.weights.get(f"{name}/position_bias")  # (1, heads, tokens, tokens)
            logits = logits if bias is None else logits + bias[:, :, : queries.shape[1]]
            return self.attended(name, logits, value)

    def attended(self, name, logits, value):
        """The output of attention from logits (b, h, queries, keys), values (b, h, keys, dim)."""
        x = tf.matmul(tf.nn.softmax(logits), value)  # (batch, heads, queries, head_dim)
        x = tf.transpose(x, (0, 2, 1, 3))
        # (batch, queries, heads, head_dim) to (batch, queries, hidden_dim)
        x = tf.reshape(x, (-1, x.shape[1], self.spec.hidden_dim))
        return self.dense(f"{name}/out", x)

    def scaled(self, query):
        folded = "attention_biases" in self.rewrites
        return query if folded else query * self.spec.head_dim**-0.5

    def heads(self, x, order=(0, 2, 1, 3)):
        """(batch, tokens, hidden_dim) to (batch, heads, tokens, head_dim), or another `order`."""
        heads, dim = self.spec.num_heads, self.spec.head_dim
        x = tf.reshape(x, (-1, x.shape[1], heads, dim))  # (batch, tokens, heads, head_dim)
        return tf.transpose(x, order)

    def mlp(self, name, x):
        with tf.name_scope("mlp"):
            x = self.dense(f"{name}/dense_0", x)
            x = tf.nn.gelu(x, approximate=self.spec.gelu == "tanh")
            return self.dense(f"{name}/dense_1", x)

    def first_tokens(self, x, count):
        """(batch, tokens, hidden_dim) to (batch, count * hidden_dim)."""
        x = x if x.shape[1] == count else x[:, :count]
        # (batch, count, hidden_dim) to (batch, count * hidden_dim)
        return tf.reshape(x, (-1, count * self.spec.hidden_dim))

    def norm(self, name, x, centred):
        """LayerNorm. The mean of `centred` values is zero and is not computed."""
        with tf.name_scope(name.split("/")[-1]):
            return self.normalised(name, x, centred)

    def normalised(self, name, x, centred):
        scaled = centred and "stream/scale" in self.weights
        if not centred:
            x -= tf.reduce_mean(x, axis=-1, keepdims=True)
        unscaled = x * self.weights["stream/scale"] if scaled else x
        # A product, because files in full integers cannot have an operator for squares.
        mean_square = tf.reduce_mean(tf.multiply(unscaled, unscaled), axis=-1, keepdims=True)
        # The residual stream is divided, but the input of norms inside the pooling is not.
        divisor = 1.0 if name.startswith("pooling/") else self.divisor
        factor = tf.math.rsqrt(mean_square + self.spec.layer_norm_eps / divisor**2)
        if f"{name}/smooth" in self.weights:
            # If it were multiplied with x, the converter would fold it into the kernels after x.
            factor *= self.weights[f"{name}/smooth"]
        x *= factor
        if f"{name}/gamma" in self.weights:
            x = x * self.weights[f"{name}/gamma"] + self.weights[f"{name}/beta"]
        return x

    def dense(self, name, x):
        with tf.name_scope(name.split("/")[-1]):
            self.taps[name] = x
            x = tf.matmul(x, self.weights[f"{name}/kernel"])
            bias = self.weights.get(f"{name}/bias")
            return x if bias is None else x + bias

    def stem(self, x):
        """A hybrid's ResNet: see `models/vit.py`."""
        x = tf.nn.relu(self.group_norm("gn_root", self.conv("conv_root", x, 2)))
        with tf.name_scope("pool_root"):
            x = tf.nn.max_pool2d(x, 3, 2, "SAME")
        for unit in self.spec.stem.units:
            with tf.name_scope(unit.name):
                x = self.unit(unit, x)
            self.taps[unit.name] = x
        return x

    def unit(self, unit: ResNetUnit, x):
        """See `layers/residual_unit.py`."""
        name, residual = unit.name, x
        if unit.projects:
            residual = self.group_norm(
                f"{name}/gn_proj", self.conv(f"{name}/conv_proj", x, unit.strides)
            )
        x = tf.nn.relu(self.group_norm(f"{name}/gn1", self.conv(f"{name}/conv1", x)))
        x = self.conv(f"{name}/conv2", x, unit.strides)
        x = tf.nn.relu(self.group_norm(f"{name}/gn2", x))
        x = residual + self.group_norm(f"{name}/gn3", self.conv(f"{name}/conv3", x))
        return tf.nn.relu(x, name="output")

    def bit(self, x):
        """See `models/bit.py`."""
        x = self.conv("conv_root", x, 2)
        with tf.name_scope("pool_root"):
            x = tf.nn.max_pool2d(tf.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)]), 3, 2, "VALID")
        for unit in self.spec.units:
            with tf.name_scope(unit.name):
                x = self.preactivation_unit(unit, x)
            self.taps[unit.name] = x
        x = tf.nn.relu(self.group_norm("group_norm", x))
        with tf.name_scope("pooling"):
            return tf.reduce_mean(x, axis=(1, 2))

    def preactivation_unit(self, unit: ResNetUnit, x):
        """See `layers/residual_unit.py`."""
        name = unit.name
        active = tf.nn.relu(self.group_norm(f"{name}/gn1", x))
        if unit.projects:
            x = self.conv(f"{name}/conv_proj", active, unit.strides)
        y = self.conv(f"{name}/conv1", active)
        y = self.conv(f"{name}/conv2", tf.nn.relu(self.group_norm(f"{name}/gn2", y)), unit.strides)
        y = self.conv(f"{name}/conv3", tf.nn.relu(self.group_norm(f"{name}/gn3", y)))
        return tf.add(x, y, name="output")

    def conv(self, name, x, strides=1):
        with tf.name_scope(name.split("/")[-1]):
            self.taps[name] = x
            kernel = self.weights[f"{name}/kernel"]
            if "standardised_kernels" not in self.rewrites:
                kernel = standardise(kernel, self.spec, tf.reduce_mean, tf.sqrt)
            padding, size = "SAME", int(kernel.shape[0])
            if isinstance(self.spec, ResNetSpec) and strides > 1 and size > 1:
                margin = ((size - 1) // 2,) * 2  # the same zeros on both sides
                x, padding = tf.pad(x, [(0, 0), margin, margin, (0, 0)]), "VALID"
            return tf.nn.conv2d(x, kernel, strides, padding)

    def group_norm(self, name, x):
        epsilon = 1e-5 if isinstance(self.spec, ResNetSpec) else 1e-6
        _, height, width, channels = x.shape
        with tf.name_scope(name.split("/")[-1]):
            # (batch, positions, groups, channels of a group)
            y = tf.reshape(x, (-1, height * width, _GROUPS, channels // _GROUPS))
            y -= _group_mean(y)
            y *= tf.math.rsqrt(_group_mean(tf.multiply(y, y)) + epsilon)
            y = tf.reshape(y, (-1, height, width, channels))
            return y * self.weights[f"{name}/gamma"] + self.weights[f"{name}/beta"]


def _group_mean(x):
    # Delegates only take the mean over one axis at a time.
    return tf.reduce_mean(tf.reduce_mean(x, axis=1, keepdims=True), axis=3, keepdims=True)
