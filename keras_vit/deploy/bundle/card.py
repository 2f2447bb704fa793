"""The model card: what the files of an export are, how good they are and what their limits are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from keras_vit._templates import code, rendered
from keras_vit.deploy.bundle.recommendation import recommendation
from keras_vit.deploy.clients import CLIENTS
from keras_vit.deploy.judge.parity import Verdict
from keras_vit.deploy.precisions import PRECISIONS
from keras_vit.labels import answers_of
from keras_vit.tflite.measure import Measured

Descriptions = dict[str, dict[str, Any]]
_EFFECTS = ("refused", "wrong", "imprecise", "slow")


def card(
    descriptions: Descriptions,
    table: tuple[list[str], list[list[str]]],
    measured: dict[str, Measured],
    labels: tuple[str, ...] = (),
    machine: str = "",
    earlier: tuple[str, ...] = (),
    refused: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The card, in Markdown. Text read from folders is put into code spans, so it is never markup.

    Args:
        descriptions: the model.json of each bundle, by the name of its folder.
        table: header and rows of the table of results.
        measured: the measurements of each file, by the same names; some may be missing.
        labels: the classes' names.
        machine: a description of the machine that measured the files.
        earlier: names of files that were measured in an earlier call.
        refused: why some requested files were not written, by their names.
    """
    latencies = [entry for each in measured.values() for entry in each.latency]
    return rendered(
        "deploy/bundle/card.md.j2",
        **_lines(descriptions),
        files=descriptions,
        model=next(iter(descriptions.values()))["model"],
        parameters=max(d.get("parameters") or 0 for d in descriptions.values()),
        recommendation=recommendation(descriptions, code),
        labels=answers_of(labels),
        header=table[0],
        rows=table[1],
        machine=machine,
        runs=sorted({entry.runs for entry in latencies}),
        before_bytes=max((each.before_bytes or 0 for each in measured.values()), default=0),
        measured=measured,
        earlier=[name for name in earlier if name in measured],
        unmeasured=[name for name in descriptions if name not in measured],
        precisions={precision.name: precision for precision in PRECISIONS.values()},
        gpu=_gpu(descriptions),
        refused=refused,
    )


def notes(descriptions: Descriptions) -> list[str]:
    """What the labels prove about the files' accuracy, and what a client makes of the files.

    Files with equal results share a line.
    """
    values = _lines(descriptions)
    text = values["each"]("Accuracy", _proof) + rendered("deploy/bundle/client.md.j2", **values)
    return [line.removeprefix("- ") for line in text.splitlines()]


def _lines(descriptions: Descriptions) -> dict[str, Any]:
    """What the templates write their lines with."""
    return {
        "each": functools.partial(_each, descriptions),
        "of_files": functools.partial(_of_files, descriptions),
        "listed": _listed,
        "proof": _proof,
        "left_out": _left_out,
        "clients": CLIENTS,
    }


def _each(descriptions: Descriptions, title: str, caller: Callable[[dict[str, Any]], str]) -> str:
    """A list item for each different text, with the files that it is about; none for ""."""
    groups: dict[str, list[str]] = {}
    for name, description in descriptions.items():
        groups.setdefault(caller(description).strip(), []).append(name)
    return "".join(
        f"- {title}{f' ({_of_files(descriptions, names)})' if len(groups) > 1 else ''}: {text}\n"
        for text, names in groups.items()
        if text
    )


def _of_files(descriptions: Descriptions, names: list[str]) -> str:
    others = [name for name in descriptions if name not in names]
    if not others:
        return "all files"
    return f"all but {_listed(others)}" if len(others) < len(names) / 2 else _listed(names)


def _listed(names: list[str]) -> str:
    *first, last = map(code, names)
    return f"{', '.join(first)} and {last}" if first else last


def _proof(description: dict[str, Any]) -> str:
    parity = description["parity"]
    if parity.get("lost") is None:
        return ""
    return "; ".join(Verdict.from_dict(parity).accuracy_notes(parity.get("max_drop")))


def _left_out(undelegated: list[dict[str, str]]) -> list[tuple[tuple[str, str], list[str]]]:
    """The operators that stay on the CPU and why, each with its layers."""
    layers: dict[tuple[str, str], list[str]] = {}
    for entry in undelegated:
        layers.setdefault((entry["operator"], entry["reason"]), []).append(entry["layer"])
    return list(layers.items())


def _gpu(
    descriptions: Descriptions,
) -> list[tuple[tuple[str, ...], list[str], list[str]]] | None:
    """Problems on GPU delegates, each once, with the files and the layers that have it."""
    linted = {name: d["gpu"] for name, d in descriptions.items() if d.get("gpu") is not None}
    names: dict[tuple[str, ...], list[str]] = {}
    layers: dict[tuple[str, ...], list[str]] = {}
    for name, findings in linted.items():
        for finding in findings:
            delegates = " and ".join(finding["delegates"])
            kind = (finding["effect"], delegates, finding["operator"], finding["reason"])
            names.setdefault(kind, []).append(name)
            layers.setdefault(kind, []).extend(finding["layers"])
    kinds = sorted(names, key=lambda kind: _EFFECTS.index(kind[0]))
    return [(kind, names[kind], layers[kind]) for kind in kinds] if linted else None
