"""Makes the AAB, which Play wants instead of an APK."""

import json
from pathlib import Path

import fetch
from commands import run

# The APKs that Play makes of the bundle must store models and libraries uncompressed as ours does,
# and libraries at multiples of 16 KB.
_CONFIG = {
    "compression": {"uncompressedGlob": ["assets/**.tflite", "assets/**/vectors.bin"]},
    "optimizations": {
        "uncompressNativeLibraries": {"enabled": True, "alignment": "PAGE_ALIGNMENT_16K"}
    },
}


def write_app_bundle(path: Path, module: Path) -> None:
    """Writes the AAB of one module and has bundletool validate it."""
    config = module.with_suffix(".json")
    config.write_text(json.dumps(_CONFIG))
    _bundletool(
        *("build-bundle", "--overwrite", f"--config={config}"),
        *(f"--modules={module}", f"--output={path}"),
    )
    path.chmod(module.stat().st_mode)  # bundletool lets only its owner read it
    _bundletool("validate", f"--bundle={path}")
    config.unlink()


def _bundletool(*arguments: str) -> None:
    program = "com.android.tools.build.bundletool.BundleToolMain"
    run("java", "-cp", fetch.bundletool(), program, *arguments)
