"""The report as one HTML file without external files. All text is escaped."""

from __future__ import annotations

import base64
from html import escape

from keras_vit._contracts import Table
from keras_vit.evaluation.classification import ClassReport, Mistake

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1d232b; --soft: #5c6672; --line: #e2e6eb;
  --accent: #2a6fbb; }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --ink: #e6edf3; --soft: #a3adb8;
  --line: #3a434d; --accent: #79b8ff; }
  .plot { filter: invert(1) hue-rotate(180deg); mix-blend-mode: screen; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 2rem 1.25rem 4rem; color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; background: var(--page); }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 1.5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; }
p { color: var(--soft); margin: .25rem 0 1rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.5rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
dd:first-of-type { font-weight: 700; color: var(--accent); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .9rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
thead th { color: var(--soft); font-weight: 500; }
tfoot td { color: var(--soft); border-bottom: 0; }
img { max-width: 100%; height: auto; display: block; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: 1rem; }
.pairs { grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); }
figure { margin: 0; } figcaption { font-size: .85rem; color: var(--soft); overflow-wrap: anywhere; }
figcaption span { display: block; }
figure div { display: flex; gap: 4px; } figure div img { width: calc(50% - 2px); }
figure > img { width: 100%; }
@media (max-width: 36rem) { table { font-size: .8rem; } th, td { padding: .3rem; } }
.figures { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); }
.figures img { width: 100%; } .figures.one { display: block; max-width: 36rem; }
"""


def document(title: str, sections: list[str]) -> str:
    """The whole page."""
    body = "\n".join(filter(None, sections))
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</html>\n"
    )


def facts(pairs: dict[str, str]) -> str:
    """Names and values; the first one is highlighted."""
    rows = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in pairs.items())
    return f"<dl>{rows}</dl>"


def curves(plots: dict[str, bytes]) -> str:
    """SVG plots of figures by step, by the names of the figures."""
    images = "".join(plot(svg, f"{name} by step") for name, svg in plots.items())
    return section("Curves", f'<div class="figures">{images}</div>')


def classes(report: ClassReport) -> str:
    """The per-class table with its means."""
    names = ("precision", "recall", "f1")
    rows = [
        [c["label"], *(f"{c[name]:.2%}" for name in names), str(c["support"])]
        for c in report.classes
    ]
    total = str(sum(c["support"] for c in report.classes))
    means = [
        [f"{kind} mean", *(f"{values[name]:.2%}" for name in names), total]
        for kind, values in (("macro", report.macro), ("weighted", report.weighted))
    ]
    return section("Classes", table(["class", *names, "images"], rows, means))


def confusion(svg: bytes) -> str:
    """The confusion matrix."""
    return section("Confusion", plot(svg, "confusion matrix"))


def wrong(mistakes: list[Mistake], pictures: list[bytes], kind: str = "held-out") -> str:
    """The wrongly classified images, the first ones with their pictures, PNG.

    Each has its classes and its file; `kind` says of which images these are.
    """
    if not mistakes:
        return section("Wrong", f"<p>None of the {escape(kind)} images.</p>")
    figures = ""
    for png, each in zip(pictures, mistakes, strict=False):
        text = f"{each.label}, taken for {each.prediction} ({each.probability:.2%})"
        figures += f"<figure>{image(png, 'png', text)}{_caption(text, each.path)}</figure>"
    note = (
        f"<p>{len(mistakes)} in all; the {len(pictures)} of highest probability, highest first. "
        "A wrong label is the most frequent cause.</p>"
    )
    return section("Wrong", f'{note}<div class="grid">{figures}</div>')


def attention(pictures: list[tuple[bytes, bytes, str, str]]) -> str:
    """Images next to their attention rollout, each with its class and its file."""
    figures = "".join(
        f"<figure><div>{image(plain, 'png', text)}{image(laid, 'png', f'attention on {text}')}"
        f"</div>{_caption(text, path)}</figure>"
        for plain, laid, text, path in pictures
    )
    note = (
        "<p>Attention rollout through all blocks, from the input of the head to the patches: "
        "the model attends to bright patches.</p>"
    )
    return section("Attention", f'{note}<div class="grid pairs">{figures}</div>')


def profile(rows: list[list[str]]) -> str:
    """Parameters, operations and activations of the layers; the last row is their sum."""
    note = (
        "<p>Operations are those of matrix products and convolutions in the forward pass of one "
        "image; a multiplication and an addition are two. Activations are what the backward pass "
        "holds for an image in float32: an estimate for blocks and convolutions, beside which the "
        "other layers hold little.</p>"
    )
    header = ["layer", "parameters", "MFLOP an image", "activations, MiB"]
    return section("Layers", note + table(header, rows[:-1], rows[-1:]))


def exports(record: Table | None) -> str:
    """The exported files, with the results that were measured at export."""
    if record is None:
        return ""
    header = [
        "file",
        "accuracy",
        "agreement with Keras",
        "largest difference",
        "KiB",
        "ms an image",
    ]
    rows = [
        [
            row.name or row.precision,
            _or_dash("{:.2%}", row.accuracy),
            _or_dash("{:.2%}", row.agreement),
            _or_dash("{:.1e}", row.max_difference),
            f"{row.bytes / 1024:,.0f}",
            _or_dash("{:.2f}", row.latency_ms),
        ]
        for row in record.rows
    ]
    note = f"<p>TFLite on {record.images} held-out images; {escape(record.machine)}.</p>"
    return section("Exports", note + table(header, rows))


def _caption(text: str, path: str) -> str:
    """A text above the name of a file, which shows its folder when it is pointed at."""
    name = f'<span title="{escape(path)}">{escape(path.rpartition("/")[-1])}</span>'
    return f"<figcaption>{escape(text)}{name}</figcaption>"


def _or_dash(text: str, value: float | None) -> str:
    return "-" if value is None else text.format(value)


def section(title: str, content: str) -> str:
    """A part of the page; `content` is HTML."""
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def table(header: list[str], rows: list[list[str]], foot: list[list[str]] | None = None) -> str:
    """A table of texts."""

    def line(cells: list[str], tag: str = "td") -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(row) for row in rows)
    end = f"<tfoot>{''.join(line(row) for row in foot)}</tfoot>" if foot else ""
    return (
        f'<div class="wide"><table><thead>{line(header, "th")}</thead>'
        f"<tbody>{body}</tbody>{end}</table></div>"
    )


def image(content: bytes, kind: str, text: str) -> str:
    """A picture inside the page: its bytes, "svg+xml" or "png", and what it shows."""
    encoded = base64.b64encode(content).decode()
    return f'<img alt="{escape(text)}" src="data:image/{kind};base64,{encoded}">'


def plot(svg: bytes, text: str) -> str:
    """A plot without pictures, which a dark page shows light on dark, and what it shows."""
    return image(svg, "svg+xml", text).replace("<img", '<img class="plot"', 1)
