"""Every soak is met, and every test that is left to one is run by it."""

from __future__ import annotations

import hashlib
import re
import runpy
from pathlib import Path

TESTS = Path(__file__).parent
CHECK = runpy.run_path(str(TESTS / "check.py"))


def test_commits_choose_every_soak_and_each_always_the_same():
    commits = [hashlib.sha1(bytes([i])).hexdigest() for i in range(200)]
    chosen = [CHECK["chosen_soak"](commit) for commit in commits]
    assert set(chosen) == CHECK["SOAKS"].keys()
    assert chosen == [CHECK["chosen_soak"](commit) for commit in commits]


def test_every_test_that_is_left_to_a_soak_names_one_that_runs_it():
    texts = [path.read_text() for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
    marked = {name for text in texts for name in re.findall(r'mark\.soak\(of="(\w+)"\)', text)}
    run = set(re.findall(r'_soak_tests\("(\w+)"\)', (TESTS / "check.py").read_text()))
    assert marked == run
    assert sum(text.count("mark.soak") for text in texts) == sum(
        len(re.findall(r'mark\.soak\(of="\w+"\)', text)) for text in texts
    )
