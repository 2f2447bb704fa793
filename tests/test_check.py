"""Every soak is met, and every test that is left to one is run by it."""

import hashlib
import inspect
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TEXTS = {path: path.read_text() for path in TESTS.rglob("test_*.py") if path != Path(__file__)}


@pytest.fixture
def check(monkeypatch):
    monkeypatch.syspath_prepend(TESTS)
    import check

    return check


def test_commits_choose_every_soak(check):
    commits = [hashlib.sha1(bytes([i])).hexdigest() for i in range(200)]
    chosen = [check.soaks_of(check.commit_hash(commit)) for commit in commits]
    assert {first for first, *_ in chosen} == check.SOAKS.keys()
    assert all(sorted(each) == sorted(check.SOAKS) for each in chosen)


def test_every_test_that_is_left_to_a_soak_names_one_that_runs_it(check):
    marks = r'mark\.soak\(of="(\w+)"\)'
    marked = {name for text in TEXTS.values() for name in re.findall(marks, text)}
    run = {
        name for name, soak in check.SOAKS.items()
        if f'_soak_tests("{name}")' in inspect.getsource(soak)
    }  # fmt: skip
    assert marked == run
    count = sum(text.count("mark.soak") for text in TEXTS.values())
    assert count == sum(len(re.findall(marks, text)) for text in TEXTS.values())


def test_tests_that_need_tf_keras_are_run_on_it():
    for path, text in TEXTS.items():
        for above in re.findall(r"(?s)\n((?:@[^\n]*\n)*)@pytest.mark.skipif\(not LEGACY", text):
            assert "flavours" in above or "pytestmark = pytest.mark.flavours" in text, path
        if "__test__ = LEGACY" in text:
            assert "pytestmark = pytest.mark.flavours" in text, path
