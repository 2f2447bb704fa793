"""Archives whose reading would take more memory than their files are refused."""

import contextlib
import zipfile

import pytest

from keras_vit import _files


def overlap(file):
    file.filelist.extend(5 * file.filelist)


def claim(file):
    file.filelist[0].file_size = 1 << 30


def lengthen(file):
    for i in range(15_000):
        file.writestr(f"{i:026}", b"")


@pytest.mark.parametrize(
    ("change", "method", "message"),
    [
        (lambda file: None, zipfile.ZIP_STORED, None),
        (lambda file: None, zipfile.ZIP_DEFLATED, "more memory than its size"),
        (overlap, zipfile.ZIP_STORED, "its members overlap"),
        (claim, zipfile.ZIP_STORED, "claims another size"),
        (lengthen, zipfile.ZIP_STORED, "has 1,080,051 bytes. At most 1,048,576"),
    ],
    ids=["stored", "compressed", "overlapping", "of another size", "long directory"],
)
def test_only_stored_members_that_do_not_overlap_pass(tmp_path, change, method, message):
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("0.npy", bytes(1000))
        change(file)
    error = _files.LongDirectoryError if change is lengthen else ValueError
    refused = pytest.raises(error, match=message) if message else contextlib.nullcontext()
    with refused:
        _files.check_stored(path)
