"""The commands ``weightspace relational``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from weightspace.cli.output import say, show_table, write_json, write_text

if TYPE_CHECKING:
    from weightspace.relational.analysis import Analysis

REPORT = "report.html"


def analyse(
    results: Positional[Path],
    *,
    json: Path | None = None,
    out: Path | None = None,
    alpha: float = 0.05,
    fewest: int = 10,
    seed: int = 0,
) -> None:
    """Say which wirings are good, and how far that can be trusted.

    Args:
        results: the runs of a sweep (a Parquet file, or a folder of them), or the published
            arrays of Graph Structure of Neural Networks (published.npz).
        json: also write every number to this file, by network.
        out: write the report with its figures, report.html, into this folder.
        alpha: the level of tests, and the share of false discoveries.
        fewest: graphs that a bin must have in the stricter sweet spot.
        seed: of random choices of graphs.
    """
    from weightspace.relational.analysis import analyse as run
    from weightspace.relational.analysis import read_results, to_plain

    analysis = run(read_results(results), alpha=alpha, fewest=fewest, seed=seed)
    _show(analysis)
    if json is not None:
        write_json(json, to_plain(analysis))
    if out is not None:
        from weightspace.report.relational_page import relational_page

        write_text(out / REPORT, relational_page(analysis, source=results.name))
        say(f"report: {out / REPORT}")


def _show(analysis: Analysis) -> None:
    """The main numbers as a table."""
    from weightspace.report.relational_tables import overview_rows

    heads, rows = overview_rows(analysis)
    show_table("networks wired by graphs", heads, rows)
