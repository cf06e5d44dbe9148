"""Networks wired by graphs: generators, measures, rewiring, exploration and its statistics."""

from weightspace.relational.directed import connectome, read_connectome
from weightspace.relational.execution import Plan, fixed_plan
from weightspace.relational.flops import FlopCount, count_flops
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
from weightspace.relational.layers import (
    RelationalConv1d,
    RelationalConv2d,
    RelationalConv3d,
    RelationalLinear,
)
from weightspace.relational.mutate import adopt_graph, mutate, mutate_network
from weightspace.relational.networks import cnn_family, mlp_family, published_family
from weightspace.relational.plane import clustering, path_length, places
from weightspace.relational.rewire import Rewired, RewiringReport, rewire
from weightspace.relational.sampling import published_grid, sample_plane
from weightspace.relational.stacked import StackedRelationalMLP

__all__ = [
    "FlopCount",
    "Plan",
    "RelationalConv1d",
    "RelationalConv2d",
    "RelationalConv3d",
    "RelationalGraph",
    "RelationalLinear",
    "Rewired",
    "RewiringReport",
    "StackedRelationalMLP",
    "adopt_graph",
    "barabasi_albert",
    "clustering",
    "cnn_family",
    "complete",
    "connectome",
    "count_flops",
    "degree_preserving",
    "erdos_renyi",
    "expander",
    "fixed_plan",
    "harary",
    "hierarchical",
    "mlp_family",
    "mutate",
    "mutate_network",
    "path_length",
    "places",
    "published_family",
    "published_grid",
    "read_connectome",
    "rewire",
    "ring",
    "sample_plane",
    "watts_strogatz",
    "ws_flex",
]
