"""The progress bar of recipes that make networks."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class RateColumn(ProgressColumn):
    """How many things are made in a second.

    Args:
        unit: what they are, in the plural.
    """

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """Show the rate once it is known."""
        speed = task.finished_speed or task.speed
        return Text(
            "" if speed is None else f"{speed:,.1f} {self._unit}/s", style="progress.data.speed"
        )


def network_progress(unit: str = "networks") -> Progress:
    """A bar with the number of networks, their rate and the time left, on standard error."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(unit),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
