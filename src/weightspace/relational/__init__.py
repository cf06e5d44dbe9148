"""Networks wired by graphs: generators, measures, rewiring, exploration and its statistics."""

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

__all__ = [
    "RelationalGraph",
    "barabasi_albert",
    "complete",
    "degree_preserving",
    "erdos_renyi",
    "expander",
    "harary",
    "hierarchical",
    "ring",
    "watts_strogatz",
    "ws_flex",
]
