"""Which file of an export to take, in a sentence, and which files are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# What a smaller file may lose and still be recommended: points of accuracy, or images in a hundred
# that get another class than Keras gives them.
_LOSS = 0.5


def recommended(descriptions: Mapping[str, Mapping[str, Any]]) -> str:
    """The smallest file that lost at most half a point of accuracy; else the one that lost least.

    Args:
        descriptions: the model.json of each bundle, by the name of its folder.
    """
    good = [name for name, each in descriptions.items() if _loss(each) <= _LOSS]
    if good:
        return min(good, key=lambda name: descriptions[name]["bytes"])
    return min(descriptions, key=lambda name: _loss(descriptions[name]))


def recommendation(
    descriptions: Mapping[str, Mapping[str, Any]], named: Callable[[str], str] = str
) -> str:
    """Sentences: the recommended file, its size and what it loses; and files that are the same.

    Args:
        descriptions: the model.json of each bundle, by the name of its folder.
        named: how a name is written.
    """
    if all(each["parity"].get("images_from") == "random images" for each in descriptions.values()):
        return "Compared with Keras on random images only: pass pictures to see which file to take."
    name = recommended(descriptions)
    size = _size(name, descriptions)
    good = _loss(descriptions[name]) <= _LOSS
    take = "Take" if good else f"No file is within {_LOSS} points of Keras; the best is"
    best = f"{take} {named(name)}: {f'{size}, ' if size else ''}{_lost(descriptions[name])}."
    same = [" and ".join(map(named, names)) for names in _same(descriptions)]
    return " ".join([best, *(f"{names} are the same file." for names in same)])


def _same(descriptions: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    names: dict[str, list[str]] = {}
    for name, each in descriptions.items():
        names.setdefault(each["sha256"], []).append(name)
    return [same for same in names.values() if len(same) > 1]


def _loss(description: Mapping[str, Any]) -> float:
    parity = description["parity"]
    if _is_informed(parity):
        return 100 * (parity["keras_accuracy"] - parity["accuracy"])
    agreement = parity.get("agreement")
    return 0.0 if agreement is None else 100 * (1 - agreement)


def _is_informed(parity: Mapping[str, Any]) -> bool:
    """Whether the accuracies say something, see `Verdict.informed`."""
    return parity.get("accuracy") is not None and parity.get("informed", True)


def _size(name: str, descriptions: Mapping[str, Mapping[str, Any]]) -> str:
    largest = max(each["bytes"] for each in descriptions.values())
    fraction = descriptions[name]["bytes"] / largest
    return f"{fraction:.0%} of the size of the largest file" if fraction < 0.99 else ""


def _lost(description: Mapping[str, Any]) -> str:
    parity = description["parity"]
    pictures, loss = f"{parity['images']:,} pictures", _loss(description)
    if parity.get("agreement") is None:  # features have no classes
        return f"compared with Keras on {pictures}"
    if not _is_informed(parity):
        return f"the class that Keras finds for {100 - loss:.2f}% of {pictures}"
    lost = "no loss of accuracy seen" if loss < 0.005 else f"{loss:.2f} points of accuracy lost"
    excluded = parity.get("largest_drop") or 0
    few = f", which do not exclude {excluded:.1f} points" if excluded > _LOSS else ""
    return f"{lost} on {pictures}{few}"
