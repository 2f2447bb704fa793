"""The list of recipes on the terminal."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence

from keras_vit._errors import UsageError, nearest
from keras_vit.cli._program import spelled
from keras_vit.training.recipes import PRESETS, Preset

_WIDEST = 100  # characters in a line
_MOST = 16  # a larger family, such as AugReg's grid, is shown as patterns of its names


def check_recipe_name(name: str) -> None:
    """Raises a `UsageError` if there is no such recipe."""
    if name not in PRESETS:
        near = nearest(name, PRESETS)
        advice = f"did you mean {near}?" if near else "--recipes lists them."
        raise UsageError(f"--recipe: unknown value {name!r}; {advice}")


def check_names_data(recipe: str, data: str) -> None:
    """Raises a `UsageError` if neither the user nor the recipe names any images."""
    if not data:
        raise UsageError(f"--recipe {recipe} is for any images; give yours: --data FOLDER.")


def check_starts_from_weights(recipe: str, weights: str | None) -> None:
    """Raises a `UsageError` if a recipe that starts from weights is to start without any."""
    preset = PRESETS.get(recipe)  # a run of Python has none
    if preset and preset.weights and weights is None:
        raise UsageError(
            f"--recipe {recipe} starts from weights. Received: no --weights; give some, such as "
            f"--weights {preset.weights}, or choose --recipe scratch."
        )


def recipe_list() -> str:
    """All recipes by family: name and title, command, what it trains, cost, score, source."""
    families: dict[str, dict[str, Preset]] = {}
    for name, preset in PRESETS.items():
        families.setdefault(preset.family or "others", {})[name] = preset
    groups = [
        "\n\n".join([f"{family}\n{'-' * len(family)}", *_entries(presets)])
        for family, presets in families.items()
    ]
    end = (
        "expected: accuracy on the test images; 'published' by the source, or 'measured here' by\n"
        "this library. FOLDER is a folder of pictures, RUN the folder of a trained run.\n"
        f"{spelled('fit')} --recipe NAME --help lists the settings of a recipe, --dry-run what it "
        "needs."
    )
    return "\n\n".join([*groups, end])


def _entries(presets: Mapping[str, Preset]) -> list[str]:
    alike: dict[str, list[str]] = {}
    for name, preset in presets.items():
        alike.setdefault(preset.title if len(presets) > _MOST else name, []).append(name)
    return [
        # With spaces, so that the line can be wrapped.
        _entry(_pattern(names).replace("-{", "- {"), names[0], presets[names[0]])
        for names in alike.values()
    ]


def _entry(shown: str, name: str, preset: Preset) -> str:
    """The lines of a recipe; the command is one line, to be copied."""
    recipe = preset.recipe
    sides = (recipe.image_size,) if isinstance(recipe.image_size, int) else recipe.image_size
    model = f"{preset.model}, {' x '.join(map(str, sides))} px"
    start = f", from {preset.weights}" if preset.weights else ""
    title = f"{preset.title}{f' ({preset.data})' if preset.data else ''}"
    fields = {
        "trains": f"{model}{start}; {recipe.duration} of {recipe.batch_size}",
        "cost": preset.cost,
        "expected": f"{preset.expected} ({preset.evidence})",
        "source": preset.source,
    }
    lines = [_wrapped(text, f"  {field:<10}", " " * 12) for field, text in fields.items()]
    first = _wrapped(f"{shown}  {title}", "", "    ")
    return "\n".join([first, f"  command   {spelled('fit')} {preset.options(name)}", *lines])


def _wrapped(text: str, first: str, others: str) -> str:
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    wrapper = textwrap.TextWrapper(width, first, others, break_long_words=False)
    return wrapper.fill(text)


def _pattern(names: Sequence[str]) -> str:
    """Names that differ in some parts as one: 'a-{x,y}-b'.

    >>> _pattern(["wd_0.1-do_0-sd_0", "wd_0.1-do_1-sd_1"])
    'wd_0.1-{do_0-sd_0,do_1-sd_1}'
    """
    # Dropout and stochastic depth go together.
    split = [re.split("-(?!sd_)", name) for name in names]
    parts = [list(dict.fromkeys(each)) for each in zip(*split, strict=True)]
    return "-".join(p[0] if len(p) == 1 else f"{{{','.join(p)}}}" for p in parts)
