"""Shared by the tests of deployment: functions, graphs and a model as real `.tflite` files."""

import dataclasses
import functools
import tempfile
from typing import Any

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit._keras import keras
from keras_vit.data import digits
from keras_vit.deploy import clients
from keras_vit.deploy.precisions import PRODUCTS
from keras_vit.deploy.resolve import resolve
from keras_vit.models.pretrained import model_class
from keras_vit.tflite.flatbuffer import MappedFile, read_graph


@pytest.fixture(scope="session")
def converted():
    """Converts a function of tensors by TensorFlow's converter; settings are the converter's."""
    import tensorflow as tf

    def convert(function, *shapes, dtype=tf.float32, **settings):
        signature = [tf.TensorSpec(shape, dtype, name=f"x{i}") for i, shape in enumerate(shapes)]
        module = tf.Module()
        module.serve = tf.function(function, input_signature=signature, autograph=False)
        return convert_module(module, **settings)

    return convert


@pytest.fixture(scope="session")
def graph_file():
    """Converts our inference graph of a spec, with seeded weights; options are `GraphOptions`'."""

    def convert(spec, image_size=(16, 24), **options):
        from keras_vit.deploy.graph.graph_options import GraphOptions, InferenceGraph
        from keras_vit.deploy.graph.inference import inference_module, prepare
        from keras_vit.deploy.resolve import parameters_of

        model = model_class(spec)(spec, 5, image_size)
        parameters, generator = parameters_of(model), np.random.default_rng(0)
        for name, array in parameters.items():
            parameters[name] = array + generator.normal(0, 0.1, array.shape).astype(np.float32)
        options = GraphOptions(**options)
        graph = InferenceGraph(spec, parameters, image_size, model.preprocessing, options)
        return convert_module(inference_module(prepare(graph)))

    return convert


def convert_module(module, flex=False, **settings):
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=module.serve.get_concrete_function())
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        more = [tf.lite.OpsSet.SELECT_TF_OPS] if flex else []
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, *more]
        for name, value in settings.items():
            setattr(converter, name, value)
        return converter.convert()


@dataclasses.dataclass(frozen=True)
class Sample:
    """A model, its images, and its files of every precision from the same two conversions.

    The first 16 images are compared, the others measure ranges. 32 does not divide what the second
    Dense layer of an MLP reads.
    """

    model: keras_vit.ViT
    images: np.ndarray
    expected: np.ndarray
    converter: Any

    @functools.cache  # noqa: B019 (a few files, for the length of the tests)
    def file(self, quantize, *float_layers) -> MappedFile:
        return self.converter(quantize, float_layers)

    @functools.cache  # noqa: B019
    def exported(self, quantize):
        """The file judged."""
        made = dataclasses.replace(self.converter.made("none"), content=self.file(quantize))
        precision, float_file = deploy.precision_of(quantize), self.converter.float_file(quantize)
        made = dataclasses.replace(made, precision=precision, float_file=float_file)
        reference = deploy.Reference(self.images, self.expected, images_from="noise")
        return deploy.judge_file(made, reference)

    __hash__ = object.__hash__


@pytest.fixture(scope="session")
def sample(trained_like, pictures):
    spec = keras_vit.ViTSpec(patch_size=8, hidden_dim=96, depth=2, num_heads=3, mlp_dim=80)
    model = keras_vit.ViT(spec, 10, (16, 24), labels=tuple("abcdefghij"), name="ViT-Test")
    model = trained_like(model)
    images = pictures(48, (16, 24))
    expected = np.asarray(model(images[:16], training=False))
    converter = deploy.Converter(resolve(model), deploy.PRECISIONS, images[16:])
    return Sample(model, images[:16], expected, converter)


@pytest.fixture
def trained(sample):
    """The sample with digits as its pictures, half of them for training."""
    source, places = digits(), np.arange(128)
    about = (lambda: sample.model, "ViT-Test", source.labels, sample.model.preprocessing)
    return deploy.TrainedModel(*about, source, places[::2], places[1::2], labelled=True)


@pytest.fixture(scope="session")
def spoiled():
    """Makes Dense layers of MLPs sensitive to int8, and changes nothing else.

    One of their inputs is always 0, so that its weights may be large; in int8, where a column of
    weights shares a scale, they leave the others no bits.
    """

    def spoil(model, *blocks):
        for block in blocks:
            mlp = model.get_layer(block).mlp
            for variable, index, value in (
                (mlp.dense_0.kernel, (slice(None), 7), 0.0),
                (mlp.dense_0.bias, 7, -30.0),
                (mlp.dense_1.kernel, 7, np.resize([500.0, -500.0], model.spec.hidden_dim)),
            ):
                array = np.array(variable)
                array[index] = value
                variable.assign(array)
        return model

    return spoil


@pytest.fixture(scope="session")
def sensitive(sample, spoiled):
    """The sample with its second block spoiled."""
    model = keras_vit.ViT(sample.model.spec, 10, (16, 24))
    model.set_weights(sample.model.get_weights())
    spoiled(model, "encoderblock_1")
    converter = deploy.Converter(resolve(model), ["int8"], sample.converter.calibration)
    expected = np.asarray(model(sample.images, training=False))
    return Sample(model, sample.images, expected, converter)


@pytest.fixture(scope="session")
def kernel_types():
    """Reads the type of each layer's kernel in a file."""

    def read(content) -> dict[str, str]:
        graph = read_graph(content)
        products = [op for op in graph.operators if op.name in PRODUCTS]
        return {graph.layer(op): graph.read(op)[1].dtype for op in products}

    return read


@pytest.fixture
def foreign():
    """A model of Keras' own layers."""
    layers = keras.layers
    features = layers.Conv2D(8, 3, activation="relu"), layers.GlobalAveragePooling2D()
    head = layers.Dense(4, use_bias=False)
    return keras.Sequential([keras.Input((16, 24, 3)), *features, head])


@pytest.fixture
def inputs(pictures):
    """Preprocessed images of the size of most models here."""
    return pictures(20, (16, 24))


@pytest.fixture(scope="session")
def on_gpu():
    """Runs a file on LiteRT's GPU accelerator: its outputs for one input."""
    from keras_vit.tflite.compiled_model import run_on_gpu
    from keras_vit.tflite.vulkan import vulkan_devices

    if not vulkan_devices():
        pytest.skip("no Vulkan device: neither a GPU's driver nor Chromium's SwiftShader")
    return lambda content, tensor: run_on_gpu(bytes(content), tensor[None], 300).outputs


@pytest.fixture
def installed(tmp_path_factory, monkeypatch):
    """Replaces MediaPipe by a script; None is a package that is not installed."""

    def install(script):
        path = tmp_path_factory.mktemp("client") / "runner.py"
        path.write_text(script or "")
        module = "numpy" if script else "no_such_package"
        known = clients.CLIENTS["mediapipe"]
        tasks = {
            name: dataclasses.replace(task, runner=str(path)) for name, task in known.tasks.items()
        }
        row = dataclasses.replace(known, module=module, tasks=tasks)
        monkeypatch.setitem(clients.CLIENTS, "mediapipe", row)

    return install


@pytest.fixture
def absent(installed):
    installed(None)
