"""Plots and HTML reports."""

from weightspace.report.demo_report import DemoReport, ModelReport, write_demo_report
from weightspace.report.embedding import embedding_map

__all__ = ["DemoReport", "ModelReport", "embedding_map", "write_demo_report"]
