"""HTTP connections on which a server cannot hold its client: every phase of a response is bounded.

The timeout of http.client bounds only the pause between two pieces of data. A server that sends a
byte now and then, or endless headers, would therefore never be given up.
"""

from __future__ import annotations

import functools
import http.client
import io
import time
import urllib.request
from typing import Any, NamedTuple

_MOST_HEAD = 1 << 20  # bytes of status lines and headers


class Limits(NamedTuple):
    """What a server must keep to.

    Attributes:
        timeout: seconds for the whole head of a response, without those for connecting; for a pause
            in its body; and the length of the periods in which the speed of the body is measured.
        min_speed: bytes per second that must arrive in each period.
        max_bytes: the longest body, without what its encoding adds.
    """

    timeout: float
    min_speed: float
    max_bytes: int


class BreakError(Exception):
    """An attempt failed, perhaps only for now; what has arrived is kept."""


def opener(limits: Limits, *handlers: Any) -> urllib.request.OpenerDirector:
    """An opener for http and https; reading its responses raises `BreakError`."""
    return urllib.request.build_opener(_Handler(limits), *handlers)


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def __init__(self, limits: Limits):
        super().__init__()
        self._limits = limits

    def do_open(self, http_class, request, **options):
        def connect(host, **options):
            connection = http_class(host, **options)
            connection.response_class = functools.partial(_Response, limits=self._limits)
            return connection

        return super().do_open(connect, request, **options)


class _Response(http.client.HTTPResponse):
    def __init__(self, sock, *arguments, limits: Limits, **options):
        super().__init__(sock, *arguments, **options)
        self._bytes = _Bytes(sock, self.fp.detach(), limits)
        self.fp = io.BufferedReader(self._bytes)

    def begin(self):
        super().begin()
        # An encoding in chunks at most doubles the bytes of the content.
        self._bytes.restart(2 * self._bytes.limits.max_bytes, is_head=False)


class _Bytes(io.RawIOBase):
    """The bytes from a socket; only the time of waiting for them is counted."""

    def __init__(self, sock, raw, limits: Limits):
        self._sock, self._raw, self.limits = sock, raw, limits
        self.restart(_MOST_HEAD, is_head=True)

    def restart(self, most_bytes: int, is_head: bool) -> None:
        self._is_head, self._left = is_head, most_bytes
        self._seconds, self._received = 0.0, 0  # in this period

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        timeout = self.limits.timeout
        self._sock.settimeout(max(timeout - self._seconds, 0.001) if self._is_head else timeout)
        start = time.monotonic()
        try:
            count = self._raw.readinto(buffer)
        except TimeoutError:
            what = "no complete headers within" if self._is_head else "no data for"
            raise BreakError(f"{what} {timeout:g} seconds") from None
        self._seconds += time.monotonic() - start
        self._received += count
        self._left -= count
        if self._left < 0:
            raise BreakError("the server sends endless data")
        if not self._is_head and self._seconds >= timeout:
            if self._received < self.limits.min_speed * self._seconds:
                speed = f"{self.limits.min_speed:g} bytes per second"
                raise BreakError(f"less than {speed} for {timeout:g} seconds")
            self._seconds, self._received = 0.0, 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
