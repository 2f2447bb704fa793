"""Files are complete or absent, even if the writer fails or is killed; archives are bounded."""

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

import keras_vit
from keras_vit import UsageError, _files
from keras_vit.training.callbacks import RunWriter, Steps


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@contextlib.contextmanager
def writing(kind, path):
    """The file that is written, or a file within the folder that is."""
    with (_files.replacing if kind == "file" else _files.replacing_folder)(path) as new:
        yield new if kind == "file" else new / "a"


def write(kind, path, content):
    with writing(kind, path) as new:
        new.write_text(content)


def read(kind, path):
    return (path if kind == "file" else path / "a").read_text()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_failed_write_leaves_what_was_there_and_nothing_else(tmp_path, kind):
    path = tmp_path / "written"
    write(kind, path, "old")
    with pytest.raises(OSError, match="torn"), writing(kind, path) as new:
        new.write_text("half of the n")
        raise OSError("torn")
    assert read(kind, path) == "old"
    assert names(tmp_path) == ["written"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        RuntimeError("WriteFile failed: No space left on device; at /tmp/x"),  # as TensorFlow does
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_full_disk_is_one_line_with_the_path(tmp_path, error):
    with (
        pytest.raises(OSError, match="could not be written") as caught,
        _files.replacing_folder(tmp_path / "a") as new,
        _files.replacing(new / "b.txt"),  # the folder's own path is named, not the hidden one
    ):
        raise ValueError("closing the archive failed") from error
    reason = "Disk quota" if "quota" in str(error) else "No space left on device"
    assert str(caught.value).startswith(f"{tmp_path / 'a'} could not be written: {reason}")
    assert str(caught.value).count("\n") == 0
    assert names(tmp_path) == []


def test_every_writer_names_the_path_on_a_full_disk(tmp_path):
    model = keras_vit.ViT_Pico4(num_classes=3, image_size=8)
    model.compile("adam", "mse")
    log = RunWriter(tmp_path, model, Steps(0, 1), time.monotonic, batch_size=1)
    log.set_model(model)
    larger_than_weights = 1_000_000
    (tmp_path / "metrics.jsonl").write_text("x" * larger_than_weights)

    def keras_file():
        with _files.replacing(tmp_path / "model.keras") as temporary:
            model.save(temporary)

    writers = {
        "weights.npz": lambda: keras_vit.save_weights(model, tmp_path / "weights.npz"),
        "model.safetensors": lambda: keras_vit.save_weights(model, tmp_path / "model.safetensors"),
        "model.keras": keras_file,
        "report.json": lambda: _files.write_json(tmp_path / "report.json", ["x" * 20_000]),
        "metrics.jsonl": lambda: log.on_epoch_end(0, {"loss": 1.0}),
    }
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name, write in writers.items():
        # A limit on the size of files acts like a full disk, and the process can still report it.
        limit = larger_than_weights if name == "metrics.jsonl" else 10_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(OSError, match="could not be written") as caught:
                write()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert str(caught.value) == (
            f"{tmp_path / name} could not be written: File too large; make room or write to "
            "another disk."
        )
    # The weights of the epoch are written before its line in metrics.jsonl, and there was room.
    assert names(tmp_path) == ["metrics.jsonl", "weights.npz"]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_is_replaced_whole(tmp_path, monkeypatch, can_exchange):
    if not can_exchange:  # as on systems without renameat2
        monkeypatch.setattr(_files, "_exchange", lambda *_: False)
    for content in ("one", "two"):
        with _files.replacing_folder(tmp_path / "bundle") as new:
            (new / f"{content}.txt").write_text(content)
    assert names(tmp_path) == ["bundle"]
    assert names(tmp_path / "bundle") == ["two.txt"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_that_is_replaced_keeps_its_permissions_and_its_group(tmp_path, mode):
    file = tmp_path / "a.txt"
    file.write_text("old")
    os.chown(file, -1, 12345 if os.geteuid() == 0 else (*os.getgroups(), os.getgid())[0])
    file.chmod(mode)
    before = file.stat()
    _files.write_text(file, "new")
    assert file.read_text() == "new"
    after = file.stat()
    assert (after.st_mode, after.st_gid) == (before.st_mode, before.st_gid)


def test_a_folder_that_is_replaced_keeps_its_permissions_and_those_of_its_files(tmp_path):
    folder = tmp_path / "bundle"
    (folder / "sub").mkdir(parents=True)
    for file in (folder / "kept.txt", folder / "sub" / "kept.txt"):
        file.write_text("old")
        file.chmod(0o600)
    folder.chmod(0o2750)
    with _files.replacing_folder(folder) as new:
        (new / "sub").mkdir()
        for name in ("kept.txt", "sub/kept.txt", "new.txt"):
            (new / name).write_text("new")
    modes = {name: (folder / name).stat().st_mode & 0o7777 for name in ("", "kept.txt", "new.txt")}
    (tmp_path / "ordinary").touch()
    ordinary = (tmp_path / "ordinary").stat().st_mode & 0o7777
    assert modes == {"": 0o2750, "kept.txt": 0o600, "new.txt": ordinary}
    assert (folder / "sub" / "kept.txt").stat().st_mode & 0o7777 == 0o600


def test_another_group_may_not_read_what_the_old_group_alone_could(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError

    file = tmp_path / "a.txt"
    file.write_text("old")
    file.chmod(0o660)
    group = file.stat().st_gid
    status = os.stat_result((*file.stat()[:5], group + 1, *file.stat()[6:]))
    monkeypatch.setattr(os, "chown", refuse)
    _files._copy_permissions(status, file)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("exists", [True, False])
def test_what_a_link_leads_to_is_replaced_and_the_link_stays(tmp_path, kind, exists):
    path, link, disk = tmp_path / "disk" / "written", tmp_path / "a.npz", tmp_path / "disk"
    disk.mkdir()
    if exists:
        write(kind, path, "old")
    link.symlink_to("disk/second")
    (disk / "second").symlink_to(path)
    with writing(kind, link) as new:
        assert "a.npz" in (new.name, new.parent.name)  # numpy adds a suffix to other names
        new.write_text("new")
    assert read(kind, path) == "new"
    assert (link.is_symlink(), path.is_symlink()) == (True, False)
    assert (names(disk), names(tmp_path)) == (["second", "written"], ["a.npz", "disk"])


@pytest.mark.parametrize("leads_to", ["missing/a", "itself"])
def test_a_link_that_leads_nowhere_is_refused_before_any_work(tmp_path, leads_to):
    (tmp_path / "itself").symlink_to(leads_to)
    writers = (_files.replacing, _files.replacing_folder)
    for check in (*(lambda path, w=w: w(path).__enter__() for w in writers), _files.check_writable):
        with pytest.raises(UsageError, match="itself is a link to .*, which does not exist"):
            check(tmp_path / "itself")
    assert names(tmp_path) == ["itself"]


def test_what_a_killed_check_left_is_removed_by_the_next_one(tmp_path):
    (tmp_path / f".check_writable.12345678{_files.UNFINISHED}").mkdir()
    _files.check_writable(tmp_path / "run")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("kind", "old", "message"),
    [
        ("file", "pipe", "pipe is not an ordinary file"),
        ("folder", "pipe", "pipe is not a folder; choose another path"),
        ("folder", "file", "file is not a folder; choose another path"),
    ],
)
def test_a_pipe_is_not_replaced_and_a_folder_replaces_only_a_folder(tmp_path, kind, old, message):
    path = tmp_path / old
    os.mkfifo(path) if old == "pipe" else path.write_text("x")
    with pytest.raises(UsageError, match=message), writing(kind, path):
        raise AssertionError("nothing may be written")
    assert names(tmp_path) == [old]
    assert path.is_fifo() if old == "pipe" else path.is_file()


def test_a_pipe_or_a_link_with_the_name_of_a_lock_or_a_temporary_folder_does_no_harm(tmp_path):
    os.mkfifo(tmp_path / ".pipe.lock")
    assert not _files.is_locked(tmp_path / "pipe")
    (tmp_path / ".run.lock").symlink_to(tmp_path / "elsewhere")
    with _files.locked(tmp_path / "run"):
        assert not (tmp_path / "elsewhere").exists()
    os.mkfifo(tmp_path / f".a.txt.12345678{_files.UNFINISHED}")  # it is not waited for
    _files.write_text(tmp_path / "a.txt", "x")
    assert (tmp_path / "a.txt").read_text() == "x"


def test_only_line_breaks_end_a_line_and_lines_are_counted_first(tmp_path):
    for text, expected in (
        ("a\u2028b\nc\x0bd\r\n", ("a\u2028b", "c\x0bd")), ("a\n\n", ("a", "")), ("", ()),
        ("\ufeffa\r\nb\r\n", ("a", "b")), ("\ufeff", ()),
    ):  # fmt: skip
        (tmp_path / "labels.txt").write_bytes(text.encode())
        assert _files.read_lines(tmp_path / "labels.txt", most=2) == expected
    (tmp_path / "labels.txt").write_text("a\r\n" * 5)
    with pytest.raises(UsageError, match="labels.txt: expected at most 4 lines. Received: 5"):
        _files.read_lines(tmp_path / "labels.txt", most=4)


_WRITER = """
import itertools, sys, types
package = types.ModuleType("keras_vit")  # without its __init__, which takes seconds to import Keras
kind, path, *package.__path__ = sys.argv[1:]
sys.modules["keras_vit"] = package
from keras_vit import _files
for n in itertools.count():
    with (_files.replacing if kind == "file" else _files.replacing_folder)(path) as new:
        for file in [new] if kind == "file" else [new / name for name in "abc"]:
            file.write_text(str(n % 10) * 300_000)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.soak(of="kills")
def test_a_writer_killed_at_any_moment_leaves_one_complete_version(tmp_path, rng, kind):
    path = tmp_path / "written"
    for _ in range(10):
        before = path.stat().st_ino if path.exists() else None
        program = [sys.executable, "-c", _WRITER, kind, path, *keras_vit.__path__]
        writer = subprocess.Popen(program)
        deadline = time.monotonic() + 120
        while not path.exists() or path.stat().st_ino == before:
            assert time.monotonic() < deadline
            assert writer.poll() is None
            time.sleep(0.01)
        time.sleep(rng.uniform(0.05, 0.3))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        files = [path] if kind == "file" else [path / name for name in "abc"]
        (content,) = {file.read_text() for file in files}
        assert content == content[0] * 300_000
    write(kind, path, "whole")
    assert names(tmp_path) == ["written"]
    assert read(kind, path) == "whole"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_the_next_write_deletes_only_what_a_killed_writer_left(tmp_path, kind):
    (tmp_path / ".written[1].settings").mkdir()  # of another program
    (tmp_path / ".written1.abcdefgh.unfinished").mkdir()  # of another path
    before = names(tmp_path)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_files.shutil, "rmtree", lambda *_, **__: None)  # as if it were killed
        with writing(kind, tmp_path / "written[1]") as new:
            new.write_text("half of the n")
            raise KeyboardInterrupt
    assert len(names(tmp_path)) == len(before) + 1
    write(kind, tmp_path / "written[1]", "new")
    assert names(tmp_path) == [*before, "written[1]"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_temporary_files_of_a_running_writer_are_kept(tmp_path, kind):
    path = tmp_path / "written"
    with writing(kind, path) as slow:
        slow.write_text("slow")
        write(kind, path, "fast")
        assert read(kind, path) == "fast"
    assert read(kind, path) == "slow"
    assert names(tmp_path) == ["written"]


def test_a_folder_removed_before_it_is_locked_is_created_again(tmp_path, monkeypatch):
    make, folders = _files.tempfile.mkdtemp, []

    def swept(*arguments):
        folders.append(make(*arguments))
        if len(folders) == 1:
            os.rmdir(folders[0])
        return folders[-1]

    monkeypatch.setattr(_files.tempfile, "mkdtemp", swept)
    _files.write_text(tmp_path / "a.txt", "x")
    assert len(folders) == 2
    assert names(tmp_path) == ["a.txt"]


def test_without_locks_files_are_written_and_nothing_is_removed(tmp_path, monkeypatch):
    (tmp_path / ".a.txt.abcdefgh.unfinished").mkdir()
    monkeypatch.setitem(sys.modules, "fcntl", None)
    _files.write_text(tmp_path / "a.txt", "x")
    assert names(tmp_path) == [".a.txt.abcdefgh.unfinished", "a.txt"]


def test_nan_is_not_written_to_json(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        _files.write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert names(tmp_path) == []


def test_threads_that_write_the_same_path_leave_one_whole_version(tmp_path):
    def write(i):
        for _ in range(3):
            _files.write_text(tmp_path / "a.txt", f"{i}" * 10_000)
            with _files.replacing_folder(tmp_path / "folder") as new:
                (new / "a.txt").write_text(f"{i}")
                (new / "b.txt").write_text(f"{i}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    text = (tmp_path / "a.txt").read_text()
    assert text in {f"{i}" * 10_000 for i in range(4)}
    a, b = ((tmp_path / "folder" / name).read_text() for name in ("a.txt", "b.txt"))
    assert a == b
    assert names(tmp_path) == ["a.txt", "folder"]


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
