"""Downloads from a real web server that closes connections, stalls and sends wrong data."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import fcntl
import hashlib
import http.server
import itertools
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path

import google_crc32c
import numpy as np
import pytest

from keras_vit import UsageError
from keras_vit.weights import download
from keras_vit.weights.cache import cache_folder, cached_path
from keras_vit.weights.download import fetch

CONTENT = np.random.default_rng(0).bytes(300_000)
CHANGED = np.random.default_rng(1).bytes(300_000)
ROOT = Path(__file__).parents[2]


def crc32c(content):
    return base64.b64encode(google_crc32c.Checksum(content).digest()).decode()


def md5(content):
    return base64.b64encode(hashlib.md5(content).digest()).decode()


@dataclasses.dataclass
class Answer:
    """The server's response to one request."""

    content: bytes = CONTENT
    status: int | None = None
    headers: dict = dataclasses.field(default_factory=dict)  # headers that are None are not sent
    ranges: bool = True
    chunked: bool = False
    send: int | None = None  # bytes of the body, then the connection closes
    stall: bool = False  # instead of closing, sends nothing more
    pace: float = 0.0  # seconds between pieces of 10,000 bytes
    ignores_if_range: bool = False


class Site(http.server.ThreadingHTTPServer):
    """A server on loopback. It sends its answers in turn, and then repeats the last one."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.requests = [Answer()], []
        self.requested, self.over = threading.Event(), threading.Event()

    def url(self, path="models/a.npz"):
        return f"http://127.0.0.1:{self.server_port}/{path}"

    @property
    def folder(self):
        return f"127.0.0.1_{self.server_port}"

    def handle_error(self, *_):
        """Ignores errors of clients that were killed."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.requests.append((self.path, dict(self.headers)))
        self.server.requested.set()
        answers = self.server.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        self.close_connection = True
        content, status, headers = answer.content, answer.status or 200, self.sent_headers(answer)
        if status != 200:
            content = b"an error page"
        elif (
            answer.ranges
            and "Range" in self.headers
            and (answer.ignores_if_range or self.headers.get("If-Range") in (None, headers["ETag"]))
        ):
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            content, status = content[start:], 206
        if answer.chunked:
            headers["Transfer-Encoding"] = "chunked"
        else:
            headers["Content-Length"] = str(len(content))
        self.send_response(status)
        for name, value in {**headers, **answer.headers}.items():
            for one in value if isinstance(value, list) else [value]:
                if one is not None:
                    self.send_header(name, one)
        self.end_headers()
        self.send_body(answer, content)

    def sent_headers(self, answer):
        content = answer.content
        return {
            "ETag": f'"{md5(content)}"',
            "x-goog-hash": [f"crc32c={crc32c(content)}", f"md5={md5(content)}"],
        }

    def send_body(self, answer, content):
        sent = content if answer.send is None else content[: answer.send]
        for place in range(0, len(sent), 10_000):
            piece = sent[place : place + 10_000]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if answer.chunked else piece)
            self.wfile.flush()
            time.sleep(answer.pace)
        if answer.stall:
            self.server.over.wait()
        if answer.chunked and answer.send is None:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_):
        pass


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    for name in ("KERAS_VIT_OFFLINE", "KERAS_VIT_CACHE"):
        monkeypatch.delenv(name, raising=False)
    with Site() as site:
        threading.Thread(target=site.serve_forever, args=(0.01,), daemon=True).start()
        yield site
        site.over.set()
        site.shutdown()


@pytest.fixture
def get(site, tmp_path):
    """Downloads into the test's own cache, without long pauses."""

    def call(path="models/a.npz", **options):
        return fetch(site.url(path), tmp_path, **{"backoff": 0.01, "timeout": 5.0, **options})

    return call


def ranges(site):
    return [headers.get("Range") for _, headers in site.requests]


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def one_line(error):
    message = str(error.value)
    assert "\n" not in message
    assert message
    return message


# ------------------------------------------------------------------------------- without failures


def test_a_file_is_complete_and_requested_once(site, get, tmp_path):
    path = get()
    assert path.read_bytes() == CONTENT
    assert get() == path
    assert len(site.requests) == 1
    assert files(tmp_path) == [f"{site.folder}/models/a.npz"]
    (tmp_path / "ordinary").write_bytes(b"")
    assert path.stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_a_link_in_the_cache_stays_and_the_file_goes_where_it_leads(site, get, tmp_path):
    path = get()
    (tmp_path / "disk").mkdir()
    path.unlink()
    path.symlink_to(tmp_path / "disk" / "blob")
    assert get() == path  # the name says which format it is
    assert path.is_symlink()
    assert (tmp_path / "disk" / "blob").read_bytes() == CONTENT


def test_equal_names_of_two_directories_are_kept_apart(site, get):
    site.answers = [Answer(), Answer(CHANGED)]
    assert get("imagenet21k/ViT-B_16.npz").read_bytes() == CONTENT
    assert get("imagenet21k+imagenet2012/ViT-B_16.npz").read_bytes() == CHANGED
    assert [path for path, _ in site.requests] == [
        "/imagenet21k/ViT-B_16.npz",
        "/imagenet21k+imagenet2012/ViT-B_16.npz",
    ]


def test_requests_ask_for_unencoded_content(site, get):
    get()
    assert site.requests[0][1]["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("chunked", [True, False])
def test_a_file_of_unknown_length_is_accepted_if_its_end_can_be_checked(site, get, chunked):
    site.answers = [Answer(chunked=chunked, headers={"Content-Length": None})]
    assert get().read_bytes() == CONTENT


def test_a_redirect_is_followed_and_only_the_final_answer_counts(site, get, tmp_path):
    lie = {"Location": site.url("moved/b.npz"), "x-goog-hash": f"md5={md5(b'the page')}"}
    site.answers = [Answer(status=302, headers=lie), Answer()]
    assert get() == tmp_path / site.folder / "models" / "a.npz"
    assert get().read_bytes() == CONTENT


def test_a_bar_is_drawn_on_stderr_for_terminals_only(get, capsys):
    get()
    assert capsys.readouterr() == ("", "")
    get("models/b.npz", progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "b.npz: 100%" in err


# -------------------------------------------------------------------------------- breaks, resumed


def test_a_broken_download_is_resumed(site, get):
    site.answers = [Answer(send=100_000), Answer()]
    assert get().read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=99999-"]
    assert site.requests[1][1]["If-Range"] == f'"{md5(CONTENT)}"'


def test_a_later_call_resumes_too(site, get, tmp_path):
    site.answers = [Answer(send=100_000), Answer()]
    with pytest.raises(UsageError, match="broke after 100000 of 300000 bytes; 100000 bytes") as e:
        get(retries=0)
    one_line(e)
    assert not (tmp_path / site.folder / "models" / "a.npz").exists()
    assert get().read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=99999-"]
    assert files(tmp_path) == [f"{site.folder}/models/a.npz"]


def test_without_range_support_the_download_starts_again(site, get):
    site.answers = [Answer(send=100_000), Answer(ranges=False)]
    assert get().read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=99999-"]


def test_if_the_file_changed_the_download_starts_again(site, get):
    site.answers = [Answer(send=100_000), Answer(CHANGED)]
    assert get().read_bytes() == CHANGED


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Range": "bytes 99998-299999/300000"},
        {"Content-Range": "bytes 99999-299999/300001"},
        {"Content-Range": "bytes 99999-199999/300000"},
        {"Content-Range": "bytes 99999-300000/300001"},
        {"Content-Range": "bytes */300000"},
        {"Content-Range": None},
    ],
)
def test_if_a_response_does_not_continue_the_part_the_download_starts_again(site, get, headers):
    site.answers = [Answer(send=100_000), Answer(headers=headers), Answer()]
    assert get().read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=99999-", None]


def test_if_the_range_is_refused_the_download_starts_again(site, get):
    site.answers = [Answer(send=100_000), Answer(status=416), Answer()]
    assert get().read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=99999-", None]


def test_without_etag_and_hash_the_download_starts_again(site, get):
    bare = {"ETag": None, "x-goog-hash": None}
    site.answers = [Answer(send=100_000, headers=bare), Answer(headers=bare)]
    assert get().read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=99999-", None]


OLD = {"x-goog-hash": None, "ETag": '"1"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}


@pytest.mark.parametrize(
    "change",
    [
        {"ETag": '"2"'},
        {"ETag": None},
        {"ETag": 'W/"1"'},
        {"Last-Modified": "Tue, 02 Jan 2024 00:00:00 GMT"},
        {"x-goog-hash": f"md5={md5(CHANGED)}", "ETag": '"2"'},
        {},  # only the length differs
    ],
)
def test_a_range_of_another_version_of_the_file_is_not_joined_to_the_part(site, get, change):
    changed = CHANGED if change else CHANGED + b"longer"
    headers = OLD | change
    site.answers = [
        Answer(send=100_000, headers=OLD),
        Answer(changed, headers=headers, ignores_if_range=True),
    ]
    assert get().read_bytes() == changed
    assert ranges(site) == [None, "bytes=99999-", None]


def test_after_a_start_from_the_beginning_the_length_is_that_of_the_new_response(site, get):
    site.answers = [
        Answer(send=100_000, headers=OLD),
        Answer(CHANGED, send=200_000, headers=OLD | {"ETag": '"2"'}, ranges=False),
        Answer(CHANGED, headers=OLD | {"ETag": '"2"'}, ignores_if_range=True),
    ]
    assert get().read_bytes() == CHANGED
    assert ranges(site) == [None, "bytes=99999-", "bytes=199999-"]


def test_without_a_hash_the_etag_distinguishes_versions(site, get):
    no_hash = {"x-goog-hash": None}
    site.answers = [Answer(send=100_000, headers=no_hash), Answer(headers=no_hash)]
    assert get().read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=99999-"]
    assert site.requests[1][1]["If-Range"] == f'"{md5(CONTENT)}"'


def test_without_a_hash_the_part_of_an_earlier_call_is_not_continued(site, get):
    no_hash = {"x-goog-hash": None}
    site.answers = [Answer(send=100_000, headers=no_hash), Answer(CHANGED, headers=no_hash)]
    with pytest.raises(UsageError):
        get(retries=0)
    assert get().read_bytes() == CHANGED


@pytest.mark.parametrize("size", [1, 1000, 300_000, 300_001])
def test_a_part_of_unknown_origin_does_not_reach_the_file(site, get, tmp_path, size):
    part = tmp_path / site.folder / "models" / "a.npz.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * size)
    assert get().read_bytes() == CONTENT


def test_a_truncated_chunked_response_is_detected(site, get):
    site.answers = [Answer(chunked=True, send=100_000), Answer(chunked=True, ranges=False)]
    assert get().read_bytes() == CONTENT
    assert len(site.requests) == 2


def test_a_stall_ends_and_is_resumed(site, get):
    site.answers = [Answer(send=100_000, stall=True), Answer()]
    assert get(timeout=1).read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=99999-"]


def test_a_server_that_only_stalls_is_given_up(site, get):
    site.answers = [Answer(send=0, stall=True)]
    with pytest.raises(UsageError, match=r"no data for 0.5 seconds\. Without a network") as error:
        get(timeout=0.5, retries=2)
    one_line(error)
    assert len(site.requests) == 3


def test_attempts_with_progress_are_not_counted(site, get, monkeypatch):
    monkeypatch.setattr(download, "_CHUNK", 50_000)
    site.answers = [*[Answer(send=60_000) for _ in range(4)], Answer()]
    assert get(retries=1).read_bytes() == CONTENT
    assert ranges(site)[-1] == "bytes=239996-"


def test_progress_that_is_lost_again_and_again_is_given_up(site, get, monkeypatch):
    monkeypatch.setattr(download, "_CHUNK", 50_000)
    site.answers = [Answer(send=150_000), Answer(headers={"Content-Range": None})] * 20
    with pytest.raises(UsageError, match="cannot continue the file|connection broke"):
        get(retries=2)
    assert len(site.requests) < 8


def test_of_a_complete_part_only_the_last_byte_is_requested(site, get, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(download._Download, "_fault", interrupted)
        get()
    assert get().read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=299999-"]


# ------------------------------------------------------------------------- servers without an end


@contextlib.contextmanager
def raw_server(*pieces, pace=0.0):
    """A server that answers every request with these pieces; yields its address and a counter."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            while self.rfile.readline().strip():
                pass
            with contextlib.suppress(OSError):
                for piece in itertools.chain.from_iterable(pieces):
                    self.wfile.write(piece)
                    sent.append(len(piece))
                    time.sleep(pace)

    sent = []
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/a.npz", sent
        server.shutdown()


HEAD = [b'HTTP/1.1 200 OK\r\nETag: "1"\r\n']
BODY = [b"Content-Length: 1000000\r\n\r\n"]
BYTES = [b"x"] * 1000  # with a pause of 0.02 seconds, 50 bytes per second for 20 seconds


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([HEAD, BODY, BYTES], "less than 1000 bytes per second for 1 seconds"),
        ([HEAD, [b"Transfer-Encoding: chunked\r\n\r\n"], [b"1\r\nx\r\n"] * 1000], "less than 1000"),
        ([HEAD, [b"Transfer-Encoding: chunked\r\n\r\n"], [b"0"] * 1000], "less than 1000"),
        ([BYTES], "no complete headers within 1 seconds"),
        ([HEAD, [b"X: "], BYTES], "no complete headers"),
        ([[b"HTTP/1.1 100 Continue\r\n\r\n"] * 1000], "no complete headers"),
    ],
)
def test_a_server_that_drips_is_given_up(site, tmp_path, pieces, message):
    with raw_server(*pieces, pace=0.02) as (url, _), pytest.raises(UsageError, match=message) as e:
        fetch(url, tmp_path, timeout=1, min_speed=1000, retries=0)
    one_line(e)


def test_a_slow_server_may_be_allowed(site, tmp_path):
    head = [b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n"]
    with raw_server(head, [b"x"] * 60, pace=0.02) as (url, _):
        path = fetch(url, tmp_path, timeout=1, min_speed=1, retries=0)
    assert path.read_bytes() == b"x" * 60


CHUNKED = [b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"]
MOVED = [b"HTTP/1.1 302 Found\r\nLocation: /b.npz\r\n\r\n"]
MIB = [b"x" * (1 << 20)] * 100


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([[b"HTTP/1.1 100 Continue\r\n\r\n" * 1000] * 4000], "the server sends endless data"),
        ([HEAD, [b"X: y\r\n" * 1000] * 4000], "the connection broke"),
        ([HEAD, CHUNKED, [b"X: y\r\n" * 10_000] * 1500], "the server sends endless data"),
        ([MOVED, MIB], "answers 302"),
        ([[b"HTTP/1.1 404 No\r\n\r\n"], MIB], "answers 404"),
    ],
)
def test_endless_responses_are_not_read(site, tmp_path, pieces, message):
    with raw_server(*pieces) as (url, sent), pytest.raises(UsageError, match=message) as error:
        fetch(url, tmp_path, retries=0, max_bytes=1_000_000)
    one_line(error)
    assert sum(sent) < 60 << 20  # with what lies in buffers of the system, of up to ten responses


@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link", "pipe"])
def test_a_part_that_is_not_a_file_of_its_own_is_refused(site, get, tmp_path, kind):
    part = tmp_path / site.folder / "models" / "a.npz.part"
    part.parent.mkdir(parents=True)
    victim = tmp_path / "victim"
    if kind != "dangling link":
        victim.write_bytes(b"precious")
    if kind == "pipe":
        os.mkfifo(part)
    elif kind == "hard link":
        os.link(victim, part)
    else:
        part.symlink_to(victim)
    with pytest.raises(UsageError, match="must be a file of its own, .*; delete it") as error:
        get()
    assert str(part) in one_line(error)
    assert site.requests == []
    assert not victim.exists() if kind == "dangling link" else victim.read_bytes() == b"precious"


def test_a_process_that_holds_the_part_without_progress_is_not_waited_for(site, get, tmp_path):
    part = tmp_path / site.folder / "models" / "a.npz.part"
    part.parent.mkdir(parents=True)
    with part.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="for 0.3 seconds without progress") as error:
            get(patience=0.3)
        one_line(error)
    assert get(patience=0.3).read_bytes() == CONTENT


# ------------------------------------------------------------------------------------- wrong data


@pytest.mark.parametrize(
    "hashes",
    [
        f"crc32c={crc32c(CHANGED)}",
        f"md5={md5(CHANGED)}",
        [f"crc32c={crc32c(CONTENT)}", f"md5={md5(CHANGED)}"],
        f"crc32c={crc32c(CONTENT)}, md5={md5(CHANGED)}",
        [f"md5={md5(CONTENT)}", f"md5={md5(CHANGED)}"],
    ],
)
def test_a_wrong_hash_deletes_the_download(site, get, tmp_path, hashes):
    site.answers = [Answer(headers={"x-goog-hash": hashes})]
    with pytest.raises(UsageError) as error:
        get()
    algorithm = "crc32c" if "crc32c=" + crc32c(CHANGED) in hashes else "md5"
    hasher = crc32c if algorithm == "crc32c" else md5
    assert f"wrong {algorithm}: expected {hasher(CHANGED)}, received {hasher(CONTENT)}" in one_line(
        error
    )
    assert files(tmp_path) == []
    site.answers = [Answer()]
    assert get().read_bytes() == CONTENT


def test_a_hash_that_cannot_be_read_is_a_wrong_hash(site, get, tmp_path):
    site.answers = [Answer(headers={"x-goog-hash": "md5=not base64"})]
    with pytest.raises(UsageError, match="wrong md5: expected not base64, received"):
        get()
    assert files(tmp_path) == []


def test_a_damaged_part_is_noticed_and_downloaded_again(site, get, tmp_path):
    site.answers = [Answer(send=100_000), Answer()]
    with pytest.raises(UsageError):
        get(retries=0)
    part = tmp_path / site.folder / "models" / "a.npz.part"
    part.write_bytes(b"\0" + part.read_bytes()[1:])
    assert get().read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=99999-", None]


def test_a_pinned_hash_is_always_checked(site, get, tmp_path):
    expected, received = (hashlib.sha256(content).hexdigest() for content in (CONTENT, CHANGED))
    for headers in ({}, {"x-goog-hash": None, "ETag": None}):
        site.answers = [Answer(CHANGED, headers=headers)]
        with pytest.raises(UsageError) as error:
            get(sha256=expected)
        assert f"wrong sha256: expected {expected}, received {received}" in one_line(error)
        assert files(tmp_path) == []
    site.answers = [Answer()]
    assert get(sha256=expected).read_bytes() == CONTENT


def test_with_a_pinned_hash_a_part_is_continued_from_any_server(site, get):
    bare = {"x-goog-hash": None, "ETag": None}
    site.answers = [Answer(send=100_000, headers=bare), Answer(headers=bare)]
    assert get(sha256=hashlib.sha256(CONTENT).hexdigest()).read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=99999-"]


def test_more_than_announced_is_not_written(site, get, tmp_path):
    site.answers = [Answer(headers={"Content-Length": "200000"})]
    with pytest.raises(UsageError, match="wrong crc32c"):
        get()
    assert files(tmp_path) == []


def test_an_endless_response_is_stopped(site, get, tmp_path):
    site.answers = [Answer(CONTENT * 10, chunked=True)]
    with pytest.raises(UsageError, match="the file has more than 500000 bytes") as error:
        get(max_bytes=500_000)
    one_line(error)
    assert files(tmp_path) == []


def test_a_file_that_is_too_large_is_refused_before_its_first_byte(site, get, tmp_path):
    with pytest.raises(UsageError, match="the file has more than 299999 bytes"):
        get(max_bytes=299_999)
    assert files(tmp_path) == []


def test_a_file_that_the_disk_cannot_hold_is_refused(site, get, tmp_path):
    site.answers = [Answer(headers={"Content-Length": str(1 << 60)})]
    with pytest.raises(UsageError, match="bytes left and a.npz needs 1152921504606846976 more"):
        get(max_bytes=1 << 62)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(headers={"Content-Encoding": "gzip"}), "encoded content .'gzip'."),
        (
            Answer(headers={"Content-Length": None, "x-goog-hash": None}),
            "neither length nor hash, so an incomplete file would not be noticed",
        ),
        (Answer(b""), "sent an empty file"),
        (Answer(status=302, headers={"Location": "ftp://127.0.0.1/x"}), "redirects to 'ftp:"),
        (Answer(status=302, headers={"Location": "file:///etc/passwd"}), "answers 302"),
        (Answer(status=204), "answers 204, not 200"),
    ],
)
def test_responses_that_are_refused(site, get, tmp_path, answer, message):
    site.answers = [answer]
    with pytest.raises(UsageError, match=message) as error:
        get()
    one_line(error)
    assert files(tmp_path) == []
    assert len(site.requests) == 1


def test_a_redirect_does_not_leave_tls():
    request = download.urllib.request.Request("https://a.example/x")
    with pytest.raises(UsageError, match="redirects to 'http://a.example/x': refused"):
        download._Redirects().redirect_request(request, None, 302, "", {}, "http://a.example/x")


# --------------------------------------------------------------------------------------- failures


def test_a_server_that_fails_and_then_works(site, get):
    site.answers = [Answer(status=503), Answer(status=500), Answer()]
    assert get().read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("status", "requests", "message"),
    [
        (404, 1, "answers 404 Not Found"),
        (403, 1, "answers 403 Forbidden"),
        (418, 1, "answers 418 I'm a Teapot"),
        (503, 3, "answers 503 Service Unavailable"),
    ],
)
def test_statuses_are_reported_and_only_some_are_retried(
    site, get, tmp_path, status, requests, message
):
    site.answers = [Answer(status=status)]
    with pytest.raises(UsageError, match=message) as error:
        get(retries=2)
    assert site.url() in one_line(error)
    assert len(site.requests) == requests
    assert files(tmp_path) == []


def check_advice(error, path):
    """Checks that the message has the path in the cache, and says that a path can be passed."""
    message = one_line(error)
    assert f"put it into the cache as {path}, or pass its path as weights" in message


def test_a_server_that_is_not_there(site, get, tmp_path):
    site.shutdown()
    site.server_close()
    with pytest.raises(UsageError, match="no connection to 127.0.0.1:.*refused") as error:
        get()
    check_advice(error, tmp_path / site.folder / "models" / "a.npz")


def test_an_unknown_host(site, tmp_path):
    message = "no connection to nowhere.invalid: "
    with pytest.raises(UsageError, match=message) as error:
        fetch("https://nowhere.invalid/a.npz", tmp_path)
    check_advice(error, tmp_path / "nowhere.invalid" / "a.npz")
    assert "KERAS_VIT_OFFLINE=1 uses only the cache" in str(error.value)


def test_a_server_without_tls(site, tmp_path):
    url = site.url().replace("http:", "https:")
    with pytest.raises(UsageError, match="no connection to 127.0.0.1:.*SSL") as error:
        fetch(url, tmp_path, backoff=0.01)
    one_line(error)


def test_a_cache_that_is_not_a_folder(site, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cache cannot be written: .* set KERAS_VIT_CACHE"):
        fetch(site.url(), tmp_path / "file")


def test_offline_only_the_cache_is_used(site, get, tmp_path, monkeypatch):
    path = get()
    monkeypatch.setenv("KERAS_VIT_OFFLINE", "1")
    assert get() == path
    with pytest.raises(UsageError) as error:
        get("models/b.npz")
    assert site.url("models/b.npz") in one_line(error)
    check_advice(error, tmp_path / site.folder / "models" / "b.npz")
    assert len(site.requests) == 1


# ------------------------------------------------------------------------------ paths in the cache


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KERAS_VIT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder() == tmp_path / ".cache" / "keras_vit"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the standard says to ignore
    assert cache_folder() == tmp_path / ".cache" / "keras_vit"
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/x")
    assert cache_folder() == Path("/var/x/keras_vit")
    monkeypatch.setenv("KERAS_VIT_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://a.example/b/c+d.npz", "a.example/b/c+d.npz"),
        ("https://a.example:8443/c", "a.example_8443/c"),
        ("http://a.example/c", "a.example_80/c"),
        ("https://A.example/b%20c.npz", "a.example/b c.npz"),
        ("https://[::1]/c", "__1/c"),
    ],
)
def test_a_url_becomes_host_directory_name(url, path):
    assert cached_path(url, "/cache") == Path("/cache") / path


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example/b",
        "file:///etc/passwd",
        "/etc/passwd",
        "https:///b",
        "https://a.example",
        "https://a.example/",
        "https://a.example/b//c",
        "https://a.example/../b",
        "https://a.example/%2e%2e/b",
        "https://a.example/..%2f..%2fb",
        "https://a.example/b%5c..%5cc",
        "https://a.example/b%00",
        "https://a.example/b%0ac",
        "https://a.example/b c",
        "https://a.example/b\r\nHost: c",
        "https://a.example/é",
        "https://a.example/%ff",
        "https://a.example/b?c",
        "https://a.example/b#c",
        "https://me:secret@a.example/b",
        "https://../b",
        "https://a.example:port/b",
        "https://[::1/b",
        "https://a.example/b.part",
        "https://a.example/" + "b" * 201,
        "https://a.example" + "/b" * 3000,
    ],
)
def test_a_url_that_cannot_be_a_path_is_refused(url):
    with pytest.raises(UsageError, match="a URL must be .* Received: ") as error:
        cached_path(url, "/cache")
    one_line(error)


# ------------------------------------------------------------------------- real processes, killed

# It avoids the package's __init__, because importing Keras takes seconds in each process.
_CHILD = """
import json, sys, types
root, url, cache, limit = json.loads(sys.argv[1])
for name in ("keras_vit", "keras_vit.weights"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [f"{root}/{name.replace('.', '/')}"]
from keras_vit.weights.download import UsageError, fetch
if limit:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
print("ready", flush=True)
try:
    print(fetch(url, cache, backoff=0.01))
except UsageError as error:
    sys.exit(f"UsageError: {error}")
"""


@contextlib.contextmanager
def child(site, cache, limit=None):
    arguments = json.dumps([str(ROOT), site.url(), str(cache), limit])
    process = subprocess.Popen(
        [sys.executable, "-c", _CHILD, arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in a background suite
    )
    try:
        # Not readline, which would take what follows into a buffer that communicate passes over.
        line = iter(lambda: os.read(process.stdout.fileno(), 1), b"\n")
        assert b"".join(line) == b"ready"
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.soak(of="kills")
def test_a_process_killed_at_any_moment_leaves_no_incomplete_file(site, get, tmp_path, rng):
    path = tmp_path / site.folder / "models" / "a.npz"
    part = path.with_name("a.npz.part")
    site.answers = [Answer(pace=0.005)]  # 0.15 seconds the whole file
    kept = 0
    for moment in [0.0, *rng.uniform(0.0, 0.15, 7)]:
        site.requested.clear()
        with child(site, tmp_path) as process:
            wait_until(lambda p=process: site.requested.is_set() or p.poll() is not None)
            time.sleep(moment)
            process.send_signal(signal.SIGKILL)
            process.wait()
        if path.exists():
            assert path.read_bytes() == CONTENT
            path.unlink()
        elif part.exists():
            assert part.read_bytes() == CONTENT[: part.stat().st_size]
            kept = max(kept, part.stat().st_size)
    assert kept
    assert get().read_bytes() == CONTENT
    assert any(ranges(site))
    assert [name for name in files(tmp_path) if ".part" not in name] == [
        f"{site.folder}/models/a.npz"
    ]


def test_two_processes_fetch_one_file_once(site, tmp_path):
    site.answers = [Answer(pace=0.01)]
    with child(site, tmp_path) as first, child(site, tmp_path) as second:
        outputs = [process.communicate(timeout=60) for process in (first, second)]
    path = tmp_path / site.folder / "models" / "a.npz"
    assert outputs == [(f"{path}\n", "")] * 2
    assert len(site.requests) == 1
    assert path.read_bytes() == CONTENT
    assert files(tmp_path) == [f"{site.folder}/models/a.npz"]


def test_a_file_completed_before_the_lock_is_acquired_is_used(site, get, tmp_path, monkeypatch):
    path = tmp_path / site.folder / "models" / "a.npz"
    monkeypatch.setattr(download.fcntl, "flock", lambda *_: path.write_bytes(CONTENT))
    assert get() == path
    assert site.requests == []
    assert files(tmp_path) == [f"{site.folder}/models/a.npz"]


def test_a_process_that_waits_for_a_killed_one_takes_over(site, tmp_path):
    site.answers = [Answer(send=100_000, stall=True), Answer()]
    part = tmp_path / site.folder / "models" / "a.npz.part"
    with child(site, tmp_path) as first:
        wait_until(lambda: part.exists() and part.stat().st_size == 100_000)
        with child(site, tmp_path) as second:
            time.sleep(0.1)
            assert second.poll() is None
            assert len(site.requests) == 1
            first.send_signal(signal.SIGKILL)
            out, err = second.communicate(timeout=60)
    assert (out, err) == (f"{part.with_name('a.npz')}\n", "")
    assert ranges(site) == [None, "bytes=99999-"]


def test_an_interrupt_keeps_the_part(site, get, tmp_path):
    site.answers = [Answer(send=100_000, stall=True), Answer()]
    part = tmp_path / site.folder / "models" / "a.npz.part"
    with child(site, tmp_path) as process:
        wait_until(lambda: part.exists() and part.stat().st_size == 100_000)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert get().read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=99999-"]


def test_a_full_disk_keeps_the_part(site, get, tmp_path):
    with child(site, tmp_path, limit=150_000) as process:
        out, err = process.communicate(timeout=60)
    part = tmp_path / site.folder / "models" / "a.npz.part"
    assert (out, process.returncode) == ("", 1)
    assert err.startswith(f"UsageError: the disk is full: {part} is kept, make room")
    assert err.count("\n") == 1
    assert part.read_bytes() == CONTENT[:150_000]
    assert get().read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=149999-"]
