"""The model card: what the files of an export are, what they are worth and where they end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from keras_vit.deploy.judge.measure import Measured
from keras_vit.deploy.judge.parity import Verdict
from keras_vit.deploy.precisions import PRECISIONS

Descriptions = dict[str, dict[str, Any]]
_MOST_LABELS = 20


def card(
    descriptions: Descriptions,
    table: tuple[list[str], list[list[str]]],
    measured: dict[str, Measured],
    labels: tuple[str, ...] = (),
    machine: str = "",
    earlier: tuple[str, ...] = (),
    refused: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The card, in Markdown. What comes from folders stands in code spans, which mark up nothing.

    Args:
        descriptions: what each bundle's model.json says, by the name of its folder.
        table: header and rows of the figures.
        measured: what each file costs, by the same names; one may be missing.
        labels: the classes' names.
        machine: that the figures were measured on, in words.
        earlier: names of files that were measured in an earlier call.
        refused: what was asked for too and not written, and why.
    """
    model = next(iter(descriptions.values()))["model"]
    files = f"{len(descriptions)} files" if len(descriptions) > 1 else "one file"
    sections = {
        "Model": _model(descriptions, labels),
        "Data": _data(descriptions),
        "Figures": _figures(descriptions, table, measured, machine, earlier),
        "How it was made": _making(descriptions),
        "Limits": _limits(descriptions, measured),
        "Refused": [f"- {code(name)}: {code(why)}" for name, why in refused.items()],
    }
    head = [
        f"# {code(model)} for LiteRT",
        "",
        f"One model in {files}. Each was run with LiteRT and compared with Keras before it got its "
        "name.",
    ]
    filled = {title: lines for title, lines in sections.items() if lines}
    body = [line for title, lines in filled.items() for line in ["", f"## {title}", "", *lines]]
    return "\n".join([*head, *body, ""])


def notes(descriptions: Descriptions) -> list[str]:
    """What the labels prove about the files and what they leave open, a line for equal files."""
    return [line.removeprefix("- ") for line in _each("Accuracy", descriptions, _proof)]


def code(text: Any) -> str:
    """Any text as a code span of one line: nothing in it is markup, a link or a mention."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split()) or "?"
    fence = "`" * (max(map(len, re.findall("`+", plain)), default=0) + 1)
    pad = " " if "`" in (plain[0], plain[-1]) else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def _model(descriptions: Descriptions, labels: tuple[str, ...]) -> list[str]:
    parameters = {d["parameters"] for d in descriptions.values() if d.get("parameters")}
    lines = [f"- Parameters: {max(parameters):,}"] if parameters else []
    lines += _each("Takes", descriptions, _takes)
    lines += _each("Gives", descriptions, _gives)
    if labels:
        more = ", ..." if len(labels) > _MOST_LABELS else ""
        named = ", ".join(code(label) for label in labels[:_MOST_LABELS])
        lines.append(f"- Classes, {len(labels):,}: {named}{more}")
    return lines


def _takes(description: dict[str, Any]) -> str:
    given = description["input"]
    height, width = given["shape"][1:3]
    text = f"an RGB image of {height} x {width} (height x width), {given['dtype']}"
    if given.get("mean") or given.get("scale", 1) != 1:
        text += f", `(pixel - {given['mean']}) / {given['scale']}`"
    if "interpolation" in given:
        part = f"its middle ({given['crop']:.3g})" if given.get("crop") else "the whole of it"
        text += f"; {part}, resized ({given['interpolation']})"
    return text + _quantization(given)


def _gives(description: dict[str, Any]) -> str:
    output = description["output"]
    shape = " x ".join(str(side) for side in output["shape"])
    return f"{output['kind']}, {shape}, {output['dtype']}{_quantization(output)}"


def _quantization(tensor: dict[str, Any]) -> str:
    found = tensor.get("quantization")
    return f"; scale {found['scale']:.6g}, zero point {found['zero_point']}" if found else ""


def _data(descriptions: Descriptions) -> list[str]:
    return [
        *_each("Compared on", descriptions, _compared),
        *_each("Labels", descriptions, _labels),
        *_each("Accuracy", descriptions, _proof),
        *_each("Calibrated on", descriptions, _calibration),
    ]


def _compared(description: dict[str, Any]) -> str:
    parity = description["parity"]
    text = f"{code(parity.get('images_from', 'unknown'))}, {parity['images']:,} of them"
    tokens = parity.get("comparisons") or parity["images"]
    return text if tokens == parity["images"] else f"{text}, {tokens:,} tokens in all"


def _labels(description: dict[str, Any]) -> str:
    accuracy = description["parity"].get("keras_accuracy")
    if accuracy is None:
        return "none, so accuracy is not known; agreement is with the Keras model"
    return f"known; the Keras model is right on {accuracy:.2%}"


def _proof(description: dict[str, Any]) -> str:
    parity = description["parity"]
    if parity.get("lost") is None:
        return ""
    return "; ".join(Verdict.from_dict(parity).notes(parity["max_drop"]))


def _calibration(description: dict[str, Any]) -> str:
    how = description.get("calibration")
    return f"{how['images']:,} images, sha256 {code(how['sha256'])}" if how else "no images"


def _figures(
    descriptions: Descriptions,
    table: tuple[list[str], list[list[str]]],
    measured: dict[str, Measured],
    machine: str,
    earlier: tuple[str, ...],
) -> list[str]:
    header, rows = table
    cells = [[code(name).replace("|", "\\|"), *rest] for name, *rest in rows]
    lines = [[*header], ["---", *["---:"] * (len(header) - 1)], *cells]
    notes = [f"| {' | '.join(line)} |" for line in lines]
    notes += ["", "![Size and latency against accuracy](plot.png)", "", *_legend(header, measured)]
    if machine:
        notes.append(f"- Measured on: {code(machine)}; other machines have other ratios too.")
    notes += _each("Block farthest from the float file's", descriptions, _farthest)
    if named := [code(name) for name in earlier if name in measured]:
        notes.append(f"- Measured in an earlier call, not in turn with the others: {_list(named)}.")
    return notes


def _farthest(description: dict[str, Any]) -> str:
    blocks = description.get("blocks") or {}
    if not blocks:
        return ""
    worst = max(blocks, key=blocks.get)
    return f"{code(worst)}, by {blocks[worst]:.1%} of its norm"


def _legend(header: list[str], measured: dict[str, Measured]) -> list[str]:
    before = max((m.before_bytes or 0 for m in measured.values()), default=0) / 2**20
    runs = sorted({entry.runs for m in measured.values() for entry in m.latency})
    words = {
        "drop": "accuracy that the Keras model has more, in points of a hundred",
        "drop, 95%": "a larger drop than this is excluded with a confidence of 95% (Tango's score "
        "interval for paired outcomes)",
        "agreement": "fraction of the images on which the file and Keras name the same class",
        "worst": "largest difference of any score from Keras', as a fraction of the scores' scale",
        "cosine": "of the file's scores and Keras', the smallest of all images",
        "zipped": "MiB in a zip file or an APK (zlib, level 6)",
        "p90": "nine of ten runs were quicker; the median stands before it. One image, all files "
        f"in turn, {' to '.join(f'{n:,}' for n in dict.fromkeys(runs[:1] + runs[-1:]))} runs",
        "peak MiB": f"of a process that does nothing else, {before:.0f} of it Python, NumPy and "
        "LiteRT",
        "load s": "until the first image can be put in; measured once",
        "parts": "partitions that XNNPACK makes of the graph; 1 is best",
    }
    return [f"- {name}: {text}." for name, text in words.items() if name in header]


def _making(descriptions: Descriptions) -> list[str]:
    lines = []
    for name, description in descriptions.items():
        lines.append(f"- {code(name)}: {_recipe(description)}.")
        lines.append(f"  sha256 {code(description['sha256'])}")
    return lines + _each("Made with", descriptions, _versions)


def _recipe(description: dict[str, Any]) -> str:
    precision = description["precision"]
    known = next((p for p in PRECISIONS.values() if p.name == precision), None)
    text = known.summary if known else code(precision)
    if known and known.base:
        text += f", chosen on {code(description.get('chosen_on') or 'unknown images')}"
    if kept := description.get("float_layers"):
        text += f"; left float: {', '.join(code(layer) for layer in kept)}"
    if not description["parity"].get("rewritten", True):
        text += "; the graph was converted as it is, without exact rewrites"
    return text


def _versions(description: dict[str, Any]) -> str:
    packages = description.get("made_with", {})
    return ", ".join(f"{name} {code(version)}" for name, version in packages.items())


def _limits(descriptions: Descriptions, measured: dict[str, Measured]) -> list[str]:
    return [
        *_each("Oldest runtime", descriptions, lambda d: code(d.get("runtime_floor", "unknown"))),
        *_each("On CPUs XNNPACK", descriptions, _delegation),
        *_each(
            "Half precision on CPUs (`setAllowFp16PrecisionForFp32`)", descriptions, _half_precision
        ),
        *_gpu(descriptions),
        f"- Not measured: {'; '.join(_unmeasured(descriptions, measured))}.",
    ]


def _delegation(description: dict[str, Any]) -> str:
    found = description.get("delegation")
    if not found:
        return ""
    some = "all" if found["delegated"] == found["nodes"] else f"{found['delegated']:,} of"
    parts = f"{found['partitions']} partition{'' if found['partitions'] == 1 else 's'}"
    left_out: dict[tuple[str, str], list[str]] = {}
    for entry in found["undelegated"]:
        left_out.setdefault((entry["operator"], entry["reason"]), []).append(entry["layer"])
    lines = [_finding(*kind, layers) for kind, layers in left_out.items()]
    text = f"takes {some} {found['nodes']:,} operators, in {parts}{'; not:' if lines else ''}"
    return "\n  - ".join([text, *lines])


def _half_precision(description: dict[str, Any]) -> str:
    found = description.get("half_precision")
    if not found:
        return ""
    if found["problem"]:
        return f"must not be allowed: {code(found['problem'])}"
    difference = found["max_difference"] / found["scale"]
    accuracy = f", accuracy {found['accuracy']:.2%}" if found.get("accuracy") is not None else ""
    return f"may be allowed: scores within {difference:.2%} of their scale{accuracy}"


def _gpu(descriptions: Descriptions) -> list[str]:
    """What GPU delegates do not take or do badly, each finding once with the files that have it."""
    looked_at = {name: d["gpu"] for name, d in descriptions.items() if d.get("gpu") is not None}
    names: dict[tuple[str, ...], list[str]] = {}
    layers: dict[tuple[str, ...], list[str]] = {}
    for name, findings in looked_at.items():
        for found in findings:
            delegates = " and ".join(found["delegates"])
            kind = (found["effect"], delegates, found["operator"], found["reason"])
            names.setdefault(kind, []).append(name)
            layers.setdefault(kind, []).extend(found["layers"])
    if not looked_at:
        return []
    if not names:
        return ["- On GPUs, by the file alone: nothing found that delegates do not take"]
    lines = [
        f"  - {effect} ({delegates}), {_files(names[kind], descriptions)}: "
        f"{_finding(operator, reason, layers[kind])}"
        for kind in sorted(names, key=lambda kind: _EFFECTS.index(kind[0]))
        for effect, delegates, operator, reason in [kind]
    ]
    title = (
        "- On GPUs, by the file alone, in TFLite's delegate (also LiteRT 1.x) and LiteRT's (2.x):"
    )
    return [title, *lines]


_EFFECTS = ("refused", "wrong", "imprecise", "slow")


def _finding(operator: str, reason: str, layers: list[str]) -> str:
    places = list(dict.fromkeys(layer for layer in layers if layer))
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    where = f" in {code(places[0])}{more}" if places else ""
    return f"{code(operator)}{where}{f': {reason}' if reason else ''}"


def _unmeasured(descriptions: Descriptions, measured: dict[str, Measured]) -> list[str]:
    parities = [description["parity"] for description in descriptions.values()]
    missing = [code(name) for name in descriptions if name not in measured]
    known = [m.peak_bytes is not None for m in measured.values()]
    found = {
        f"latency, load time and memory of {_list(missing)}": missing,
        "memory, which only Linux tells": measured and not all(known),
        "accuracy": any(parity.get("accuracy") is None for parity in parities),
        "real images (noise was compared)": any(
            parity.get("images_from") == "random images" for parity in parities
        ),
    }
    return [
        *(text for text, so in found.items() if so),
        "phones and other processors",
        "GPUs and NPUs",
        "energy",
        "the time to decode and resize a picture",
        "images unlike the ones above",
    ]


def _each(
    title: str, descriptions: Descriptions, tell: Callable[[dict[str, Any]], str]
) -> list[str]:
    """A list item; where files have different things to say, one for each; none for ""."""
    groups: dict[str, list[str]] = {}
    for name, description in descriptions.items():
        groups.setdefault(tell(description), []).append(name)
    return [
        f"- {title}{f' ({_files(names, descriptions)})' if len(groups) > 1 else ''}: {text}"
        for text, names in groups.items()
        if text
    ]


def _files(names: list[str], descriptions: Descriptions) -> str:
    others = [name for name in descriptions if name not in names]
    if not others:
        return "all files"
    if len(others) < len(names) / 2:
        return f"all but {_list([code(name) for name in others])}"
    return _list([code(name) for name in names])


def _list(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
