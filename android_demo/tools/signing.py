"""Signs APKs with a debug key, which is made on first use and stays on this machine."""

from pathlib import Path

from commands import run
from project import BUILD, properties

# The names and password that Android's own tools give to debug keys: this key protects nothing.
KEYSTORE = BUILD / "debug.keystore"
_ALIAS = "androiddebugkey"
_PASSWORD = "android"
_OWNER = "CN=Android Debug,O=Android,C=US"


def make_key() -> None:
    """Makes the debug key if there is none."""
    if KEYSTORE.exists():
        return
    part = KEYSTORE.with_suffix(".part")
    part.unlink(missing_ok=True)
    run(
        *("keytool", "-genkeypair", "-keystore", part, "-storepass", _PASSWORD),
        *("-alias", _ALIAS, "-dname", _OWNER, "-keyalg", "RSA", "-keysize", "2048"),
        *("-validity", "10000", "-storetype", "PKCS12"),
    )
    part.replace(KEYSTORE)


def sign(unsigned: Path, signed: Path) -> None:
    """Writes a copy with signatures of scheme v2 and v3."""
    run(
        *("apksigner", "sign", "--ks", KEYSTORE, "--ks-pass", f"pass:{_PASSWORD}"),
        *("--ks-key-alias", _ALIAS, "--min-sdk-version", properties()["android.minSdk"]),
        *("--v1-signing-enabled", "false", "--v2-signing-enabled", "true"),
        *("--v3-signing-enabled", "true", "--v4-signing-enabled", "false"),
        *("--out", signed, unsigned),
    )
