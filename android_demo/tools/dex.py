"""Shrinks and optimises the app's classes with R8 into Dalvik's bytecode."""

import shutil
from pathlib import Path

import fetch
import resources
from commands import fail, require, run
from freshness import Step
from project import APP_TARGET, BUILD, FRAMEWORK, ROOT, RUNTIME_JARS, properties

DEX = BUILD / "dex"
# Which class of the dex implements what Kotlin's coroutines look for: R8 has renamed the files.
SERVICES = DEX / "META-INF/services"
# The rules of libraries, also of the engines' modules, are in their jars: in META-INF/proguard.
RULES = (
    ROOT / "keras-vit-android/consumer-rules.pro",
    ROOT / "app/proguard-rules.pro",
    resources.RULES,
)


def shipped_dex() -> list[Path]:
    """The app's dex files."""
    return build_dex(DEX, RULES)


def build_dex(folder: Path, rules: tuple[Path, ...]) -> list[Path]:
    """Writes dex files, services and R8's mapping.txt to a folder."""
    jars = app_jars()
    inputs = [*jars, *rules, Path(__file__), fetch.TOOLS]
    step = Step(folder / "stamp", inputs, [folder / "classes.dex"])
    if not step.is_fresh:
        _r8(folder, jars, rules)
        step.done()
    return sorted(folder.glob("classes*.dex"))


def app_jars() -> list[Path]:
    """The app, core and every library, as Maven left them."""
    app = APP_TARGET / f"app-{properties()['version']}.jar"
    jars = [app, *sorted(RUNTIME_JARS.glob("*.jar"))]
    if not app.exists() or len(jars) == 1:
        fail(f"expected {app} and jars in {RUNTIME_JARS}. Run `make apk`, which calls Maven first.")
    return jars


def platform() -> list[str | Path]:
    """Options that name what a phone itself has: Android's classes, and Java's."""
    require("javac")
    jdk = Path(shutil.which("javac")).resolve().parent.parent
    return ["--lib", FRAMEWORK, "--lib", jdk]


def _r8(folder: Path, jars: list[Path], rules: tuple[Path, ...]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(
        # R8 ends before Java's second compiler pays: with it, R8 takes twice the time.
        *("java", "-XX:TieredStopAtLevel=1", "-XX:+UseParallelGC", "-Xmx3g"),
        *("-cp", fetch.r8(), "com.android.tools.r8.R8", "--release"),
        *(*platform(), "--min-api", properties()["android.minSdk"]),
        *(part for rule in rules for part in ("--pg-conf", rule)),
        *("--pg-map-output", folder / "mapping.txt", "--output", folder, *jars),
    )
