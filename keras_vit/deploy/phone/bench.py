"""Measures bundles on a phone: the golden check and the times of each backend.

The app's APK measures, so that runtime and classes are those of the app. Each backend has a process
of its own, which thus begins cold, and whose end, as by the driver of a GPU, leaves the others.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import keras_vit
from keras_vit import _interrupts
from keras_vit._errors import RefusedError, UsageError, one_line
from keras_vit.deploy.bundle.description import read_bundle
from keras_vit.deploy.bundle.folder import safe_name
from keras_vit.deploy.bundle.opened_bundle import FILES
from keras_vit.deploy.phone import device
from keras_vit.deploy.phone.adb import Adb
from keras_vit.deploy.phone.apk import unpack_libraries
from keras_vit.deploy.phone.app_process import (
    FOLDER,
    KILL,
    BrokenAppError,
    Line,
    measured_lines,
)
from keras_vit.tflite.phone_records import (
    Cold,
    MeasuredBackend,
    Phone,
    PhoneRecord,
    read_phone_record,
    write_phone_record,
)

_ROOM = 2  # the bytes that are needed, as a multiple of those that are copied
Told = Callable[[MeasuredBackend, bool], None]


class Bench:
    """A phone with the app's classes on it; `on_phone` makes it.

    Args:
        adb: the phone.
        phone: its description.
        app_sha256: of the APK.
        threads: of the CPU.
        seconds: how long each backend runs without a pause.
        silent_s: after so many seconds without a line, the app counts as stuck.
    """

    def __init__(
        self,
        adb: Adb,
        phone: Phone,
        app_sha256: str,
        threads: int,
        seconds: int,
        silent_s: float,
    ):
        self.phone = phone
        self._adb, self._app_sha256, self._silent_s = adb, app_sha256, silent_s
        self._threads, self._seconds = threads, seconds

    def measure(
        self, bundle: Path, backends: Sequence[str], folder: Path, tell: Told
    ) -> tuple[Path, PhoneRecord]:
        """Measures a bundle, and writes its record into a folder; after Ctrl-C what is finished.

        An earlier record of the same file, app and phone keeps what it says of other backends.

        Args:
            bundle: the bundle.
            backends: names in `phone_records.Backend`.
            folder: for the record.
            tell: called after each step with what is known of a backend, and whether that is all.

        Returns:
            The path of the record, and the record.

        Raises:
            UsageError: the bundle is damaged, or the phone is full or was unplugged.
            RefusedError: no backend runs it; nothing is written.
        """
        record = self._empty_record(bundle)
        self._push_bundle(bundle)
        try:
            for backend in backends:
                record.backends.append(self._measured(record, backend, tell))
        finally:
            path = _write(record, folder)
        if path is None:
            reasons = "; ".join(f"{each.backend}: {each.reason}" for each in record.backends)
            raise RefusedError(
                f"no backend of {self.phone.name} runs {bundle}: {one_line(reasons)}"
            )
        return path, record

    def _empty_record(self, bundle: Path) -> PhoneRecord:
        about, _ = read_bundle(bundle)
        return PhoneRecord(
            **{name: about[name] for name in ("model", "precision", "sha256")},
            runtime="unknown",
            app_sha256=self._app_sha256,
            keras_vit=keras_vit.__version__,
            phone=self.phone,
            backends=[],
        )

    def _push_bundle(self, bundle: Path) -> None:
        files = [path for name in FILES if (path := bundle / name).is_file()]
        _check_room(self._adb, files)
        self._adb.shell(f"rm -rf {FOLDER}/bundle && mkdir {FOLDER}/bundle")
        self._adb.push(files, f"{FOLDER}/bundle")

    def _measured(self, record: PhoneRecord, backend: str, tell: Told) -> MeasuredBackend:
        measured = MeasuredBackend(
            backend=backend,
            date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            threads=self._threads,
            seconds=self._seconds,
            before=device.conditions(self._adb),
        )
        lines = measured_lines(self._adb, backend, self._threads, self._seconds, self._silent_s)
        try:
            with contextlib.closing(lines):
                for line in lines:
                    self._keep(line, measured, record)
                    tell(measured, line.end is not None)
        except BrokenAppError as error:
            measured.reason = str(error)
            if not self._adb.is_there():
                raise UsageError(
                    f"the phone was lost while it measured {backend}; plug it in again, and repeat."
                ) from None
            self._adb.shell(f"{KILL}; true")
            tell(measured, True)
        return measured

    def _keep(self, line: Line, measured: MeasuredBackend, record: PhoneRecord) -> None:
        if line.cold is not None:
            measured.cold = Cold(line.cold.load_ms, line.cold.first_ms)
            measured.delegated, record.runtime = line.cold.delegated, line.cold.runtime
        if line.golden is not None:
            measured.golden = line.golden
        if line.warm is not None:
            measured.warm = line.warm
        if line.interval is not None:
            measured.sustained.append(line.interval)
            with contextlib.suppress(UsageError):  # it is noticed by the line that does not come
                now = device.conditions(self._adb)
                line.interval.temperature_c = now.temperature_c
                line.interval.thermal_status = now.thermal_status
        if line.refused is not None:
            measured.reason = f"{line.refused.kind}: {line.refused.reason}"
            measured.not_finite = line.refused.kind == "NOT_FINITE"
            if measured.not_finite:
                record.runtime = line.refused.runtime


@contextlib.contextmanager
def on_phone(
    adb: Adb, apk: Path, threads: int, seconds: int, silent_s: float = 180.0
) -> Iterator[Bench]:
    """Copies the app's classes to a phone; whatever happens then, they are removed at the end.

    Args:
        adb, threads, seconds, silent_s: as for `Bench`; the slowest models take a minute for the
            golden check.
        apk: the app.

    Raises:
        UsageError: the app does not run on this phone, or the phone is full.
    """
    phone = device.describe(adb)
    with tempfile.TemporaryDirectory() as local:
        libraries = unpack_libraries(apk, phone.abi, Path(local))
        digest = hashlib.sha256(apk.read_bytes()).hexdigest()
        _clean(adb)  # after a process that was killed
        _check_room(adb, [apk, *libraries])
        try:
            adb.shell(f"mkdir -p {FOLDER}/lib {FOLDER}/cache")
            adb.push([apk], f"{FOLDER}/app.apk")
            # Android 14 and newer start no class that could still be changed.
            adb.shell(f"chmod 444 {FOLDER}/app.apk")
            adb.push(libraries, f"{FOLDER}/lib")
            yield Bench(adb, phone, digest, threads, seconds, silent_s)
        finally:
            # Ctrl-C, which may be pressed again, waits.
            with _interrupts.deferred_interrupts(), contextlib.suppress(UsageError):
                _clean(adb)


def _clean(adb: Adb) -> None:
    adb.shell(f"{KILL}; rm -rf {FOLDER}")


def _check_room(adb: Adb, files: Sequence[Path]) -> None:
    needed = _ROOM * sum(file.stat().st_size for file in files)
    device.check_room(adb, Path(FOLDER).parent.as_posix(), needed)


def _write(record: PhoneRecord, folder: Path) -> Path | None:
    """Writes a record, and adds to it what an earlier one knows; None if no backend ran."""
    if not any(each.golden or each.not_finite for each in record.backends):
        return None
    path = folder / f"{safe_name(f'{record.phone.name}-{record.runtime}')}.json"
    with contextlib.suppress(UsageError):  # there is none, or it is damaged
        earlier = read_phone_record(path)
        if (earlier.sha256, earlier.app_sha256) == (record.sha256, record.app_sha256):
            of_both = {each.backend: each for each in (*earlier.backends, *record.backends)}
            record.backends = [*of_both.values()]
    write_phone_record(path, record)
    return path
