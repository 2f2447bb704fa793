"""Gives bundles to the app that is installed on a phone, which checks and adds them itself."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from keras_vit import _interrupts
from keras_vit._errors import UsageError
from keras_vit.deploy.phone.adb import Adb

_PACKAGE = "dev.kerasvit.demo"
# The app makes it when it starts, and then adds and deletes what ends in .zip there.
FOLDER = f"/sdcard/Android/data/{_PACKAGE}/files/models"
_START = f"am start --activity-single-top -n {_PACKAGE}/.MainActivity"
_BUILD = "build it in a clone of keras_vit with `make apk`, then: adb -s {} install -r "
_BUILD += "android_demo/build/keras-vit-demo.apk"


def check_installed(adb: Adb) -> None:
    """Raises a `UsageError` that says how to install the app, if it is not on the phone."""
    if "package:" not in adb.shell(f"pm path {_PACKAGE}; true"):  # which fails without it
        raise UsageError(
            f"the app is not installed on the phone {adb.serial}; {_BUILD.format(adb.serial)}"
        )


def give_to_app(adb: Adb, zips: Sequence[Path], wait_s: float = 10.0) -> None:
    """Copies zips of bundles to where the app looks for them, and opens the app.

    Args:
        adb: the phone.
        zips: their names need no quotes in a shell; `deploy.zip_bundle` writes them.
        wait_s: how long the app may take to start.

    Raises:
        UsageError: the app does not take models, or the phone is full or was unplugged.
    """
    adb.shell(_START)
    _wait_for_folder(adb, wait_s)
    try:
        for path in zips:
            # The app never sees a part of a file.
            adb.push([path], f"{FOLDER}/{path.name}.part")
            adb.shell(f"mv {FOLDER}/{path.name}.part {FOLDER}/{path.name}")
    finally:
        with _interrupts.deferred_interrupts(), contextlib.suppress(UsageError):
            adb.shell(f"rm -f {FOLDER}/*.part")
    adb.shell(_START)


def _wait_for_folder(adb: Adb, wait_s: float) -> None:
    end = time.monotonic() + wait_s
    while adb.shell(f"ls -d {FOLDER}; true").strip() != FOLDER:
        if time.monotonic() > end:
            raise UsageError(
                f"the app did not make its folder for models within {wait_s:.0f} seconds; unlock "
                f"the phone. If the app is older than this command, {_BUILD.format(adb.serial)}"
            )
        time.sleep(0.5)
