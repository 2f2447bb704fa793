"""The app's APK, whose classes and libraries measure: it is not installed."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from keras_vit._errors import UsageError

MAIN = "dev.kerasvit.demo.BenchMain"
# Where `make apk`, Gradle and Android Studio's button "Run" leave it.
_BUILT = ("build/*.apk", "app/build/outputs/apk/*/*.apk", "app/build/intermediates/apk/*/*.apk")


def newest_apk(app: Path) -> Path:
    """The APK of the folder android_demo that was built last.

    Raises:
        UsageError: none was built.
    """
    built = [path for pattern in _BUILT for path in app.glob(pattern)]
    if not built:
        raise UsageError(
            f"{app}: there is no APK yet; build one with `make apk` or in Android Studio, or name "
            "one with --apk."
        )
    return max(built, key=lambda path: path.stat().st_mtime)


def unpack_libraries(apk: Path, abi: str, folder: Path) -> list[Path]:
    """Writes the native libraries of an APK for a kind of processor into a folder.

    Raises:
        UsageError: it is not the app's APK, an old one, or has none for this processor.
    """
    if not zipfile.is_zipfile(apk):
        received = ". Received: another file" if apk.exists() else "; there is no such file"
        raise UsageError(f"{apk}: expected the app's APK{received}.")
    with zipfile.ZipFile(apk) as archive:
        names = archive.namelist()
        main = f"L{MAIN.replace('.', '/')};".encode()
        dex = [name for name in names if re.fullmatch(r"classes\d*\.dex", name)]
        if not any(main in archive.read(name) for name in dex):
            raise UsageError(f"{apk}: the class {MAIN} is not in it; build the app again.")
        libraries = [re.fullmatch(r"lib/([\w-]+)/([\w.+-]+\.so)", name) for name in names]
        abis = sorted({each[1] for each in libraries if each})
        if abi not in abis:
            raise UsageError(f"{apk} has libraries for {', '.join(abis)}. Received: a {abi}.")
        chosen = [each for each in libraries if each and each[1] == abi]
        for each in chosen:
            (folder / each[2]).write_bytes(archive.read(each[0]))
    return [folder / each[2] for each in chosen]
