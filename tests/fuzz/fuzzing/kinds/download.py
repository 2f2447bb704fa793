"""Downloads: what a server on loopback answers, and a part of an earlier call.

An input is `part`, the first bytes of the file if there are any, and `0.http`, `1.http` and so on,
which answer one request each, the last one all others. Of an answer with the header `x-pace`, the
bytes of the body are sent one by one.
"""

import base64
import hashlib
import os
import random
import re
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
_SIZE = len(_CONTENT)
_HASHES = (
    f"x-goog-hash: crc32c={base64.b64encode(google_crc32c.Checksum(_CONTENT).digest()).decode()}",
    f"x-goog-hash: md5={base64.b64encode(hashlib.md5(_CONTENT).digest()).decode()}", 'ETag: "a"',
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
    "x-pace: 0.01", "x-pace: 0.3",
)  # fmt: skip
_ADDED = [header.encode("latin-1") for header in _HEADERS]
_BLANK = b"\r\n\r\n"  # between the head of an answer and its body


def _seeds(home: Path) -> list[Files]:
    whole = _answer("200 OK", _CONTENT, f"Content-Length: {_SIZE}", *_HASHES)
    chunks = [b"%x\r\n%s\r\n" % (len(x), x) for x in (_CONTENT[:9], _CONTENT[9:], b"")]
    chunked = _answer("200 OK", b"".join(chunks), "Transfer-Encoding: chunked", *_HASHES)
    rest = _answer(
        "206 Partial Content", _CONTENT[_KEPT:], f"Content-Length: {_SIZE - _KEPT}", *_HASHES,
        f"Content-Range: bytes {_KEPT}-{_SIZE - 1}/{_SIZE}",
    )  # fmt: skip
    moved = _answer("302 Found", b"", "Location: http://127.0.0.1:{port}/b", "Content-Length: 0")
    return [
        {"0.http": whole}, {"0.http": chunked}, {"0.http": rest, "part": _CONTENT[: _KEPT + 1]},
        {"0.http": whole[: _KEPT + 1 - _SIZE], "1.http": rest}, {"0.http": moved, "1.http": whole},
    ]  # fmt: skip


def _answer(status: str, body: bytes, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers]).encode() + _BLANK + body


def _mutated(rng: random.Random, answer: bytes) -> bytes:
    head, _, body = answer.partition(_BLANK)
    action = rng.randrange(10)
    if action == 0:
        return raw.mutated(rng, answer)
    if action < 3:
        body = raw.mutated(rng, body)
    elif action == 3:
        body = rng.choice((body[: rng.randrange(len(body) + 1)], body * 2, body * 100))
    elif action == 4:
        head = b"HTTP/1.1 100 Continue\r\n\r\n" * rng.choice((1, 1000, 200_000)) + head
    else:
        status, *lines = head.split(b"\r\n")
        if action == 5 or not lines:
            status = b"HTTP/1.1 " + rng.choice(_STATUS).encode()
        else:
            change = rng.choice((_other_numbers, raw.mutated))
            lines = raw.in_parts(rng, lines, change, _ADDED)
        head = b"\r\n".join([status, *lines])
    return head + _BLANK + body


def _other_numbers(rng: random.Random, line: bytes) -> bytes:
    def other(match: re.Match) -> bytes:
        return b"%d" % (int(match[0]) + rng.choice((0, 0, -1, 1, 10**6)))

    return re.sub(rb"\d+", other, line)


class _Site(socketserver.TCPServer):
    """Sends the answers of an input's files, byte for byte."""

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        port = str(self.server_address[1])
        self.url, self.is_over = f"http://127.0.0.1:{port}/models/a.npz", threading.Event()
        answers = [path.read_bytes() for path in sorted(folder.glob("*.http"))]
        self.answers = [answer.replace(b"{port}", port.encode()) for answer in answers]

    def finish_request(self, connection: Any, address: Any) -> None:
        connection.settimeout(2)
        connection.recv(1 << 16)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        begin, pace = answer.find(_BLANK) + len(_BLANK), re.search(rb"x-pace: (\d+\.\d+)", answer)
        connection.sendall(answer[:begin] if pace else answer)
        for byte in answer[begin:] if pace else b"":
            connection.sendall(bytes([byte]))
            if self.is_over.wait(float(pace[1])):
                return

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


DOWNLOAD = Kind(64 << 20, _seeds, one_file({".http": _mutated, "part": raw.mutated}), _read)
