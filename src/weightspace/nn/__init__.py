"""Equivariant layers, written once against the blocks of a graph."""

from weightspace.nn.edge_maps import LinearMap, apply_both
from weightspace.nn.edge_update import EdgeUpdate, pair_silu
from weightspace.nn.encode import EdgeEncoder, NodeEncoder, ProbeEncoder
from weightspace.nn.film import Aggregate, film_aggregate
from weightspace.nn.fourier import FourierFeatures
from weightspace.nn.fusion import fuse_kernels
from weightspace.nn.normaliser import Normaliser
from weightspace.nn.plan import BlockPlan, Edges, Plan, plan_of
from weightspace.nn.pna import PNALayer

__all__ = [
    "Aggregate",
    "BlockPlan",
    "EdgeEncoder",
    "EdgeUpdate",
    "Edges",
    "FourierFeatures",
    "LinearMap",
    "NodeEncoder",
    "Normaliser",
    "PNALayer",
    "Plan",
    "ProbeEncoder",
    "apply_both",
    "film_aggregate",
    "fuse_kernels",
    "pair_silu",
    "plan_of",
]
