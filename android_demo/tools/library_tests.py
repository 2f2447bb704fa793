"""Publishes the libraries, and runs the sample program outside this repository with them."""

import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import publish
from commands import fail, require, run
from maven import maven
from project import ASSETS, ROOT, litert_folder, properties
from results import Result

_KINDS = (".jar", ".pom", "-sources.jar", "-javadoc.jar")


def test_libraries() -> Result:
    """Counts the sample's right answers; ends the program if a library is incomplete."""
    require("mvn", "javac")
    maven("validate")  # so that there is a repository
    home = Path.home() / ".m2/repository"
    with tempfile.TemporaryDirectory(dir=home.parent) as folder:
        repository = Path(folder, "repository")
        # Hard links: nothing is downloaded again, and nothing of this project stays behind.
        shutil.copytree(home, repository, copy_function=os.link)
        shutil.rmtree(repository / "dev/kerasvit", ignore_errors=True)
        publish.publish("install", f"-Dmaven.repo.local={repository}")
        _check(repository / "dev/kerasvit")
        sample = Path(folder, "sample")
        shutil.copytree(ROOT / "samples/jvm", sample, ignore=shutil.ignore_patterns("target"))
        return _run(sample, repository)


def _check(folder: Path) -> None:
    version = properties()["version"]
    for library in publish.LIBRARIES:
        name = f"keras-vit-{library}"
        files = [folder / name / version / f"{name}-{version}{kind}" for kind in _KINDS]
        for path in files:
            if not path.is_file() or path.stat().st_size == 0:
                fail(f"expected {path.name} among what was published. Received: none.")
        if "<parent>" in files[1].read_text():
            fail(f"expected {files[1].name} to need no parent, which is not published.")


def _run(sample: Path, repository: Path) -> Result:
    """Runs the sample on the app's samples and compares with Python's answers."""
    fixture = json.loads((ROOT / "app/src/test/resources/fixtures/samples.json").read_text())
    bundle = ASSETS / "bundles/cifar10-float16"
    expected = fixture[str(bundle.relative_to(ROOT))]
    pictures = sorted(bundle.glob("samples/*.jpg"))
    words = " ".join(map(str, (litert_folder(), bundle, *pictures)))
    text = run(
        *("mvn", "--batch-mode", "--quiet", f"-Dmaven.repo.local={repository}"),
        "-Dkotlin.compiler.daemon=false",  # leaves no process behind
        *("compile", "exec:java", f"-Dexec.args={words}"),
        cwd=sample,
    )
    print(text, flush=True)
    answers = re.findall(r"(\w+\.jpg): (\S+) \((\S+)\)$", text, re.MULTILINE)
    right = sum(_is_right(expected[name][0], *answer) for name, *answer in answers)
    if "\nCPU: passed\n" not in text:
        fail("the sample's golden check did not pass on the CPU.")
    return Result("libraries: a program outside this repository", right, len(pictures))


def _is_right(expected: dict, label: str, probability: str) -> bool:
    is_near = abs(float(probability) - expected["probability"]) <= 1e-4
    return label == expected["label"] and is_near
