"""The model card: what the files of an export are, how good they are and what their limits are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from keras_vit._markdown import code, table_lines
from keras_vit.deploy.bundle.recommendation import recommendation
from keras_vit.deploy.clients.clients import CLIENTS, Client
from keras_vit.deploy.judge.measure import Measured
from keras_vit.deploy.judge.parity import Verdict
from keras_vit.deploy.precisions import PRECISIONS
from keras_vit.labels import answers_of

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
        recommendation(descriptions, code),
        "",
        f"One model in {files}. Each was run with LiteRT and compared with Keras before it was "
        "written.",
    ]
    filled = {title: lines for title, lines in sections.items() if lines}
    body = [line for title, lines in filled.items() for line in ["", f"## {title}", "", *lines]]
    return "\n".join([*head, *body, ""])


def notes(descriptions: Descriptions) -> list[str]:
    """What the labels prove about the files' accuracy, and what a client makes of the files.

    Files with equal results share a line.
    """
    lines = _each("Accuracy", descriptions, _proof)
    lines += _each("In the app's client", descriptions, _client)
    return [line.removeprefix("- ") for line in lines]


def _model(descriptions: Descriptions, labels: tuple[str, ...]) -> list[str]:
    parameters = {d["parameters"] for d in descriptions.values() if d.get("parameters")}
    lines = [f"- Parameters: {max(parameters):,}"] if parameters else []
    lines += _each("Input", descriptions, _input)
    lines += _each("Output", descriptions, _output)
    if labels := answers_of(labels):
        more = ", ..." if len(labels) > _MOST_LABELS else ""
        named = ", ".join(code(label) for label in labels[:_MOST_LABELS])
        lines.append(f"- Classes, {len(labels):,}: {named}{more}")
    return lines


def _input(description: dict[str, Any]) -> str:
    tensor = description["input"]
    height, width = tensor["shape"][1:3]
    kind = "a grey" if tensor.get("channels") == "grey" else "an RGB"
    text = f"{kind} image of {height} x {width} (height x width), {tensor['dtype']}"
    if tensor.get("mean") or tensor.get("scale", 1) != 1:
        text += f", `(pixel - {tensor['mean']}) / {tensor['scale']}`"
    if "interpolation" in tensor:
        part = f"central crop ({tensor['crop']:.3g})" if tensor.get("crop") else "whole image"
        text += f"; {part}, resized ({tensor['interpolation']})"
    return text + _quantization(tensor)


def _output(description: dict[str, Any]) -> str:
    output = description["output"]
    shape = " x ".join(str(side) for side in output["shape"])
    about = f": {code(output['meaning'])}" if output.get("meaning") else ""
    return f"{output['kind']}, {shape}, {output['dtype']}{_quantization(output)}{about}"


def _quantization(tensor: dict[str, Any]) -> str:
    values = tensor.get("quantization")
    return f"; scale {values['scale']:.6g}, zero point {values['zero_point']}" if values else ""


def _data(descriptions: Descriptions) -> list[str]:
    return [
        *_each("Compared on", descriptions, _compared),
        *_each("Labels", descriptions, _labels),
        *_each("Accuracy", descriptions, _proof),
        *_each("Calibrated on", descriptions, _calibration),
        *_each("In the app's client", descriptions, _client),
    ]


def _compared(description: dict[str, Any]) -> str:
    parity = description["parity"]
    text = f"{parity['images']:,} images ({code(parity.get('images_from', 'unknown'))})"
    tokens = parity.get("comparisons") or parity["images"]
    return text if tokens == parity["images"] else f"{text} with {tokens:,} tokens in total"


def _labels(description: dict[str, Any]) -> str:
    accuracy = description["parity"].get("keras_accuracy")
    if accuracy is None:
        return "none, so accuracy is unknown; agreement with the Keras model is measured instead"
    return f"known; the accuracy of the Keras model is {accuracy:.2%}"


def _proof(description: dict[str, Any]) -> str:
    parity = description["parity"]
    if parity.get("lost") is None:
        return ""
    return "; ".join(Verdict.from_dict(parity).accuracy_notes(parity.get("max_drop")))


def _client(description: dict[str, Any]) -> str:
    found = description.get("client")
    if not found:
        return ""
    known = CLIENTS.get(found["client"])
    title = known.title if known else code(found["client"])
    resized = description["input"].get("interpolation")
    if not found["images"]:
        text = f"accuracy with the resize of {title} is unknown, because there were no pictures"
    elif found.get("accuracy") is not None:
        text = (
            f"accuracy {found['accuracy']:.2%} with the resize of {title}, "
            f"{found['own_accuracy']:.2%} with the model's own ({resized}), on "
            f"{found['images']:,} images"
        )
    else:
        text = (
            f"the same class for {found['agreement']:.2%} of {found['images']:,} images with the "
            f"resize of {title} as with the model's own ({resized})"
        )
    return f"{text}; {_ran(found, known)}"


def _ran(found: dict[str, Any], known: Client | None) -> str:
    if found.get("version") is None:
        return f"not run in it, which is not installed{f': {known.install}' if known else ''}"
    text = f"run in its version {code(found['version'])}"
    if not found.get("ran"):
        return f"{text}, without pictures"
    return (
        f"{text} on {found['ran']:,} pictures, where scores differ from LiteRT's by at most "
        f"{found['difference']:.1e}"
    )


def _calibration(description: dict[str, Any]) -> str:
    images = description.get("calibration")
    return (
        f"{images['images']:,} images, sha256 {code(images['sha256'])}" if images else "no images"
    )


def _figures(
    descriptions: Descriptions,
    table: tuple[list[str], list[list[str]]],
    measured: dict[str, Measured],
    machine: str,
    earlier: tuple[str, ...],
) -> list[str]:
    header, rows = table
    notes = table_lines(header, [[code(name), *rest] for name, *rest in rows])
    notes += ["", "![Size and latency against accuracy](plot.png)", "", *_legend(header, measured)]
    if machine:
        notes.append(f"- Measured on: {code(machine)}; on other machines even the ratios differ.")
    notes += _each("Block that differs most from the float file", descriptions, _worst_block)
    if names := [code(name) for name in earlier if name in measured]:
        notes.append(f"- Measured in an earlier call, not interleaved with others: {_list(names)}.")
    return notes


def _worst_block(description: dict[str, Any]) -> str:
    blocks = description.get("blocks") or {}
    if not blocks:
        return ""
    worst = max(blocks, key=blocks.get)
    return f"{code(worst)}, by {blocks[worst]:.1%} of its norm"


def _legend(header: list[str], measured: dict[str, Measured]) -> list[str]:
    before = max((m.before_bytes or 0 for m in measured.values()), default=0) / 2**20
    runs = sorted({entry.runs for m in measured.values() for entry in m.latency})
    meanings = {
        "drop": "accuracy lost compared with the Keras model, in percentage points",
        "drop, 95%": "a larger drop than this is excluded with a confidence of 95% (Tango's score "
        "interval for paired outcomes)",
        "agreement": "fraction of the images for which the file and Keras predict the same class",
        "worst": "largest difference of a score from Keras, as a fraction of the scores' scale",
        "cosine": "smallest cosine of all images between the scores of the file and of Keras",
        "zipped": "size in a zip file or an APK, in MiB (zlib, level 6)",
        "p90": "90th percentile of the runs; the column before it is the median. One image per "
        "run, the files interleaved, "
        f"{' to '.join(f'{n:,}' for n in dict.fromkeys(runs[:1] + runs[-1:]))} runs",
        "peak MiB": "peak memory of a process that only runs the file; Python, NumPy and LiteRT "
        f"take {before:.0f} of it",
        "load s": "seconds until the first image can be set; measured once",
        "parts": "partitions that XNNPACK makes of the graph; 1 is best",
    }
    return [f"- {name}: {text}." for name, text in meanings.items() if name in header]


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
        text += f"; float layers: {', '.join(code(layer) for layer in kept)}"
    if not description["parity"].get("rewritten", True):
        text += "; the graph was converted as it is, without exact rewrites"
        if note := description["parity"].get("note"):
            text += f": {code(note)}"
    return text


def _versions(description: dict[str, Any]) -> str:
    packages = description.get("made_with", {})
    return ", ".join(f"{name} {code(version)}" for name, version in packages.items())


def _limits(descriptions: Descriptions, measured: dict[str, Measured]) -> list[str]:
    return [
        *_each("Oldest runtime", descriptions, lambda d: code(d.get("runtime_floor", "unknown"))),
        *_each("Run by XNNPACK on CPUs", descriptions, _delegation),
        *_each(
            "Half precision on CPUs (`setAllowFp16PrecisionForFp32`)", descriptions, _half_precision
        ),
        *_each("On a GPU", descriptions, _gpu_run),
        *_each("A GPU's half precision, emulated", descriptions, _gpu_half),
        *_gpu(descriptions),
        f"- Not measured: {'; '.join(_unmeasured(descriptions, measured))}.",
    ]


def _delegation(description: dict[str, Any]) -> str:
    delegation = description.get("delegation")
    if not delegation:
        return ""
    nodes, delegated, partitions = (delegation[key] for key in ("nodes", "delegated", "partitions"))
    left_out: dict[tuple[str, str], list[str]] = {}
    for entry in delegation["undelegated"]:
        left_out.setdefault((entry["operator"], entry["reason"]), []).append(entry["layer"])
    lines = [_finding(*kind, layers) for kind, layers in left_out.items()]
    text = (
        f"{'all' if delegated == nodes else f'{delegated:,} of'} {nodes:,} operators, in "
        f"{partitions} partition{'' if partitions == 1 else 's'}{'; all but:' if lines else ''}"
    )
    return "\n  - ".join([text, *lines])


def _half_precision(description: dict[str, Any]) -> str:
    half = description.get("half_precision")
    if not half:
        return ""
    if half["problem"]:
        return f"must not be allowed: {code(half['problem'])}"
    difference = half["max_difference"] / half["scale"]
    accuracy = f", accuracy {half['accuracy']:.2%}" if half.get("accuracy") is not None else ""
    return f"may be allowed: scores change by at most {difference:.2%} of their scale{accuracy}"


def _gpu_run(description: dict[str, Any]) -> str:
    found = description.get("gpu_run")
    if not found:
        return ""
    if not found["device"]:
        return f"not run: {code(found['problem'])}"
    device = f"{code(found['device'])} with LiteRT's accelerator"
    difference = found.get("max_difference")
    if found["problem"] or difference is None:
        block = f", from {code(found['block'])} on" if found.get("block") else ""
        return f"{device}: {code(found['problem'] or 'no scores')}{block}"
    return (
        f"{device} takes the whole file; on {found.get('images', 0)} images scores differ from the "
        f"CPU's by at most {difference / found.get('scale', 1):.1e} of their scale"
    )


def _gpu_half(description: dict[str, Any]) -> str:
    found = description.get("gpu_run") or {}
    texts = []
    for entry in found.get("half_precision", ()):
        difference = entry.get("max_difference")
        if entry["problem"] or difference is None:
            result = code(entry["problem"] or "no scores")
        else:
            fraction = difference / found.get("scale", 1)
            result = f"scores change by at most {fraction:.2%} of their scale"
        texts.append(f"with {code(entry['sums'])} sums {result}")
    if [entry["sums"] for entry in found.get("half_precision", ())] == ["float32"]:
        texts.append("`float16` sums were not emulated, which takes too long for a large model")
    return "; ".join(texts)


def _gpu(descriptions: Descriptions) -> list[str]:
    """Problems on GPU delegates: each is listed once, with the files that have it."""
    linted = {name: d["gpu"] for name, d in descriptions.items() if d.get("gpu") is not None}
    names: dict[tuple[str, ...], list[str]] = {}
    layers: dict[tuple[str, ...], list[str]] = {}
    for name, findings in linted.items():
        for finding in findings:
            delegates = " and ".join(finding["delegates"])
            kind = (finding["effect"], delegates, finding["operator"], finding["reason"])
            names.setdefault(kind, []).append(name)
            layers.setdefault(kind, []).extend(finding["layers"])
    if not linted:
        return []
    if not names:
        return ["- On GPUs, judging by the file only: no known problem"]
    lines = [
        f"  - {effect} ({delegates}), {_files(names[kind], descriptions)}: "
        f"{_finding(operator, reason, layers[kind])}"
        for kind in sorted(names, key=lambda kind: _EFFECTS.index(kind[0]))
        for effect, delegates, operator, reason in [kind]
    ]
    title = "- On GPUs, judging by the file only, with TFLite's delegate (also LiteRT 1.x)"
    return [f"{title} and LiteRT's (2.x):", *lines]


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
    conditions = {
        f"latency, load time and memory of {_list(missing)}": missing,
        "memory, which is measured on Linux only": measured and not all(known),
        "accuracy": any(parity.get("accuracy") is None for parity in parities),
        "real images (noise was compared)": any(
            parity.get("images_from") == "random images" for parity in parities
        ),
    }
    return [
        *(text for text, applies in conditions.items() if applies),
        "phones and other processors",
        "phones' GPUs and NPUs",
        "energy",
        "the time to decode and resize a picture",
        "images that differ from those above",
    ]


def _each(
    title: str, descriptions: Descriptions, describe: Callable[[dict[str, Any]], str]
) -> list[str]:
    """One list item for each different text, with the files that it is about; none for ""."""
    groups: dict[str, list[str]] = {}
    for name, description in descriptions.items():
        groups.setdefault(describe(description), []).append(name)
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
