"""The same model through other exporters and runtimes, for comparison: see `export/benchmark.py`.

All get the weights of one Keras model, but for KerasHub, which has its own of the same shapes.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit._quiet import quiet
from keras_vit.deploy.convert import Converter
from keras_vit.deploy.flatbuffer import read_graph
from keras_vit.deploy.graph import GraphOptions
from keras_vit.deploy.rewrites import REWRITES
from keras_vit.deploy.runner import Runner
from keras_vit.deploy.saved_model import save_module, write_saved_model
from keras_vit.models.image_model import ImageModel
from keras_vit.weights.saving import save_weights


@dataclasses.dataclass(frozen=True)
class Contender:
    """Something that computes the model's logits of one image.

    Attributes:
        run: computes them once; what is timed.
        bytes: of its file; None where it has none.
        logits: for all images (n, classes); None where it has other weights, or no logits.
    """

    run: Callable[[], Any]
    bytes: int | None = None
    logits: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Setting:
    """What all contenders share.

    Attributes:
        model: the Keras model.
        images: preprocessed (n, height, width, 3); the first is what is timed.
        calibration: others, to measure ranges on.
        threads: of each runtime.
        converter: of the model, for our own files.
    """

    model: ImageModel
    images: np.ndarray
    calibration: np.ndarray
    threads: int
    converter: Converter


OURS = ("float32", "float16", "dynamic", "int8")


def setting(
    model: ImageModel, images: np.ndarray, calibration: np.ndarray, threads: int
) -> Setting:
    """The setting, with our own files ready to be made."""
    names = ["none" if name == "float32" else name for name in OURS]
    converter = Converter(model, names, GraphOptions(), calibration)
    return Setting(model, images, calibration, threads, converter)


def contender(name: str, setting: Setting) -> Contender:
    """Builds a contender of `CONTENDERS`.

    Raises:
        ImportError: its package is not installed.
    """
    module, build = CONTENDERS[name]
    if module is not None and importlib.util.find_spec(module) is None:
        raise ImportError(f"{name} needs {module}: pip install {module.replace('_', '-')}")
    with quiet():
        return build(setting)


def ablation(setting: Setting, say: Callable[[str], None]) -> dict[str, Contender]:
    """Our float32 file, the same without each rewrite in turn, and without any."""
    sets = {"all rewrites": frozenset(REWRITES)}
    sets |= {f"without {name}": sets["all rewrites"] - {name} for name in REWRITES}
    sets |= {"none": frozenset()}
    built = {}
    for name, rewrites in sets.items():
        if name != "without uint8_input":  # the input is float32
            say(name)
            options = GraphOptions(rewrites=rewrites)
            built[name] = _tflite(Converter(setting.model, ["none"], options)("none"), setting)
    return built


def trained_like(model: ImageModel, outliers: float = 1.0, seed: int = 0) -> ImageModel:
    """Gives a fresh model weights as training leaves them, in place.

    Norms' scales spread from 0.3 to 2, no bias is zero, the head isn't. With `outliers` above 1,
    six channels of the residual stream are 30 to `outliers` times as large as the others, while
    the norms that read them are as much smaller, as in trained ViTs (Sun et al. 2024).
    """
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
    from keras_vit.deploy.convert import parameters_of
    from keras_vit.deploy.rewrites import stream_readers, stream_writers
    from keras_vit.weights.names import weight_names

    width = model.spec.hidden_dim
    growth = np.ones(width, np.float32)
    channels = generator.choice(width, 6, replace=False)
    growth[channels] = generator.uniform(30, largest, 6)
    parameters = parameters_of(model)
    grown = dict.fromkeys(stream_writers(model.spec, parameters), growth)
    grown |= {f"{norm}/gamma": 1 / growth for norm in stream_readers(model.spec, parameters)}
    names = weight_names(model.spec, model.num_classes, model.image_size)
    for name in names:
        if name.path in grown:
            name.variable(model).assign(parameters[name.path] * grown[name.path])


def _ours(precision: str) -> Callable[[Setting], Contender]:
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
    """All matrix products of our float32 file, each on inputs of its own, and nothing else."""
    import tensorflow as tf

    graph = read_graph(setting.converter("none"))
    generator = np.random.default_rng(0)
    products: Counter[tuple] = Counter()
    for operator in graph.operators:
        if operator.name in ("FULLY_CONNECTED", "BATCH_MATMUL"):
            left, right = graph.read(operator)[:2]
            products[(left.shape, right.shape, right.constant, operator.name)] += 1
    inputs, makers = {}, []
    for (left, right, constant, name), count in products.items():
        a = _given(inputs, left)
        for _ in range(count):
            transposed = name == "FULLY_CONNECTED" or left[-1] == right[-1] != right[-2]
            if constant:
                b = tf.Variable(generator.normal(size=right).astype(np.float32))
            else:
                b = _given(inputs, right)
            makers.append((a, b, transposed))
    module = tf.Module()
    module.weights = [b for _, b, _ in makers if not isinstance(b, str)]
    signature = {name: tf.TensorSpec(shape, name=name) for name, shape in inputs.items()}

    @tf.function(autograph=False)
    def serve(**given):
        return {
            f"y{i}": tf.matmul(given[a], given[b] if isinstance(b, str) else b, transpose_b=t)
            for i, (a, b, t) in enumerate(makers)
        }

    with tempfile.TemporaryDirectory() as folder:
        save_module(module, folder, serve.get_concrete_function(**signature))
        content = tf.lite.TFLiteConverter.from_saved_model(folder).convert()
    runner = Runner(content, setting.threads)
    for details in runner.interpreter.get_input_details():
        values = generator.normal(size=details["shape"]).astype(np.float32)
        runner.interpreter.set_tensor(details["index"], values)
    return Contender(runner.interpreter.invoke)


def _given(inputs: dict[str, tuple], shape: tuple) -> str:
    name = "x_" + "_".join(map(str, shape))
    inputs[name] = shape
    return name


def _torch(setting: Setting) -> Contender:
    import torch

    model = _torch_model(setting)
    torch.set_num_threads(setting.threads)

    def logits(images: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model(torch.from_numpy(_channels_first(images))).logits.numpy()

    return Contender(lambda: logits(setting.images[:1]), None, logits(setting.images))


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

    spec = setting.model.spec
    if spec.pooling != "token" or spec.stem is not None:
        raise UsageError("PyTorch's contenders are ViTs with a class token.")
    with tempfile.TemporaryDirectory() as folder:
        save_weights(setting.model, Path(folder) / "model.safetensors", "transformers")
        model = transformers.ViTForImageClassification.from_pretrained(folder)
    return model.eval()


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
    runner(setting.images[:1])
    return Contender(runner.interpreter.invoke, len(content), logits)


# name: the package that it needs beside ours, and how it is built.
CONTENDERS: dict[str, tuple[str | None, Callable[[Setting], Contender]]] = {
    **{f"keras_vit {name}": (None, _ours(name)) for name in OURS},
    "matrix products alone": (None, _floor),
    "Keras, converted plainly": (None, _plain),
    "Keras, full integer by the converter": (None, _plain_full_integer),
    "KerasHub litert": ("keras_hub", _keras_hub),
    "litert-torch": ("litert_torch", _litert_torch),
    "PyTorch": ("transformers", _torch),
    "ONNX Runtime": ("onnxruntime", _onnx_runtime),
    "OpenVINO float32": ("openvino", functools.partial(_openvino, precision="f32")),
    # What it takes by default on processors that have it.
    "OpenVINO bfloat16": ("openvino", functools.partial(_openvino, precision="bf16")),
}
