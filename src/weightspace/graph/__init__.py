"""The representation: specs, neural graphs, symmetry, features. No files, no learning."""

from weightspace.graph.activations import ACTIVATION_COUNT, LAWS, Activation, ActivationLaw
from weightspace.graph.axis import Axis, Mixing, Rescaling
from weightspace.graph.binding import Factor, LeftOut, Mixed, Parameter, Piece, Span, Weighing
from weightspace.graph.canonical import canonical_flips, canonical_signs
from weightspace.graph.canonical_phases import canonical_phases, canonical_turns
from weightspace.graph.canonical_scales import canonical_scales
from weightspace.graph.chain import ChainLayer, chain_spec, layered_chain_spec
from weightspace.graph.features import (
    activation_identities,
    position_counts,
    position_identities,
)
from weightspace.graph.graph_symmetry import GraphSymmetry
from weightspace.graph.matching import (
    Matching,
    Matchings,
    match_pairs,
    match_stacked,
    match_weights,
)
from weightspace.graph.matching_terms import Term
from weightspace.graph.mixed import Batch, MixedGraph
from weightspace.graph.neural_graph import NeuralGraph, State, check_state
from weightspace.graph.normalisation import Normalisation, statistics_keys
from weightspace.graph.reordering import Reordering
from weightspace.graph.rescaled import Freedom, Rescaled, rescaled
from weightspace.graph.run import ChainFunction, ChainRunner
from weightspace.graph.settling import settled_factors
from weightspace.graph.spec import BlockShape, EdgeBlock, GraphSpec, NodeSet
from weightspace.graph.spec_json import spec_from_dict, spec_from_json, spec_to_dict, spec_to_json
from weightspace.graph.symmetry import GroupElement, SymmetryGroup, SymmetryReport

__all__ = [
    "ACTIVATION_COUNT",
    "LAWS",
    "Activation",
    "ActivationLaw",
    "Axis",
    "Batch",
    "BlockShape",
    "ChainFunction",
    "ChainLayer",
    "ChainRunner",
    "EdgeBlock",
    "Factor",
    "Freedom",
    "GraphSpec",
    "GraphSymmetry",
    "GroupElement",
    "LeftOut",
    "Matching",
    "Matchings",
    "Mixed",
    "MixedGraph",
    "Mixing",
    "NeuralGraph",
    "NodeSet",
    "Normalisation",
    "Parameter",
    "Piece",
    "Reordering",
    "Rescaled",
    "Rescaling",
    "Span",
    "State",
    "SymmetryGroup",
    "SymmetryReport",
    "Term",
    "Weighing",
    "activation_identities",
    "canonical_flips",
    "canonical_phases",
    "canonical_scales",
    "canonical_signs",
    "canonical_turns",
    "chain_spec",
    "check_state",
    "layered_chain_spec",
    "match_pairs",
    "match_stacked",
    "match_weights",
    "position_counts",
    "position_identities",
    "rescaled",
    "settled_factors",
    "spec_from_dict",
    "spec_from_json",
    "spec_to_dict",
    "spec_to_json",
    "statistics_keys",
]
