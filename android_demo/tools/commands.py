"""Runs other programs. A failure is one line and the program's own words."""

import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from packages import missing_programs, packages_of


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Runs a command and returns what it printed on standard output."""
    require(Path(command[0]).name)
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        line = " ".join(map(str, command))
        fail(f"{line}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def require(*programs: str) -> None:
    """Ends the program with the install command where a program is missing."""
    missing = missing_programs(list(programs))
    if missing:
        fail(f"{', '.join(missing)} not found: apt-get install {packages_of(missing)}")


def fail(message: str) -> NoReturn:
    """Ends the program with a message."""
    print(message.rstrip(), file=sys.stderr)
    raise SystemExit(1)
