"""Downloads from a real web server that closes connections, stalls and sends wrong data."""

import base64
import contextlib
import dataclasses
import fcntl
import hashlib
import http.server
import itertools
import multiprocessing
import os
import re
import resource
import signal
import threading
import time
import urllib.parse
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


def crc32c(content):
    return base64.b64encode(google_crc32c.Checksum(content).digest()).decode()


def md5(content):
    return base64.b64encode(hashlib.md5(content).digest()).decode()


@dataclasses.dataclass
class Answer:
    """The server's response to one request."""

    content: bytes = CONTENT
    status: int | None = None  # 200: the whole file, also if a range of it was requested
    headers: dict = dataclasses.field(default_factory=dict)  # None: not sent; a list: several
    ignores_if_range: bool = False
    send: int | None = None  # bytes of the body, then the connection closes
    stall: bool = False  # instead of closing, sends nothing more
    pace: float = 0.0  # seconds between pieces, which are of 10,000 bytes
    raw: tuple = ()  # iterables of pieces, instead of headers and content


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        site, self.close_connection = self.server, True
        site.requests.append((self.path, dict(self.headers)))
        answer = site.answers.pop(0) if len(site.answers) > 1 else site.answers[0]
        pieces = itertools.chain.from_iterable(answer.raw) if answer.raw else self.body(answer)
        for piece in pieces:
            self.wfile.write(piece)
            site.sent += len(piece)
            time.sleep(answer.pace)
        if answer.stall:
            site.over.wait()

    def body(self, answer):
        """Sends the headers of an answer, and returns the pieces of its body."""
        content, etag = answer.content, f'"{md5(answer.content)}"'
        hashes = [f"crc32c={crc32c(content)}", f"md5={md5(content)}"]
        headers = {"ETag": etag, "x-goog-hash": hashes}
        start = int(self.headers.get("Range", "bytes=0-")[len("bytes=") : -1])
        continues = answer.ignores_if_range or self.headers.get("If-Range", etag) == etag
        status = answer.status or (206 if start and continues else 200)
        if status == 206:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            content = content[start:]
        elif status != 200:
            content = b"an error page"
        headers = headers | {"Content-Length": str(len(content))} | answer.headers
        self.send_response(status)
        for name, values in headers.items():
            for value in [values] if isinstance(values, str) else values or ():
                self.send_header(name, value)
        self.end_headers()
        content = content[: answer.send]
        pieces = [content[at : at + 10_000] for at in range(0, len(content), 10_000)]
        if "Transfer-Encoding" not in headers:
            return pieces
        end = [b"0\r\n\r\n"] if answer.send is None else []
        return [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces] + end

    def log_message(self, *_):
        pass


class Site(http.server.ThreadingHTTPServer):
    """A server on loopback. It sends its answers in turn, and then repeats the last one."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.requests, self.sent = [Answer()], [], 0
        self.over = threading.Event()

    def url(self, path="models/a.npz"):
        return urllib.parse.urljoin(f"http://127.0.0.1:{self.server_port}", path)

    @property
    def ranges(self):
        return [headers.get("Range") for _, headers in self.requests]

    def handle_error(self, *_):
        """Ignores errors of clients that were killed."""


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
    """Downloads a path of the site or another URL to the test's own cache, with short pauses."""

    def call(path="models/a.npz", cache=tmp_path, **options):
        return fetch(site.url(path), cache, **{"backoff": 0.01, "timeout": 5.0, **options})

    return call


@pytest.fixture
def target(site, tmp_path):
    """Where the file that is downloaded goes; the folder exists."""
    folder = tmp_path / f"127.0.0.1_{site.server_port}" / "models"
    folder.mkdir(parents=True)
    return folder / "a.npz"


@pytest.fixture
def part(target):
    """Where the file is while it is downloaded."""
    return target.with_name("a.npz.part")


@pytest.fixture
def refused(get):
    """Checks that a download is refused in one line that matches a pattern, and returns it."""

    def call(pattern, *arguments, **options):
        with pytest.raises(UsageError, match=pattern) as error:
            get(*arguments, **options)
        assert "\n" not in str(error.value)
        return str(error.value)

    return call


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_file_is_complete_and_requested_once_without_an_encoding(site, get, target, tmp_path):
    assert get() == target
    assert target.read_bytes() == CONTENT
    assert get() == target
    [(path, headers)] = site.requests
    assert (path, headers["Accept-Encoding"]) == ("/models/a.npz", "identity")
    assert files(tmp_path) == [target]
    (tmp_path / "ordinary").write_bytes(b"")
    assert target.stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_a_link_in_the_cache_stays_and_the_file_goes_where_it_leads(get, target, tmp_path):
    (tmp_path / "disk").mkdir()
    target.symlink_to(tmp_path / "disk" / "blob")
    assert get() == target  # the name says which format it is
    assert target.is_symlink()
    assert (tmp_path / "disk" / "blob").read_bytes() == CONTENT


def test_a_redirect_is_followed_and_only_the_final_answer_counts(site, get, target):
    lie = {"Location": site.url("moved/b.npz"), "x-goog-hash": f"md5={md5(b'the page')}"}
    site.answers = [Answer(status=302, headers=lie), Answer()]
    assert get() == target
    assert target.read_bytes() == CONTENT


def test_a_bar_is_drawn_on_stderr_for_terminals_only(get, capsys):
    get()
    assert capsys.readouterr() == ("", "")
    get("models/b.npz", progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "b.npz: 100%" in err


NO_HASH = {"x-goog-hash": None}
BARE = NO_HASH | {"ETag": None}
OLD = NO_HASH | {"ETag": '"1"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
NEW = OLD | {"ETag": '"2"'}
NO_LENGTH = {"Content-Length": None}
CHUNKED = NO_LENGTH | {"Transfer-Encoding": "chunked"}
RESUMED = [None, "bytes=99999-"]
AGAIN = [None, "bytes=99999-", None]


def broken(headers=None):
    """The connection closes before the end."""
    return Answer(headers=headers or {}, send=100_000)


BROKEN = broken()


def other_range(content_range):
    """The story of a response that does not continue the part."""
    return [BROKEN, Answer(headers={"Content-Range": content_range}), Answer()], AGAIN


def other_version(content=CHANGED, **headers):
    """The story of a range of another version of the file, which must not be joined to the part."""
    new = Answer(content, headers=OLD | headers, ignores_if_range=True)
    return [broken(OLD), new], AGAIN


# The answers of the server, the last of which has the content; and the ranges that are requested.
STORIES = {
    "no length, but a marked end": ([Answer(headers=CHUNKED | NO_HASH)], [None]),
    "no length, but a hash": ([Answer(headers=NO_LENGTH)], [None]),
    "a break": ([BROKEN, Answer()], RESUMED),
    "a truncated chunked response": ([broken(CHUNKED), Answer(CONTENT, 200, CHUNKED)], RESUMED),
    "a server without ranges": ([BROKEN, Answer(status=200)], RESUMED),
    "a changed file": ([BROKEN, Answer(CHANGED)], RESUMED),
    "a refused range": ([BROKEN, Answer(status=416), Answer()], AGAIN),
    "failures of the server": ([Answer(status=503), Answer(status=500), Answer()], [None] * 3),
    "a range that begins too early": other_range("bytes 99998-299999/300000"),
    "a range of a longer file": other_range("bytes 99999-299999/300001"),
    "a range that ends too early": other_range("bytes 99999-199999/300000"),
    "a range that is longer": other_range("bytes 99999-300000/300001"),
    "an unsatisfied range": other_range("bytes */300000"),
    "no stated range": other_range(None),
    "neither ETag nor hash": ([broken(BARE), Answer(headers=BARE)], AGAIN),
    "no hash, but an ETag": ([broken(NO_HASH), Answer(headers=NO_HASH)], RESUMED),
    "another ETag": other_version(ETag='"2"'),
    "no ETag": other_version(ETag=None),
    "a weak ETag": other_version(ETag='W/"1"'),
    "another date": other_version(**{"Last-Modified": "Tue, 02 Jan 2024 00:00:00 GMT"}),
    "another hash": other_version(**{"x-goog-hash": f"md5={md5(CHANGED)}", "ETag": '"2"'}),
    "only another length": other_version(CHANGED + b"longer"),
    # The length is that of the response with which the download started again.
    "a break of the new version": (
        [
            broken(OLD),
            Answer(CHANGED, 200, NEW, send=200_000),
            Answer(CHANGED, headers=NEW, ignores_if_range=True),
        ],
        [*RESUMED, "bytes=199999-"],
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_the_file_is_complete_after(site, get, name):
    answers, ranges = STORIES[name]
    site.answers = [*answers]
    assert get().read_bytes() == answers[-1].content
    assert site.ranges == ranges
    if ranges == RESUMED:  # or else the range could be of another version
        assert site.requests[1][1]["If-Range"] == f'"{md5(CONTENT)}"'


@pytest.mark.parametrize(
    ("headers", "content", "first_byte", "ranges"),
    [
        pytest.param({}, CONTENT, CONTENT[:1], RESUMED, id="which is proved by a hash"),
        pytest.param({}, CONTENT, b"\0", AGAIN, id="unless it is damaged"),
        pytest.param(NO_HASH, CHANGED, CONTENT[:1], AGAIN, id="not without a hash"),
    ],
)
def test_a_later_call_continues_a_part(
    site, get, refused, target, part, tmp_path, headers, content, first_byte, ranges
):
    site.answers = [broken(headers), Answer(content, headers=headers)]
    refused("broke after 100000 of 300000 bytes; 100000 bytes", retries=0)
    assert not target.exists()
    part.write_bytes(first_byte + part.read_bytes()[1:])
    assert get().read_bytes() == content
    assert site.ranges == ranges
    assert files(tmp_path) == [target]


@pytest.mark.parametrize("size", [1, 1000, 300_000, 300_001])
def test_a_part_of_unknown_origin_does_not_reach_the_file(get, part, size):
    part.write_bytes(b"x" * size)
    assert get().read_bytes() == CONTENT


def test_attempts_with_progress_are_not_counted(site, get, monkeypatch):
    monkeypatch.setattr(download, "_CHUNK", 50_000)
    site.answers = [*[Answer(send=60_000) for _ in range(4)], Answer()]
    assert get(retries=1).read_bytes() == CONTENT
    assert site.ranges[-1] == "bytes=239996-"


def test_progress_that_is_lost_again_and_again_is_given_up(site, refused, monkeypatch):
    monkeypatch.setattr(download, "_CHUNK", 50_000)
    site.answers = [Answer(send=150_000), Answer(headers={"Content-Range": None})] * 20
    refused("cannot continue the file|connection broke", retries=2)
    assert len(site.requests) < 8


def test_of_a_complete_part_only_the_last_byte_is_requested(site, get, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(download._Download, "_fault", interrupted)
        get()
    assert get().read_bytes() == CONTENT
    assert site.ranges == [None, "bytes=299999-"]


HEAD = [b'HTTP/1.1 200 OK\r\nETag: "1"\r\n']
BODY = [b"Content-Length: 1000000\r\n\r\n"]
IN_CHUNKS = [b"Transfer-Encoding: chunked\r\n\r\n"]
BYTES = [b"x"] * 1000  # with a pause of 0.02 seconds, 50 bytes per second for 20 seconds
MIB, LINES = [b"x" * (1 << 20)] * 100, [b"X: y\r\n" * 10_000] * 1500
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize(
    ("pace", "pieces", "message"),
    [
        (0.02, [HEAD, BODY, BYTES], "less than 1000 bytes per second for 1 seconds"),
        (0.02, [HEAD, IN_CHUNKS, [b"1\r\nx\r\n"] * 1000], "less than 1000"),
        (0.02, [HEAD, IN_CHUNKS, [b"0"] * 1000], "less than 1000"),
        (0.02, [BYTES], "no complete headers within 1 seconds"),
        (0.02, [HEAD, [b"X: "], BYTES], "no complete headers"),
        (0.02, [[CONTINUE] * 1000], "no complete headers"),
        (0, [[CONTINUE * 1000] * 4000], "the server sends endless data"),
        (0, [HEAD, LINES], "the connection broke"),
        (0, [HEAD, IN_CHUNKS, [b"5\r\nhello\r\n0\r\n"], LINES], "the server sends endless data"),
        (0, [[b"HTTP/1.1 302 Found\r\nLocation: /b.npz\r\n\r\n"], MIB], "answers 302"),
        (0, [[b"HTTP/1.1 404 No\r\n\r\n"], MIB], "answers 404"),
    ],
)
def test_a_server_that_drips_or_does_not_end_is_given_up(site, refused, pace, pieces, message):
    site.answers = [Answer(raw=pieces, pace=pace)]
    refused(message, timeout=1, min_speed=1000, retries=0, max_bytes=1_000_000)
    assert site.sent < 60 << 20  # with what lies in buffers of the system, of up to ten responses


def test_a_slow_server_may_be_allowed(site, get):
    head = [b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n"]
    site.answers = [Answer(raw=(head, [b"x"] * 60), pace=0.02)]
    assert get(timeout=1, min_speed=1, retries=0).read_bytes() == b"x" * 60


OTHERS = {
    "link": os.symlink,
    "dangling link": lambda victim, part: part.symlink_to(victim.with_name("absent")),
    "hard link": os.link,
    "pipe": lambda victim, part: os.mkfifo(part),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_a_part_that_is_not_a_file_of_its_own_is_refused(site, refused, part, tmp_path, make):
    (tmp_path / "victim").write_bytes(b"precious")
    make(tmp_path / "victim", part)
    assert str(part) in refused("must be a file of its own, .*; delete it")
    assert site.requests == []
    assert [each.read_bytes() for each in tmp_path.iterdir() if each.is_file()] == [b"precious"]


def test_a_process_that_holds_the_part_without_progress_is_not_waited_for(get, refused, part):
    with part.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused("for 0.3 seconds without progress", patience=0.3)
    assert get(patience=0.3).read_bytes() == CONTENT


def test_a_pinned_hash_is_always_checked(site, get, refused, tmp_path):
    expected, received = (hashlib.sha256(content).hexdigest() for content in (CONTENT, CHANGED))
    for headers in ({}, BARE):
        site.answers = [Answer(CHANGED, headers=headers)]
        refused(f"wrong sha256: expected {expected}, received {received}", sha256=expected)
        assert files(tmp_path) == []
    # With it, a part is continued from any server.
    site.answers = [broken(BARE), Answer(headers=BARE)]
    site.requests.clear()
    assert get(sha256=expected).read_bytes() == CONTENT
    assert site.ranges == RESUMED


def wrong(name, hasher):
    return f"wrong {name}: expected {hasher(CHANGED)}, received {hasher(CONTENT)}"


def hashed(*hashes):
    return Answer(headers={"x-goog-hash": [*hashes]})


RIGHT_CRC, RIGHT_MD5 = f"crc32c={crc32c(CONTENT)}", f"md5={md5(CONTENT)}"
WRONG_CRC, WRONG_MD5 = f"crc32c={crc32c(CHANGED)}", f"md5={md5(CHANGED)}"
REFUSED = [
    (hashed(WRONG_CRC), wrong("crc32c", crc32c)),
    (hashed(WRONG_MD5), wrong("md5", md5)),
    (hashed(RIGHT_CRC, WRONG_MD5), wrong("md5", md5)),
    (hashed(f"{RIGHT_CRC}, {WRONG_MD5}"), wrong("md5", md5)),
    (hashed(RIGHT_MD5, WRONG_MD5), wrong("md5", md5)),
    (hashed("md5=not base64"), "wrong md5: expected not base64, received"),
    # What comes after the announced length is not written.
    (Answer(headers={"Content-Length": "200000"}), "wrong crc32c"),
    (Answer(CONTENT * 10, headers=CHUNKED), "the file has more than 500000 bytes"),
    (Answer(headers={"Content-Length": "500001"}), "the file has more than 500000 bytes"),
    (Answer(headers={"Content-Encoding": "gzip"}), "encoded content ('gzip')"),
    (Answer(headers=NO_LENGTH | NO_HASH), "announces neither length nor hash, so an"),
    (Answer(b""), "sent an empty file"),
    (Answer(status=302, headers={"Location": "ftp://127.0.0.1/x"}), "redirects to 'ftp:"),
    (Answer(status=302, headers={"Location": "file:///etc/passwd"}), "answers 302"),
    (Answer(status=204), "answers 204, not 200"),
    (Answer(status=404), "answers 404 Not Found"),
    (Answer(status=403), "answers 403 Forbidden"),
    (Answer(status=418), "answers 418 I'm a Teapot"),
]


@pytest.mark.parametrize(("answer", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_responses_that_are_refused_at_once(site, refused, tmp_path, answer, message):
    site.answers = [answer]
    line = refused(site.url(), max_bytes=500_000)
    assert message in line
    assert files(tmp_path) == []
    assert len(site.requests) == 1


def test_a_file_that_the_disk_cannot_hold_is_refused(site, refused, tmp_path):
    site.answers = [Answer(headers={"Content-Length": str(1 << 60)})]
    refused("bytes left and a.npz needs 1152921504606846976 more", max_bytes=1 << 62)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(send=0, stall=True), r"no data for 0.5 seconds\. Without a network"),
        (Answer(status=503), "answers 503 Service Unavailable"),
    ],
)
def test_a_server_that_goes_on_failing_is_given_up(site, refused, tmp_path, answer, message):
    site.answers = [answer]
    assert site.url() in refused(message, timeout=0.5, retries=2)
    assert len(site.requests) == 3
    assert files(tmp_path) == []


def test_a_redirect_does_not_leave_tls():
    request = download.urllib.request.Request("https://a.example/x")
    with pytest.raises(UsageError, match="redirects to 'http://a.example/x': refused"):
        download._Redirects().redirect_request(request, None, 302, "", {}, "http://a.example/x")


def advice(path):
    """What messages say of the path in the cache, and that a path can be passed."""
    return re.escape(f"put it into the cache as {path}, or pass its path as weights")


def test_a_server_that_is_not_there(site, refused, target):
    site.shutdown()
    site.server_close()
    refused(f"no connection to 127.0.0.1:.*refused.*{advice(target)}")


def test_an_unknown_host_and_a_server_without_tls(site, refused, tmp_path):
    path = tmp_path / "nowhere.invalid" / "a.npz"
    message = f"no connection to nowhere.invalid: .*{advice(path)}.*KERAS_VIT_OFFLINE=1 uses only"
    refused(f"{message} the cache", "https://nowhere.invalid/a.npz")
    refused("no connection to 127.0.0.1:.*SSL", site.url().replace("http:", "https:"))


def test_a_cache_that_is_not_a_folder(refused, tmp_path):
    (tmp_path / "file").write_text("")
    refused("cache cannot be written: .* set KERAS_VIT_CACHE", cache=tmp_path / "file")


def test_offline_only_the_cache_is_used(site, get, refused, target, monkeypatch):
    get()
    monkeypatch.setenv("KERAS_VIT_OFFLINE", "1")
    assert get() == target
    message = refused(advice(target.with_name("b.npz")), "models/b.npz")
    assert site.url("models/b.npz") in message
    assert len(site.requests) == 1


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


BAD_URLS = """
    ftp://a.example/b file:///etc/passwd /etc/passwd https:///b https://me:secret@a.example/b
    https://../b https://a.example:port/b https://[::1/b https://a.example
"""
BAD_PATHS = "/ /b//c /../b /%2e%2e/b /..%2f..%2fb /b%5c..%5cc /b%00 /b%0ac /é /%ff /b?c /b#c"


@pytest.mark.parametrize(
    "url",
    [
        *BAD_URLS.split(),
        *(f"https://a.example{path}" for path in BAD_PATHS.split()),
        "https://a.example/b.part",
        "https://a.example/b c",
        "https://a.example/b\r\nHost: c",
        "https://a.example/" + "b" * 201,
        "https://a.example" + "/b" * 3000,
    ],
)
def test_a_url_that_cannot_be_a_path_is_refused(url):
    with pytest.raises(UsageError, match="a URL must be .* Received: ") as error:
        cached_path(url, "/cache")
    assert "\n" not in str(error.value)


def download_in_child(url, cache):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background has none
    fetch(url, cache, backoff=0.01)


@contextlib.contextmanager
def child(site, cache):
    """A process that downloads the file."""
    fork = multiprocessing.get_context("fork")
    process = fork.Process(target=download_in_child, args=(site.url(), cache))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.soak(of="kills")
def test_a_killed_process_leaves_no_incomplete_file(site, get, target, part, tmp_path, rng):
    site.answers = [Answer(pace=0.005)]  # 0.15 seconds the whole file
    kept = 0
    for count, moment in enumerate([0.0, *rng.uniform(0.0, 0.15, 7)]):
        with child(site, tmp_path):
            wait_until(lambda count=count: len(site.requests) > count)
            time.sleep(moment)
        if target.exists():
            assert target.read_bytes() == CONTENT
            target.unlink()
        elif part.exists():
            assert part.read_bytes() == CONTENT[: part.stat().st_size]
            kept = max(kept, part.stat().st_size)
    assert kept
    assert get().read_bytes() == CONTENT
    assert any(site.ranges)
    assert [path for path in files(tmp_path) if ".part" not in path.name] == [target]


def test_two_processes_fetch_one_file_once(site, target, tmp_path):
    site.answers = [Answer(pace=0.01)]
    with child(site, tmp_path) as first, child(site, tmp_path) as second:
        first.join(60)
        second.join(60)
    assert (first.exitcode, second.exitcode) == (0, 0)
    assert len(site.requests) == 1
    assert target.read_bytes() == CONTENT
    assert files(tmp_path) == [target]


def test_a_file_completed_before_the_lock_is_used(site, get, target, tmp_path, monkeypatch):
    monkeypatch.setattr(download.fcntl, "flock", lambda *_: target.write_bytes(CONTENT))
    assert get() == target
    assert site.requests == []
    assert files(tmp_path) == [target]


@contextlib.contextmanager
def stalled_child(site, cache, part):
    """A process that has the lock on a part of 100,000 bytes, and waits for more."""
    site.answers = [Answer(send=100_000, stall=True), Answer()]
    with child(site, cache) as process:
        wait_until(lambda: part.exists() and part.stat().st_size == 100_000)
        yield process


def test_a_process_that_waits_for_a_killed_one_takes_over(site, target, part, tmp_path):
    with stalled_child(site, tmp_path, part) as first, child(site, tmp_path) as second:
        second.join(0.5)
        assert second.exitcode is None
        assert len(site.requests) == 1
        first.kill()
        second.join(60)
        assert second.exitcode == 0
    assert target.read_bytes() == CONTENT
    assert site.ranges == RESUMED


def test_an_interrupt_keeps_the_part(site, get, part, tmp_path, capfd):
    with stalled_child(site, tmp_path, part) as process:
        os.kill(process.pid, signal.SIGINT)
        process.join(60)
    assert "KeyboardInterrupt" in capfd.readouterr().err
    assert get().read_bytes() == CONTENT
    assert site.ranges == RESUMED


def test_a_full_disk_keeps_the_part(site, get, refused, part):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, before[1]))
    try:
        refused(f"^the disk is full: {part} is kept, make room")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert part.read_bytes() == CONTENT[:150_000]
    assert get().read_bytes() == CONTENT
    assert site.ranges == [None, "bytes=149999-"]
