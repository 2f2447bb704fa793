"""A phone behind a fake adb, with all that it answers; tests change the answers."""

import json
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests/fixtures/phone"


class FakePhone:
    """What adb answers, by name, in the order in which patterns are tried; see fake_adb.py."""

    serial = "38071FDJH00ABC"

    def __init__(self, folder):
        self._folder = folder
        devices = f"List of devices attached\n{self.serial}\tdevice\n\n"
        self.answers = {
            "devices": {"words": "^devices$", "out": devices},
            "get-state": {"words": "get-state$", "out": "device\n"},
            "push": {"words": " push ", "out": "1 file pushed, 0 skipped. 35.2 MB/s\n"},
            "getprop": {"words": "shell getprop$", "out": text("getprop.txt")},
            "df": {"words": "shell df -k /data/local/tmp$", "out": text("df.txt")},
            "state": {"words": "shell dumpsys battery; dumpsys", "out": text("state.txt")},
            "files": {"words": "shell (mkdir -p|chmod 444|rm -rf .* && mkdir|pkill -9 -f '.*; )"},
        }  # fmt: skip
        for backend in ("CPU", "CPU_HALF", "CPU_PLAIN", "GPU", "NPU"):
            self.answers[backend] = {
                "words": rf"exec app_process .* {backend} \d+ \d+$",
                "out": text(f"{backend}.jsonl"),
            }

    def change(self, name, **answer):
        """Changes an answer, such as its output."""
        self.answers[name] |= answer
        self.write()

    def write(self):
        content = {"answers": [*self.answers.values()]}
        (self._folder / "session.json").write_text(json.dumps(content))

    @property
    def calls(self):
        """The words of each call so far, without the serial number."""
        text = (self._folder / "calls.txt").read_text()
        return [re.sub(f"^-s {self.serial} ", "", call) for call in text.splitlines()]

    def measured(self):
        """The backends that the app was started for."""
        started = (re.search(r"app_process .* (\w+) \d+ \d+$", call) for call in self.calls)
        return [match[1] for match in started if match]

    def is_clean(self):
        """Whether the app was ended and its files removed at last."""
        kill = "shell pkill -9 -f '[d]ev.kerasvit.demo.BenchMain'; rm -rf /data/local/tmp/keras-vit"
        return self.calls[-1] == kill


def text(name):
    return (FIXTURES / name).read_text()


@pytest.fixture
def phone(tmp_path, monkeypatch):
    """A Pixel 8 that is connected and answers."""
    folder = tmp_path / "adb"
    folder.mkdir()
    program = folder / "adb"
    fake = Path(__file__).with_name("fake_adb.py")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {fake} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_ADB", str(folder))
    phone = FakePhone(folder)
    phone.write()
    return phone


@pytest.fixture
def bundle(tmp_path):
    """A bundle of digits, as an export leaves it."""
    digits = ROOT / "android_demo/testing/models/digits-int8"
    return shutil.copytree(digits, tmp_path / "runs/digits/export/int8")


@pytest.fixture
def apk(tmp_path):
    """As much of the app's APK as is looked at."""
    path = tmp_path / "app.apk"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("classes.dex", b"dex\n035\0 Ldev/kerasvit/demo/BenchMain; Lother;")
        archive.writestr("lib/arm64-v8a/libLiteRt.so", b"ELF of arm64")
        archive.writestr("lib/x86_64/libLiteRt.so", b"ELF of x86")
    return path
