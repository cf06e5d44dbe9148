"""Networks wired by graphs: generators, measures, rewiring, exploration and its statistics."""

from weightspace.relational.directed import connectome, read_connectome
from weightspace.relational.generators import (
    barabasi_albert,
    complete,
    degree_preserving,
    erdos_renyi,
    expander,
    harary,
    hierarchical,
    ring,
    watts_strogatz,
    ws_flex,
)
from weightspace.relational.graph import RelationalGraph
from weightspace.relational.plane import clustering, path_length, places
from weightspace.relational.sampling import published_grid, sample_plane

__all__ = [
    "RelationalGraph",
    "barabasi_albert",
    "clustering",
    "complete",
    "connectome",
    "degree_preserving",
    "erdos_renyi",
    "expander",
    "harary",
    "hierarchical",
    "path_length",
    "places",
    "published_grid",
    "read_connectome",
    "ring",
    "sample_plane",
    "watts_strogatz",
    "ws_flex",
]
