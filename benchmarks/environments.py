"""Environments of other packages, each with what pip installs for it; they are used again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from keras_vit._errors import UsageError

FOLDER = Path(__file__).parents[1] / ".venv-runtimes"


class Environment(NamedTuple):
    """A name, and the packages to install."""

    name: str
    packages: tuple[str, ...]


def installed(environment: Environment, folder: Path, python: str) -> str | None:
    """The Python of an environment, created in `folder` if needed; None if pip fails."""
    home = folder / environment.name.replace(" ", "-").lower()
    own, done = home / "bin" / "python", home / "installed"
    if done.is_file():
        return str(own)
    print("installing", *environment.packages, flush=True)
    subprocess.run([python, "-m", "venv", "--clear", home], check=True)
    pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    result = subprocess.run([*pip, *environment.packages], capture_output=True, text=True)
    if result.returncode:
        print(f"  left out: {result.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    done.touch()
    return str(own)


def check_python(python: str) -> None:
    """Raises a `UsageError` if the packages have no wheels for a Python."""
    program = "import sys; print(*sys.version_info[:2], sep='.')"
    found = subprocess.run([python, "-c", program], capture_output=True, text=True).stdout.strip()
    if found not in ("3.9", "3.10", "3.11"):
        raise UsageError(
            "the old versions have wheels for Python 3.9 to 3.11. "
            f"Received: {found or python}; pass --python python3.11 or so."
        )
