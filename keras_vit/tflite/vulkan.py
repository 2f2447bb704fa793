"""Finds a Vulkan device for LiteRT's GPU accelerator: a GPU, or SwiftShader on the CPU.

Chromium and Chrome bring SwiftShader, which computes what a GPU would in float32 on any CPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# The variables by which users choose a driver, see the documentation of the Vulkan loader.
_CHOICES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
_DRIVERS = ("/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d")
_BROWSERS = ("/usr/lib/chromium", "/usr/lib/chromium-browser", "/opt/google/chrome")
_SWIFTSHADER = "vk_swiftshader_icd.json"


class Vulkan(NamedTuple):
    """A way to reach a Vulkan device.

    Attributes:
        variables: environment variables of the process that uses it.
        loader: the path of the Vulkan loader; "" for the system's own.
    """

    variables: Mapping[str, str]
    loader: str = ""


def vulkan_devices() -> list[Vulkan]:
    """Ways to reach a Vulkan device on this machine, to be tried in this order.

    A driver that `VK_DRIVER_FILES` or `VK_ICD_FILENAMES` names is the only one.
    """
    if not sys.platform.startswith("linux"):
        return []
    for name in _CHOICES:
        if chosen := os.environ.get(name):
            return [Vulkan({name: chosen}, _loader_beside(chosen.split(os.pathsep)[0]))]
    found = [Vulkan({})] if any(any(Path(f).glob("*.json")) for f in _DRIVERS) else []
    drivers = filter(Path.is_file, (Path(folder, _SWIFTSHADER) for folder in _BROWSERS))
    return found + [Vulkan({"VK_ICD_FILENAMES": str(icd)}, _loader_beside(icd)) for icd in drivers]


def _loader_beside(driver: str | os.PathLike) -> str:
    """The loader that a browser brings with its driver; "" if there is none."""
    loader = Path(driver).with_name("libvulkan.so.1")
    return str(loader) if loader.is_file() else ""
