"""Downloads files into a cache, resumes broken downloads, and checks length and hashes.

During the download, the file is called `NAME.part`; a second process waits for the lock on it. It
is renamed only when it is complete and correct, so a killed process never leaves a file that looks
complete.

The part of an earlier call is continued if the server states a hash of the whole file. If the hash
is wrong in the end, the part was damaged or from another version, and the file is downloaded again
from the start. It also starts again if a response that continues a part states another ETag, date,
length or hash than the response before.

Nothing waits without end: connecting, headers and pauses have `timeout`, the content a least speed,
attempts without progress a number, and another process that downloads the same file `patience`.

Keras' `get_file` and pooch cannot do this: both delete what has arrived when a connection breaks,
and start again from the first byte; `get_file` also waits without end for a server that stalls.

Sources: RFC 9110 for ranges and ETags; Google Cloud Storage's documentation for `x-goog-hash`
(base64 of the object's big-endian CRC32C and of its MD5).
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import errno
import functools
import hashlib
import http.client
import os
import re
import shutil
import stat
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c

from keras_vit import _files
from keras_vit._errors import UsageError
from keras_vit.weights.cache import PART, cached_path
from keras_vit.weights.http_connection import BreakError, Limits, opener

try:
    import fcntl
except ImportError:  # on Windows there is no lock, and two processes may download the same file
    fcntl = None

_CHUNK = 1 << 20
_LONGEST_PAUSE = 30.0
_LOCK_PAUSE = 0.1
_HASHES = {
    "crc32c": google_crc32c.Checksum,
    "md5": functools.partial(hashlib.md5, usedforsecurity=False),
    "sha256": hashlib.sha256,
}
# The headers that state the version of a file.
_VERSION = ("ETag", "Last-Modified", "x-goog-hash")


def fetch(
    url: str,
    cache: str | os.PathLike | None = None,
    *,
    sha256: str | None = None,
    timeout: float = 30.0,
    min_speed: float = 1024.0,
    retries: int = 4,
    backoff: float = 1.0,
    patience: float = 600.0,
    max_bytes: int = 8 << 30,
    progress: bool | None = None,
) -> Path:
    """The local path of the file at `url`. The file is downloaded if it is not in the cache.

    Args:
        url: an http or https address without a query.
        cache: the folder of the cache; `cache_folder()` if None.
        sha256: the expected hash of a downloaded file, in hexadecimal.
        timeout: seconds after which a connection counts as broken: for connecting to each address
            of the server, for the headers of a response, and without data in its content.
        min_speed: bytes per second that must arrive in each period of `timeout` seconds; otherwise
            the connection counts as broken too.
        retries: number of consecutive retries without progress; each resumes the part.
        backoff: seconds before the first retry, doubled before each further one.
        patience: seconds to wait for another process that downloads the same file without progress.
        max_bytes: the largest file that is accepted.
        progress: whether to show a progress bar on stderr; None: in terminals and notebooks.

    Raises:
        UsageError: the address is refused, the network or the server fails, the length or a hash
            of the file is wrong, the disk is full, the part is a link or a device, or
            `KERAS_VIT_OFFLINE` is set and the file is not in the cache. After a broken connection,
            a full disk or Ctrl-C the part is kept, and the next call continues it.
    """
    path = cached_path(url, cache)
    if path.is_file():
        return path
    advice = (
        f"download it on another machine and put it into the cache as {path}, or pass its path as "
        "weights"
    )
    if is_offline():
        raise UsageError(f"KERAS_VIT_OFFLINE is set and {url} is not in the cache; {advice}.")
    if progress is None:
        progress = "ipykernel" in sys.modules or bool(sys.stderr and sys.stderr.isatty())
    limits = Limits(timeout, min_speed, max_bytes)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        target = _files.followed(path)
        with _locked_part(target, patience) as part:
            if part is not None:
                _Download(url, target, part, sha256, limits, retries, backoff, progress).run()
    except BreakError as error:
        raise UsageError(
            f"{url}: {error}. Without a network, {advice}. KERAS_VIT_OFFLINE=1 uses only the cache."
        ) from None
    except OSError as error:
        problem = f"the cache cannot be written: {error.strerror} ({error.filename or path})"
        if _files.full_disk(error):
            problem = f"the disk is full: {_part(path)} is kept, make room and try again"
        raise UsageError(f"{problem}, or set KERAS_VIT_CACHE to another folder.") from None
    return path


def is_offline() -> bool:
    """Whether `KERAS_VIT_OFFLINE` forbids to use the network."""
    return os.environ.get("KERAS_VIT_OFFLINE", "0") not in ("", "0")


class _NoConnectionError(BreakError):
    """Connecting to the server failed."""


@dataclasses.dataclass
class _Download:
    """One download into an open part, which may already contain the first bytes of the file."""

    url: str
    path: Path
    part: BinaryIO
    sha256: str | None  # that the caller expects
    limits: Limits
    retries: int
    backoff: float
    progress: bool
    # What the server has stated of the version of the file that the part is from.
    version: dict[str, str] = dataclasses.field(default_factory=dict)
    is_continued: bool = False  # whether the part has bytes from more than one response

    def run(self) -> None:
        """Completes the part, checks it and renames it."""
        problem = self._complete()
        if problem and self.is_continued:
            self.part.truncate(0)
            problem = self._complete()
        if problem:
            self.part.truncate(0)
            raise UsageError(f"{self.url}: {problem}; the download is deleted, try again.")
        os.fsync(self.part.fileno())
        _part(self.path).replace(self.path)
        _files.sync(self.path.parent)

    def _complete(self) -> str | None:
        """Retries until the file is complete; returns the fault of its content, if any."""
        breaks, longest = 0, self._size()
        while True:
            try:
                self._attempt()
                return self._fault()
            except BreakError as problem:
                size = self._size()
                breaks = 1 if size >= longest + _CHUNK else breaks + 1
                longest = max(longest, size)
                is_offline = isinstance(problem, _NoConnectionError) and breaks == 1
                if is_offline or breaks > self.retries:
                    kept = f"; {size} bytes are kept, try again" if size else ""
                    raise BreakError(f"{problem}{kept}") from None
            time.sleep(min(self.backoff * 2 ** (breaks - 1), _LONGEST_PAUSE))

    def _attempt(self) -> None:
        """Sends one request. It continues the part if the server can, or else starts again."""
        headers = {"User-Agent": "keras_vit", "Accept-Encoding": "identity"}
        # The last byte is requested again, because for a complete part the range would be empty.
        start = max(self._size() - 1, 0)
        if start:
            headers["Range"] = f"bytes={start}-"
            headers |= {"If-Range": self._etag} if self._etag else {}
        request = urllib.request.Request(self.url, headers=headers)
        try:
            opened = opener(self.limits, _Redirects).open(request, timeout=self.limits.timeout)
            with opened as response:
                start = self._start(response, start)
                self.part.truncate(start)
                self._receive(response, start)
        except (UsageError, BreakError):
            raise
        except urllib.error.HTTPError as error:
            error.close()
            reason = " ".join(str(error.reason).split())  # several lines after many redirects
            problem = f"the server answers {error.code} {reason}"
            if error.code == 416:  # the part is longer than the file
                self.part.truncate(0)
            if error.code in (408, 416, 429) or error.code >= 500:
                raise BreakError(problem) from None
            raise UsageError(f"{self.url}: {problem}.") from None
        except urllib.error.URLError as error:
            reason = getattr(error.reason, "verify_message", "") or error.reason
            raise _NoConnectionError(f"no connection to {request.host}: {reason}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            if _files.full_disk(error):
                raise
            raise BreakError("the connection broke") from None

    def _start(self, response: http.client.HTTPResponse, start: int) -> int:
        """The position in the file where the response starts: the requested `start`, or 0."""
        headers = response.headers
        encoding = headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise UsageError(f"{self.url}: the server sends encoded content ({encoding!r}).")
        stated = {name: sorted(headers.get_all(name, ())) for name in _VERSION}
        version = {name: ",".join(values) for name, values in stated.items() if any(values)}
        start = start if response.status == 206 else 0
        if response.length is not None:
            version["length"] = str(start + response.length)
        if start:
            if not self._continues(headers.get("Content-Range"), start, version):
                self.part.truncate(0)
                raise BreakError("the server cannot continue the file")
            self.is_continued, self.version = True, self.version | version
            return start
        if response.status != 200:
            raise UsageError(f"{self.url}: the server answers {response.status}, not 200.")
        if response.length is None and not (response.chunked or _hashes(version) or self.sha256):
            raise UsageError(
                f"{self.url}: the server announces neither length nor hash, so an incomplete file "
                "would not be noticed; download the file yourself and pass its path."
            )
        self.is_continued, self.version = False, version
        return 0

    def _continues(self, sent: str | None, start: int, version: dict[str, str]) -> bool:
        """Whether a range of the file of this version continues the part."""
        end = int(version.get("length", start))
        is_next = sent == f"bytes {start}-{end - 1}/{end}"
        known = self.version | version
        is_same = known == version | self.version  # as far as both state it
        is_checked = self.sha256 or _hashes(known)
        is_proved = self._etag is not None and self._etag == version.get("ETag")
        return is_next and is_same and bool(is_checked or is_proved)

    @property
    def _etag(self) -> str | None:
        """The ETag of the part's version; weak ones are not used."""
        etag = self.version.get("ETag", "")
        return etag if re.fullmatch(r'"[!-~]*"', etag) else None

    def _receive(self, response: http.client.HTTPResponse, size: int) -> None:
        """Appends the whole body of the response to the part, which has `size` bytes."""
        length = None if response.length is None else size + response.length
        self._check_length(length or 0)
        missing, free = response.length or 0, shutil.disk_usage(self.path.parent).free
        if missing > free:
            raise UsageError(
                f"{self.path.parent} has {free} bytes left and {self.path.name} needs {missing} "
                "more; make room or set KERAS_VIT_CACHE to another folder."
            )
        with _bar(self.progress) as bar:
            task = bar.add_task(self.path.name, total=length, completed=size)
            while chunk := response.read1(_CHUNK):
                size += len(chunk)
                self._check_length(size)
                while chunk:
                    chunk = chunk[self.part.write(chunk) :]
                bar.update(task, completed=size)
        if length is not None and size < length:
            raise BreakError(f"the connection broke after {size} of {length} bytes")

    def _check_length(self, length: int) -> None:
        if length > self.limits.max_bytes:
            self.part.truncate(0)
            raise UsageError(f"{self.url}: the file has more than {self.limits.max_bytes} bytes.")

    def _fault(self) -> str | None:
        """A message if the complete part is empty or has a wrong hash, else None."""
        if not self._size():
            return "the server sent an empty file"
        expected = [("sha256", self.sha256)] * bool(self.sha256) + _hashes(self.version)
        hashers = {name: _HASHES[name]() for name, _ in expected}
        self.part.seek(0)
        while chunk := self.part.read(_CHUNK):
            for hasher in hashers.values():
                hasher.update(chunk)
        for name, text in expected:
            digest = hashers[name].digest()
            actual = digest.hex() if name == "sha256" else base64.b64encode(digest).decode()
            if actual != text:
                return f"wrong {name}: expected {text}, received {actual}"
        return None

    def _size(self) -> int:
        return os.fstat(self.part.fileno()).st_size


def _hashes(version: dict[str, str]) -> list[tuple[str, str]]:
    """The hashes that the server states, by the names of `_HASHES`."""
    stated = (text.strip().partition("=") for text in version.get("x-goog-hash", "").split(","))
    return [(name, digest) for name, _, digest in stated if name in _HASHES]


def _bar(is_shown: bool) -> Any:
    """A progress bar of rich on stderr. Notebooks show the same line as terminals, not a widget."""
    from rich import console, progress

    text = progress.TextColumn("{task.description}: {task.percentage:.0f}%", markup=False)
    speed, rest = progress.TransferSpeedColumn(), progress.TimeRemainingColumn()
    columns = (text, progress.BarColumn(), progress.DownloadColumn(), speed, rest)
    is_terminal = "ipykernel" in sys.modules or None  # None: rich looks
    stderr = console.Console(stderr=True, force_jupyter=False, force_terminal=is_terminal)
    return progress.Progress(*columns, console=stderr, disable=not is_shown)


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, request, answer, code, message, headers, url):
        allowed = ("https",) if request.type == "https" else ("http", "https")
        if urllib.parse.urlsplit(url).scheme not in allowed:
            raise UsageError(f"{request.full_url}: the server redirects to {url!r}: refused.")
        answer.close()  # urllib would read its content, however long
        return super().redirect_request(request, answer, code, message, headers, url)


@contextlib.contextmanager
def _locked_part(path: Path, patience: float) -> Iterator[BinaryIO | None]:
    """Yields the part, open and locked, or None if another process has completed the file."""
    part = _part(path)
    while not path.is_file():
        with _open_part(part) as file:
            _lock(file, part, patience)
            # Another process may have renamed or removed the part while this one waited.
            if not (part.exists() and os.path.samestat(os.fstat(file.fileno()), part.stat())):
                continue
            try:
                yield None if path.is_file() else file
            finally:
                if part.exists() and (path.is_file() or not part.stat().st_size):
                    part.unlink()
            return
    yield None


def _open_part(part: Path) -> BinaryIO:
    """Opens or creates the part. What is written must not reach another file through a link."""
    names = ("O_RDWR", "O_CREAT", "O_APPEND", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
    flags = sum(getattr(os, name, 0) for name in names)
    try:
        file = os.fdopen(os.open(part, flags, 0o666), "r+b", buffering=0)
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
            return file
        file.close()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    raise UsageError(f"{part} must be a file of its own, not a link or a device; delete it.")


def _lock(file: BinaryIO, part: Path, patience: float) -> None:
    """Waits for the lock on the part as long as the process that has it makes progress."""
    size, start = None, time.monotonic()
    while fcntl is not None:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            now = os.fstat(file.fileno()).st_size
            if now != size:
                size, start = now, time.monotonic()
            if time.monotonic() - start > patience:
                raise UsageError(
                    f"another process has been downloading {part} for {patience:g} seconds without "
                    "progress; end it, or set KERAS_VIT_CACHE to another folder."
                ) from None
            time.sleep(_LOCK_PAUSE)


def _part(path: Path) -> Path:
    return path.with_name(path.name + PART)
