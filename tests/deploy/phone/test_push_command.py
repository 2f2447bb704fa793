"""`keras-vit android --push`: models for the app that is installed on a phone."""

import re
import time
import zipfile
from unittest.mock import Mock

import pytest

from keras_vit._errors import UsageError
from keras_vit.deploy.phone.adb import Adb, find_adb
from keras_vit.deploy.phone.installed_app import give_to_app

FOLDER = "/sdcard/Android/data/dev.kerasvit.demo/files/models"
START = "shell am start --activity-single-top -n dev.kerasvit.demo/.MainActivity"
LOOK = f"shell ls -d {FOLDER}; true"


@pytest.fixture
def phone(phone):
    """A phone on which the app is installed, and takes models."""
    phone.answers |= {
        "installed": {
            "words": r"shell pm path dev\.kerasvit\.demo; true$",
            "out": "package:/data/app/~~Zx==/dev.kerasvit.demo-Q==/base.apk\n",
        },
        "start": {"words": f"{START}$", "out": "Starting: Intent { cmp=dev.kerasvit.demo }\n"},
        "folder": {"words": f"{LOOK}$", "out": f"{FOLDER}\n"},
        "mv": {"words": r"shell mv \S+\.part \S+\.zip$"},
        "rm": {"words": rf"shell rm -f {FOLDER}/\*\.part$"},
    }
    phone.write()
    return phone


@pytest.fixture
def push(invoke, phone, bundle, tmp_path):
    """Calls the command: (exit code, standard output, standard error)."""

    def run(*words):
        options = ("--bundle", bundle, "--push", "--samples", "0", *words)
        return invoke("export/to_android.py", *options, cwd=tmp_path)

    return run


def test_the_app_is_opened_gets_each_zip_whole_and_is_told(push, phone, bundle, tmp_path):
    unzipped = bundle.rename(tmp_path / "digits")
    code, out, error = push("--device", "--bundle", unzipped, unzipped, "--name", "a", "b.c")
    assert (code, error) == (0, "")
    installed, start, look, *moves, clean, again = phone.calls[1:]
    assert installed == "shell pm path dev.kerasvit.demo; true"
    assert (start, look, again) == (START, LOOK, START)
    for name, pushed, moved in zip(("a", "b.c"), moves[::2], moves[1::2], strict=True):
        assert re.fullmatch(rf"push \S+/{name}\.zip {FOLDER}/{name}\.zip\.part", pushed)
        assert moved == f"shell mv {FOLDER}/{name}.zip.part {FOLDER}/{name}.zip"
        assert re.search(rf"^{name}\.zip  0\.\d\d MiB, 0 samples$", out, re.MULTILINE)
    assert clean == f"shell rm -f {FOLDER}/*.part"
    assert f"The app on the phone {phone.serial} checks them now, and says on its screen" in out


def test_without_the_app_it_is_said_how_to_install_it(push, phone):
    phone.change("installed", out="")
    code, out, error = push("--device", phone.serial)
    assert (code, out) == (2, "")
    [line] = error.splitlines()
    assert f"the app is not installed on the phone {phone.serial}; build it in a clone" in line
    assert f"`make apk`, then: adb -s {phone.serial} install -r android_demo/build/" in line
    assert phone.calls[-1] == "shell pm path dev.kerasvit.demo; true"


@pytest.fixture
def give(phone, tmp_path):
    """Gives a zip to the app."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a/labels.txt", "a")
    adb = Adb(find_adb(), phone.serial)
    return lambda wait_s: give_to_app(adb, [tmp_path / "a.zip"], wait_s)


def test_the_app_is_given_time_to_start(give, phone, monkeypatch):
    phone.change("folder", out="")
    # Not time.sleep itself, with which subprocess waits.
    sleep = Mock(side_effect=lambda _: phone.change("folder", out=f"{FOLDER}\n"))
    clock = Mock(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr("keras_vit.deploy.phone.installed_app.time", clock)
    give(wait_s=60)
    assert phone.calls[:3] == [START, LOOK, LOOK]
    assert phone.calls[-1] == START


def test_an_app_that_takes_no_models_is_told(give, phone):
    phone.change("folder", out="")
    with pytest.raises(UsageError, match=r"within 0 seconds; unlock the phone\. If the app is old"):
        give(wait_s=0)
    assert not [call for call in phone.calls if call.startswith("push")]


def test_nothing_is_left_on_a_full_phone(give, phone):
    phone.change("push", error="adb: error: remote No space left on device\n", code=1)
    with pytest.raises(UsageError, match="the phone is full; make room on it"):
        give(wait_s=0)
    assert phone.calls[-1] == f"shell rm -f {FOLDER}/*.part"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--device", "X"), "expected the phone X. Received: 38071FDJH00ABC."),
        (("--name", "a b"), "a bundle's name has up to 64 letters, digits"),
    ],
)
def test_mistakes_are_a_line(push, phone, words, message):
    code, _, error = push(*words)
    assert code == 2
    [line] = error.splitlines()
    assert message in line
    assert START not in phone.calls
