"""What is said of a run by its task: the interface of `ClassReport` and `SegmentationReport`."""

from __future__ import annotations

from typing import ClassVar, Protocol


class Report(Protocol):
    """The results of a model on images that it was not trained on; a dataclass.

    Attributes:
        split: which images these are: "held_out" by training, or the data's "validation" or "test".
        average: whether the model had the average of its weights instead of the last ones.
        metric: the figure that matters most, as metrics.jsonl has it.
    """

    split: str
    average: bool
    metric: ClassVar[str]

    @property
    def kind(self) -> str:
        """Which images these are, in words."""
        return self.split.replace("_", "-")

    @property
    def score(self) -> tuple[str, float]:
        """The figure that matters most, with its name in words."""

    @property
    def facts(self) -> dict[str, str]:
        """The other figures, in words."""

    @property
    def table(self) -> tuple[list[str], list[list[str]]]:
        """A header, and a row for each class."""

    @property
    def headline(self) -> str:
        """The main figures in a line."""

    def warning(self, may_weight_classes: bool) -> str | None:
        """One line with advice if the results are suspicious, else None.

        Args:
            may_weight_classes: whether class weights can be advised.
        """
