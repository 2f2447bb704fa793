"""adb, Android's debug bridge: which phone is meant, and commands on it.

Each call has a limit, because a phone may be unplugged or locked at any time. adb runs in a session
of its own, so that Ctrl-C reaches it only through this program.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from keras_vit._errors import UsageError, one_line, shortened
from keras_vit.tflite.processes import last_line, run_command

_LIMIT_S = 30
_SLOWEST_PUSH = 250_000  # bytes in a second: a poor Wi-Fi
_ADVICE = {
    "unauthorized": "unlock it and allow USB debugging for this computer",
    "authorizing": "unlock it and allow USB debugging for this computer",
    "offline": "unplug it, unlock it and plug it in again",
    "no permissions": "this user may not open it; install adb's udev rules, or see "
    "https://developer.android.com/tools/device",
}


@dataclasses.dataclass(frozen=True)
class Adb:
    """A phone, by its serial number.

    Attributes:
        program: the path of adb.
        serial: of the phone.
        limit_s: the most seconds of a short command.
    """

    program: str
    serial: str
    limit_s: float = _LIMIT_S

    def shell(self, command: str) -> str:
        """What a shell command on the phone prints.

        Raises:
            UsageError: it fails, or lasts too long.
        """
        return self._run("shell", command, limit_s=self.limit_s)

    def push(self, files: Sequence[Path], to: str) -> None:
        """Copies files into a folder on the phone, or one to a path.

        Raises:
            UsageError: the phone is full, or does not take them.
        """
        size = sum(file.stat().st_size for file in files)
        limit_s = self.limit_s + size / _SLOWEST_PUSH
        self._run("push", *map(str, files), to, limit_s=limit_s)

    def is_there(self) -> bool:
        """Whether the phone is still connected."""
        try:
            return self._run("get-state", limit_s=self.limit_s).strip() == "device"
        except UsageError:
            return False

    def start(self, command: str) -> subprocess.Popen[str]:
        """Begins a shell command on the phone; its output, and its errors, come as lines."""
        return subprocess.Popen(
            [self.program, "-s", self.serial, "shell", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )

    def _run(self, *words: str, limit_s: float) -> str:
        return _run(self.program, "-s", self.serial, *words, limit_s=limit_s)


def find_adb() -> str:
    """The path of adb.

    Raises:
        UsageError: it is not installed.
    """
    found = shutil.which("adb")
    for variable in ("ANDROID_HOME", "ANDROID_SDK_ROOT"):
        if found is None and os.environ.get(variable):
            found = shutil.which("adb", path=Path(os.environ[variable], "platform-tools"))
    if found is None:
        raise UsageError(
            "adb was not found; install Android's platform tools, on Debian `apt install adb`, or "
            "set ANDROID_HOME to the folder of Android's SDK."
        )
    return found


def connected_phone(serial: str | None = None) -> Adb:
    """The phone with this serial number, or the only one that is connected.

    Raises:
        UsageError: there is none, or there are several; or it does not allow debugging.
    """
    program = find_adb()
    lines = _run(program, "devices", limit_s=_LIMIT_S).splitlines()
    # Others are messages of adb's server, which begins now.
    states = dict(line.split("\t", 1) for line in lines if "\t" in line)
    if not states:
        raise UsageError(
            "no phone is connected; allow USB debugging in its developer options, plug it in and "
            "unlock it."
        )
    if serial is None:
        ready = [each for each, state in states.items() if state == "device"] or [*states]
        if len(ready) > 1:
            raise UsageError(
                f"expected one phone. Received: {', '.join(ready)}; choose one, as in --device "
                f"{ready[0]}."
            )
        [serial] = ready
    elif serial not in states:
        raise UsageError(f"expected the phone {serial}. Received: {', '.join(states)}.")
    state = states[serial].strip()
    if state != "device":
        advice = (text for begin, text in _ADVICE.items() if state.startswith(begin))
        raise UsageError(
            f"the phone {serial} is {one_line(state)}: "
            f"{next(advice, 'start Android on it, and allow USB debugging')}."
        )
    return Adb(program, serial)


def _run(program: str, *words: str, limit_s: float) -> str:
    try:
        done = run_command(
            [program, *words], limit_s, stdin=subprocess.DEVNULL, start_new_session=True
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"adb does not answer within {limit_s:.0f} seconds: {_shown(words)}; unlock the phone, "
            "and plug it in again."
        ) from None
    if done.returncode:
        if "No space left on device" in done.stdout + done.stderr:
            raise UsageError("the phone is full; make room on it.")
        raise UsageError(f"adb fails: {_shown(words)}: {shortened(last_line(done), 300)}")
    return done.stdout


def _shown(words: Sequence[str]) -> str:
    return shortened(one_line(" ".join(words)), 120)
