"""`keras-vit bench`: one command, from a phone on the table to a row in the card."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keras_vit.tflite.phone_records import read_phone_record

ROOT = Path(__file__).parents[3]


@pytest.fixture
def bench(invoke, phone, apk, bundle, tmp_path):
    """Calls the command: (exit code, standard output, standard error)."""

    def run(*words):
        options = ("--bundle", bundle, "--apk", apk, *words)
        return invoke("export/bench.py", *options, cwd=tmp_path)

    return run


def test_each_backend_is_a_line_and_the_table_is_that_of_the_card(bench, phone, bundle):
    code, out, error = bench("--device", "--minutes", "0.4", "--threads", "2")
    assert (code, error) == (0, "")
    assert "phone: Google Pixel 8, Android 16 (Tensor G3)\n" in out
    assert "about 3 min 15 s left\n" in out  # 5 times 24 s, and 15 s each
    lines = [line.split() for line in out.splitlines()]
    [gpu] = [" ".join(line) for line in lines if line[:2] == ["GPU", "agrees"]]
    assert gpu.startswith("GPU agrees (scores differ by 4.8e-07 of 3.3e-01), cold 1,925 ms")
    assert gpu.endswith("warm 34.9 ms, after 25 s 71.5 ms at 28 °C")
    assert "  NPU        not run: UNAVAILABLE: LiteRT finds no library for the NPU\n" in out
    row = ["digits-int8", "CPU_PLAIN", "10.7", "1.56", "5.66", "1.55", "25", "28", "to", "28"]
    assert row in lines
    [path] = (bundle / "phones").iterdir()
    assert f"written: {path}\n" in out
    assert read_phone_record(path).backends[0].seconds == 24
    assert phone.is_clean()
    assert "next:" not in out
    run = bundle.parents[1]
    (run / "spec.json").touch()
    code, out, _ = bench("--backends", "NPU", "GPU")
    assert code == 0
    assert out.endswith(f"hub_card.py --run {run}\n")
    assert f"written: {path}\nkept, because measured earlier: CPU, CPU_HALF, CPU_PLAIN\n" in out


def test_a_phone_that_disagrees_is_refused_and_its_record_kept(bench, phone, bundle, tmp_path):
    lines = phone.answers["GPU"]["out"].splitlines(keepends=True)
    phone.change("GPU", out=lines[0] + lines[1].replace("4.76837158203125E-7", "0.5") + lines[-1])
    code, out, error = bench("--backends", "GPU", "CPU", "GPU", "--out", tmp_path / "records")
    assert code == 3
    [line] = error.splitlines()
    assert "this phone computes something else than the exporter" in line
    assert line.endswith("Google Pixel 8, Android 16: digits-int8 on GPU")
    assert "GPU        COMPUTES SOMETHING ELSE (scores differ by 5.0e-01 of 3.3e-01)" in out
    assert phone.measured() == ["GPU", "CPU"]
    [path] = (tmp_path / "records/digits-int8").iterdir()
    gpu, cpu = read_phone_record(path).backends
    assert (gpu.disagrees, cpu.disagrees) == (True, False)
    assert not (bundle / "phones").exists()


@pytest.mark.parametrize("finite", [0, 2], ids=["at once", "after the golden check"])
def test_scores_that_are_not_finite_are_a_disagreement(bench, phone, bundle, finite):
    lines = phone.answers["GPU"]["out"].splitlines(keepends=True)
    told = '"runtime":"LiteRT 2.3.0","kind":"NOT_FINITE","reason":"the scores are NaN or infinite"'
    nan = f'{{"refused":{{{told}}}}}\n'
    phone.change("GPU", out="".join([*lines[:finite], nan, lines[-1]]))
    code, out, error = bench("--backends", "GPU")
    assert code == 3
    assert error.endswith("Google Pixel 8, Android 16: digits-int8 on GPU\n")
    assert "COMPUTES SOMETHING ELSE: NOT_FINITE: the scores are NaN or infinite\n" in out
    [path] = (bundle / "phones").iterdir()
    assert path.name == "Google-Pixel-8-Android-16-LiteRT-2.3.0.json"
    assert read_phone_record(path).backends[0].disagrees


def test_an_app_that_ends_later_is_not_said_not_to_run(bench, phone):
    lines = phone.answers["GPU"]["out"].splitlines(keepends=True)
    phone.change("GPU", out="".join(lines[:4]), code=137)
    _, out, _ = bench("--backends", "GPU")
    assert "°C, ended: the app ended with SIGKILL\n" in out


def test_a_bundle_that_nothing_runs_is_a_line_and_the_others_go_on(bench, phone, bundle):
    other = shutil.copytree(bundle, bundle.with_name("float16"))
    code, _, error = bench("--bundle", bundle, other, "--backends", "NPU")
    assert code == 3
    for line, path in zip(error.splitlines(), (bundle, other), strict=True):
        assert f"runs {path}: NPU: UNAVAILABLE: LiteRT finds no library" in line
    assert phone.measured() == ["NPU", "NPU"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--minutes", "61"), "--minutes must be from 0 to 60. Received: 61.0."),
        (("--backends", "TPU"), "unknown value 'TPU'"),
        (("--device", "X"), "expected the phone X. Received: 38071FDJH00ABC."),
        (("--apk", "gone.apk"), "gone.apk: expected the app's APK; there is no such file"),
        (("--bundle", "gone"), "gone: expected a bundle's folder; there is no such folder"),
    ],
)
def test_mistakes_are_a_line(bench, phone, words, message):
    code, _, error = bench(*words)
    assert code == 2
    [line] = error.splitlines()
    assert message in line


def test_the_newest_apk_of_the_clone_is_taken(invoke, phone, bundle, apk, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_vit.cli._bundles._CLONE", tmp_path)
    app = tmp_path / "android_demo"
    app.mkdir()
    words = ("export/bench.py", "--bundle", bundle, "--backends", "CPU", "--minutes", "0")
    code, _, error = invoke(*words, cwd=tmp_path)
    assert code == 2
    assert "there is no APK yet; build one with `make apk` or in Android Studio" in error
    built = (
        "build/a.apk",
        "app/build/outputs/apk/debug/b.apk",
        "app/build/intermediates/apk/debug/c.apk",
    )
    for seconds, path in enumerate(built):
        (app / path).parent.mkdir(parents=True)
        (app / path).write_bytes(apk.read_bytes())
        os.utime(app / path, (seconds, seconds))
        code, out, _ = invoke(*words, cwd=tmp_path)
        assert code == 0
        assert f"app: {app / path}\n" in out


@pytest.mark.slow
def test_ctrl_c_removes_what_is_on_the_phone(phone, bundle, apk, tmp_path):
    lines = phone.answers["CPU_HALF"]["out"].splitlines(keepends=True)
    phone.change("CPU_HALF", out="".join(lines[:4]), hang=60)
    process = subprocess.Popen(
        [sys.executable, ROOT / "export/bench.py", "--bundle", bundle, "--apk", apk],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in a background suite
    )  # fmt: skip
    calls = tmp_path / "adb/calls.txt"
    while not (calls.exists() and calls.read_text().count("CPU_HALF") and _polled(calls)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "\ninterrupted.\n")
    assert phone.is_clean()
    [path] = (bundle / "phones").iterdir()
    [cpu] = read_phone_record(path).backends
    assert len(cpu.sustained) == 3


def _polled(calls):
    """Whether the temperature was asked for after the last backend had begun."""
    return "dumpsys" in calls.read_text().splitlines()[-1]
