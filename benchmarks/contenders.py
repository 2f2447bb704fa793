"""One model through several exporters and runtimes, which `benchmarks/exporters.py` times.

All use the weights of one Keras model, except KerasHub, whose weights only have the same shapes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit._quiet import quiet
from keras_vit.deploy.convert.converter import Converter
from keras_vit.deploy.convert.saved_model import save_module, write_saved_model
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.graph.rewrites import REWRITES
from keras_vit.deploy.resolve import resolve
from keras_vit.models.image_model import ImageModel
from keras_vit.specs import ViTSpec
from keras_vit.tflite.flatbuffer import Operator, read_graph
from keras_vit.tflite.runner import Runner
from keras_vit.weights.saving import save_weights


@dataclasses.dataclass(frozen=True)
class Contender:
    """An implementation that computes the model's logits of one image.

    Attributes:
        run: the timed function: sets the image, runs the model and reads the scores.
        bytes: size of its file; None if there is none.
        logits: the logits of all images (n, classes); None if it has other weights or no logits.
    """

    run: Callable[[], Any]
    bytes: int | None = None
    logits: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Setting:
    """The settings of all contenders.

    Attributes:
        model: the Keras model.
        images: preprocessed images (n, height, width, 3); the first one is timed.
        calibration: other images, for measuring ranges.
        threads: number of threads of each runtime.
        converter: the model's converter, for the files of keras_vit.
    """

    model: ImageModel
    images: np.ndarray
    calibration: np.ndarray
    threads: int
    converter: Converter


KERAS_VIT = ("float32", "float16", "dynamic", "int8")


def setting(
    model: ImageModel, images: np.ndarray, calibration: np.ndarray, threads: int
) -> Setting:
    """The setting, with a converter for the files of keras_vit."""
    names = ["none" if name == "float32" else name for name in KERAS_VIT]
    converter = Converter(resolve(model), names, calibration)
    return Setting(model, images, calibration, threads, converter)


def in_turn(calls: dict[Any, Callable[[], Any]], rounds: int) -> dict[Any, list[float]]:
    """The seconds of each call in each round; before each it is made once without being timed.

    The caches and threads may still be busy with the call before.
    """
    times: dict[Any, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return times


def contender(name: str, setting: Setting) -> Contender:
    """Builds a contender of `CONTENDERS`.

    The output of its packages is shown only if it fails.

    Raises:
        ImportError: its package is not installed.
        UsageError: it does not have this kind of model.
    """
    module, build = CONTENDERS[name]
    if module is not None and importlib.util.find_spec(module) is None:
        raise ImportError(f"{name} needs {module}: pip install {module.replace('_', '-')}")
    with quiet(), contextlib.redirect_stdout(sys.stderr):
        return build(setting)


def ablation(setting: Setting, say: Callable[[str], None]) -> dict[str, Contender]:
    """The float32 files of keras_vit with all rewrites, without each one of them, and without any.

    A file with the same graph as an earlier one is left out; `say` is called with a line for each.
    """
    sets = {"all rewrites": frozenset(REWRITES)}
    sets |= {f"without {name}": sets["all rewrites"] - {name} for name in REWRITES}
    sets |= {"none": frozenset()}
    built, known = {}, {}
    for name, rewrites in sets.items():
        options = GraphOptions(rewrites=rewrites)
        content = Converter(resolve(setting.model, options), ["none"])("none")
        same = known.setdefault((_computation(content), len(content)), name)
        if same == name:
            say(name)
            built[name] = _tflite(content, setting)
        else:
            say(f"{name}: left out, its graph equals that of {same!r}")
    return built


def trained_like(model: ImageModel, outliers: float = 1.0, seed: int = 0) -> ImageModel:
    """Gives a new model weights like those of a trained one, in place.

    The scales of norms are 0.3 to 2, and no bias and no head is zero. With `outliers` above 1, six
    channels of the residual stream are larger than the others, by a factor of 0.3 to 1 times
    `outliers` (at least 1), and the scales of the norms that read them are smaller by the same
    factor, as in trained ViTs (Sun et al. 2024). The output changes, because the outliers change
    the variance in the norms.

    Raises:
        UsageError: outliers are requested for a model without a residual stream of tokens.
    """
    if outliers > 1 and not isinstance(model.spec, ViTSpec):
        raise UsageError(f"outliers are for ViTs. Received: outliers={outliers} and a BiT.")
    generator = np.random.default_rng(seed)
    for variable in model.weights:
        shape = tuple(variable.shape)
        value = np.asarray(variable)
        kind = getattr(variable, "path", variable.name).split("/")[-1].split(":")[0]
        if kind == "gamma":
            value = value * generator.uniform(0.3, 2.0, shape)
        elif kind in ("beta", "bias"):
            value = generator.normal(0, 0.1, shape)
        elif shape[-1] == model.num_classes and len(shape) == 2:
            value = generator.normal(0, 0.05, shape)
        variable.assign(value.astype(np.float32))
    if outliers > 1:
        _grow_outliers(model, outliers, generator)
    return model


def _grow_outliers(model: ImageModel, largest: float, generator: np.random.Generator) -> None:
    from keras_vit.deploy.graph.rewrites import wiring_of
    from keras_vit.deploy.resolve import parameters_of
    from keras_vit.weights.names import weight_names

    width = model.spec.hidden_dim
    growth = np.ones(width, np.float32)
    channels = generator.choice(width, 6, replace=False)
    growth[channels] = generator.uniform(max(1.0, 0.3 * largest), largest, 6)
    parameters = parameters_of(model)
    wired = wiring_of(model.spec, parameters)
    grown = dict.fromkeys(wired.stream_writers(parameters), growth)
    grown |= {f"{norm}/gamma": 1 / growth for norm in wired.stream_norms}
    names = weight_names(model.spec, model.num_classes, model.image_size)
    for name in names:
        if name.path in grown:
            name.variable(model).assign(parameters[name.path] * grown[name.path])


def products_alone(content: bytes) -> bytes:
    """A file with only the matrix products and convolutions of a float32 file.

    The left operand of each is an unread result of an earlier one, if there is one of its shape;
    otherwise it is an input. So memory is reused as in the whole file, and no two products have the
    same operands, which the converter would merge.
    """
    import tensorflow as tf

    graph = read_graph(content)
    generator = np.random.default_rng(0)
    inputs, kernels, steps = {}, {}, []
    unread = defaultdict(list)
    for operator in graph.operators:
        if operator.name not in ("FULLY_CONNECTED", "BATCH_MATMUL", "CONV_2D"):
            continue
        left, right = graph.read(operator)[:2]
        result, second = f"result_{operator.index}", "right_" + "_".join(map(str, right.shape))
        first = unread[left.shape].pop() if unread[left.shape] else f"left_{operator.index}"
        if first.startswith("left"):
            inputs[first] = left.shape
        if right.constant:
            second = f"kernel_{operator.index}"
            kernels[second] = tf.Variable(_kernel(operator, right.shape, generator))
        else:
            inputs[second] = right.shape
        steps.append((operator, first, second, result))
        unread[graph.written(operator)[0].shape].append(result)

    @tf.function(autograph=False)
    def serve(**activations):
        values = {**activations, **kernels}
        for operator, first, second, result in steps:
            values[result] = _product(operator, values[first], values[second])
        return {name: values[name] for names in unread.values() for name in names}

    module = tf.Module()
    module.kernels = list(kernels.values())
    signature = {name: tf.TensorSpec(shape, name=name) for name, shape in inputs.items()}
    with tempfile.TemporaryDirectory() as folder:
        save_module(module, folder, serve.get_concrete_function(**signature))
        return tf.lite.TFLiteConverter.from_saved_model(folder).convert()


def _kernel(operator: Operator, shape: tuple, generator: np.random.Generator) -> np.ndarray:
    """Random weights in TensorFlow's layout, with a scale that preserves that of their input."""
    if operator.name == "FULLY_CONNECTED":
        shape = shape[::-1]  # (inputs, outputs)
    elif operator.name == "CONV_2D":
        shape = (*shape[1:], shape[0])  # (height, width, inputs, outputs)
    return generator.normal(0, math.prod(shape[:-1]) ** -0.5, shape).astype(np.float32)


def _product(operator: Operator, left: Any, right: Any) -> Any:
    import tensorflow as tf

    options = operator.options
    if operator.name == "CONV_2D":
        strides = (options["strideH"], options["strideW"])
        return tf.nn.conv2d(left, right, strides, ("SAME", "VALID")[options["padding"]])
    return tf.matmul(left, right, transpose_b=options.get("adjY", False))


def _computation(content: bytes) -> tuple:
    """The operators of a file in order, each with the shapes that it reads and writes."""
    graph = read_graph(content)
    return tuple(
        (operator.name, *(t.shape for t in graph.read(operator) + graph.written(operator)))
        for operator in graph.operators
    )


def _keras_vit(precision: str) -> Callable[[Setting], Contender]:
    def build(setting: Setting) -> Contender:
        content = setting.converter("none" if precision == "float32" else precision)
        return _tflite(content, setting)

    return build


def _plain(setting: Setting) -> Contender:
    return _tflite(_plainly_converted(setting), setting)


def _plain_full_integer(setting: Setting) -> Contender:
    def representative() -> Iterable[list[np.ndarray]]:
        return ([image[None]] for image in setting.calibration)

    return _tflite(_plainly_converted(setting, representative), setting)


def _plainly_converted(setting: Setting, representative: Callable | None = None) -> bytes:
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        write_saved_model(setting.model, folder, batch=1)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        if representative is not None:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = representative
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        return converter.convert()


def _keras_hub(setting: Setting) -> Contender:
    import keras_hub

    _check_plain(setting)
    spec, size = setting.model.spec, setting.model.image_size
    backbone = keras_hub.models.ViTBackbone(
        image_shape=(*size, 3),
        patch_size=spec.patch_size,
        num_layers=spec.depth,
        num_heads=spec.num_heads,
        hidden_dim=spec.hidden_dim,
        mlp_dim=spec.mlp_dim,
    )
    classifier = keras_hub.models.ViTImageClassifier(backbone, setting.model.num_classes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        classifier.export(str(path), format="litert")
        return _tflite(path.read_bytes(), setting, same_weights=False)


def _floor(setting: Setting) -> Contender:
    content = setting.converter("none")
    graph = read_graph(content)
    runner = Runner(products_alone(content), setting.threads)
    inputs = runner.interpreter.get_input_details()
    generator = np.random.default_rng(0)
    for details in inputs:
        # With this scale, values neither grow nor vanish from block to block.
        values = generator.normal(0, details["shape"][-2] ** -0.5, details["shape"])
        runner.interpreter.set_tensor(details["index"], values.astype(np.float32))
    # Uses tensors about as large as the image and the scores.
    image, scores = (math.prod(graph.tensors[i].shape) for i in (*graph.inputs, *graph.outputs))
    runner.input = _nearest(inputs, image)
    runner.output = _nearest(runner.interpreter.get_output_details(), scores)
    image = runner.interpreter.get_tensor(runner.input["index"])
    return Contender(lambda: runner(image))


def _nearest(details: list[dict], size: int) -> dict:
    return min(details, key=lambda tensor: abs(math.prod(tensor["shape"]) - size))


def _torch(setting: Setting) -> Contender:
    import torch

    model = _torch_model(setting)
    torch.set_num_threads(setting.threads)
    images = _channels_first(setting.images)

    def logits(images: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model(torch.from_numpy(images)).logits.numpy()

    return Contender(lambda: logits(images[:1]), None, logits(images))


def _onnx_runtime(setting: Setting) -> Contender:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = setting.threads
    with tempfile.TemporaryDirectory() as folder:
        path = _onnx_file(setting, folder)
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    name = session.get_inputs()[0].name
    images = _channels_first(setting.images)

    def logits(image: np.ndarray) -> np.ndarray:
        return session.run(None, {name: image[None]})[0]

    return Contender(lambda: logits(images[0]), size, np.concatenate([logits(x) for x in images]))


def _openvino(setting: Setting, precision: str) -> Contender:
    import openvino

    with tempfile.TemporaryDirectory() as folder:
        path = _onnx_file(setting, folder)
        compiled = openvino.compile_model(
            openvino.convert_model(str(path)),
            "CPU",
            {
                "INFERENCE_NUM_THREADS": setting.threads,
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_PRECISION_HINT": precision,
            },
        )
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    images = _channels_first(setting.images)

    def logits(image: np.ndarray) -> np.ndarray:
        return np.asarray(compiled(image[None])[0])

    return Contender(lambda: logits(images[0]), size, np.concatenate([logits(x) for x in images]))


def _litert_torch(setting: Setting) -> Contender:
    import litert_torch
    import torch

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = _torch_model(setting)

        def forward(self, images):
            return self.model(images.permute(0, 3, 1, 2)).logits

    edge = litert_torch.convert(Logits().eval(), (torch.from_numpy(setting.images[:1]),))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        edge.export(str(path))
        return _tflite(path.read_bytes(), setting)


def _torch_model(setting: Setting) -> Any:
    import transformers

    _check_plain(setting)
    with tempfile.TemporaryDirectory() as folder:
        save_weights(setting.model, Path(folder) / "model.safetensors", "transformers")
        model = transformers.ViTForImageClassification.from_pretrained(folder)
    return model.eval()


def _check_plain(setting: Setting) -> None:
    spec = setting.model.spec
    if not isinstance(spec, ViTSpec) or spec.pooling != "token" or spec.stem is not None:
        raise UsageError("it only supports ViTs with a class token and without a stem.")


def _onnx_file(setting: Setting, folder: str) -> Path:
    import torch

    path = Path(folder) / "model.onnx"
    image = torch.from_numpy(_channels_first(setting.images[:1]))
    torch.onnx.export(_torch_model(setting), (image,), str(path), dynamo=False)
    return path


def _channels_first(images: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


def _tflite(content: bytes, setting: Setting, same_weights: bool = True) -> Contender:
    runner = Runner(content, setting.threads)
    if runner.input["shape"][0] != 1 or -1 in runner.input["shape_signature"]:
        runner.interpreter.resize_tensor_input(runner.input["index"], setting.images[:1].shape)
        runner.interpreter.allocate_tensors()
    logits = runner.predict(setting.images) if same_weights else None
    return Contender(lambda: runner(setting.images[:1]), len(content), logits)


# name: the package that it needs beside keras_vit, and how it is built.
CONTENDERS: dict[str, tuple[str | None, Callable[[Setting], Contender]]] = {
    **{f"keras_vit {name}": (None, _keras_vit(name)) for name in KERAS_VIT},
    "matrix products alone": (None, _floor),
    "Keras, converted plainly": (None, _plain),
    "Keras, full integer by the converter": (None, _plain_full_integer),
    "KerasHub litert": ("keras_hub", _keras_hub),
    "litert-torch": ("litert_torch", _litert_torch),
    "PyTorch": ("transformers", _torch),
    "ONNX Runtime": ("onnxruntime", _onnx_runtime),
    "OpenVINO float32": ("openvino", functools.partial(_openvino, precision="f32")),
    # Its default on processors that support bfloat16.
    "OpenVINO bfloat16": ("openvino", functools.partial(_openvino, precision="bf16")),
}
