"""Checks and times exported bundles on a phone.

On each backend it runs the golden check, and measures times cold, warm and sustained. The phone is
connected by adb. The app's APK, which `make apk` builds, is not installed. The results are written
into the bundle's folder, where `card` and `evaluate` find them. A phone that computes something
else than the exporter is refused.
"""

from __future__ import annotations

import dataclasses
import time
import typing
from pathlib import Path
from typing import Any

from keras_vit._errors import RefusedError, UsageError, one_line, shortened
from keras_vit.cli._arguments import option
from keras_vit.cli._bundles import check_bundles, folder_of_clone, named_bundles
from keras_vit.cli._options import check_folder, check_threads
from keras_vit.cli._printing import print_next, table
from keras_vit.cli._program import load
from keras_vit.cli._progress import ChangingLine, duration
from keras_vit.tflite.phone_records import FOLDER, Backend, summary, three_digits

_MOST_MINUTES = 60
_DISAGREES = "COMPUTES SOMETHING ELSE"
_OTHER_S = 15  # what a backend takes beside the sustained run; a guess, until one was measured


def _check_minutes(name: str, value: float) -> None:
    if not 0 <= value <= _MOST_MINUTES:
        raise UsageError(f"{name} must be from 0 to {_MOST_MINUTES}. Received: {value}.")


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Options of the command."""

    bundle: tuple[Path, ...] = ()
    """Exported folders, such as runs/flowers/export/int8."""
    device: str | None = option(None, bare="")
    """The phone's serial number, as `adb devices` prints it; default: the only phone."""
    minutes: float = option(1.0, check=_check_minutes)
    """How long each backend runs without a pause, to see what heat does; 0 for not at all."""
    backends: tuple[Backend, ...] = typing.get_args(Backend)
    """What computes: XNNPACK, the same in half precision, the runtime's own kernels, a GPU, an
    NPU."""
    threads: int = option(4, check=check_threads)
    """Number of threads on the CPU."""
    apk: Path | None = None
    """The app; default: the one that was built last in android_demo of the clone."""
    out: Path | None = None
    """A folder for what was measured, with one for each bundle; default: phones/ in each bundle."""

    def __post_init__(self):
        check_bundles("bench", self.bundle, ())
        check_folder(self.out)


def run(arguments: Arguments) -> None:
    """Measures each bundle, and prints a table of what agrees."""
    from keras_vit.deploy.bundle.folder import bundle_folder
    from keras_vit.deploy.phone.adb import connected_phone
    from keras_vit.deploy.phone.apk import newest_apk

    phone = connected_phone(arguments.device or None)
    apk = arguments.apk or newest_apk(folder_of_clone("android_demo", "bench", arguments))
    load("keras_vit.deploy.phone.bench")
    from keras_vit.deploy.phone.bench import on_phone

    bundles = named_bundles(arguments.bundle, advice="measure them one after the other")
    backends = tuple(dict.fromkeys(arguments.backends))
    seconds = round(60 * arguments.minutes)
    records, refused, runs = [], [], set()
    with on_phone(phone, apk, arguments.threads, seconds) as bench:
        progress = _Progress(len(bundles) * len(backends), seconds)
        print(f"phone: {bench.phone.name} ({bench.phone.soc})\napp: {apk}\n{progress.left()}")
        for name, given in bundles.items():
            bundle = bundle_folder(given)
            print(f"\n{bundle}")
            out = arguments.out / name if arguments.out else bundle / FOLDER
            try:
                path, record = bench.measure(bundle, backends, out, progress)
            except RefusedError as error:
                refused.append(str(error))
                continue
            print(f"written: {path}")
            earlier = [each.backend for each in record.backends if each.backend not in backends]
            if earlier:
                print(f"kept, because measured earlier: {', '.join(earlier)}")
            records.append((name, record))
            runs.add(bundle.resolve().parent.parent)
    found = summary(records)
    if found.rows:
        print(f"\n{table(found.header[3:], [row[3:] for row in found.rows])}")
    for near in sorted(runs):
        if not arguments.out and (near / "spec.json").is_file():
            print_next("card", "--run", near)
    if found.refused:
        refused.append(
            "this phone computes something else than the exporter, and is not in the table of "
            f"phones: {'; '.join(found.refused)}"
        )
    if refused:
        raise RefusedError("\n".join(refused))


class _Progress:
    """Prints a line for each backend, and before it what is known so far."""

    def __init__(self, backends: int, seconds: int):
        self._backends, self._each_s = backends, float(seconds + _OTHER_S)
        self._begin = time.monotonic()
        self._line = ChangingLine()

    def left(self) -> str:
        """How long the rest takes."""
        spent = time.monotonic() - self._begin
        return f"about {duration(max(0.0, self._backends * self._each_s - spent))} left"

    def __call__(self, measured: Any, is_done: bool) -> None:
        """Takes what is known of a backend."""
        text = f"  {measured.backend:9}  {_words(measured)}"
        if not is_done:
            if self._line.is_due():
                self._line.show(self._line.fitting([text, self.left()]))
            return
        self._line.keep(text)
        now = time.monotonic()
        if measured.sustained:  # others take less
            self._each_s = now - self._begin
        self._backends, self._begin = self._backends - 1, now


def _words(measured: Any) -> str:
    golden, last = measured.golden, measured.sustained[-1:]
    parts = []
    if golden is not None:
        word = "agrees" if golden.passed else _DISAGREES
        difference = f"{golden.score_difference:.1e} of {golden.score_tolerance:.1e}"
        parts.append(f"{word} (scores differ by {difference})")
        parts += [] if golden.same_class else ["ANOTHER CLASS"]
    if measured.cold is not None:
        cold = measured.cold.load_ms + measured.cold.first_ms
        parts.append(f"cold {three_digits(cold)} ms")
    if measured.warm is not None:
        parts.append(f"warm {three_digits(measured.warm.median_ms)} ms")
    for each in last:
        heat = "" if each.temperature_c is None else f" at {each.temperature_c:.0f} \u00b0C"
        parts.append(f"after {each.at_s:.0f} s {three_digits(each.median_ms)} ms{heat}")
    if measured.reason:
        word = _DISAGREES if measured.not_finite else "not run" if golden is None else "ended"
        parts.append(f"{word}: {shortened(one_line(measured.reason), 200)}")
    return ", ".join(parts)
