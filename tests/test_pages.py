"""Templates of pages and cards: what is missing is an error, and the wheel has all of them."""

import re
import shutil
import sys
from pathlib import Path

import jinja2
import pytest

from keras_vit import _pages

ROOT = Path(__file__).parents[1]


def files(folder):
    """The templates, and what they include."""
    found = [*folder.rglob("*.j2"), *folder.rglob("*.css")]
    return {str(path.relative_to(folder)) for path in found}


def test_the_wheel_has_every_template(python, tmp_path):
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    without_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "keras_vit", tmp_path / "keras_vit", ignore=without_caches)
    python("setup.py", "--quiet", "build_py", "--build-lib", "built", cwd=tmp_path)
    expected = files(ROOT / "keras_vit")
    assert "evaluation/report.html.j2" in expected
    assert files(tmp_path / "built/keras_vit") == expected


def test_html_escapes_every_value():
    text = _pages.rendered("evaluation/page.html.j2", title="<b>", facts={"<i>": "<u>"})
    assert not {"<b>", "<i>", "<u>"} & set(re.findall("<.*?>", text))
    assert "<dt>&lt;i&gt;</dt><dd>&lt;u&gt;</dd>" in text


def test_a_missing_value_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="'title' is undefined"):
        _pages.rendered("evaluation/page.html.j2", facts={})


def test_without_jinja2_the_error_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setattr(_pages, "_environment", _pages._environment.__wrapped__)
    with pytest.raises(ImportError, match="pages and cards need Jinja2: pip install 'keras_vit"):
        _pages.rendered("evaluation/report.html.j2")
