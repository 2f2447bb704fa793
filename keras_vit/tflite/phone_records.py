"""What was measured on a phone: a JSON file beside the bundle, which others may contribute.

`deploy/phone` writes it, cards and reports read it. docs/phones.md describes its fields. Nothing in
it says whose phone it was: no serial number, no fingerprint of the system.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from keras_vit import _files, _json

_FORMAT = 1
FOLDER = "phones"  # in a bundle
# The names in `Backend` of the app.
Backend = Literal["CPU", "CPU_HALF", "CPU_PLAIN", "GPU", "NPU"]
_MOST_BYTES = 1 << 20
_Milliseconds = Annotated[float, Meta(ge=0, le=1e7)]
_Difference = Annotated[float, Meta(ge=0, le=1e30)]
_Celsius = Annotated[float, Meta(ge=-150, le=150)]


class Phone(Struct):
    """The phone, as Android describes it."""

    manufacturer: str
    model: str
    soc: str
    android: str
    sdk: int
    abi: str

    @property
    def name(self) -> str:
        """As people name it: "Google Pixel 8, Android 16"."""
        maker = "" if self.model.startswith(self.manufacturer) else f"{self.manufacturer} "
        return f"{maker}{self.model}, Android {self.android}"


class Conditions(Struct, kw_only=True):
    """The state of the phone before a backend is measured; None where Android does not tell."""

    temperature_c: _Celsius | None = None
    thermal_status: int | None = None
    battery_percent: int | None = None
    charging: bool | None = None
    screen_on: bool | None = None
    power_save: bool | None = None


class Golden(Struct, omit_defaults=True):
    """The golden check: the largest differences from the exporter, and those allowed.

    Those of pixels are fractions of a mask's, which have another class; None of other outputs.
    """

    same_class: bool
    tensor_difference: _Difference
    tensor_tolerance: _Difference
    score_difference: _Difference
    score_tolerance: _Difference
    pixel_difference: _Difference | None = None
    pixel_tolerance: _Difference | None = None

    @property
    def passed(self) -> bool:
        """Whether the differences are allowed."""
        return (
            self.tensor_difference <= self.tensor_tolerance
            and self.score_difference <= self.score_tolerance
            and (self.pixel_difference or 0) <= (self.pixel_tolerance or 0)
        )


class Cold(Struct):
    """A new process: loading, which on LiteRT 2 runs the model, then a run. The file was hashed."""

    load_ms: _Milliseconds
    first_ms: _Milliseconds


class Times(Struct):
    """Times of an image, from the input tensor to the output tensor."""

    median_ms: _Milliseconds
    p90_ms: _Milliseconds
    runs: int


class Interval(Times, kw_only=True):
    """Some seconds of a sustained run; how warm the battery was, and how much Android throttled."""

    at_s: Annotated[float, Meta(ge=0, le=1e6)]
    temperature_c: _Celsius | None = None
    thermal_status: int | None = None


class MeasuredBackend(Struct, kw_only=True):
    """What a backend did. Without `golden` it refused, or ended, for the `reason`.

    After `not_finite` scores it ended, too, whatever the golden check said before.
    """

    backend: Backend
    date: str
    threads: int
    seconds: int
    before: Conditions
    reason: _json.Text = ""
    not_finite: bool = False
    delegated: int | None = None
    cold: Cold | None = None
    golden: Golden | None = None
    warm: Times | None = None
    sustained: Annotated[list[Interval], Meta(max_length=1_000)] = []

    @property
    def disagrees(self) -> bool:
        """Whether it computes something else than the exporter."""
        return self.not_finite or (self.golden is not None and not self.golden.passed)


class PhoneRecord(Struct, kw_only=True):
    """A bundle on a phone."""

    model: str
    precision: str
    sha256: str
    runtime: str
    app_sha256: str
    keras_vit: str
    phone: Phone
    backends: Annotated[list[MeasuredBackend], Meta(max_length=len(get_args(Backend)))]


def write_phone_record(path: Path, record: PhoneRecord) -> None:
    """Writes a record, atomically."""
    _files.write_json(path, {"format": _FORMAT, **msgspec.to_builtins(record)})


def read_phone_record(path: Path) -> PhoneRecord:
    """Reads a record, which may come from a stranger.

    Raises:
        UsageError: it is too large, has another format, or a field is not as expected.
    """
    return _files.read_record(path, PhoneRecord, format=_FORMAT, most_bytes=_MOST_BYTES)


class _Described(Struct):
    sha256: str


@dataclasses.dataclass(frozen=True)
class MeasuredOnPhones:
    """What cards and reports say of phones, as text.

    Attributes:
        header: of the table.
        rows: one for each backend that agrees, of phones on which none disagrees.
        refused: a line for each other phone.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    refused: Sequence[str]


def measured_on_phones(export: Path) -> MeasuredOnPhones:
    """The records of the bundles in a folder; those of another file than a bundle's are left out.

    Raises:
        UsageError: a file in the folder `phones` of a bundle is not a record.
    """
    found = []
    for description in sorted(export.glob("*/model.json")):
        files = sorted((description.parent / FOLDER).glob("*.json"))
        if files:
            sha256 = _files.read_record(description, _Described, format=1).sha256
            records = map(read_phone_record, files)
            name = description.parent.name
            found += [(name, record) for record in records if record.sha256 == sha256]
    return summary(found)


def summary(records: Iterable[tuple[str, PhoneRecord]]) -> MeasuredOnPhones:
    """Records as a table; each has the name of its file."""
    rows, refused = [], []
    for name, record in records:
        if disagreeing := [each.backend for each in record.backends if each.disagrees]:
            refused.append(f"{record.phone.name}: {name} on {', '.join(disagreeing)}")
            continue
        about = [record.phone.name, record.phone.soc, record.runtime, name]
        agreeing = (each for each in record.backends if each.golden and each.warm)
        rows += [[*about, *_cells(each)] for each in agreeing]
    return MeasuredOnPhones(_HEADER, rows, refused)


_HEADER = (
    *("phone", "chip", "runtime", "file", "backend"),
    *("cold ms", "warm ms", "p90 ms", "sustained ms", "after s", "\u00b0C"),
)


def _cells(measured: MeasuredBackend) -> list[str]:
    cold, warm = measured.cold, measured.warm
    last = measured.sustained[-1] if measured.sustained else None
    heat = [measured.before.temperature_c, last and last.temperature_c]
    return [
        measured.backend,
        "-" if cold is None else three_digits(cold.load_ms + cold.first_ms),
        three_digits(warm.median_ms),
        three_digits(warm.p90_ms),
        "-" if last is None else three_digits(last.median_ms),
        "-" if last is None else f"{last.at_s:.0f}",
        " to ".join(f"{each:.0f}" for each in heat if each is not None) or "-",
    ]


def three_digits(value: float) -> str:
    """Milliseconds with three digits, or more before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"
