"""Downloads: what a server on loopback answers, and a part of an earlier call.

An input is `part`, the first bytes of the file if there are any, and for each request `N.head` and
`N.body`, which are sent as they are; `N.pace` has the seconds between pieces of the body. The last
answer is repeated.
"""

import base64
import hashlib
import os
import random
import re
import socket
import socketserver
import threading
from pathlib import Path
from typing import Any

import google_crc32c

from fuzzing.kind import Files, Kind, one_file
from fuzzing.mutations import raw
from keras_vit.weights.cache import cached_path
from keras_vit.weights.download import fetch

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


def _seeds(home: Path) -> list[Files]:
    size, kept = len(_CONTENT), _CONTENT[: _KEPT + 1]
    whole = {"head": _head("200 OK", f"Content-Length: {size}", *_HASHES), "body": _CONTENT}
    chunks = [b"%x\r\n%s\r\n" % (len(x), x) for x in (_CONTENT[:9], _CONTENT[9:], b"")]
    chunked = {
        "head": _head("200 OK", "Transfer-Encoding: chunked", *_HASHES), "body": b"".join(chunks)
    }  # fmt: skip
    rest = {
        "head": _head(
            "206 Partial Content", f"Content-Length: {size - _KEPT}", *_HASHES,
            f"Content-Range: bytes {_KEPT}-{size - 1}/{size}",
        ),
        "body": _CONTENT[_KEPT:],
    }  # fmt: skip
    moved = {"head": _head("302 Found", "Location: http://127.0.0.1:{port}/b", "Content-Length: 0")}
    return [
        _input(whole), _input(chunked), _input(rest) | {"part": kept},
        _input(whole | {"body": kept}, rest), _input(moved | {"body": b""}, whole),
    ]  # fmt: skip


def _input(*answers: dict[str, bytes]) -> Files:
    parts = [(i, part, x) for i, answer in enumerate(answers) for part, x in answer.items()]
    return {"0.pace": b"0"} | {f"{i}.{part}": x for i, part, x in parts}


def _head(status: str, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1")


def _mutated_head(rng: random.Random, head: bytes) -> bytes:
    lines, action = head.split(b"\r\n")[:-2] or [b""], rng.randrange(7)
    if action == 0:
        return raw.mutated(rng, head)
    if action == 1:
        lines[0] = b"HTTP/1.1 " + rng.choice(_STATUS).encode()
    elif action == 2:
        lines[:0] = [b"HTTP/1.1 100 Continue", b""] * rng.choice((1, 1000, 200_000))
    else:
        added = [header.encode("latin-1") for header in _HEADERS]
        lines = raw.in_parts(rng, lines, _other_number, added)
    return b"\r\n".join([*lines, b"", b""])


def _other_number(rng: random.Random, line: bytes) -> bytes:
    numbers = list(re.finditer(rb"\d+", line))
    if not numbers:
        return raw.mutated(rng, line)
    match = rng.choice(numbers)
    other = str(int(match[0]) + rng.choice((-1, 1, 10**6))).encode()
    return line[: match.start()] + other + line[match.end() :]


def _mutated_body(rng: random.Random, body: bytes) -> bytes:
    if rng.random() < 0.5:
        return raw.mutated(rng, body)
    return rng.choice((body[: rng.randrange(len(body) + 1)], body * 2, body * 100))


class _Site(socketserver.TCPServer):
    """Sends the answers of an input's files, byte for byte."""

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.folder, self.answer, self.is_over = folder, 0, threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/models/a.npz"

    def finish_request(self, connection: socket.socket, address: Any) -> None:
        connection.settimeout(2)
        connection.recv(1 << 16)
        port = str(self.server_address[1]).encode()
        connection.sendall(self.content("head").replace(b"{port}", port))
        body, pace = self.content("body"), float(self.content("pace") or 0)
        size = 1 if pace else 1 << 16
        for at in range(0, len(body), size):
            connection.sendall(body[at : at + size])
            if pace and self.is_over.wait(pace):
                return
        self.answer += (self.folder / f"{self.answer + 1}.head").exists()

    def content(self, part: str) -> bytes:
        file = self.folder / f"{self.answer}.{part}"
        return file.read_bytes() if file.exists() else b""

    def handle_error(self, request: Any, address: Any) -> None:
        """The client has ended the connection."""


def _read(folder: Path, home: Path) -> None:
    os.environ |= {"no_proxy": "*", "KERAS_VIT_OFFLINE": "0"}
    with _Site(folder) as site:
        path = cached_path(site.url, folder / "cache")
        if (folder / "part").exists():
            path.parent.mkdir(parents=True)
            (folder / "part").rename(path.with_name(f"{path.name}.part"))
        thread = threading.Thread(target=site.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            fetch(
                site.url, folder / "cache", timeout=0.5, retries=2, backoff=0.01, max_bytes=32 << 20
            )
        finally:
            site.is_over.set()
            site.shutdown()
            thread.join()


DOWNLOAD = Kind(
    64 << 20,
    _seeds,
    one_file(
        {".head": _mutated_head, ".body": _mutated_body, "part": raw.mutated},
        rarely={".pace": lambda rng, pace: rng.choice((b"0.01", b"0.3"))},  # drips
        chance=0.03,
    ),
    _read,
)
