"""Damaged and malicious files give one line of error, need little memory and execute nothing."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import json
import multiprocessing
import os
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

import keras_vit
from keras_vit.weights import checkpoint as checkpoints
from keras_vit.weights import open_checkpoint
from keras_vit.weights.names import numbers
from keras_vit.weights.tensors import open_tensors

HEADER = b"\x93NUMPY\x01\x00"


@pytest.fixture
def tensors(model, tmp_path):
    keras_vit.save_weights(model, tmp_path / "weights.safetensors")
    return tmp_path / "weights.safetensors"


def npy(shape, descr="<f4", content=b""):
    """An array file with this header and content, which need not match."""
    descr = descr if descr.startswith("[") else repr(descr)
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return HEADER + struct.pack("<H", len(header)) + header + content


def replace(path, name, content, compress=zipfile.ZIP_STORED):
    """The archive at `path` with the bytes of one member replaced, or with one more."""
    with zipfile.ZipFile(path) as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    members[name] = content
    with zipfile.ZipFile(path, "w") as archive:
        for n, data in members.items():
            archive.writestr(n, data, compress_type=compress)


def refused(path, model=None):
    """The one-line error of reading `path`; reading must not need much memory."""
    tracemalloc.start()
    try:
        with pytest.raises(keras_vit.UsageError) as caught:
            if model is None:
                with open_checkpoint(path) as checkpoint:
                    assert checkpoint.head_state
            else:
                keras_vit.load_weights(model, path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50 << 20
    line = str(caught.value).splitlines()[0]
    assert line.isprintable()
    assert str(path) in line
    return line


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"<html>404</html>", b"\x00" * 100])
def test_files_of_another_kind_are_refused(tmp_path, content):
    (tmp_path / "bad.npz").write_bytes(content)
    assert "is not a complete .npz or .safetensors file" in refused(tmp_path / "bad.npz")


def test_an_invalid_zip_is_refused(tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 not a zip")
    assert "is not a complete .npz file" in refused(tmp_path / "bad.npz")


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_is_named_and_never_read(tmp_path, protocol):
    class Evil:
        def __reduce__(self):
            return (tmp_path.joinpath("executed").mkdir, ())

    (tmp_path / "weights.bin").write_bytes(pickle.dumps(Evil(), protocol))
    assert "is a pickle (from PyTorch?), which could run code" in refused(tmp_path / "weights.bin")
    assert not (tmp_path / "executed").exists()


def test_files_of_other_programs_are_named(model, tmp_path):
    model.save(tmp_path / "model.keras")
    assert "is a complete Keras model; open it with" in refused(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    assert "is an HDF5 file of Keras" in refused(tmp_path / "model.weights.h5")
    with zipfile.ZipFile(tmp_path / "model.pth", "w") as archive:  # as torch.save writes it
        archive.writestr("archive/data.pkl", pickle.dumps({}))
        archive.writestr("archive/data/0", bytes(12))
    assert "is a pickle (from PyTorch?)" in refused(tmp_path / "model.pth")


@pytest.mark.parametrize("shape", [(1,), (1, 1, 48)])
def test_pickled_arrays_are_refused_and_not_executed(model, saved, tmp_path, shape):
    class Evil:
        def __reduce__(self):
            return (tmp_path.joinpath("executed").mkdir, ())

    evil = np.empty(shape, object)
    evil[:] = Evil()
    replace(saved, "cls.npy", npy(shape, "|O", pickle.dumps(evil)))
    assert "cls cannot be read: a pickled object" in refused(saved, model)
    assert not (tmp_path / "executed").exists()


def test_integers_are_refused(model, saved, rewrite):
    rewrite(saved, lambda arrays: arrays.update({"cls": np.zeros((1, 1, 48), int)}))
    assert "cls must contain floats. Received: int64" in refused(saved, model)


NO_SIZE = ["|V0", "|S0", "<U0", "[]"]


@pytest.mark.parametrize("descr", NO_SIZE)
def test_arrays_of_types_without_size_are_refused(saved, descr):
    replace(saved, "extra.npy", npy((10**12,), descr))
    assert "extra cannot be read: its type" in refused(saved)


@pytest.mark.parametrize("descr", [*NO_SIZE, "|S1", "|i1", "<f16", "<c8", "[('a', '<f2')]", "|b1"])
def test_nothing_is_built_for_a_head_of_other_types_than_floats(saved, monkeypatch, descr):
    monkeypatch.delattr(keras_vit.models.pretrained, "ViT")
    plain = ast.literal_eval(descr) if descr[0] == "[" else descr
    size = np.dtype(plain).itemsize
    replace(saved, "head/kernel.npy", npy((48, 5000), descr, bytes(48 * 5000 * size)))
    replace(saved, "head/bias.npy", npy((5000,), descr, bytes(5000 * size)))
    with pytest.raises(keras_vit.UsageError, match="head/.*(has no size|must contain floats)"):
        keras_vit.model_from_weights(saved)


def test_arrays_of_a_file_that_are_no_weights_may_have_other_types(model, saved, rewrite):
    def rename(arrays):
        for key in list(arrays):
            arrays[f"opt/target/{key}"] = arrays.pop(key)
        arrays["opt/state/step"] = np.array(7)
        arrays["opt/state/names"] = np.array(["a", "bc"])

    expected = dict(np.load(saved))
    rewrite(saved, rename)
    assert keras_vit.load_weights(model, saved).ignored == ("opt/state/step", "opt/state/names")
    with open_checkpoint(saved) as checkpoint:
        np.testing.assert_array_equal(checkpoint.read("head/kernel"), expected["head/kernel"])


@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_floats_of_each_size_and_order_are_read(saved, rewrite, dtype, order):
    kernel = np.arange(240).reshape(48, 5)
    rewrite(saved, lambda a: a.update({"head/kernel": np.array(kernel, dtype, order=order)}))
    with open_checkpoint(saved) as checkpoint:
        np.testing.assert_array_equal(checkpoint.read("head/kernel"), kernel)


def test_a_scalar_head_is_refused(saved, rewrite):
    rewrite(saved, lambda arrays: arrays.update({"head/bias": np.float32(1)}))
    with pytest.raises(keras_vit.UsageError, match="head/bias must have one dimension"):
        keras_vit.ViT_Pico4(weights=saved, image_size=16)


@pytest.mark.parametrize("shape", [(10**12,), (1, 1, 10**12), (2**40, 2**40), (-1, 48)])
def test_a_header_with_a_wrong_size_needs_no_memory(model, saved, shape):
    replace(saved, "cls.npy", npy(shape))
    assert "cls cannot be read: its header claims" in refused(saved, model)


def test_thousands_of_dimensions_are_refused_in_a_short_message(model, saved, tensors):
    replace(saved, "cls.npy", npy((1,) * 3000))
    assert len(refused(saved, model)) < 300
    lie(tensors, lambda h: h["cls_token"].update(shape=[2**63] * 300_000))
    assert len(refused(tensors, model)) < 300


def test_a_long_header_of_an_array_is_not_read(model, saved):
    header = b"\x93NUMPY\x02\x00" + struct.pack("<I", 10_000_000) + b" " * 10_000_000
    replace(saved, "cls.npy", header, zipfile.ZIP_DEFLATED)
    del header
    assert "cls cannot be read" in refused(saved, model)


def directory(path, count, claimed=None, zip64=False):
    """An archive whose directory lists `count` members that it does not have."""
    names = (f"{i}.npy".encode() for i in range(count))
    entry = struct.Struct("<4s4B4HL2L5H2L")
    fields = (b"PK\x01\x02", 20, 3, 20, 0, 0, 0, 0, 33, 0, 0, 0)
    listed = b"".join(entry.pack(*fields, len(name), *[0] * 6) + name for name in names)
    claimed = count if claimed is None else claimed
    start = b"PK\x03\x04" + bytes(26)
    end = struct.pack(
        "<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, claimed, claimed, len(listed), len(start)
    ) + struct.pack("<4sLQL", b"PK\x06\x07", 0, len(start) + len(listed), 1)
    short = min(claimed, 0xFFFF)
    last = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, short, short, len(listed), len(start), 0)
    path.write_bytes(start + listed + (end if zip64 else b"") + last)
    return path


@pytest.mark.parametrize(("claimed", "zip64"), [(None, False), (1, False), (None, True), (1, True)])
def test_an_archive_of_very_many_members_is_refused_before_they_are_listed(
    tmp_path, monkeypatch, claimed, zip64
):
    monkeypatch.delattr(zipfile, "ZipInfo")
    line = refused(directory(tmp_path / "many.npz", 60_000, claimed, zip64))
    assert "the directory of its archive has 3," in line


def set_sizes(path, name, **fields):
    """Changes sizes that the directory of an archive states of one member."""
    content = bytearray(path.read_bytes())
    at = content.rfind(name.encode()) - 46
    assert content[at : at + 4] == b"PK\x01\x02"
    for field, value in fields.items():
        struct.pack_into("<L", content, at + {"packed": 20, "unpacked": 24}[field], value)
    path.write_bytes(content)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_that_claim_more_than_they_can_hold_are_refused(saved, method):
    header = npy((25_000_000,))
    replace(saved, "a.npy", header, method)
    set_sizes(saved, "a.npy", unpacked=len(header) + 100_000_000)
    assert "a claims to unpack" in refused(saved)


def test_overlapping_members_are_refused(saved):
    set_sizes(saved, "cls.npy", packed=saved.stat().st_size, unpacked=saved.stat().st_size)
    assert "its arrays overlap" in refused(saved)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_numpy_does_not_write_are_refused(saved, method):
    # The header of an LZMA stream can ask for 4 GB.
    replace(saved, "cls.npy", npy((1, 1, 48), content=bytes(192)), method)
    assert "claims to unpack" in refused(saved)


@pytest.mark.parametrize("kind", ["saved", "tensors"])
def test_a_file_that_is_truncated_while_it_is_read_is_refused(request, kind):
    def read_truncated():
        with open_tensors(path) as file:
            os.truncate(path, 4096)
            with pytest.raises(keras_vit.UsageError, match="cannot be read"):
                for key in file.shapes:
                    file.read(key)

    path = request.getfixturevalue(kind)
    # In another process, because memory that is no longer in a file ends a process at once.
    child = multiprocessing.get_context("fork").Process(target=read_truncated)
    child.start()
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.slow
def test_a_bomb_is_refused_before_it_unpacks(saved, model):
    # 400 MB of zeros in 400 KB, whose header and size agree.
    zeros = npy((1, 10**8 // 48, 48), content=bytes(10**8 // 48 * 48 * 4))
    replace(saved, "Transformer/posembed_input/pos_embedding.npy", zeros, zipfile.ZIP_DEFLATED)
    del zeros
    assert "claims to unpack to 400," in refused(saved, model)


def test_an_endless_position_table_is_refused(saved, model):
    rows = 1 << 17
    table = npy((1, rows, 48), content=bytes(rows * 48 * 4))
    replace(saved, "Transformer/posembed_input/pos_embedding.npy", table)
    with pytest.raises(keras_vit.UsageError, match=r"! Transformer/posembed_input/pos_embedding"):
        keras_vit.load_weights(model, saved)


@pytest.mark.parametrize("name", ["/etc/passwd", "../../../tmp/evil", "..\\evil", "a/../../b"])
def test_names_that_are_paths_write_nothing(model, saved, tmp_path, name):
    before = sorted(tmp_path.rglob("*"))
    replace(saved, f"{name}.npy", npy((1,), content=bytes(4)))
    with pytest.raises(keras_vit.UsageError, match="1 weights") as caught:
        keras_vit.load_weights(model, saved)
    assert str(caught.value).splitlines()[2:] == [f"  + {name}"]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_name_cannot_write_to_the_terminal(model, saved):
    replace(saved, "a\x1b]0;evil\x07\n.npy", npy((1,), content=bytes(4)))
    with pytest.raises(keras_vit.UsageError) as caught:
        keras_vit.load_weights(model, saved)
    assert all(line.isprintable() for line in str(caught.value).splitlines())
    assert r"a\x1b]0;evil\x07\n" in str(caught.value)


def test_two_members_of_one_name_are_refused(saved):
    with zipfile.ZipFile(saved, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("cls.npy", npy((1,), content=bytes(4)))
    assert "two arrays with the name cls" in refused(saved)


def test_members_that_are_not_arrays_are_refused(saved):
    replace(saved, "README", b"text")
    assert "README is not a numpy array" in refused(saved)


@pytest.mark.parametrize("fraction", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("kind", ["saved", "tensors"])
def test_truncated_files_are_refused(request, model, kind, fraction):
    path = request.getfixturevalue(kind)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * fraction)])
    assert "is not a complete" in refused(path, model)


def test_a_flipped_bit_is_noticed_and_the_model_is_as_before(model, saved):
    content = bytearray(saved.read_bytes())
    content[len(content) // 2] ^= 1
    saved.write_bytes(content)
    before = model.get_weights()
    assert "cannot be read" in refused(saved, model)
    for one, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_encrypted_members_are_refused(saved):
    content = saved.read_bytes()
    # Bit 0 of the flags in each local header (offset 6) and in the central directory (offset 8).
    flagged = bytearray(content)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(signature)
        while at >= 0:
            flagged[at + offset] |= 1
            at = content.find(signature, at + 4)
    saved.write_bytes(flagged)
    assert "cannot be read" in refused(saved)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["saved", "tensors"])
def test_nan_and_infinite_values_are_counted_and_refused(request, model, kind, value):
    path = request.getfixturevalue(kind)
    before = model.get_weights()
    model.get_layer("head").bias.assign(np.full(5, value))
    keras_vit.save_weights(model, path)
    model.set_weights(before)
    line = refused(path, model)
    assert "has 5 NaN or infinite values in 1 arrays, the first in head" in line
    for one, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)
    keras_vit.load_weights(model, path, allow_nonfinite=True)
    np.testing.assert_array_equal(np.asarray(model.get_layer("head").bias), np.full(5, value))


def test_doubles_beyond_float32_are_infinite_and_refused(model, saved, rewrite):
    rewrite(saved, lambda arrays: arrays.update({"cls": np.full((1, 1, 48), 1e300)}))
    assert "has 48 NaN or infinite values" in refused(saved, model)


def lie(tensors, change, length=None):
    """The safetensors file with its JSON header changed, or a length that it does not have."""
    content = tensors.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    tensors.write_bytes(struct.pack("<Q", length or len(text)) + text + content[8 + size :])


LIES = {
    "shape": lambda h: h["cls_token"].update(shape=[10**12]),
    "offsets": lambda h: h["cls_token"].update(data_offsets=[0, 10**13]),
    "backwards": lambda h: h["cls_token"].update(data_offsets=[400, 0]),
    "negative": lambda h: h["cls_token"].update(shape=[-1, 48]),
    "overlapping": lambda h: h["cls_token"].update(data_offsets=h["head.bias"]["data_offsets"]),
    "twice": lambda h: h["norm.weight"].update(data_offsets=h["norm.bias"]["data_offsets"]),
    "type": lambda h: h["cls_token"].update(dtype="F65"),
    "no dictionary": lambda h: h.update(cls_token=3),
}


@pytest.mark.parametrize("name", LIES)
def test_safetensors_with_a_wrong_header_are_refused(model, tensors, name):
    lie(tensors, LIES[name])
    assert "is not a complete .safetensors file" in refused(tensors, model)


@pytest.mark.parametrize("length", [10**12, 2**63, 5])
def test_safetensors_with_a_wrong_header_length_are_refused(model, tensors, length):
    lie(tensors, lambda header: None, length)
    assert "is not a complete .safetensors file" in refused(tensors, model)


def test_types_other_than_floats_are_refused(model, tensors):
    # As many bytes as before, so that the header is consistent.
    lie(tensors, lambda h: h["cls_token"].update(dtype="I32"))
    assert "cls_token must contain floats. Received: I32" in refused(tensors, model)


def test_metadata_of_other_programs_is_ignored(model, saved, tensors):
    keras_vit.load_weights(model, saved)
    for comment in (b"built by a script", b"[1]", b'{"format": 1}', b'{"format": 9, "spec": 3}'):
        with zipfile.ZipFile(saved, "a") as archive:
            archive.comment = comment
        with open_tensors(saved) as file:
            assert file.metadata == {}
        keras_vit.load_weights(model, saved)
    with zipfile.ZipFile(saved, "a") as archive:
        archive.comment = b'{"format": 1, "spec": {"depth": 3}}'
    assert "weights.npz lacks patch_size in $.spec; save the weights again" in refused_spec(saved)


def refused_spec(path):
    with open_checkpoint(path) as checkpoint, pytest.raises(keras_vit.UsageError) as caught:
        assert checkpoint.spec
    return str(caught.value)


def claim(path, **changes):
    """The archive at `path` with changed metadata."""
    with zipfile.ZipFile(path, "a") as archive:
        metadata = json.loads(archive.comment)
        spec = changes.pop("spec", {})
        archive.comment = json.dumps(
            metadata | changes | {"spec": metadata["spec"] | spec}
        ).encode()


@pytest.mark.parametrize(
    "claims",
    [
        {"spec": {"mlp_dim": 10**9}},
        {"spec": {"hidden_dim": 3 * 10**9}},
        {"spec": {"depth": 10**7}},
        {"spec": {"stem": {"stages": [10**6], "width": 10**6}}},
        {"spec": {"patch_size": 10**6}},
        {"spec": {"representation_dim": 10**9}},
        {"spec": {"position_embedding": "relative"}},
        {"image_size": [8 * 10**6, 8 * 10**6]},
        {"image_size": [-8, 8]},
        {"preprocessing": {"height": "x"}},
        {"labels": ["a"] * 10**4},
        {"num_classes": 10**9},
    ],
)
def test_metadata_that_contradicts_the_weights_is_refused(saved, claims):
    claim(saved, **claims)
    tracemalloc.start()
    # What cannot hurt may be passed over; what must not come is memory or another exception.
    with contextlib.suppress(keras_vit.UsageError):
        model = keras_vit.model_from_weights(saved)
        assert (model.image_size, model.num_classes) == ((16, 16), 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50 << 20


def test_a_stated_size_that_contradicts_the_positions_is_passed_over(saved):
    claim(saved, image_size=[24, 24])
    assert keras_vit.model_from_weights(saved).image_size == (16, 16)


def test_a_vit_with_the_metadata_of_a_bit_is_refused(saved):
    with zipfile.ZipFile(saved, "a") as archive:
        metadata = json.loads(archive.comment) | {"spec": {"layers": [3, 4, 6, 3], "width": 1}}
        archive.comment = json.dumps(metadata).encode()
    with pytest.raises(keras_vit.UsageError, match="the spec in its metadata contradicts"):
        keras_vit.model_from_weights(saved)


def test_an_implausible_image_size_in_a_config_is_refused(tmp_path, small_spec):
    spec = dataclasses.replace(small_spec, position_embedding="sincos2d")
    keras_vit.save_weights(keras_vit.ViT(spec, 5, 16), tmp_path / "sincos.npz")
    claim(tmp_path / "sincos.npz", image_size=[64_000, 64_000])
    with pytest.raises(keras_vit.UsageError, match="claims images of 64000 x 64000 pixels"):
        keras_vit.model_from_weights(tmp_path / "sincos.npz")


def test_positions_that_would_be_computed_for_an_endless_grid_are_refused(tmp_path, small_spec):
    spec = dataclasses.replace(small_spec, position_embedding="relative")
    keras_vit.save_weights(keras_vit.ViT(spec, 5, 16), tmp_path / "relative.npz")
    with zipfile.ZipFile(tmp_path / "relative.npz") as archive:
        keys = [n for n in archive.namelist() if n.endswith("relative_position_bias.npy")]
    for key in keys:
        table = npy((399 * 399 + 3, 3), content=bytes((399 * 399 + 3) * 12))
        replace(tmp_path / "relative.npz", key, table, zipfile.ZIP_DEFLATED)
    with pytest.raises(keras_vit.UsageError, match="relative positions for 200 x 200 patches"):
        keras_vit.model_from_weights(tmp_path / "relative.npz")


def test_empty_arrays_are_refused(saved, tensors, model, rewrite):
    rewrite(saved, lambda arrays: arrays.update({"embedding/kernel": np.zeros((8, 8, 0, 10**6))}))
    assert "embedding/kernel is empty" in refused(saved, model)
    lie(tensors, lambda h: h.update(extra={"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}))
    assert "extra is empty" in refused(tensors, model)


def test_unknown_keys_with_thousands_of_scanned_layers_are_cheap(tmp_path, saved):
    arrays = dict(np.load(saved))
    layers = {f"Transformer/encoderblock/a{i}/b": np.zeros((1000, 1), "f") for i in range(2000)}
    np.savez(tmp_path / "scan.npz", **arrays, **layers)
    with open_checkpoint(tmp_path / "scan.npz") as checkpoint:
        assert len(checkpoint.layout.unknown) == 2000
        assert len(checkpoint.layout.places) == 40


@pytest.mark.parametrize("key", ["block{}/unit1/conv1/kernel", "resnet/block{}/unit01/{}"])
def test_thousands_of_stages_are_read_once(fixtures, tmp_path, monkeypatch, key):
    if key.startswith("resnet"):
        arrays = {"resnet/root_block/standardized_conv2d/kernel": np.zeros((7, 7, 3, 64), "f")}
    else:
        arrays = dict(np.load(fixtures / "hybrid_stem.weights.npz"))
    names = [key.format(i, "a/standardized_conv2d/kernel") for i in range(2, 500)]
    np.savez(tmp_path / "many.npz", **arrays, **dict.fromkeys(names, np.zeros((1, 1, 1, 1), "f")))
    calls = []
    monkeypatch.setattr(
        checkpoints, "numbers", lambda *values: calls.append(values) or numbers(*values)
    )
    refused_spec(tmp_path / "many.npz")
    assert 0 < len(calls) < 5_000


@pytest.mark.slow
def test_endless_metadata_is_not_read(tensors):
    lie(tensors, lambda h: h["__metadata__"].update(keras_vit="[" + "[]," * 10**6 + "[]]"))
    with open_tensors(tensors) as file:
        assert file.metadata == {}
    lie(tensors, lambda h: h["__metadata__"].update(keras_vit="x" * (9 << 20)))
    assert "its header claims" in refused(tensors)


def test_weights_with_wrong_axes_or_a_missing_block_have_no_architecture(fixtures, tmp_path):
    arrays = dict(np.load(fixtures / "vit_token.weights.npz"))
    flat = arrays | {"embedding/kernel": np.zeros(5, np.float32)}
    bare = {key: array for key, array in arrays.items() if "encoderblock" not in key}
    for content in (flat, bare):
        np.savez(tmp_path / "odd.npz", **content)
        line = refused_spec(tmp_path / "odd.npz")
        assert "a weight that determines it is missing or has another shape" in line


def test_a_config_that_is_not_json_is_named(tmp_path, fixtures):
    (tmp_path / "model.safetensors").write_bytes((fixtures / "hf_base.safetensors").read_bytes())
    for content in (b"{", b"\xff", b"[" * 100_000):
        (tmp_path / "config.json").write_bytes(content)
        with pytest.raises(keras_vit.UsageError, match="config.json is not valid JSON"):
            keras_vit.model_from_weights(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(keras_vit.UsageError, match="config.json: expected a JSON object"):
        keras_vit.model_from_weights(tmp_path)


def test_a_config_of_strange_values_ends_in_one_line(tmp_path, fixtures):
    (tmp_path / "model.safetensors").write_bytes((fixtures / "hf_base.safetensors").read_bytes())
    good = json.loads((fixtures / "hf_base.config.json").read_text())
    for field in ("num_attention_heads", "layer_norm_eps", "hidden_act", "image_size"):
        for value in ("x", [], {"a": 1}, -1, [1, 2, 3], True):
            (tmp_path / "config.json").write_text(json.dumps(good | {field: value}))
            # A value may also be harmless; what must not come is another exception.
            refusal = None
            try:
                keras_vit.model_from_weights(tmp_path)
            except keras_vit.UsageError as error:
                refusal = str(error)
            assert refusal is None or len(refusal.splitlines()[0]) < 500, (field, value, refusal)
