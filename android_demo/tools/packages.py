"""The Debian packages of the app's build and tests. As a program: prints the missing ones."""

import shutil

# The package of every program that the build calls. Chromium brings the tests a Vulkan device.
PACKAGES = {
    "apksigner": "apksigner",
    "as": "binutils",
    "chromium": "chromium",
    "dexdump": "dexdump",
    "enjarify": "enjarify",
    "java": "openjdk-17-jdk-headless",
    "javac": "openjdk-17-jdk-headless",
    "keytool": "openjdk-17-jdk-headless",
    "ld": "binutils",
    "mvn": "maven",
    "readelf": "binutils",
}


def missing_programs(names: list[str]) -> list[str]:
    """Those of the programs that are not installed."""
    return [name for name in names if name in PACKAGES and not shutil.which(name)]


def packages_of(programs: list[str]) -> str:
    """Names of packages, as `apt-get install` takes them."""
    return " ".join(sorted({PACKAGES[name] for name in programs}))


if __name__ == "__main__":
    print(packages_of(missing_programs(list(PACKAGES))))
