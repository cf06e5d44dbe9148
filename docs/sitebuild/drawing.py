"""Pictures of networks as graphs, for pages that explain them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Places = dict[str, npt.NDArray[np.floating[Any]]]


def draw_graph(axis: Any, graph: Any, *, index: int = 0, colours: Any = None) -> None:
    """Draw a network: neurons as circles, weights as lines, blue if positive, red if negative.

    Args:
        axis: of matplotlib.
        graph: a neural graph whose blocks have one group and one feature an edge.
        index: which network of the batch.
        colours: ``{node set: [a colour for each neuron]}``; all alike if not given.
    """
    spec = graph.spec
    places = node_places(spec)
    for block in spec.blocks:
        weights = graph.edges[block.name][index, 0, :, :, 0].detach().numpy()
        largest = max(float(abs(weights).max()), 1e-12)
        for (i, j), weight in np.ndenumerate(weights):
            (x0, y0), (x1, y1) = places[block.source][j], places[block.target][i]
            share = abs(weight) / largest
            axis.plot(
                [x0, x1], [y0, y1], color="#0c6fbd" if weight > 0 else "#bc4a00",
                lw=0.3 + 2.2 * share, alpha=0.25 + 0.7 * share, zorder=1,
            )  # fmt: skip
    lowest = min(spots[:, 1].min() for spots in places.values()) - 0.7
    axis.set_ylim(lowest - 0.6, -lowest)
    for name, spots in places.items():
        own = None if colours is None else colours.get(name)
        axis.scatter(
            *spots.T, s=130, zorder=2, c="#ffffff" if own is None else own, edgecolors="#59616b"
        )
        axis.annotate(name, (spots[0, 0], lowest), ha="center", fontsize=10, va="top")
    axis.set_axis_off()
    axis.margins(x=0.12)


def node_places(spec: Any) -> Places:
    """A column for each node set, from left to right; neurons from top to bottom."""
    found: Places = {}
    for column, node_set in enumerate(spec.node_sets):
        count = spec.nodes_in(node_set.name)
        heights = np.arange(count)[::-1] - (count - 1) / 2
        found[node_set.name] = np.stack([np.full(count, 2.2 * column), heights], axis=1)
    return found
