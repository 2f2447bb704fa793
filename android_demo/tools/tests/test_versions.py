"""The two builds agree: the catalogue and scripts of Gradle state what pom.xml does."""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import fetch
import resources
from project import ABIS, ROOT, properties

CATALOGUE = (ROOT / "gradle/libs.versions.toml").read_text()
LOCK = ROOT.parent / "requirements.lock"
APP_SCRIPT = (ROOT / "app/build.gradle.kts").read_text()
LISTS = (ROOT / "androidx/aars.txt", ROOT / "androidx-test/aars.txt")
SCRIPTS = [path.read_text() for path in ROOT.glob("**/build.gradle.kts")]
# The catalogue's name of each version that pom.xml has too.
SHARED = {
    "kotlin": "kotlin.version",
    "serialization": "serialization.version",
    "coroutines": "coroutines.version",
    "minSdk": "android.minSdk",
    "targetSdk": "android.targetSdk",
    "versionCode": "android.versionCode",
    "versionName": "version",
    "jna": "jna.version",
    "junit": "junit.version",
    "junit4": "junit4.version",
    "mockito": "mockito.version",
    "robolectric": "robolectric.version",
}


def versions() -> dict[str, str]:
    section = CATALOGUE.split("[versions]")[1].split("\n[")[0]
    return dict(re.findall(r'^(\w+) = "([^"]+)"$', section, re.MULTILINE))


class VersionsTest(unittest.TestCase):
    def test_both_builds_use_the_same_versions(self) -> None:
        expected = {name: properties()[ours] for name, ours in SHARED.items()}
        self.assertEqual(expected, {name: versions().get(name) for name in SHARED})

    def test_both_builds_use_the_same_androidx(self) -> None:
        listed = {
            f"{artifact.group}:{artifact.name.removesuffix('-android')}": artifact.version
            for path in LISTS
            for artifact in fetch.read(path)
        }
        pattern = r'module = "(androidx\.(?!camera)[\w.]+:[\w-]+)", version\.ref = "(\w+)"'
        expected = {module: versions()[name] for module, name in re.findall(pattern, CATALOGUE)}
        self.assertIn("androidx.compose.material3:material3", expected)
        self.assertEqual(expected, {module: listed.get(module) for module in expected})

    def test_all_of_compose_has_one_version(self) -> None:
        compose = re.compile(r"androidx\.compose\.(?!material3)")
        listed = [artifact for path in LISTS for artifact in fetch.read(path)]
        found = {each.version for each in listed if compose.match(each.group)}
        self.assertEqual({versions()["compose"]}, found)

    def test_the_tests_run_the_litert_of_gradle(self) -> None:
        pinned = re.search(r"^ai-edge-litert==(\S+)", LOCK.read_text(), re.MULTILINE)
        self.assertEqual(pinned[1], versions()["litert"])

    def test_gradle_itself_is_checked_before_it_runs(self) -> None:
        lines = (ROOT / "gradle/wrapper/gradle-wrapper.properties").read_text().splitlines()
        settings = dict(line.split("=", 1) for line in lines)
        self.assertRegex(settings["distributionSha256Sum"], "^[0-9a-f]{64}$")
        # The sum belongs to this file: whoever changes one changes both.
        self.assertEqual(
            ("gradle-9.5.1-bin.zip", "bafc141b"),
            (settings["distributionUrl"].split("/")[-1], settings["distributionSha256Sum"][:8]),
        )

    def test_every_version_is_used_and_defined(self) -> None:
        referred = set(re.findall(r'version\.ref = "(\w+)"', CATALOGUE))
        read = set(re.findall(r"libs\.versions\.(\w+)\.get", "".join(SCRIPTS)))
        self.assertEqual(set(versions()), referred | read)

    def test_every_library_of_the_scripts_is_in_the_catalogue(self) -> None:
        defined = re.findall(r"^([\w-]+) = \{ (?:module|id)", CATALOGUE, re.MULTILINE)
        aliases = {name.replace("-", ".") for name in defined}
        used = re.findall(r"\(libs\.(?:plugins\.)?([\w.]+)\)", "".join(SCRIPTS))
        self.assertEqual(aliases, set(used))

    def test_both_builds_have_the_same_package_and_processors(self) -> None:
        package = properties()["android.package"]
        self.assertIn(f'namespace = "{package}"', APP_SCRIPT)
        self.assertIn(f'applicationId = "{package}"', APP_SCRIPT)
        listed = ", ".join(f'"{abi}"' for abi in ABIS)
        self.assertIn(f"abiFilters += listOf({listed})", APP_SCRIPT)

    def test_both_builds_have_the_same_languages(self) -> None:
        self.assertIn(f'localeFilters += listOf("en", "{resources.LANGUAGE}")', APP_SCRIPT)

    def test_both_builds_have_the_same_modules(self) -> None:
        included = re.findall(r'":([\w-]+)"', (ROOT / "settings.gradle.kts").read_text())
        modules = re.findall(r"<module>([\w-]+)</module>", (ROOT / "pom.xml").read_text())
        # Stand-ins for AARs, which Gradle takes as they are, and the other build's runtime.
        others = {"tflite", "camera-stubs", "interpreter", "androidx", "androidx-test"}
        self.assertEqual(set(included), set(modules) - others)


if __name__ == "__main__":
    unittest.main()
