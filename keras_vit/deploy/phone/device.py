"""What Android tells of a phone: which one it is, its room, how warm it is."""

from __future__ import annotations

import math
import re

from keras_vit._errors import UsageError
from keras_vit.deploy.phone.adb import Adb
from keras_vit.tflite.phone_records import Conditions, Phone

_LEAST_SDK = 26  # of the app: Android 8
# Seen on phones of several makers; of what is missing the record says nothing.
_STATE = (
    "dumpsys battery; dumpsys thermalservice; dumpsys power | grep mWakefulness=; "
    "echo low_power=$(settings get global low_power); true"
)


def describe(adb: Adb) -> Phone:
    """Which phone it is.

    Raises:
        UsageError: the app does not run on it.
    """
    properties = dict(re.findall(r"^\[(.+?)\]: \[(.*)\]\r?$", adb.shell("getprop"), re.MULTILINE))

    def text(*names: str) -> str:
        values = (properties.get(name, "").strip() for name in names)
        return "".join(filter(str.isprintable, next(filter(None, values), "unknown")))[:100]

    sdk = text("ro.build.version.sdk")
    phone = Phone(
        manufacturer=text("ro.product.manufacturer"),
        model=text("ro.product.model"),
        # Android 12 and newer tell the chip; of others it is the name of the board.
        soc=text("ro.soc.model", "ro.board.platform", "ro.hardware"),
        android=text("ro.build.version.release"),
        sdk=int(sdk) if sdk.isdecimal() else 0,
        abi=text("ro.product.cpu.abilist64", "ro.product.cpu.abilist").split(",")[0],
    )
    if phone.sdk < _LEAST_SDK:
        raise UsageError(f"expected Android 8 or newer. Received: {phone.name}.")
    return phone


def check_room(adb: Adb, folder: str, needed: int) -> None:
    """Raises a `UsageError` if a folder on the phone has no room for `needed` bytes."""
    lines = adb.shell(f"df -k {folder}").splitlines()
    # Filesystem, 1K-blocks, Used, Available, Use%, Mounted on
    fields = lines[-1].split() if lines else []
    free = 1024 * int(fields[3]) if len(fields) >= 6 and fields[3].isdecimal() else None
    if free is not None and free < needed:
        raise UsageError(
            f"the phone has {free >> 20} MiB free, and {math.ceil(needed / 2**20)} are needed; "
            "make room on it."
        )


def conditions(adb: Adb) -> Conditions:
    """The state of the phone now.

    Raises:
        UsageError: the phone does not answer.
    """
    text = adb.shell(_STATE)
    tenths = _number(r"^ +temperature: (-?\d+)", text, 1500)
    charging = re.findall(r"^ +\w+ powered: (true|false)", text, re.MULTILINE)
    screen = re.search(r"mWakefulness=(\w+)", text)
    saving = re.search(r"low_power=([01])", text)
    return Conditions(
        temperature_c=None if tenths is None else tenths / 10,
        thermal_status=_number(r"^Thermal Status: (\d+)", text, 6),
        battery_percent=_number(r"^ +level: (\d+)", text, 100),
        charging="true" in charging if charging else None,
        screen_on=screen and screen[1] == "Awake",
        power_save=saving and saving[1] == "1",
    )


def _number(pattern: str, text: str, most: int) -> int | None:
    # The first: what follows may be a log of older values.
    found = re.search(pattern, text, re.MULTILINE)
    number = None if found is None else int(found[1])
    return None if number is None or abs(number) > most else number
