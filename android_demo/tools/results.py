"""How many tests of one kind passed."""

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree


@dataclass(frozen=True)
class Result:
    """Counts of one kind of tests."""

    kind: str
    passed: int
    total: int

    @property
    def is_good(self) -> bool:
        """Whether there are tests, and all of them passed."""
        return 0 < self.passed == self.total

    def __str__(self) -> str:
        return f"{self.passed:5} of {self.total:<5} {self.kind}"


def read_reports(kind: str, folder: Path) -> Result:
    """Counts the tests in the XML reports that Maven's surefire wrote to a folder."""
    suites = [ElementTree.parse(path).getroot() for path in sorted(folder.glob("TEST-*.xml"))]
    total = _sum(suites, "tests")
    bad = sum(_sum(suites, name) for name in ("failures", "errors", "skipped"))
    return Result(kind, total - bad, total)


def _sum(suites: list[ElementTree.Element], name: str) -> int:
    return sum(int(suite.get(name, "0")) for suite in suites)
