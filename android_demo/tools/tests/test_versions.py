"""The two builds agree: the catalogue and scripts of Gradle state what pom.xml does."""

import hashlib
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import dex
import fetch
import gradle_wrapper
import resources
from project import ABIS, ROOT, properties

CATALOGUE = (ROOT / "gradle/libs.versions.toml").read_text()
LOCK = ROOT.parent / "requirements.lock"
APP_SCRIPT = (ROOT / "app/build.gradle.kts").read_text()
LISTS = (ROOT / "androidx/aars.txt", ROOT / "androidx-test/aars.txt")
SCRIPT = "build.gradle.kts"
SCRIPTS = [path.read_text() for path in ROOT.glob(f"**/{SCRIPT}")]
# The catalogue's name of each version that pom.xml has too.
SHARED = {
    "kotlin": "kotlin.version",
    "oldestKotlin": "kotlin.oldest.version",
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

    def test_the_sample_has_the_oldest_kotlin_that_can_use_the_libraries(self) -> None:
        oldest = versions()["oldestKotlin"]
        sample = (ROOT / "samples/jvm/pom.xml").read_text()
        self.assertIn(f"<version>{oldest}</version>", sample)
        library = (ROOT / "library.pom.xml").read_text()
        self.assertIn(f"<languageVersion>{oldest[:3]}</languageVersion>", library)

    def test_all_of_compose_has_one_version(self) -> None:
        compose = re.compile(r"androidx\.compose\.(?!material3)")
        listed = [artifact for path in LISTS for artifact in fetch.read(path)]
        found = {each.version for each in listed if compose.match(each.group)}
        self.assertEqual({versions()["compose"]}, found)

    def test_the_tests_run_the_litert_of_gradle(self) -> None:
        pinned = re.search(r"^ai-edge-litert==(\S+)", LOCK.read_text(), re.MULTILINE)
        self.assertEqual(pinned[1], versions()["litert"])
        library = ROOT / "keras-vit-android"
        self.assertIn("strictly(libs.versions.litert.get())", (library / SCRIPT).read_text())
        engines = ROOT / "litert/src/main/kotlin/dev/kerasvit/litert/LiteRt.kt"
        self.assertIn(f'TESTED_VERSION = "{pinned[1]}"', engines.read_text())

    def test_gradle_itself_is_checked_before_it_runs(self) -> None:
        lines = (ROOT / "gradle/wrapper/gradle-wrapper.properties").read_text().splitlines()
        settings = dict(line.split("=", 1) for line in lines)
        self.assertRegex(settings["distributionSha256Sum"], "^[0-9a-f]{64}$")
        # The sum belongs to this file: whoever changes one changes both.
        self.assertEqual(
            ("gradle-9.6.1-bin.zip", "9c0f7fae"),
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

    def test_the_wrapper_is_that_of_gradle_9_6_1(self) -> None:
        hashes = {
            "gradlew": "a5a5c199ba02189ae8c46a334223371a20599d9c298ef65e7540ede4a3f72d59",
            "gradlew.bat": "d539676c48b596afda64c963ec8f7ee56c7b3fe7e3b81d1dbe2d1a1e3dd9e9f8",
            "gradle/wrapper/gradle-wrapper.jar": (
                "497c8c2a7e5031f6aa847f88104aa80a93532ec32ee17bdb8d1d2f67a194a9c7"
            ),
        }
        with tempfile.TemporaryDirectory() as name, mock.patch("builtins.print"):
            folder = Path(name)
            with mock.patch.object(gradle_wrapper, "ROOT", folder):
                gradle_wrapper.main()
            files = [path for path in folder.rglob("*") if path.is_file()]
            written = {
                str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in files
            }
            self.assertTrue(os.access(folder / "gradlew", os.X_OK))
        self.assertEqual(hashes, written)

    def test_both_builds_have_the_same_languages(self) -> None:
        self.assertIn(f'localeFilters += listOf("en", "{resources.LANGUAGE}")', APP_SCRIPT)

    def test_r8_gets_the_same_rules_in_both_builds(self) -> None:
        # The engines' modules have theirs in their jars, where R8 finds them.
        in_jars = set(ROOT.glob("*/src/main/resources/META-INF/proguard/*.pro"))
        modules = {path.relative_to(ROOT).parts[0] for path in in_jars}
        self.assertEqual({"interpreter", "litert"}, modules)
        named = {
            script.with_name(name)
            for script in ROOT.glob("*/build.gradle.kts")
            for names in re.findall(r"[pP]roguardFiles\((.*)\)", script.read_text())
            for name in re.findall(r'"(.+?)"', names)
        }
        self.assertEqual(named, set(dex.RULES) - {resources.RULES})
        sources = set(ROOT.glob("*/*.pro")) | set(ROOT.glob("*/src/**/*.pro"))
        self.assertEqual(sources, named | in_jars)

    def test_the_screens_tests_have_the_same_options_in_both_builds(self) -> None:
        pom = (ROOT / "app/pom.xml").read_text()
        heap = re.findall(r"-Xmx(\w+)", pom)
        self.assertEqual(heap, re.findall(r'maxHeapSize = "(.+)"', APP_SCRIPT))
        opened = re.findall(r"--add-opens ([^ <]+)", pom)
        self.assertEqual(opened, re.findall(r'"--add-opens", "(.+)"', APP_SCRIPT))
        # Gradle runs those of androidTest on a phone only.
        on_phone = {f"**/{test.stem}*" for test in ROOT.glob("app/src/androidTest/**/*Test.kt")}
        left_out = [
            each for each in re.findall(r"<exclude>(.+)</exclude>", pom) if each not in on_phone
        ]
        self.assertEqual(left_out, re.findall(r'it\.exclude\("(.+)"\)', APP_SCRIPT))

    def test_both_builds_have_the_same_modules(self) -> None:
        included = re.findall(r'":([\w-]+)"', (ROOT / "settings.gradle.kts").read_text())
        modules = re.findall(r"<module>([\w-]+)</module>", (ROOT / "pom.xml").read_text())
        # Stand-ins for AARs, which Gradle takes as they are, and the other build's runtime.
        others = {"tflite", "camera-stubs", "interpreter", "androidx", "androidx-test"}
        self.assertEqual(set(included), set(modules) - others)


if __name__ == "__main__":
    unittest.main()
