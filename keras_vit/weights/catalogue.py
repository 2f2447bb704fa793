"""Published weights by name, and the default of each variant in each directory."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable

from keras_vit._errors import UsageError, did_you_mean, shown, squeeze
from keras_vit.variant_specs import VARIANTS, find_variant
from keras_vit.weights.google_files import augreg_weights, google_files
from keras_vit.weights.hub_folders import hub_folders
from keras_vit.weights.published_weights import PublishedWeights

PUBLISHED: tuple[PublishedWeights, ...] = tuple(
    sorted((*google_files(), *hub_folders()), key=lambda entry: list(VARIANTS).index(entry.model))
)
# The columns of the table: the side to which cells are aligned, and the cell of a file.
_COLUMNS: dict[str, tuple[str, Callable[[PublishedWeights], object]]] = {
    "model": ("<", lambda entry: entry.model),
    "weights": ("<", lambda entry: entry.name),
    "resolution": (">", lambda entry: entry.image_size),
    "classes": (">", lambda entry: entry.num_classes),
    "top-1": (">", lambda entry: "" if entry.top1 is None else f"{entry.top1:.2f}"),
    "licence": ("<", lambda entry: entry.licence + ", gated" * entry.gated),
    "default of": ("<", lambda entry: entry.directory if entry.default else ""),
}


class WeightsTable(tuple):
    """Published weights that print as a table, in a terminal and in a notebook."""

    def __repr__(self) -> str:
        rows = [tuple(_COLUMNS), *self._cells()]
        widths = (max(map(len, column)) for column in zip(*rows, strict=True))
        columns = zip(_COLUMNS.values(), widths, strict=True)
        line = "  ".join(f"{{:{side}{width}}}" for (side, _), width in columns)
        return "\n".join(line.format(*row).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        def row(cells: tuple[str, ...], tag: str) -> str:
            return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

        body = "".join(row(cells, "td") for cells in self._cells())
        return f"<table><thead>{row(tuple(_COLUMNS), 'th')}</thead><tbody>{body}</tbody></table>"

    def _cells(self) -> list[tuple[str, ...]]:
        return [tuple(str(cell(entry)) for _, cell in _COLUMNS.values()) for entry in self]


def list_weights(model: str | None = None) -> WeightsTable:
    """The published weights of one variant or of all, as a tuple that prints as a table.

    >>> [entry.name for entry in keras_vit.list_weights("ViT-L_32")][:2]
    ['imagenet21k/ViT-L_32', 'imagenet21k+imagenet2012/ViT-L_32']

    Of the 52,268 files in AugReg's directory, only the recommended ones are listed. All others can
    be loaded by their full names (`keras_vit.weights.augreg` reads AugReg's index).

    Raises:
        UsageError: there is no such variant.
    """
    if model is None:
        return WeightsTable(PUBLISHED)
    model = find_variant(model)
    return WeightsTable(entry for entry in PUBLISHED if entry.model == model)


def named_weights(name: str) -> PublishedWeights:
    """The published weights with a full name, "DIRECTORY/NAME", whatever their variant.

    Raises:
        UsageError: there are none.
    """
    name = name.removesuffix(".npz")
    known = {entry.name: entry for entry in PUBLISHED}
    entry = known.get(name) or augreg_weights(name)
    if entry is None:
        raise UsageError(
            f"no published weights are called {shown(name)}; a directory such as augreg needs a "
            "model too, as in keras_vit.ViT_B16(weights='augreg')."
        )
    return entry


def find_weights(model: str, weights: str) -> PublishedWeights:
    """Finds the published file of a variant by name.

    Args:
        model: a variant's name in any spelling.
        weights: a directory ("imagenet21k", "imagenet21k+imagenet2012", "augreg", "sam", "gsam",
            "bit-s", "bit-m", "bit-m+imagenet2012"; of the Hugging Face Hub "facebook", "google",
            "openai", "timm"), for the variant's default file in it; or the name of a file, with or
            without its directory and ".npz". Names that follow AugReg's pattern need not be listed.

    Raises:
        UsageError: there is no such variant, it has no such weights, or several directories have
            a file with this name; the message lists the choices.
    """
    model = find_variant(model)
    available = list_weights(model)
    name = weights.removesuffix(".npz")
    by_directory = [e for e in available if e.default and squeeze(e.directory) == squeeze(name)]
    matches = by_directory or _called(name, available)
    if len(matches) > 1:
        raise UsageError(
            f"{weights!r} is in several directories; "
            f"choose one of {', '.join(entry.name for entry in matches)}."
        )
    candidates = [*matches, augreg_weights(name), *reversed(_called(name, PUBLISHED))]
    entry = next(filter(None, candidates), None)
    if entry is None or entry.model != model:
        raise UsageError(_reason(model, weights, available, entry))
    return entry


def _called(name: str, entries: Iterable[PublishedWeights]) -> list[PublishedWeights]:
    """The files with this name, with or without its directory."""
    return [entry for entry in entries if name in (entry.name, entry.name.partition("/")[2])]


def _reason(
    model: str, weights: str, available: WeightsTable, other: PublishedWeights | None
) -> str:
    """The reason why `weights` is not a file for `model`, and the names to choose from."""
    if other is not None:
        return f"{weights!r} is for {other.model}. Received: model={model!r}."
    if not available:
        return f"there are no published weights for {model}. Received: weights={weights!r}."
    message = f"there are no weights {weights!r} for {model}"
    others = [e.model for e in PUBLISHED if e.default and squeeze(e.directory) == squeeze(weights)]
    if others:
        directories = ", ".join(dict.fromkeys(entry.directory for entry in available))
        return f"{message}, only for {', '.join(others)}; {model} has {directories}."
    known = dict.fromkeys([e.directory for e in available] + [e.name for e in available])
    return f"{message}; {did_you_mean(weights, known)}"
