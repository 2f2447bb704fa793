"""The model card: what the files of an export are, how good they are and what their limits are.

It recommends one of them, and one for NPUs, in a sentence each.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from keras_vit._pages import code, rendered
from keras_vit.deploy.clients import CLIENTS
from keras_vit.deploy.graph.graph_options import is_mask
from keras_vit.deploy.judge.verdict import Verdict, grade_of
from keras_vit.deploy.precisions import PRECISIONS
from keras_vit.labels import answers_of
from keras_vit.tflite.measure import Measured

Descriptions = dict[str, dict[str, Any]]
# What a smaller file may lose and still be recommended: points of accuracy or of mean IoU; images
# or pixels in a hundred that get another class than Keras gives them; or, of features, nearest
# images or patches in a hundred.
_LOSS = 0.5
# The precisions for NPUs, first choice first: on published ones int16 activations cost no time.
_FOR_NPUS = ("int16x8", "int8-full")
_EFFECTS = ("refused", "wrong", "imprecise", "slow")


def card(
    descriptions: Descriptions,
    table: tuple[list[str], list[list[str]]],
    measured: dict[str, Measured],
    labels: tuple[str, ...] = (),
    machine: str = "",
    earlier: tuple[str, ...] = (),
    refused: Mapping[str, str] | None = None,
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
    return rendered(
        "deploy/bundle/card.md.j2",
        **_lines(descriptions),
        files=descriptions,
        parameters=max(d.get("parameters") or 0 for d in descriptions.values()),
        recommendation=recommendation(descriptions, code),
        labels=answers_of(labels),
        header=table[0],
        rows=table[1],
        machine=machine,
        runs=sorted({entry.runs for each in measured.values() for entry in each.latency}),
        before_bytes=max((each.before_bytes or 0 for each in measured.values()), default=0),
        measured=measured,
        earlier=earlier,
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


def recommended(descriptions: Descriptions) -> str:
    """The smallest file that lost at most half a point of accuracy; else the one that lost least.

    Files for NPUs are slow elsewhere; one of them only if there are no others.

    Args:
        descriptions: the model.json of each bundle, by the name of its folder.
    """
    for_npus = _for_npus(descriptions)
    losses = {name: _loss(each) for name, each in descriptions.items() if name not in for_npus}
    if not losses:
        return for_npus[0]
    good = [name for name, loss in losses.items() if loss <= _LOSS]
    if good:
        return min(good, key=lambda name: descriptions[name]["bytes"])
    return min(losses, key=losses.get)


def recommendation(descriptions: Descriptions, named: Callable[[str], str] = str) -> str:
    """Sentences: the recommended file, its size and what it loses, the one for NPUs, equal files.

    Args:
        descriptions: the model.json of each bundle, by the name of its folder.
        named: how a name is written.
    """
    if all(each["parity"].get("images_from") == "random images" for each in descriptions.values()):
        return "Compared with Keras on random images only: pass pictures to see which file to take."
    name = recommended(descriptions)
    best, largest = descriptions[name], max(each["bytes"] for each in descriptions.values())
    good, size = _loss(best) <= _LOSS, best["bytes"] / largest
    take = "Take" if good else f"No file is within {_LOSS} points of Keras; the best is"
    smaller = f"{size:.0%} of the size of the largest file, " if size < 0.99 else ""
    equal = _grouped((each["sha256"], named(name)) for name, each in descriptions.items()).values()
    same = [f"{' and '.join(names)} are the same file." for names in equal if len(names) > 1]
    npus = [
        f"On an NPU, take {named(each)}: {_lost(descriptions[each])}."
        for each in _for_npus(descriptions)[:1]
        if each != name
    ]
    return " ".join([f"{take} {named(name)}: {smaller}{_lost(best)}.", *npus, *same])


def _for_npus(descriptions: Descriptions) -> list[str]:
    """The files for NPUs, the best first."""

    def rank(name: str) -> tuple[bool, int]:
        each = descriptions[name]
        return _loss(each) > _LOSS, _FOR_NPUS.index(each["precision"])

    found = [name for name, each in descriptions.items() if each["precision"] in _FOR_NPUS]
    return sorted(found, key=rank)


def _lines(descriptions: Descriptions) -> dict[str, Any]:
    """What the templates write their lines with."""
    return {
        "each": functools.partial(_each, descriptions),
        "of_files": functools.partial(_of_files, descriptions),
        "listed": _listed,
        "proof": _proof,
        "left_out": _left_out,
        "clients": CLIENTS,
        "grade_of": grade_of,
    }


def _each(descriptions: Descriptions, title: str, caller: Callable[[dict[str, Any]], str]) -> str:
    """A list item for each different text, with the files that it is about; none for ""."""
    groups = _grouped((caller(each).strip(), name) for name, each in descriptions.items())
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
    return "; ".join(Verdict.from_dict(parity).accuracy_notes(parity.get("max_drop")))


def _left_out(undelegated: list[dict[str, str]]) -> list[tuple[tuple[str, str], list[str]]]:
    """The operators that stay on the CPU and why, each with its layers."""
    pairs = (((each["operator"], each["reason"]), each["layer"]) for each in undelegated)
    return list(_grouped(pairs).items())


def _gpu(descriptions: Descriptions) -> list[tuple[tuple[str, ...], list[str], list[str]]] | None:
    """Problems on GPU delegates, each once, with the files and the layers that have it."""
    linted = {name: d["gpu"] for name, d in descriptions.items() if d.get("gpu") is not None}
    names, layers = defaultdict(list), defaultdict(list)
    for name, findings in linted.items():
        for finding in findings:
            delegates = " and ".join(finding["delegates"])
            kind = (finding["effect"], delegates, finding["operator"], finding["reason"])
            names[kind].append(name)
            layers[kind] += finding["layers"]
    kinds = sorted(names, key=lambda kind: _EFFECTS.index(kind[0]))
    return [(kind, names[kind], layers[kind]) for kind in kinds] if linted else None


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """The second values of pairs by the first ones."""
    groups = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def _loss(description: dict[str, Any]) -> float:
    parity = description["parity"]
    if _is_informed(parity):
        return grade_of(parity).drop
    same = parity.get("recall") if parity.get("agreement") is None else parity["agreement"]
    return 0.0 if same is None else 100 * (1 - same)


def _is_informed(parity: dict[str, Any]) -> bool:
    """Whether the accuracies say something, see `Verdict.informed`."""
    return grade_of(parity) is not None and parity.get("informed", True)


def _lost(description: dict[str, Any]) -> str:
    parity = description["parity"]
    pictures, loss = f"{parity['images']:,} pictures", _loss(description)
    recall = parity.get("recall")
    what = "patches" if description["output"]["kind"] == "feature_map" else "pictures"
    near = "" if recall is None else f"{recall:.2%} of the nearest {what} by Keras, "
    if not _is_informed(parity) and parity.get("agreement") is None:  # features have no classes
        return f"{near or 'compared with Keras '}on {pictures}"
    if not _is_informed(parity):
        pixels = "the pixels of " if is_mask(description["output"]["kind"]) else ""
        return f"the class that Keras finds for {100 - loss:.2f}% of {pixels}{pictures}"
    metric = grade_of(parity).metric
    lost = f"no loss of {metric} seen" if loss < 0.005 else f"{loss:.2f} points of {metric} lost"
    excluded = parity.get("largest_drop") or 0
    few = f", which do not exclude {excluded:.1f} points" if excluded > _LOSS else ""
    return f"{near}{lost} on {pictures}{few}"
