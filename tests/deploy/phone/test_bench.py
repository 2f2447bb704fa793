"""Bundles on a phone, as far as adb: what is copied, started, kept and removed."""

import json
import re
import zipfile
from pathlib import Path

import msgspec
import pytest

from keras_vit import _json
from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.phone.adb import Adb, connected_phone, find_adb
from keras_vit.deploy.phone.app_process import Line
from keras_vit.deploy.phone.bench import on_phone
from keras_vit.tflite.phone_records import read_phone_record, summary

ROOT = Path(__file__).parents[3]
RECORDED = sorted((ROOT / "tests/fixtures/phone").glob("*.jsonl"))
KOTLIN = ROOT / "android_demo/core/src/test/resources/benchmark.jsonl"
ALL = ["CPU", "CPU_HALF", "CPU_PLAIN", "GPU", "NPU"]


@pytest.fixture
def measure(phone, apk, bundle):
    """Measures the bundle on the phone: the path of the record, and the record."""

    def run(backends=ALL, silent_s=60.0, limit_s=30.0, tell=lambda *step: None):
        adb = Adb(find_adb(), phone.serial, limit_s)
        with on_phone(adb, apk, threads=2, seconds=25, silent_s=silent_s) as bench:
            return bench.measure(bundle, backends, bundle / "phones", tell)

    return run


@pytest.mark.parametrize("file", [KOTLIN, *RECORDED], ids=lambda f: f.name)
def test_every_field_of_the_apps_lines_is_read(file):
    for text in file.read_text().splitlines():
        line = msgspec.to_builtins(_json.check(json.loads(text), "a line", Line))
        [step] = json.loads(text)
        read = {name: value for name, value in line.items() if value is not None}
        added = {"temperature_c": None, "thermal_status": None} if step == "interval" else {}
        assert read == {step: json.loads(text)[step] | added}


def test_the_record_has_what_the_phone_said(measure, phone):
    path, record = measure()
    assert path.name == "Google-Pixel-8-Android-16-LiteRT-2.3.0.json"
    assert msgspec.to_builtins(read_phone_record(path)) == msgspec.to_builtins(record)
    assert record.phone.soc == "Tensor G3"
    assert record.runtime == "LiteRT 2.3.0"
    assert [each.backend for each in record.backends] == ALL
    cpu, *_, gpu, npu = record.backends
    assert cpu.cold.load_ms == 200.369541
    assert (cpu.threads, cpu.seconds) == (2, 25)
    assert (cpu.delegated, gpu.delegated) == (185, 185)
    assert gpu.warm.runs == 100
    assert [each.at_s for each in gpu.sustained] == [10.017314181, 20.024082969, 25.058529933]
    assert gpu.sustained[-1].temperature_c == gpu.before.temperature_c == 28.5
    assert gpu.before.battery_percent == 83
    assert (gpu.before.charging, gpu.before.screen_on, gpu.before.power_save) == (True, True, False)
    assert gpu.sustained[0].thermal_status == 1
    assert npu.reason == "UNAVAILABLE: LiteRT finds no library for the NPU"
    assert npu.golden is None
    assert phone.serial not in path.read_text()  # whose phone it is, is nobody's business
    [row] = [row for row in summary([("int8", record)]).rows if row[4] == "GPU"]
    assert row[5:] == ["1,925", "34.9", "61.5", "71.5", "25", "28 to 28"]


def test_the_app_is_copied_started_and_removed(measure, phone, bundle):
    measure(["CPU", "GPU"])
    calls = [call for call in phone.calls if "dumpsys" not in call and " df " not in call]
    pushed = [call.split()[-1] for call in calls if call.startswith("push ")]
    folder = "/data/local/tmp/keras-vit"
    assert pushed == [f"{folder}/app.apk", f"{folder}/lib", f"{folder}/bundle"]
    assert any(call.endswith(f"{bundle}/golden.json {folder}/bundle") for call in calls)
    assert calls.index(f"shell chmod 444 {folder}/app.apk") > 0
    start = f"shell CLASSPATH={folder}/app.apk exec app_process -Djava.library.path={folder}/lib "
    started = [call for call in calls if "app_process" in call]
    assert all(call.startswith(start) for call in started)
    assert started[1].endswith(f" / dev.kerasvit.demo.BenchMain {folder} GPU 2 25")
    assert phone.is_clean()
    # And what a killed process may have left was removed before.
    assert phone.calls[1] == phone.calls[-1]


def test_an_app_that_is_killed_leaves_what_it_measured_and_the_others_go_on(measure, phone):
    lines = phone.answers["CPU_HALF"]["out"].splitlines(keepends=True)
    words = "WARNING: linker\nSegmentation fault\n"
    phone.change("CPU_HALF", out="".join(lines[:4]), error=words, code=139)
    _, record = measure(["CPU_HALF", "GPU"])
    half, gpu = record.backends
    assert half.reason == "the app ended with SIGSEGV: WARNING: linker / Segmentation fault"
    assert (len(half.sustained), half.warm.runs) == (1, 100)
    assert (gpu.reason, len(gpu.sustained)) == ("", 3)
    assert "shell pkill -9 -f '[d]ev.kerasvit.demo.BenchMain'; true" in phone.calls


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("", "the app ended with exit code 0"),
        ("{not JSON\n", "the app says something else than expected: its line is not valid JSON"),
        ('{"golden": {"same_class": 3}}\n', "its line: $.golden.same_class must be true or false"),
        ('{"warm": {"median_ms": -1, "p90_ms": 1, "runs": 1}}\n', "$.warm.median_ms must be"),
        ('{"cold": ' + "9" * 20_000, "the app says something else than expected"),
        ("noise\n" * 6_000, "the app says more than it should"),
    ],
)
def test_what_nobody_understands_is_the_reason(measure, phone, out, reason):
    phone.change("GPU", out=out)
    _, record = measure(["GPU", "CPU"])
    gpu, cpu = record.backends
    assert reason in gpu.reason
    assert cpu.golden.passed


def test_an_app_that_is_stuck_is_ended(measure, phone):
    phone.change("GPU", hang=60, out=phone.answers["GPU"]["out"].split("\n")[0] + "\n")
    _, record = measure(["GPU", "CPU"], silent_s=1)
    gpu, cpu = record.backends
    assert gpu.reason == "the app says nothing for 1 seconds"
    assert gpu.cold is not None
    assert cpu.golden.passed


def test_a_phone_that_is_unplugged_leaves_what_is_finished(measure, phone, bundle):
    lines = phone.answers["CPU_HALF"]["out"].splitlines(keepends=True)
    phone.change("CPU_HALF", out="".join(lines[:3]), code=255)
    phone.change("get-state", out="", error="error: device not found", code=1)
    with pytest.raises(UsageError, match="the phone was lost while it measured CPU_HALF"):
        measure()
    assert phone.measured() == ["CPU", "CPU_HALF"]
    [path] = (bundle / "phones").iterdir()
    [cpu] = read_phone_record(path).backends
    assert len(cpu.sustained) == 3


def test_an_interrupt_cleans_the_phone_and_keeps_what_is_finished(measure, phone, bundle):
    def tell(measured, is_done):
        if measured.backend == "GPU" and len(measured.sustained) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(["CPU", "GPU", "NPU"], tell=tell)
    assert phone.measured() == ["CPU", "GPU"]
    assert phone.is_clean()
    [path] = (bundle / "phones").iterdir()
    [cpu] = read_phone_record(path).backends
    assert len(cpu.sustained) == 3


def test_measuring_some_backends_again_keeps_the_others(measure, phone):
    measure(["CPU", "GPU"])
    phone.change("GPU", out=phone.answers["NPU"]["out"])
    path, record = measure(["CPU_PLAIN", "GPU"])
    kept = read_phone_record(path)
    assert msgspec.to_builtins(kept) == msgspec.to_builtins(record)
    agree = {each.backend: each.golden is not None for each in kept.backends}
    assert agree == {"CPU": True, "GPU": False, "CPU_PLAIN": True}


@pytest.mark.parametrize("field", ["sha256", "app_sha256", "phone"])
def test_a_record_of_another_file_or_app_and_a_damaged_one_are_replaced(measure, field):
    path, _ = measure(["CPU"])
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: "0" * 64}))
    measure(["CPU_PLAIN"])
    assert [each.backend for each in read_phone_record(path).backends] == ["CPU_PLAIN"]


@pytest.mark.parametrize(
    "fields", ['"score_difference":0.5', '"pixel_difference":0.2,"pixel_tolerance":0.1,\\g<0>']
)
def test_a_phone_that_disagrees_is_told_by_the_numbers(measure, phone, fields):
    *others, golden, end = phone.answers["GPU"]["out"].splitlines(keepends=True)
    golden = re.sub('"score_difference":[^,]+', fields, golden)
    phone.change("GPU", out="".join([*others, golden, end]))  # when it is hot
    _, record = measure(["GPU"])
    found = summary([("int8", record)])
    assert found.refused == ["Google Pixel 8, Android 16: int8 on GPU"]
    assert found.rows == []


def test_a_phone_on_which_nothing_runs_is_refused(measure, phone, bundle):
    with pytest.raises(
        RefusedError, match="no backend of Google Pixel 8, Android 16 runs"
    ) as error:
        measure(["NPU"])
    assert str(error.value).endswith("NPU: UNAVAILABLE: LiteRT finds no library for the NPU")
    assert not (bundle / "phones").exists()
    assert phone.is_clean()


def test_a_full_phone_is_told_before_and_while_files_are_copied(measure, phone):
    df = phone.answers["df"]["out"]
    # KiB: none; and enough for this small app, not for the bundle.
    for free, pushed in (("0", []), ("100", ["app.apk", "lib"])):
        phone.change("df", out=df.replace("71935624", free))
        with pytest.raises(UsageError, match=r"the phone has 0 MiB free, and 1 are needed"):
            measure()
        pushes = [call for call in phone.calls if call.startswith("push")]
        assert [Path(call.split()[-1]).name for call in pushes] == pushed
    phone.change("df", out="df: unknown option\n")  # then it is noticed later
    error = "adb: error: failed to copy 'app.apk' to '/data/local/tmp/keras-vit/app.apk': remote "
    phone.change("push", error=f"{error}No space left on device\n", code=1)
    with pytest.raises(UsageError, match="the phone is full; make room on it"):
        measure()
    assert phone.is_clean()


def test_a_phone_that_hangs_is_given_up(measure, phone):
    phone.change("state", hang=60)
    with pytest.raises(UsageError, match=r"adb does not answer within 1 seconds: .*dumpsys"):
        measure(limit_s=1.0)
    assert phone.is_clean()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("36]", "25]", "expected Android 8 or newer. Received: Google Pixel 8, Android 16"),
        ("[arm64-v8a]", "[armeabi-v7a]", "has libraries for arm64-v8a, x86_64. Received: a arm"),
    ],
)
def test_a_phone_that_the_app_does_not_run_on_is_told(measure, phone, name, text, message):
    phone.change("getprop", out=phone.answers["getprop"]["out"].replace(name, text))
    with pytest.raises(UsageError, match=message):
        measure()
    assert not [call for call in phone.calls if call.startswith("push")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"classes.dex": b"", "lib/arm64-v8a/a.so": b""}, "BenchMain is not in it; build the app"),
        ({"classes2.dex": b"Ldev/kerasvit/demo/BenchMain;"}, "has libraries for . Received"),
        (None, "expected the app's APK. Received: another file"),
    ],
)
def test_another_file_than_the_app_is_told(measure, apk, content, message):
    apk.write_text("text")
    if content is not None:
        with zipfile.ZipFile(apk, "w") as archive:
            for name, value in content.items():
                archive.writestr(name, value)
    with pytest.raises(UsageError, match=message):
        measure()


def test_what_android_does_not_tell_is_unknown(measure, phone):
    phone.change("state", out="Can't find service: thermalservice\nlow_power=null\n")
    phone.change(
        "getprop", out="[ro.build.version.sdk]: [30]\n[ro.product.cpu.abilist]: [x86_64,x86]\n"
    )
    path, record = measure(["CPU"])
    assert record.phone.name == "unknown, Android unknown"
    assert record.backends[0].before == type(record.backends[0].before)()
    assert msgspec.to_builtins(read_phone_record(path)) == msgspec.to_builtins(record)


STATES = {
    "": "no phone is connected; allow USB debugging in its developer options",
    "A\tunauthorized\n": "the phone A is unauthorized: unlock it and allow USB debugging",
    "A\toffline\n": "the phone A is offline: unplug it, unlock it and plug it in again",
    "A\tno permissions (missing udev rules?); see [http://x]\n": "this user may not open it",
    "A\trecovery\n": "the phone A is recovery: start Android on it",
    "A\tdevice\nB\tdevice\n": "expected one phone. Received: A, B; choose one, as in --device A",
    "A\tunauthorized\nB\toffline\n": "expected one phone. Received: A, B",
}  # fmt: skip


@pytest.mark.parametrize("states", STATES, ids=repr)
def test_no_phone_or_too_many_is_told_in_a_line(phone, states):
    started = "* daemon not running; starting now at tcp:5037\n* daemon started successfully\n"
    phone.change("devices", out=f"{started}List of devices attached\n{states}\n")
    with pytest.raises(UsageError, match=re.escape(STATES[states])):
        connected_phone()


def test_a_phone_is_chosen(phone, monkeypatch, tmp_path):
    phone.change(
        "devices", out="List of devices attached\nA\tunauthorized\nB\tdevice\nC\toffline\n"
    )
    assert connected_phone().serial == connected_phone("B").serial == "B"
    for serial, message in (("D", "expected the phone D. Received: A, B, C"), ("C", "is offline")):
        with pytest.raises(UsageError, match=message):
            connected_phone(serial)
    (tmp_path / "sdk").mkdir()
    (tmp_path / "adb").rename(tmp_path / "sdk/platform-tools")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="adb was not found; install Android's platform tools"):
        find_adb()
    monkeypatch.setenv("ANDROID_HOME", str(tmp_path / "sdk"))
    assert find_adb() == str(tmp_path / "sdk/platform-tools/adb")
