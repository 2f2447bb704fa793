"""Archives whose reading would take more memory than their files are refused."""

from __future__ import annotations

import zipfile

import pytest

from keras_vit import _files


@pytest.fixture
def archive(tmp_path):
    """Writes an archive of one member of 1,000 bytes."""

    def write(change=lambda file: None, method=zipfile.ZIP_STORED):
        path = tmp_path / "archive.zip"
        with zipfile.ZipFile(path, "w", method) as file:
            file.writestr("0.npy", bytes(1000))
            change(file)
        return path

    return write


def test_stored_members_that_do_not_overlap_pass(archive):
    _files.check_stored(archive())


def test_compressed_members_are_refused(archive):
    with pytest.raises(ValueError, match="more memory than its size"):
        _files.check_stored(archive(method=zipfile.ZIP_DEFLATED))


def test_overlapping_members_are_refused(archive):
    with pytest.raises(ValueError, match="its members overlap"):
        _files.check_stored(archive(lambda file: file.filelist.extend(5 * file.filelist)))


def test_a_member_that_claims_another_size_is_refused(archive):
    def change(file):
        file.filelist[0].file_size = 1 << 30

    with pytest.raises(ValueError, match="claims another size"):
        _files.check_stored(archive(change))


def test_a_long_directory_is_not_read(archive):
    def change(file):
        for i in range(15_000):
            file.writestr(f"{i:026}", b"")

    path = archive(change)
    with pytest.raises(_files.LongDirectoryError, match="has 1,080,051 bytes. At most 1,048,576"):
        _files.check_stored(path)
