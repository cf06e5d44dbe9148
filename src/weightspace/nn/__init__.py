"""Equivariant layers, written once against the blocks of a graph."""

from weightspace.nn.arrangement import Arrangement, Member, Run, Section
from weightspace.nn.arranging import arrange, feature_layout
from weightspace.nn.dws_layer import DWSLayer
from weightspace.nn.edge_maps import DirectedMap
from weightspace.nn.edge_update import EdgeUpdate, edge_silu
from weightspace.nn.encode import EdgeEncoder, NodeEncoder, NodeIdentity, ProbeEncoder
from weightspace.nn.film import Aggregate, film_aggregate
from weightspace.nn.fourier import FourierLinear
from weightspace.nn.fourier_features import FourierFeatures
from weightspace.nn.fusion import fuse_kernels
from weightspace.nn.networks import Networks
from weightspace.nn.nf_layer import NFLayer
from weightspace.nn.nft_layer import NFTLayer
from weightspace.nn.normaliser import Normaliser
from weightspace.nn.plan import BlockPlan, Plan, plan_of
from weightspace.nn.pna import PNALayer

__all__ = [
    "Aggregate",
    "Arrangement",
    "BlockPlan",
    "DWSLayer",
    "DirectedMap",
    "EdgeEncoder",
    "EdgeUpdate",
    "FourierFeatures",
    "FourierLinear",
    "Member",
    "NFLayer",
    "NFTLayer",
    "Networks",
    "NodeEncoder",
    "NodeIdentity",
    "Normaliser",
    "PNALayer",
    "Plan",
    "ProbeEncoder",
    "Run",
    "Section",
    "arrange",
    "edge_silu",
    "feature_layout",
    "film_aggregate",
    "fuse_kernels",
    "plan_of",
]
