"""JSON of strangers: refused in one line, whatever it holds."""

import json
import os
import re
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest
from msgspec import Meta

from keras_vit import UsageError, _files, _json


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "f.json is not valid JSON: Expecting value"),
        (b"\xff", "f.json is not valid JSON: 'utf-8' codec can't decode byte 0xff"),
        (b"[" * 200_000, "f.json is not valid JSON: it is nested more than 64 deep."),
        (b"[" * 65 + b"]" * 65, "f.json is not valid JSON: it is nested more than 64 deep."),
        (b'{"a":' * 900 + b"1" + b"}" * 900, "nested more than 64 deep"),
        (b"9" * 5000, "f.json is not valid JSON: an integer of 5,000 digits is too long."),
        (b"[1e999]", "f.json is not valid JSON: the number '1e999' is too large."),
        (b"[NaN]", "f.json is not valid JSON: NaN is not a number of JSON."),
        (b"[-Infinity]", "-Infinity is not a number of JSON"),
        (b'{"a": 1, "b": 2, "a": 1}', "f.json is not valid JSON: the field 'a' is there twice."),
    ],
)
def test_what_is_no_plain_json_is_refused(content, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        _json.parse(content, "f.json")


def test_lists_and_objects_are_counted_before_they_are_built(monkeypatch):
    monkeypatch.setattr(_json.json, "loads", lambda *_, **__: [])
    for content in (b"[[]" + b",[]" * 1_000_000 + b"]", b"[{}" + b",{}" * 1_000_000 + b"]"):
        with pytest.raises(UsageError, match="it has 1,000,00. lists and objects, at most 1,000,0"):
            _json.parse(content, "f.json")
    many = ",".join(f'["a picture of a long name", {i:7}]' for i in range(1_100_000))
    assert _json.parse(f"[{many}]", "f.json") == []


def test_values_are_counted_before_they_are_built(monkeypatch):
    monkeypatch.setattr(_json, "_MOST_VALUES", 1_000)
    few, many = (b"[0" + b",0" * count + b"]" for count in (1_000, 1_001))
    assert len(_json.parse(few, "f.json")) == 1_001
    monkeypatch.setattr(_json.json, "loads", lambda *_, **__: [])
    with pytest.raises(UsageError, match="it has 1,001 values, at most 1,000 are read"):
        _json.parse(many, "f.json")
    ids = ",".join(f'"pictures/{i:06}.png"' for i in range(2_000))
    assert _json.parse(f"[{ids}]", "f.json") == []  # long for another reason


def test_ordinary_json_is_read():
    content = {"a": [1, -2.5, None, True, "é\n"], "b": {"c": 10**19}}
    assert _json.parse(json.dumps(content), "f.json") == content
    assert _json.parse("[" * 64 + "]" * 64, "f.json")
    assert _json.parse("[NaN, Infinity]", "f.json", nan=True)[1] == float("inf")


@dataclass
class Inner:
    height: _json.Side
    width: int
    mean: float | tuple[float, float, float] = 127.5

    def __post_init__(self):
        raise AssertionError("a constructor was called")


@dataclass
class Example:
    number: float | list[float] = 0
    model: _json.Name = "x"
    inner: Inner | None = None
    named: dict[str, int] = field(default_factory=dict)
    sides: Annotated[list[float], Meta(max_length=2)] = ()
    kind: Literal["left", "right"] = "left"
    text: str = ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "f.json must be an object. Received: []; write it again."),
        ({"number": "x" * 10**6}, "f.json: $.number must be a number or a list. Received: 'xxx"),
        ({"number": [0, [1]]}, "f.json: $.number[1] must be a number. Received: [1]; write"),
        ({"inner": {"height": 5}}, "f.json lacks width in $.inner; write it again."),
        (
            {"inner": {"height": 5, "width": 5, "mean": [1, 2, "x"]}},
            "f.json: $.inner.mean[2] must be a number. Received: 'x'; write it again.",
        ),
        ({"inner": {"height": 0, "width": 5}}, "$.inner.height must be an integer >= 1. Rec"),
        ({"number": 1e300}, "f.json: $.number must be a number <= 1e+30. Received: 1e+300; write"),
        ({"number": True}, "f.json: $.number must be a number or a list. Received: True; write"),
        ({"sides": [1e300]}, "f.json: $.sides[0] must be a number <= 1e+30. Received: 1e+300"),
        ({"named": {"a": -1}}, "f.json: $.named[...] must be an integer >= 0. Received: "),
        ({"kind": "up"}, "f.json: $.kind must be one of left, right. Received: 'up'; write it"),
        ({"model": "a\n"}, r"$.model must be text of one line without control characters and"),
        ({"named": {"a": "x"}}, "f.json: $.named[...] must be an integer. Received: str; write"),
        ({"named": {"\x1b": 1}}, "a name in $.named must be text of one line without control"),
        ({"text": "a\nb"}, "f.json: $.text must be text of one line without control characters"),
        ({"text": "x" * 10**7}, "f.json: $.text must be text of length <= 1000. Received: 'xxx"),
        ({"number": "\ud800"}, r"f.json: expected text. Received: '\ud800', which is no charac"),
    ],
)  # fmt: skip
def test_the_field_that_does_not_fit_is_named(content, message):
    with pytest.raises(UsageError) as caught:
        _json.check(content, "f.json", Example)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("kind", [str | list[int], _json.Text | dict[str, int], str | _json.Lines])
def test_types_for_which_msgspec_corrupts_memory_are_refused(kind):
    with pytest.raises(TypeError, match="expected a type without a text beside a list or dict"):
        _json.check("a", "f.json", kind)


def test_unknown_fields_are_left_alone_and_absent_ones_have_their_defaults():
    content = {"colour": {"of": ["any", "type"]}, "inner": {"height": 1, "width": 2}}
    found = _json.check(content, "f.json", Example)
    assert (found.model, found.named, found.inner.width, found.inner.mean) == ("x", {}, 2, 127.5)


def test_files_that_no_reader_expects_are_not_read(tmp_path):
    with (tmp_path / "a.json").open("wb") as stream:
        stream.truncate(1 << 40)  # takes no space on the disk
    with pytest.raises(UsageError, match=r"a.json: expected at most 16,777,216 bytes. Received"):
        _files.read_json(tmp_path / "a.json", format=1)
    with pytest.raises(UsageError, match=r"a.json: expected at most 268,435,456 bytes"):
        _files.read_lines(tmp_path / "a.json")
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for ever
    for name in ("pipe", "."):
        with pytest.raises(UsageError, match="is not a regular file"):
            _files.read_json(tmp_path / name, format=1)
    with pytest.raises(UsageError, match=r"b\.json does not exist"):
        _files.read_json(tmp_path / "b.json", format=1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not valid JSON"),
        ("{}", "expected format 1. Received: None; write"),
        ("[1]", "expected format 1. Received: None; write"),
        ('{"format": 2}', "expected format 1. Received: 2; upgrade keras_vit"),
        ('{"format": true}', "expected format 1. Received: True; write"),
        ('{"format": "1"}', "expected format 1. Received: '1'; write"),
        ('{"format": null}', "expected format 1. Received: None; write"),
        ('{"format": [' + "1," * 10_000 + "1]}", "expected format 1. Received: .*; write"),
    ],
    ids=lambda text: text[:20],
)
def test_another_format_is_refused(tmp_path, content, message):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UsageError, match=message) as caught:
        _files.read_json(tmp_path / "a.json", format=1)
    assert len(str(caught.value)) < 400
