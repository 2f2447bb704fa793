"""Damaged and malicious files give one line of error, need little memory and execute nothing."""

import contextlib
import dataclasses
import io
import json
import math
import multiprocessing
import os
import pickle
import struct
import tracemalloc
import zipfile
from unittest.mock import Mock

import numpy as np
import pytest

import keras_vit
from keras_vit.weights import checkpoint as checkpoints
from keras_vit.weights import open_checkpoint
from keras_vit.weights.tensors import open_tensors


@pytest.fixture
def tensors(model, tmp_path):
    keras_vit.save_weights(model, tmp_path / "weights.safetensors")
    return tmp_path / "weights.safetensors"


@pytest.fixture(params=["saved", "tensors"])
def path(request):
    """A file of each kind."""
    return request.getfixturevalue(request.param)


def npy(shape, descr="<f4", content=b""):
    """An array file with this header and content, which need not match."""
    stream = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + content


def replace(path, name, content, method=zipfile.ZIP_STORED):
    """Replaces a member in the directory of the archive at `path`, or adds one."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.filelist = [info for info in archive.filelist if info.filename != name]
        archive.NameToInfo.pop(name, None)
        archive.writestr(name, content, method)


def state(path, name, **fields):
    """Changes what the directory of the archive at `path` says of a member."""
    with zipfile.ZipFile(path, "a") as archive:
        for field, value in fields.items():
            setattr(archive.getinfo(name), field, value)
        archive.comment = archive.comment  # so that the directory is written again


def member(name, shape, descr="<f4", content=b"", method=zipfile.ZIP_STORED):
    """A damage: the archive gets a member with this header and content."""
    return lambda path: replace(path, f"{name}.npy", npy(shape, descr, content), method)


@contextlib.contextmanager
def little_memory():
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50 << 20


def refused(path, model=None):
    """The one-line error of reading `path`; reading must not need much memory."""
    with little_memory(), pytest.raises(keras_vit.UsageError) as caught:
        if model is None:
            with open_checkpoint(path) as checkpoint:
                assert checkpoint.head_state
        else:
            keras_vit.load_weights(model, path)
    line = str(caught.value).splitlines()[0]
    assert line.isprintable()
    assert str(path) in line
    assert len(line) < 300
    return line


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"<html>404</html>", b"\x00" * 100])
def test_files_of_another_kind_are_refused(tmp_path, content):
    (tmp_path / "bad.npz").write_bytes(content)
    message = "is not a complete .npz or .safetensors file; copy or download it again"
    assert message in refused(tmp_path / "bad.npz")


@pytest.fixture
def evil(tmp_path):
    """An object that makes a folder where it is unpickled."""

    class Evil:
        def __reduce__(self):
            return (tmp_path.joinpath("executed").mkdir, ())

    yield Evil()
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_is_named_and_never_read(tmp_path, evil, protocol):
    (tmp_path / "weights.bin").write_bytes(pickle.dumps(evil, protocol))
    assert "is a pickle (from PyTorch?), which could run code" in refused(tmp_path / "weights.bin")


@pytest.mark.parametrize("shape", [(1,), (1, 1, 48)])
def test_pickled_arrays_are_refused_and_not_executed(model, saved, evil, shape):
    content = pickle.dumps(np.full(shape, evil))
    member("cls", shape, "|O", content)(saved)
    assert "cls cannot be read: a pickled object" in refused(saved, model)


def test_files_of_other_programs_are_named(model, tmp_path):
    model.save(tmp_path / "model.keras")
    assert "is a complete Keras model; open it with" in refused(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    assert "is an HDF5 file of Keras" in refused(tmp_path / "model.weights.h5")
    with zipfile.ZipFile(tmp_path / "model.pth", "w") as archive:  # as torch.save writes it
        archive.writestr("archive/data.pkl", pickle.dumps({}))
        archive.writestr("archive/data/0", bytes(12))
    assert "is a pickle (from PyTorch?)" in refused(tmp_path / "model.pth")


@pytest.mark.parametrize("claims_one", [False, True])
@pytest.mark.parametrize("count", [60_000, 70_000], ids=["", "zip64"])
def test_an_archive_of_very_many_members_is_not_listed(tmp_path, monkeypatch, count, claims_one):
    path = tmp_path / "many.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("0.npy", b"")
        archive.filelist *= count
    if claims_one:
        content = path.read_bytes()
        for form, number in (("<2H", min(count, 0xFFFF)), ("<2Q", count)):
            content = content.replace(struct.pack(form, number, number), struct.pack(form, 1, 1))
        path.write_bytes(content)
    monkeypatch.delattr(zipfile, "ZipInfo")
    assert "the directory of its archive has 3," in refused(path)


def claims_more(path, method=zipfile.ZIP_STORED):
    header = npy((25_000_000,))
    replace(path, "a.npy", header, method)
    state(path, "a.npy", file_size=len(header) + 100_000_000)


def claims_more_when_deflated(path):
    claims_more(path, zipfile.ZIP_DEFLATED)


def overlaps(path):
    size = path.stat().st_size
    state(path, "cls.npy", compress_size=size, file_size=size)


def is_no_archive(path):
    path.write_bytes(b"PK\x03\x04 not a zip")


def has_a_name_twice(path):
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("cls.npy", npy((1,), content=bytes(4)))


def has_a_flipped_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def has_a_long_header(path):
    header = b"\x93NUMPY\x02\x00" + struct.pack("<I", 10_000_000) + b" " * 10_000_000
    replace(path, "cls.npy", header, zipfile.ZIP_DEFLATED)


def lie(change, length=None):
    """A damage: a safetensors file gets another JSON header, or a length that it does not have."""

    def damage(path):
        content = path.read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8 : 8 + size])
        change(header)
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", length or len(text)) + text + content[8 + size :])

    return damage


def says(key="cls_token", **fields):
    return lie(lambda header: header[key].update(fields))


def shares(key, other):
    return lie(lambda header: header[key].update(data_offsets=header[other]["data_offsets"]))


NO_SIZE = ["|V0", "|S0", "<U0", []]
HUGE = np.full(48, 1e300).tobytes()
POSITIONS = "Transformer/posembed_input/pos_embedding"
SHAPES = [(10**12,), (1, 1, 10**12), (2**40, 2**40), (-1, 48)]
CLS = (1, 1, 48)
ARCHIVES = {
    **{
        f"{d} without size": (member("a", (10**12,), d), "a cannot be read: its type")
        for d in NO_SIZE
    },
    **{f"shape {s}": (member("cls", s), "cls cannot be read: its header claims") for s in SHAPES},
    "3000 axes": (member("cls", (1,) * 3000), "cls cannot be read: it has 3000 dimensions"),
    "a long header": (has_a_long_header, "cls cannot be read"),
    "integers": (member("cls", CLS, "<i8", bytes(384)), "cls must contain floats. Received: int64"),
    "no values": (member("embedding/kernel", (8, 8, 0, 10**6)), "embedding/kernel is empty"),
    "too large for float32": (member("cls", CLS, "<f8", HUGE), "has 48 NaN or infinite values"),
    "more than it can hold": (claims_more, "a claims to unpack"),
    "more than it can hold, deflated": (claims_more_when_deflated, "a claims to unpack"),
    # numpy does not write these. The header of an LZMA stream can ask for 4 GB.
    "bzip2": (member("cls", CLS, "<f4", bytes(192), zipfile.ZIP_BZIP2), "claims to unpack"),
    "lzma": (member("cls", CLS, "<f4", bytes(192), zipfile.ZIP_LZMA), "claims to unpack"),
    "overlapping members": (overlaps, "its arrays overlap"),
    "a name twice": (has_a_name_twice, "two arrays with the name cls"),
    "another file": (lambda path: replace(path, "README", b"text"), "README is not a numpy array"),
    "no archive": (is_no_archive, "is not a complete .npz file"),
    "a flipped bit": (has_a_flipped_bit, "cannot be read"),
    "encryption": (lambda path: state(path, "cls.npy", flag_bits=1), "cls cannot be read"),
}
EMPTY = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
INCOMPLETE = "is not a complete .safetensors file"
CONTRADICTIONS = {
    "a larger shape": says(shape=[10**12]),
    "thousands of axes": says(shape=[2**63] * 300_000),
    "offsets beyond the end": says(data_offsets=[0, 10**13]),
    "offsets backwards": says(data_offsets=[400, 0]),
    "a negative shape": says(shape=[-1, 48]),
    "overlapping arrays": shares("cls_token", "head.bias"),
    "values twice": shares("norm.weight", "norm.bias"),
    "an unknown type": says(dtype="F65"),
    "no dictionary": lie(lambda header: header.update(cls_token=3)),
    **{f"length {length}": lie(dict, length) for length in (10**12, 2**63, 5)},
}
HEADERS = {
    **{name: (damage, INCOMPLETE) for name, damage in CONTRADICTIONS.items()},
    # As many bytes as before, so that the header is consistent.
    "integers": (says(dtype="I32"), "cls_token must contain floats. Received: I32"),
    "no values": (lie(lambda header: header.update(extra=EMPTY)), "extra is empty"),
}


@pytest.mark.parametrize(
    ("kind", "damage", "message"),
    [
        pytest.param(kind, *damage, id=f"{kind}, {name}")
        for kind, damages in (("saved", ARCHIVES), ("tensors", HEADERS))
        for name, damage in damages.items()
    ],
)
def test_a_damaged_file_is_refused_and_changes_no_model(model, request, kind, damage, message):
    path = request.getfixturevalue(kind)
    damage(path)
    before = model.get_weights()
    assert message in refused(path, model)
    np.testing.assert_equal(model.get_weights(), before)


@pytest.mark.parametrize("descr", [*NO_SIZE, "|S1", "|i1", "<f16", "<c8", [("a", "<f2")], "|b1"])
def test_nothing_is_built_for_a_head_of_other_types_than_floats(saved, monkeypatch, descr):
    monkeypatch.delattr(keras_vit.models.pretrained, "ViT")
    size = np.dtype(descr).itemsize
    member("head/kernel", (48, 5000), descr, bytes(48 * 5000 * size))(saved)
    member("head/bias", (5000,), descr, bytes(5000 * size))(saved)
    with pytest.raises(keras_vit.UsageError, match="head/.*(has no size|must contain floats)"):
        keras_vit.model_from_weights(saved)


@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_floats_of_each_size_and_order_are_read(saved, dtype, order):
    kernel = np.arange(240).reshape(48, 5)
    stored = np.array(kernel, dtype, order=order)
    np.savez(saved, **dict(np.load(saved)) | {"head/kernel": stored})
    with open_checkpoint(saved) as checkpoint:
        np.testing.assert_array_equal(checkpoint.read("head/kernel"), kernel)


def test_a_scalar_head_is_refused(saved):
    np.savez(saved, **dict(np.load(saved)) | {"head/bias": np.float32(1)})
    with pytest.raises(keras_vit.UsageError, match="head/bias must have one dimension"):
        keras_vit.ViT_Pico4(weights=saved, image_size=16)


def test_a_file_that_is_truncated_while_it_is_read_is_refused(path):
    def read_truncated():
        with open_tensors(path) as file:
            os.truncate(path, 4096)
            with pytest.raises(keras_vit.UsageError, match="cannot be read"):
                for key in file.shapes:
                    file.read(key)

    # In another process, because memory that is no longer in a file ends a process at once.
    child = multiprocessing.get_context("fork").Process(target=read_truncated)
    child.start()
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.slow
def test_a_bomb_is_refused_before_it_unpacks(saved, model):
    # 400 MB of zeros in 400 KB, whose header and size agree.
    shape = (1, 10**8 // 48, 48)
    member(POSITIONS, shape, "<f4", bytes(4 * math.prod(shape)), zipfile.ZIP_DEFLATED)(saved)
    assert "claims to unpack to 400," in refused(saved, model)


def test_an_endless_position_table_is_refused(saved, model):
    rows = 1 << 17
    member(POSITIONS, (1, rows, 48), "<f4", bytes(rows * 48 * 4))(saved)
    with pytest.raises(keras_vit.UsageError, match=f"! {POSITIONS}"):
        keras_vit.load_weights(model, saved)


CODES = "a\x1b]0;evil\x07\n"


@pytest.mark.parametrize("name", ["/etc/passwd", "../../tmp/evil", "..\\evil", "a/../../b", CODES])
def test_names_write_nothing_to_the_disk_or_the_terminal(model, saved, tmp_path, name):
    before = sorted(tmp_path.rglob("*"))
    member(name, (1,), content=bytes(4))(saved)
    with pytest.raises(keras_vit.UsageError, match="1 weights") as caught:
        keras_vit.load_weights(model, saved)
    lines = str(caught.value).splitlines()
    assert all(line.isprintable() for line in lines)
    assert lines[2:] == [r"  + a\x1b]0;evil\x07\n" if name == CODES else f"  + {name}"]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("fraction", [0.01, 0.5, 0.99])
def test_truncated_files_are_refused(model, path, fraction):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * fraction)])
    assert "is not a complete" in refused(path, model)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinite_values_are_counted_and_refused(model, path, value):
    before = model.get_weights()
    model.get_layer("head").bias.assign(np.full(5, value))
    keras_vit.save_weights(model, path)
    model.set_weights(before)
    message = "has 5 NaN or infinite values in 1 arrays, the first in head"
    assert message in refused(path, model)
    np.testing.assert_equal(model.get_weights(), before)
    keras_vit.load_weights(model, path, allow_nonfinite=True)
    np.testing.assert_array_equal(np.asarray(model.get_layer("head").bias), np.full(5, value))


def claim(path, comment=None, **changes):
    """Gives the archive at `path` another comment, or changes its metadata."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = comment or json.dumps(json.loads(archive.comment) | changes).encode()


def refused_spec(path):
    with open_checkpoint(path) as checkpoint, pytest.raises(keras_vit.UsageError) as caught:
        assert checkpoint.spec
    return str(caught.value)


def test_metadata_of_other_programs_is_ignored(model, saved):
    for comment in (b"built by a script", b"[1]", b'{"format": 1}', b'{"format": 9, "spec": 3}'):
        claim(saved, comment)
        with open_tensors(saved) as file:
            assert file.metadata == {}
        keras_vit.load_weights(model, saved)
    claim(saved, b'{"format": 1, "spec": {"depth": 3}}')
    assert "weights.npz lacks patch_size in $.spec; save the weights again" in refused_spec(saved)


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"spec": {"mlp_dim": 10**9}}, "mlp_dim must be at most 262,144"),
        ({"spec": {"hidden_dim": 3 * 10**9}}, "hidden_dim must be at most 262,144"),
        ({"spec": {"depth": 10**7}}, "depth must be at most 256"),
        ({"spec": {"stem": {"stages": [10**6], "width": 10**6}}}, "stages must be at most 256"),
        ({"spec": {"patch_size": 10**6}}, "patch_size must be at most 65,536"),
        ({"spec": {"representation_dim": 10**9}}, "representation_dim must be at most 262,144"),
        ({"spec": {"position_embedding": "relative"}}, "does not fit the model in 3 weights"),
        ({"image_size": [8 * 10**6, 8 * 10**6]}, r"image_size\[0\] must be an integer <= 65536"),
        ({"image_size": [-8, 8]}, r"image_size\[0\] must be an integer >= 1"),
        ({"preprocessing": {"height": "x"}}, "preprocessing.height must be an integer"),
        # What cannot hurt is passed over.
        ({"image_size": [24, 24]}, None),
        ({"labels": ["a"] * 10**4}, None),
        ({"num_classes": 10**9}, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_metadata_that_contradicts_the_weights_is_refused(model, saved, claims, message):
    spec = model.spec.to_dict() | claims.get("spec", {})
    claim(saved, **claims | {"spec": spec})
    accepted = contextlib.nullcontext()
    expected = pytest.raises(keras_vit.UsageError, match=message) if message else accepted
    with little_memory(), expected:
        built = keras_vit.model_from_weights(saved)
        assert (built.image_size, built.num_classes) == ((16, 16), 5)


def test_a_vit_with_the_metadata_of_a_bit_is_refused(saved):
    claim(saved, spec={"layers": [3, 4, 6, 3], "width": 1})
    assert "the spec in its metadata contradicts its weights" in refused_spec(saved)


def test_an_implausible_image_size_in_a_config_is_refused(tmp_path, small_spec):
    spec = dataclasses.replace(small_spec, position_embedding="sincos2d")
    keras_vit.save_weights(keras_vit.ViT(spec, 5, 16), tmp_path / "sincos.npz")
    claim(tmp_path / "sincos.npz", image_size=[64_000, 64_000])
    with pytest.raises(keras_vit.UsageError, match="claims images of 64000 x 64000 pixels"):
        keras_vit.model_from_weights(tmp_path / "sincos.npz")


def test_positions_that_would_be_computed_for_an_endless_grid_are_refused(tmp_path, small_spec):
    spec = dataclasses.replace(small_spec, position_embedding="relative")
    keras_vit.save_weights(keras_vit.ViT(spec, 5, 16), tmp_path / "relative.npz")
    arrays = dict(np.load(tmp_path / "relative.npz"))
    tables = [key for key in arrays if key.endswith("relative_position_bias")]
    table = np.zeros((399 * 399 + 3, 3), np.float32)
    np.savez(tmp_path / "relative.npz", **arrays | dict.fromkeys(tables, table))
    with pytest.raises(keras_vit.UsageError, match="relative positions for 200 x 200 patches"):
        keras_vit.model_from_weights(tmp_path / "relative.npz")


@pytest.mark.parametrize("key", ["block{}/unit1/conv1/kernel", "resnet/block{}/unit01/{}"])
def test_thousands_of_stages_are_read_once(fixtures, tmp_path, monkeypatch, key):
    if key.startswith("resnet"):
        arrays = {"resnet/root_block/standardized_conv2d/kernel": np.zeros((7, 7, 3, 64), "f")}
    else:
        arrays = dict(np.load(fixtures / "hybrid_stem.weights.npz"))
    names = [key.format(i, "a/standardized_conv2d/kernel") for i in range(2, 500)]
    np.savez(tmp_path / "many.npz", **arrays, **dict.fromkeys(names, np.zeros((1, 1, 1, 1), "f")))
    monkeypatch.setattr(checkpoints, "numbers", Mock(wraps=checkpoints.numbers))
    refused_spec(tmp_path / "many.npz")
    assert 0 < checkpoints.numbers.call_count < 5_000


@pytest.mark.slow
def test_endless_metadata_is_not_read(tensors):
    says("__metadata__", keras_vit="[" + "[]," * 10**6 + "[]]")(tensors)
    with open_tensors(tensors) as file:
        assert file.metadata == {}
    says("__metadata__", keras_vit="x" * (9 << 20))(tensors)
    assert "its header claims" in refused(tensors)


def test_weights_with_wrong_axes_or_a_missing_block_have_no_architecture(fixtures, tmp_path):
    arrays = dict(np.load(fixtures / "vit_token.weights.npz"))
    flat = arrays | {"embedding/kernel": np.zeros(5, np.float32)}
    bare = {key: array for key, array in arrays.items() if "encoderblock" not in key}
    for content in (flat, bare):
        np.savez(tmp_path / "odd.npz", **content)
        line = refused_spec(tmp_path / "odd.npz")
        assert "a weight that determines it is missing or has another shape" in line


def test_a_config_that_is_not_a_json_object_is_named(hub_folder):
    folder = hub_folder("hf_base")
    for content, message in ((b"{", " is not valid JSON"), (b"[]", ": expected a JSON object")):
        (folder / "config.json").write_bytes(content)
        with pytest.raises(keras_vit.UsageError, match=f"config.json{message}"):
            keras_vit.model_from_weights(folder)
