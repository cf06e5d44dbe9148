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
    """How many networks are made in a second."""

    def render(self, task: Task) -> Text:
        """Show the rate once it is known."""
        speed = task.finished_speed or task.speed
        return Text(
            "" if speed is None else f"{speed:,.1f} networks/s", style="progress.data.speed"
        )


def network_progress() -> Progress:
    """A bar with the number of networks, their rate and the time left, on standard error."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
