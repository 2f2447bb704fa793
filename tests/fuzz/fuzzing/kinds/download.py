"""Downloads: what a server on loopback answers, and a part of an earlier call.

An input is `part`, the first bytes of the file if there are any, and for each request `N.head` and
`N.body`, which are sent as they are; `N.pace` has the seconds between pieces of the body. The last
answer is repeated.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import random
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import google_crc32c

from fuzzing.kind import Files
from fuzzing.kinds._reading import in_one_file
from fuzzing.mutations import raw
from keras_vit.weights.cache import cached_path
from keras_vit.weights.download import fetch

MEMORY = 64 << 20
_CONTENT = bytes(range(256)) * 200
_KEPT = 5000  # bytes of a part; its last one is asked for again
_MD5 = hashlib.md5(_CONTENT).digest()
_HASHES = (
    f"x-goog-hash: crc32c={base64.b64encode(google_crc32c.Checksum(_CONTENT).digest()).decode()}",
    f"x-goog-hash: md5={base64.b64encode(_MD5).decode()}", 'ETag: "a"',
)  # fmt: skip
_STATUS = (
    "100 Continue", "200 OK", "204 No Content", "206 Partial Content", "301 Moved", "302 Found",
    "304 Not Modified", "401 No", "404 Not Found", "408 Timeout", "416 Range Not Satisfiable",
    "429 Slow down", "500 Error", "503 Unavailable", "999 x", "abc", "",
)  # fmt: skip
_HEADERS = (
    "Content-Length: 0", "Content-Length: -1", "Content-Length: 99999999999999999999",
    "Content-Length: 10", "Content-Length: abc", "Transfer-Encoding: chunked",
    "Content-Encoding: gzip", "Content-Range: bytes 0-1/2", "Content-Range: bytes */10",
    "Content-Range: bytes 5-4/3", "Content-Range: x", 'ETag: "b"', 'ETag: W/"a"', 'ETag: "\xff"',
    "x-goog-hash: md5=AAAA", "x-goog-hash: crc32c=", "x-goog-hash: sha256=00, md5=",
    "Location: http://127.0.0.1:{port}/models/a.npz", "Location: file:///etc/passwd", "Location: ",
    "Location: http://127.0.0.1:{port}/other\x1b[2J", "Location: http://[::1", "x: " + "y" * 70_000,
    "Location: //127.0.0.1:{port}\\@x", "no colon", " folded", "Connection: keep-alive",
)  # fmt: skip


def seeds(home: Path) -> list[Files]:
    length = f"Content-Length: {len(_CONTENT)}"
    whole = {"0.head": _head("200 OK", length, *_HASHES), "0.body": _CONTENT}
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(x), x) for x in (_CONTENT[:9], _CONTENT[9:], b""))
    rest = {
        "head": _head(
            "206 Partial Content", f"Content-Length: {len(_CONTENT) - _KEPT}", *_HASHES,
            f"Content-Range: bytes {_KEPT}-{len(_CONTENT) - 1}/{len(_CONTENT)}",
        ),
        "body": _CONTENT[_KEPT:],
    }  # fmt: skip
    first, second = ({f"{i}.{name}": x for name, x in rest.items()} for i in (0, 1))
    moved = _head("302 Found", "Location: http://127.0.0.1:{port}/b", "Content-Length: 0")
    return [
        whole,
        {"0.head": _head("200 OK", "Transfer-Encoding: chunked", *_HASHES), "0.body": chunks},
        {**first, "part": _CONTENT[: _KEPT + 1]},
        {**whole, "0.body": _CONTENT[: _KEPT + 1], **second},
        {"0.head": moved, "0.body": b"", "1.head": whole["0.head"], "1.body": _CONTENT},
    ]


def mutate(rng: random.Random, files: Files) -> Files:
    if rng.random() < 0.03:  # drips
        return files | {"0.pace": rng.choice((b"0.01", b"0.3"))}
    return in_one_file(
        rng, files, {".head": _mutated_head, ".body": _mutated_body, "part": raw.mutated}
    )


def read(folder: Path, home: Path) -> None:
    os.environ |= {"no_proxy": "*", "KERAS_VIT_OFFLINE": "0"}
    with _site(folder) as port:
        url = f"http://127.0.0.1:{port}/models/a.npz"
        path = cached_path(url, folder / "cache")
        if (folder / "part").exists():
            path.parent.mkdir(parents=True)
            (folder / "part").rename(path.with_name(f"{path.name}.part"))
        fetch(url, folder / "cache", timeout=0.5, retries=2, backoff=0.01, max_bytes=32 << 20)


def _head(status: str, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1")


def _mutated_head(rng: random.Random, head: bytes) -> bytes:
    lines, action = head.split(b"\r\n")[:-2] or [b""], rng.randrange(7)
    at = rng.randrange(len(lines))
    if action == 0:
        lines[0] = b"HTTP/1.1 " + rng.choice(_STATUS).encode()
    elif action == 1:
        lines.insert(at + 1, rng.choice(_HEADERS).encode("latin-1"))
    elif action == 2:
        del lines[at]
    elif action == 3:
        lines[at:at] = [lines[at]] * rng.choice((1, 99, 150, 100_000))
    elif action == 4:
        numbers = list(re.finditer(rb"\d+", lines[at]))
        if numbers:
            match = rng.choice(numbers)
            other = str(int(match[0]) + rng.choice((-1, 1, 10**6))).encode()
            lines[at] = lines[at][: match.start()] + other + lines[at][match.end() :]
    elif action == 5:
        lines[:0] = [b"HTTP/1.1 100 Continue", b""] * rng.choice((1, 1000, 200_000))
    else:
        return raw.mutated(rng, head)
    return b"\r\n".join([*lines, b"", b""])


def _mutated_body(rng: random.Random, body: bytes) -> bytes:
    action = rng.randrange(4)
    if action == 0:
        return body[: rng.randrange(len(body) + 1)]
    if action == 1:
        return body * rng.choice((2, 100))
    return raw.mutated(rng, body)


@contextlib.contextmanager
def _site(folder: Path) -> Iterator[int]:
    """A server that sends the answers of the input's files, byte for byte."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()
        thread = threading.Thread(target=_serve, args=(server, folder, over), daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            over.set()
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)  # wakes the thread
            thread.join()


def _serve(server: socket.socket, folder: Path, over: threading.Event) -> None:
    port, last = str(server.getsockname()[1]).encode(), 0
    while not over.is_set():
        with contextlib.suppress(OSError):
            connection, _ = server.accept()
            with connection:
                connection.settimeout(2)
                connection.recv(1 << 16)
                connection.sendall(_content(folder, last, "head").replace(b"{port}", port))
                _send(connection, folder, last, over)
            last += (folder / f"{last + 1}.head").exists()


def _send(connection: socket.socket, folder: Path, i: int, over: threading.Event) -> None:
    body, pace = _content(folder, i, "body"), float(_content(folder, i, "pace") or 0)
    size = 1 << 16 if not pace else 1
    for at in range(0, len(body), size):
        connection.sendall(body[at : at + size])
        if pace and over.wait(pace):
            return


def _content(folder: Path, i: int, kind: str) -> bytes:
    file = folder / f"{i}.{kind}"
    return file.read_bytes() if file.exists() else b""
