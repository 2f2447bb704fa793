"""Labels and templates, checked before anything long begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from keras_vit._checks import is_label, label_names
from keras_vit._errors import UsageError, shown

TEMPLATES = ("This is a photo of {}.",)
# Hours, because a text tower of size B takes about 0.2 seconds for a text.
_MOST_LABELS, _MOST_TEXTS = 50_000, 500_000


def check_texts(
    labels: Sequence[str], templates: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels without spaces around them, and the templates.

    Raises:
        UsageError: there are none or too many, a label is empty or there twice, or a template lacks
            "{}".
    """
    labels, templates = _check_labels(labels), _check_templates(templates)
    if len(labels) * len(templates) > _MOST_TEXTS:
        raise UsageError(
            f"expected at most {_MOST_TEXTS:,} texts, labels times templates. Received: "
            f"{len(labels):,} labels with {len(templates):,} templates; choose fewer."
        )
    return labels, templates


def _check_labels(labels: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in label_names(labels))
    if not 1 <= len(names) <= _MOST_LABELS:
        raise UsageError(
            f"expected one to {_MOST_LABELS:,} labels, because each text is encoded by itself. "
            f"Received: {len(names):,}."
        )
    for i, name in enumerate(names):
        if not name:
            raise UsageError(f"label {i + 1} is empty; name the class, or remove the line.")
    twice, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise UsageError(f"the label {shown(twice)} is there twice; remove one of them.")
    return names


def _check_templates(templates: Sequence[str]) -> tuple[str, ...]:
    has_order = isinstance(templates, Sequence) and not isinstance(templates, (str, bytes))
    templates = tuple(templates) if has_order else (templates,)
    if not templates:
        raise UsageError("expected a template or several, such as 'This is a photo of {}.'")
    for i, template in enumerate(templates):
        if not isinstance(template, str) or not is_label(template) or "{}" not in template:
            raise UsageError(
                f"template {i + 1} must be a line of text with {{}} where the label goes, as in "
                f"'This is a photo of {{}}.' Received: {shown(template)}."
            )
    return templates
