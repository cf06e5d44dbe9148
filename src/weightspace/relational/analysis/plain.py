"""An analysis as plain data, for JSON."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from weightspace.relational.analysis.agreement import Agreement
from weightspace.relational.analysis.analysis import Analysis, SweetSpots
from weightspace.relational.analysis.sweet_spot import Box, SweetSpot


def to_plain(analysis: Analysis) -> dict[str, Any]:
    """Every number as plain data, by network; NaN becomes None."""
    return {name: plain(_network(analysis, name)) for name in analysis.networks}


def plain(value: Any) -> Any:
    """Data classes, tuples and arrays as JSON has them.

    >>> plain((1, math.nan))
    [1, None]
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(own) for own in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _network(analysis: Analysis, name: str) -> dict[str, Any]:
    own = analysis.networks[name]
    others = {
        other: analysis.agreement(name, other) for other in analysis.networks if other != name
    }
    return {
        "graphs": len(own.runs.graphs),
        "seeds": own.runs.seeds,
        "missing_runs": int((~np.isfinite(own.runs.errors)).sum()),
        "stopped_graphs": own.runs.stopped,
        "average": own.average,
        "best": plain(own.best[0]) | {"next": own.best[1:]},
        "complete": own.complete,
        "sweet_spot": _spots(own.sweet_spots, analysis.shared),
        "correlations": {other: _agreement(found) for other, found in others.items() if found},
        "held_out_best": own.held_out,
        "reliability": own.reliability,
        "regression": own.regression,
        "heatmap": own.cells,
        "curves": own.curves,
        "epochs": own.epochs,
        "few_graphs": own.few_graphs,
        "one_per_bin": own.one_per_bin,
        "subsets": {
            part: found for (whole, part), found in analysis.subsets.items() if whole == name
        },
        "controls": own.controls,
    }


def _spots(spots: SweetSpots, shared: Box | None) -> dict[str, Any] | None:
    """The published sweet spot's numbers, and the stricter ones within."""
    if spots.published is None:
        return None
    stricter = {
        "controlled": spots.controlled,
        "at_least": spots.at_least,
        "graph_means": spots.graph_means,
    }
    return (
        _flat(spots.published)
        | {"kind": spots.kind, "fewest": spots.fewest, "shared_by_all": shared}
        | {name: None if spot is None else _flat(spot) for name, spot in stricter.items()}
    )


def _flat(spot: SweetSpot) -> dict[str, Any]:
    """A sweet spot with its box's ranges among its own numbers."""
    return {
        "clustering": spot.box.clustering,
        "path_length": spot.box.path_length,
        **{f.name: getattr(spot, f.name) for f in dataclasses.fields(spot) if f.name != "box"},
    }


def _agreement(found: Agreement) -> dict[str, Any]:
    """The published correlation's numbers, and the others within."""
    content: dict[str, Any] = plain(found.with_complete or found.graphs_only)
    return content | {
        "with_complete": found.with_complete is not None,
        "graphs_only": found.graphs_only,
        "kind": found.kind,
        "corrected": found.corrected,
    }
