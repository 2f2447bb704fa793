"""Shrinks and optimises the app's classes with R8 into Dalvik's bytecode."""

import zipfile
from pathlib import Path

import class_file
import fetch
import platform_classes
import resources
from class_file import without_parameter_names
from commands import fail, run
from freshness import Step
from project import APP_TARGET, BUILD, ROOT, RUNTIME_JARS, properties

DEX = BUILD / "dex"
RULES = (
    ROOT / "tools/platform.pro",
    ROOT / "keras-vit-android/consumer-rules.pro",
    ROOT / "interpreter/rules.pro",
    ROOT / "app/proguard-rules.pro",
    resources.RULES,
)


def shipped_dex() -> list[Path]:
    """The app's dex files."""
    return build_dex(DEX, RULES)


def build_dex(folder: Path, rules: tuple[Path, ...]) -> list[Path]:
    """Writes dex files and R8's mapping.txt to a folder."""
    jars = app_jars()
    modules = (__file__, class_file.__file__, fetch.__file__, platform_classes.__file__)
    tools = [Path(module) for module in modules]
    step = Step(folder / "stamp", [*jars, *rules, *tools], [folder / "classes.dex"])
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


def _r8(folder: Path, jars: list[Path], rules: tuple[Path, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.dex"):
        old.unlink()
    run(
        *("java", "-cp", fetch.bundletool(), "com.android.tools.r8.R8", "--release"),
        *("--lib", platform_classes.platform_jar(), "--min-api", properties()["android.minSdk"]),
        *(part for rule in rules for part in ("--pg-conf", rule)),
        *("--pg-map-output", folder / "mapping.txt", "--no-data-resources"),
        *("--output", folder),
        *(_readable(jar, folder) if jar.name.startswith("jna-") else jar for jar in jars),
    )


def _readable(jar: Path, folder: Path) -> Path:
    """A copy of a jar's classes without names of parameters: R8 3.3 fails where one has no name."""
    copy = folder / jar.name
    with zipfile.ZipFile(jar) as classes, zipfile.ZipFile(copy, "w") as readable:
        for name in classes.namelist():
            if name.endswith(".class"):
                readable.writestr(name, without_parameter_names(classes.read(name)))
    return copy
