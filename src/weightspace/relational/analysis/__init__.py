"""Statistics of studies of wiring, made to survive a statistician."""

from weightspace.relational.analysis.analysis import Analysis, NetworkAnalysis, analyse
from weightspace.relational.analysis.plain import to_plain
from weightspace.relational.analysis.reading import group_runs, read_results
from weightspace.relational.analysis.runs import ControlRuns, EpochRuns, NetworkRuns

__all__ = [
    "Analysis",
    "ControlRuns",
    "EpochRuns",
    "NetworkAnalysis",
    "NetworkRuns",
    "analyse",
    "group_runs",
    "read_results",
    "to_plain",
]
