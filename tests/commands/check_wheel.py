"""Installs the wheel in an empty environment and uses it: python tests/commands/check_wheel.py

Without extras, `keras-vit export --help` must work, and a command that needs other packages must
name the command that installs them. With extras, a short training on the digits and its export must
succeed in an empty folder. Packages come from PyPI: TensorFlow is 600 MB.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = ("setup.py", "pyproject.toml", "README.md")
EXTRAS = "tensorflow,train,export"
FIT = ("--duration", "60 steps", "--no-jit", "--out", "runs/digits")
EXPORT = ("--quantize", "none", "int8", "--images", "100", "--max-drop", "20")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-extras", action="store_true", help="stop before TensorFlow")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = built(Path(folder))
        python, empty = Path(folder) / "venv" / "bin" / "python", Path(folder) / "empty"
        command = python.with_name("keras-vit")
        empty.mkdir()
        run([sys.executable, "-m", "venv", python.parents[1]])
        run([python, "-m", "pip", "install", "--quiet", wheel])
        assert "--quantize" in run([command, "export", "--help"], empty)
        for words in (["fit"], ["export", "--weights", "https://example.org/a.npz", "--out", "o"]):
            line = run([command, *words], empty, code=2).strip()
            assert line.startswith(f"keras-vit {words[0]}: "), line
            assert "pip install 'keras_vit[tensorflow," in line, line
            assert line.isprintable(), line  # one line
            print(line, flush=True)
        if arguments.no_extras:
            return
        run([python, "-m", "pip", "install", "--quiet", f"{wheel}[{EXTRAS}]"])
        run([command, "fit", *FIT], empty)
        shown = run([command, "export", *EXPORT], empty)
        for name in ("float32", "int8"):
            assert (empty / "runs/digits/export" / name / "model.tflite").is_file(), shown
        last = run([command, "evaluate"], empty).splitlines()[-1]
        print(f"trained and exported: {last}", flush=True)


def built(folder: Path) -> Path:
    """The wheel, built from a copy so that nothing is written into the clone."""
    source = folder / "source"
    shutil.copytree(ROOT / "keras_vit", source / "keras_vit")
    for file in FILES:
        shutil.copy(ROOT / file, source)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run([*pip, "--wheel-dir", folder, source])
    (wheel,) = folder.glob("*.whl")
    print(f"wheel: {wheel.name}, {wheel.stat().st_size / 1024:.0f} KiB", flush=True)
    return wheel


def run(words: list, cwd: Path | None = None, code: int = 0) -> str:
    """The standard output of a command that must succeed, or the error of one that must not."""
    result = subprocess.run(list(map(str, words)), cwd=cwd, capture_output=True, text=True)
    if result.returncode != code:
        sys.exit(f"{' '.join(map(str, words))}\n{result.stdout}{result.stderr}")
    return result.stderr if code else result.stdout


if __name__ == "__main__":
    main()
