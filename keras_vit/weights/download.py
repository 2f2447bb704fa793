"""Files from the web into a cache: resumed after a break, checked, and only then given their name.

A cache holds `HOST/DIRECTORY/NAME`: published basenames collide across directories. While a file
is under way it is `NAME.part`, with what the server said of it in `NAME.part.json`; the part is
also the lock that a second process waits for. Only a renamed file counts as good, so a process
killed at any moment leaves nothing that a later call would take for whole.

Sources: RFC 9110 for ranges and validators; Google Cloud Storage's documentation for `x-goog-hash`
(base64 of the stored object's big-endian CRC32C and of its MD5).
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import errno
import hashlib
import http.client
import os
import re
import shutil
import socket
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from keras_vit import _files
from keras_vit._errors import UsageError

try:
    import fcntl
except ImportError:  # Windows: two processes may then fetch the same file, each whole
    fcntl = None

_CHUNK = 1 << 20
# An attempt that brought this much is worth another one, whatever the number of breaks so far.
_WORTH_ANOTHER = 1 << 20
_LONGEST_PAUSE = 30.0
_PART, _STATE = ".part", ".part.json"


def fetch(
    url: str,
    cache: str | os.PathLike | None = None,
    *,
    timeout: float = 30.0,
    retries: int = 4,
    backoff: float = 1.0,
    max_bytes: int = 8 << 30,
    progress: bool | None = None,
) -> Path:
    """The local path of the file at `url`, downloaded unless the cache has it.

    Args:
        url: an http or https address without a query.
        cache: the cache's folder; `cache_folder()` if None.
        timeout: seconds without a byte after which a connection counts as stalled.
        retries: further attempts after one that brought nothing; each resumes the part.
        backoff: seconds before the first further attempt, doubled before each next one.
        max_bytes: the longest file to accept.
        progress: whether to draw a bar on stderr; None for terminals and notebooks only.

    Raises:
        UsageError: the address is refused, the network or the server fails, the file is not what
            the server announced (length, `x-goog-hash`), the disk is full, or `KERAS_VIT_OFFLINE`
            is set and the cache lacks the file. After a break, a full disk or Ctrl-C the part
            stays, and the next call continues it; after a wrong hash it is deleted.
    """
    path = cached_path(url, cache)
    if path.is_file():
        return path
    if os.environ.get("KERAS_VIT_OFFLINE", "0") not in ("", "0"):
        raise UsageError(
            f"KERAS_VIT_OFFLINE is set and {path.name} is not in the cache. Download {url} on "
            f"another machine and {_by_hand(path)}."
        )
    request = _Request(url, timeout, retries, backoff, max_bytes, _shown(progress))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _claimed(path) as file:
            if file is not None:
                _complete(request, file, path)
    except _UnreachableError as error:
        raise UsageError(
            f"{error} Without a network, download it on another machine and {_by_hand(path)}. "
            "KERAS_VIT_OFFLINE=1 uses the cache alone."
        ) from None
    except OSError as error:
        raise UsageError(_disk_problem(error, path)) from None
    return path


def cache_folder() -> Path:
    """`KERAS_VIT_CACHE`, else `keras_vit` in `XDG_CACHE_HOME` or in ~/.cache."""
    chosen = os.environ.get("KERAS_VIT_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (shared if shared.is_absolute() else Path("~/.cache").expanduser()) / "keras_vit"


def cached_path(url: str, cache: str | os.PathLike | None = None) -> Path:
    """Where the file at `url` lies in the cache, or will: `HOST/DIRECTORY/NAME`.

    Raises:
        UsageError: no http or https address, or one that cannot be a path: with a query, a user,
            an empty or dotted part, control characters, or a name that the cache uses itself.
    """
    if not re.fullmatch(r"[!-~]+", url):
        raise UsageError(f"a URL must be printable ASCII; percent-encode it. Received: {url!r}.")
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
        names = [urllib.parse.unquote(n, errors="strict") for n in parts.path.split("/")[1:]]
    except ValueError:
        raise UsageError(f"this URL cannot be read. Received: {url}.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(f"a URL must start with https:// or http://. Received: {url}.")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise UsageError(
            "a URL must have no query, fragment or user; download the file yourself and pass its "
            f"path. Received: {url}."
        )
    # What came unprotected must not answer for the protected address: http keeps its port.
    port = port or (80 if parts.scheme == "http" else None)
    place = host.replace(":", "_") + (f"_{port}" if port else "")
    if not names or not all(map(_is_safe, [place, *names])) or names[-1].endswith((_PART, _STATE)):
        raise UsageError(f"this URL does not name a file that can be cached. Received: {url}.")
    return Path(cache if cache is not None else cache_folder()).joinpath(place, *names)


def _by_hand(path: Path) -> str:
    file = f"FOLDER/{path.name}"
    return (
        f"put it into the cache as {path}, or pass its path: weights={file!r} or --weights {file}"
    )


class _UnreachableError(UsageError):
    """There is no way to the server, or none that lasts."""


class _BreakError(Exception):
    """An attempt that failed for a reason that may pass; the part stays."""


@dataclasses.dataclass(frozen=True)
class _Request:
    url: str
    timeout: float
    retries: int
    backoff: float
    max_bytes: int
    progress: bool


@dataclasses.dataclass(frozen=True)
class _Announced:
    """What the server said of the file: kept beside the part, to resume and to check it."""

    url: str
    length: int | None
    validator: str | None  # a strong ETag or a date, for If-Range
    hashes: tuple[tuple[str, str], ...]  # (algorithm, base64)

    def __post_init__(self):
        whole = self.length is None or (isinstance(self.length, int) and self.length >= 0)
        sendable = self.validator is None or re.fullmatch(r"[ -~]+", self.validator)
        if not whole or not sendable:
            raise ValueError
        for algorithm, digest in self.hashes:
            if len(base64.b64decode(digest, validate=True)) != _DIGESTS[algorithm]:
                raise ValueError

    @property
    def resumable(self) -> bool:
        """Whether a part can be told from the part of another version of the file."""
        return bool(self.validator or self.hashes)


_DIGESTS = {"crc32c": 4, "md5": 16}  # bytes


def _is_safe(name: str) -> bool:
    """Whether one part of a URL may be one part of a path."""
    return (
        name not in ("", ".", "..")
        and name.isprintable()
        and not set(name) & set('/\\:*?"<>|')
        and len(os.fsencode(name)) <= 200
    )


@contextlib.contextmanager
def _claimed(path: Path) -> Iterator[BinaryIO | None]:
    """Yields the part, open and locked; None when another process has finished the file."""
    part = _part(path)
    while not path.is_file():
        with open(part, "a+b", buffering=0) as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            # While this process waited, the part may have been renamed or removed.
            if not (part.exists() and os.path.samestat(os.fstat(file.fileno()), part.stat())):
                continue
            if path.is_file():
                part.unlink()
                break
            try:
                yield file
            finally:
                if part.exists() and not part.stat().st_size:
                    _state(path).unlink(missing_ok=True)
                    part.unlink()
            return
    yield None


def _complete(request: _Request, file: BinaryIO, path: Path) -> None:
    """Fills the part, checks it and gives it its name."""
    announced = _download(request, file, path)
    if not _size(file):
        raise UsageError(f"{request.url}: the server sent an empty file.")
    for algorithm, expected in announced.hashes:
        received = _digest(file, algorithm)
        if received != expected:
            file.truncate(0)
            raise UsageError(
                f"{request.url}: wrong {algorithm}: expected {expected}, received {received}; "
                "the download is deleted, try again."
            )
    os.fsync(file.fileno())
    _part(path).replace(path)
    _files._sync(path.parent)
    _state(path).unlink(missing_ok=True)


def _download(request: _Request, file: BinaryIO, path: Path) -> _Announced:
    """Attempts until all bytes are there; breaks that bring nothing are counted."""
    breaks, reached = 0, _size(file)
    while True:
        try:
            return _attempt(request, file, path)
        except _BreakError as problem:
            breaks = 1 if _size(file) >= reached + _WORTH_ANOTHER else breaks + 1
            reached = max(reached, _size(file))
            if breaks > request.retries:
                kept = f"; {_size(file)} bytes are kept, try again" if _size(file) else ""
                raise _UnreachableError(f"{request.url}: {problem}{kept}.") from None
            time.sleep(min(request.backoff * 2 ** (breaks - 1), _LONGEST_PAUSE))


def _attempt(request: _Request, file: BinaryIO, path: Path) -> _Announced:
    """One connection: continues the part where it can, else begins it anew."""
    announced = _read_state(path, request.url)
    if announced is None or not announced.resumable:
        file.truncate(0)
    start = _size(file)
    if start and start == announced.length and announced.hashes:
        return announced  # killed between the last byte and the new name
    headers = {"Accept-Encoding": "identity", "User-Agent": "keras_vit"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if announced.validator:
            headers["If-Range"] = announced.validator
    try:
        response = _open(urllib.request.Request(request.url, headers=headers), request.timeout)
    except _RangeRefusedError:
        file.truncate(0)
        raise _BreakError("the server refuses to continue the file") from None
    with response:
        if response.status == HTTPStatus.PARTIAL_CONTENT and start:
            length = _continued(response, start, announced)
            if length is None:
                file.truncate(0)
                raise _BreakError("the server continued the file at another place than asked")
            announced = dataclasses.replace(announced, length=length)
        elif response.status == HTTPStatus.OK:
            file.truncate(0)
            announced = _announcement(response, request.url)
        else:
            raise UsageError(f"{request.url}: the server answered {response.status}, not 200.")
        _admit(request, announced, file, path)
        _files.write_json(_state(path), {"format": 1, **dataclasses.asdict(announced)})
        _copy(response, request, announced, file, path.name)
    return announced


def _announcement(response: http.client.HTTPResponse, url: str) -> _Announced:
    """What the headers of a whole answer say."""
    headers = response.headers
    # One header a hash or all in one, RFC 9110 5.3 makes no difference.
    sent = ",".join(headers.get_all("x-goog-hash", [])).split(",")
    pairs = [tuple(word.strip().split("=", 1)) for word in sent if "=" in word]
    hashes = tuple(pair for pair in pairs if pair[0] in _DIGESTS)
    if response.length is None and not response.chunked and not hashes:
        raise UsageError(
            f"{url}: the server tells neither length nor hash, so a break would go unseen; "
            "download the file yourself and pass its path."
        )
    etag, date = headers.get("ETag"), headers.get("Last-Modified")
    validator = etag if etag and not etag.startswith("W/") else date
    try:
        return _Announced(url, response.length, validator, hashes)
    except ValueError:
        raise UsageError(f"{url}: the server's headers cannot be read.") from None


def _continued(response: http.client.HTTPResponse, start: int, announced: _Announced) -> int | None:
    """The whole file's length if a partial answer continues exactly at `start`, else None."""
    match = re.fullmatch(
        r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", response.headers.get("Content-Range", "")
    )
    if match is None:
        return None
    first, last, length = map(int, match.groups())
    fits = first == start and last == length - 1 and announced.length in (None, length)
    return length if fits and response.length in (None, length - start) else None


def _admit(request: _Request, announced: _Announced, file: BinaryIO, path: Path) -> None:
    """Refuses, before a byte is read, a file that is too long or that the disk cannot hold."""
    if announced.length is None:
        return
    if announced.length > request.max_bytes:
        raise UsageError(
            f"{request.url}: at most {request.max_bytes} bytes are accepted. "
            f"Received: {announced.length}."
        )
    missing, free = announced.length - _size(file), shutil.disk_usage(path.parent).free
    if missing > free:
        raise UsageError(
            f"{path.parent} has {free} bytes left and {path.name} needs {missing} more; make room "
            "or set KERAS_VIT_CACHE to another folder."
        )


def _copy(
    response: http.client.HTTPResponse,
    request: _Request,
    announced: _Announced,
    file: BinaryIO,
    name: str,
) -> None:
    """Appends the answer's body to the part, whatever arrives, until it ends."""
    from tqdm import tqdm

    size, length = _size(file), announced.length
    limit = request.max_bytes if length is None else length
    with tqdm(
        desc=name,
        total=length,
        initial=size,
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
        disable=not request.progress,
    ) as bar:
        while chunk := _read(response, request.timeout):
            size += len(chunk)
            if size > limit:
                file.truncate(0)
                raise UsageError(f"{request.url}: the server sends more than {limit} bytes.")
            _write(file, chunk)
            bar.update(len(chunk))
    if length is not None and size < length:
        raise _BreakError(f"the connection broke after {size} of {length} bytes")


def _read(response: http.client.HTTPResponse, timeout: float) -> bytes:
    """What has arrived, at least a byte; b"" at the end."""
    try:
        return response.read1(_CHUNK)
    except TimeoutError:
        raise _BreakError(f"no data for {timeout:g} seconds") from None
    except (OSError, http.client.HTTPException, ValueError):
        raise _BreakError("the connection broke") from None


def _write(file: BinaryIO, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[file.write(rest) :]


def _open(request: urllib.request.Request, timeout: float) -> http.client.HTTPResponse:
    """Connects and reads the headers; every failure is a `_BreakError` or a `UsageError`."""
    url = request.full_url
    try:
        response = urllib.request.build_opener(_Redirects).open(request, timeout=timeout)
    except UsageError:
        raise
    except urllib.error.HTTPError as error:
        error.close()
        raise _status_problem(url, error.code) from None
    except urllib.error.URLError as error:
        raise _connection_problem(url, error.reason, timeout) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _connection_problem(url, error, timeout) from None
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        response.close()
        raise UsageError(f"{url}: the server sends it encoded ({encoding!r}), which is refused.")
    return response


class _RangeRefusedError(Exception):
    """416: there is nothing at or after the place where the part ends."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, request, answer, code, message, headers, url):
        allowed = ("https",) if request.type == "https" else ("http", "https")
        if urllib.parse.urlsplit(url).scheme not in allowed:
            raise UsageError(f"{request.full_url}: the server redirects to {url!r}: refused.")
        return super().redirect_request(request, answer, code, message, headers, url)


def _status_problem(url: str, status: int) -> Exception:
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return _RangeRefusedError()
    if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or status >= 500:
        return _BreakError(f"the server fails with status {status}")
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return UsageError(f"{url}: the server has no such file ({status}); check the name.")
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return UsageError(f"{url}: the server denies access ({status}).")
    return UsageError(f"{url}: the server answers with status {status}.")


def _connection_problem(url: str, reason: Exception | str, timeout: float) -> Exception:
    host = urllib.parse.urlsplit(url).netloc
    if isinstance(reason, ssl.SSLError):
        detail = getattr(reason, "verify_message", "") or reason.reason
        return _UnreachableError(f"{url}: no trusted TLS connection to {host}: {detail}.")
    if isinstance(reason, socket.gaierror):
        return _UnreachableError(f"{url}: the host {host} is not found; is there a network?")
    if isinstance(reason, ConnectionRefusedError):
        return _UnreachableError(f"{url}: {host} refuses the connection.")
    if isinstance(reason, OSError) and reason.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
        return _UnreachableError(f"{url}: {host} cannot be reached; is there a network?")
    if isinstance(reason, TimeoutError):
        return _BreakError(f"no answer for {timeout:g} seconds")
    if isinstance(reason, OSError):
        return _BreakError("the connection broke")
    return _BreakError("the server does not answer in HTTP")


def _disk_problem(error: OSError, path: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"the disk is full: {_part(path)} is kept, make room and try again to continue it "
            "(or delete it), or set KERAS_VIT_CACHE to another folder."
        )
    return (
        f"the cache cannot be written: {error.strerror} ({error.filename or path}); "
        "set KERAS_VIT_CACHE to another folder."
    )


def _digest(file: BinaryIO, algorithm: str) -> str:
    """Base64 of the whole part's hash, as `x-goog-hash` writes it."""
    if algorithm == "md5":
        hasher = hashlib.md5(usedforsecurity=False)
    else:
        import google_crc32c

        hasher = google_crc32c.Checksum()
    file.seek(0)
    while chunk := file.read(_CHUNK):
        hasher.update(chunk)
    return base64.b64encode(hasher.digest()).decode()


def _read_state(path: Path, url: str) -> _Announced | None:
    """What the part's server announced; None if there is no telling, or not for this URL."""
    try:
        stored = _files.read_json(_state(path), format=1)
        hashes = tuple((algorithm, digest) for algorithm, digest in stored["hashes"])
        announced = _Announced(stored["url"], stored["length"], stored["validator"], hashes)
    except (UsageError, ValueError, TypeError, KeyError):
        return None
    return announced if announced.url == url else None


def _shown(progress: bool | None) -> bool:
    if progress is not None:
        return progress
    return "ipykernel" in sys.modules or bool(sys.stderr and sys.stderr.isatty())


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _part(path: Path) -> Path:
    return path.with_name(path.name + _PART)


def _state(path: Path) -> Path:
    return path.with_name(path.name + _STATE)
