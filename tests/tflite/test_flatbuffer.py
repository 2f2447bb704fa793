"""Reading operators, shapes and layers of files, without the weights."""

import contextlib
import tracemalloc

import flatbuffers
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

import keras_vit
from keras_vit import UsageError
from keras_vit._errors import RefusedError
from keras_vit.tflite import flatbuffer
from keras_vit.tflite.flatbuffer import check_static, operators, read_graph

KERNEL = np.random.default_rng(0).normal(0, 1, (16, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def vit(graph_file):
    return graph_file(keras_vit.ViTSpec(8, 48, 2, 3, 112))


@contextlib.contextmanager
def little_memory():
    """What is done in this block takes less than a megabyte."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def heavy(converted):
    """A file whose weights are 4 MB."""
    kernel = np.ones((1024, 1024), np.float32)
    return converted(lambda x: {"y": tf.matmul(x, kernel)}, (1, 1024))


def test_operators_are_counted_and_named_after_their_layers(vit):
    graph = read_graph(vit)
    assert operators(vit) == operators(graph)
    assert (operators(vit)["SOFTMAX"], operators(vit)["GELU"]) == (2, 2)
    dense = [graph.layer(op) for op in graph.operators if op.name == "FULLY_CONNECTED"]
    blocks = {f"encoderblock_{i}/mlp/dense_{j}" for i in (0, 1) for j in (0, 1)}
    others = {"patch_encoder/projection", "encoderblock_0/attention/query", "head"}
    assert blocks | others < set(dense)
    gelu = next(op for op in graph.operators if op.name == "GELU")
    assert graph.layer(gelu) == "encoderblock_0/mlp"


def test_tensors_have_sizes_types_and_constants(converted):
    def normed(x):
        y = tf.matmul(x, KERNEL)
        return {"y": y * tf.math.rsqrt(tf.reduce_mean(y * y, -1, keepdims=True) + 1e-6)}

    graph = read_graph(converted(normed, (1, 8, 16)))
    dense, *_, product = graph.operators
    tokens, kernel = graph.read(dense)
    assert (tokens.constant, tokens.shape, tokens.dtype) == (False, (1, 8, 16), "float32")
    assert (kernel.constant, kernel.shape, kernel.size) == (True, (16, 16), 256)
    assert dense.inputs[2] is None  # it has no bias
    assert dense.options["keepNumDims"]
    epsilon = next(op for op in graph.operators if op.name == "ADD")
    assert graph.read(epsilon)[1].value == pytest.approx(1e-6)
    assert [reader.index for reader in graph.consumers[graph.inputs[0]]] == [dense.index]
    assert {reader.name for reader in graph.consumers[dense.outputs[0]]} >= {"MUL"}
    assert graph.producers[graph.outputs[0]] == product


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("encoderblock_0/mlp/Gelu/mul_3;;encoderblock_0/mlp/Gelu/Pow", "encoderblock_0/mlp"),
        ("Relu;gn_root/add_1", "gn_root"),
        ("block1_unit1/Relu;block1_unit1/gn1/add_1", "block1_unit1/gn1"),
        ("vit/encoder_norm/moments/mean", "vit/encoder_norm"),
        ("vit/attention/einsum_1/Einsum", "vit/attention"),
        ("vit/head/BiasAdd/ReadVariableOp1", "vit/head"),
        ("encoderblock_1/attention/out/MatMul_dequant", "encoderblock_1/attention/out"),
        ("pooling/MatMul;pooling/transpose/perm;pooling/transpose", "pooling"),
        ("a/add;a/projection/add/ReadVariableOp;a/projection/add", "a/projection"),
        ("StatefulPartitionedCall:0", ""),
    ],
)
def test_layer_names_exclude_operations(name, layer):
    written = flatbuffer.Tensor(name, "float32", (1,), constant=False)
    operator = flatbuffer.Operator(0, "ADD", 1, (), (0,), {})
    assert flatbuffer.Graph((written,), (operator,), (), (0,), None).layer(operator) == layer


def test_weights_are_not_loaded(heavy, tmp_path):
    (tmp_path / "m.tflite").write_bytes(heavy)
    read_graph(tmp_path / "m.tflite")
    with little_memory():
        graph = read_graph(tmp_path / "m.tflite")
    assert len(heavy) > 4e6
    assert graph == read_graph(heavy) == read_graph(bytearray(heavy))


def test_dynamic_sizes_are_refused(converted, vit):
    check_static(vit)
    dynamic = converted(lambda x: {"y": tf.matmul(x, KERNEL)}, (None, 8, 16))
    assert read_graph(dynamic).tensors[0].size == -1
    with pytest.raises(RefusedError, match=r"only at run time.*\[-1, 8, 16\].*Fix the batch"):
        check_static(dynamic)


def test_foreign_operators_are_refused_with_their_layer(converted):
    def flexible(x):
        with tf.name_scope("encoderblock_3/mlp"):
            return {"y": tf.cast(tf.cast(x, tf.float64) * 2, tf.float32)}

    content = converted(flexible, (1, 16), flex=True)
    with pytest.raises(UsageError, match=r"not TFLite's own: FlexMul \(encoderblock_3/mlp\)"):
        operators(content)


def test_several_graphs_are_refused(converted):
    def looping(x):
        steps = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x))
        return {"y": steps[1]}

    with pytest.raises(UsageError, match="expected a model of one graph. Received: 3"):
        read_graph(converted(looping, (1, 4)))


def test_files_that_are_not_models_are_refused(vit, tmp_path):
    with pytest.raises(UsageError, match="there is no such file"):
        read_graph(tmp_path / "absent.tflite")
    (tmp_path / "empty.tflite").touch()
    with pytest.raises(UsageError, match="empty.tflite is not a TFLite model"):
        read_graph(tmp_path / "empty.tflite")
    with pytest.raises(UsageError, match="bytes 4 to 8 are not TFL3"):
        read_graph(b"PK\x03\x04" + bytes(100))


def without_weights(content):
    """The positions of all bytes of a file that are not weights."""
    file = schema.Model.GetRootAs(content, 0)
    free = np.ones(len(content), bool)
    start = np.frombuffer(content, np.uint8).ctypes.data
    for buffer in map(file.Buffers, range(file.BuffersLength())):
        if buffer.DataLength() > 16:
            data = buffer.DataAsNumpy()
            free[data.ctypes.data - start :][: len(data)] = False
    return np.flatnonzero(free)


@pytest.mark.soak(of="fuzz")
def test_a_damaged_file_is_read_or_refused(vit):
    generator = np.random.default_rng(0)
    places, refused = without_weights(vit), 0
    for i in range(400):
        damaged = bytearray(vit)
        start = generator.choice(places)
        noise = generator.integers(0, 256, 4) if i % 2 else generator.choice([0, 127, 255], 4)
        damaged[start : start + 4] = bytes(noise.tolist())
        if i % 8 == 0:
            damaged = damaged[: generator.integers(8, len(vit))]
        try:
            graph = read_graph(damaged)
        except UsageError:
            refused += 1
        else:
            for operator in graph.operators:
                graph.layer(operator)  # must not fail: it reads the operator's tensors
    assert 200 < refused < 390


@pytest.mark.parametrize("name", ["FULLY_CONNECTED", "MUL", "GELU"])
def test_operators_without_their_operands_are_refused(vit, name):
    model = schema.ModelT.InitFromPackedBuf(vit, 0)
    number = getattr(schema.BuiltinOperator, name)
    codes = [code.builtinCode for code in model.operatorCodes]
    operator = next(op for op in model.subgraphs[0].operators if codes[op.opcodeIndex] == number)
    for field, indices, claim in (
        ("inputs", [], f"{name} of inputs"),
        ("outputs", [], f"{name} of inputs"),
        ("inputs", [9999], "a tensor 9999 of"),
        ("outputs", [-1], "a tensor -1 of"),
    ):
        kept = getattr(operator, field)
        setattr(operator, field, indices)
        builder = flatbuffers.Builder()
        builder.Finish(model.Pack(builder), b"TFL3")
        with pytest.raises(UsageError, match=f"is not a TFLite model: it claims {claim}"):
            read_graph(bytes(builder.Output()))
        setattr(operator, field, kept)


@pytest.mark.parametrize(
    ("holder", "field"),
    [
        pytest.param("file", 6, id="codes"),
        pytest.param("file", 16, id="metadata"),
        pytest.param("graph", 4, id="tensors"),
        pytest.param("graph", 10, id="operators"),
        pytest.param("operator", 6, id="inputs"),
        pytest.param("tensor", 4, id="shape"),
        pytest.param("tensor", 10, id="name"),
    ],
)
def test_absurd_lengths_in_a_damaged_file_are_refused(heavy, holder, field):
    content = bytearray(heavy) + bytes(5_000_000)  # enough bytes for the claimed length
    file = schema.Model.GetRootAs(content, 0)
    graph = file.Subgraphs(0)
    operator, tensor = graph.Operators(0), graph.Tensors(0)
    table = {"file": file, "graph": graph, "operator": operator, "tensor": tensor}[holder]._tab
    length = table.Vector(table.Offset(field)) - 4
    content[length : length + 4] = (1_000_000).to_bytes(4, "little")
    with little_memory(), pytest.raises(UsageError, match="is not a TFLite model"):
        read_graph(content)
