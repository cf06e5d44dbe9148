"""Metanetworks: models whose input is neural graphs. One paper a file, and the baselines."""

from weightspace.models.changes import GraphChanges, GraphState
from weightspace.models.dws import DWSNet
from weightspace.models.editor import Editor
from weightspace.models.flat_mlp import FlatMLP
from weightspace.models.flat_mlp_aligned import FlatMLPAligned
from weightspace.models.flat_mlp_augmented import FlatMLPAugmented
from weightspace.models.inr2vec import Inr2Vec
from weightspace.models.metanetwork import Metanetwork
from weightspace.models.neuron_transformer import NeuronTransformer
from weightspace.models.nfn_hnp import NFNHNP
from weightspace.models.nfn_np import NFNNP
from weightspace.models.nft import NFT
from weightspace.models.ng_gnn import NGGNN
from weightspace.models.ng_gnn_linear import NGGNNLinear
from weightspace.models.ng_t import NGT
from weightspace.models.ng_t_edges import NGTEdges
from weightspace.models.pair_changes import PairChanges, PairState
from weightspace.models.predictor import Predictor
from weightspace.models.probe_only import ProbeOnly
from weightspace.models.registry import MODELS, Entry, make_editor, make_model
from weightspace.models.requirements import Requirements
from weightspace.models.runners import ChainsRunner, ModuleRunner, Runner
from weightspace.models.saving import SavedModel, load_model, save_model
from weightspace.models.scale_gmn import ScaleGMN
from weightspace.models.stat_nn import StatNN, layer_statistics
from weightspace.models.trunk import Changes, ChangesHead, Prepared, Readout, Trunk

__all__ = [
    "MODELS",
    "NFNHNP",
    "NFNNP",
    "NFT",
    "NGGNN",
    "NGT",
    "ChainsRunner",
    "Changes",
    "ChangesHead",
    "DWSNet",
    "Editor",
    "Entry",
    "FlatMLP",
    "FlatMLPAligned",
    "FlatMLPAugmented",
    "GraphChanges",
    "GraphState",
    "Inr2Vec",
    "Metanetwork",
    "ModuleRunner",
    "NGGNNLinear",
    "NGTEdges",
    "NeuronTransformer",
    "PairChanges",
    "PairState",
    "Predictor",
    "Prepared",
    "ProbeOnly",
    "Readout",
    "Requirements",
    "Runner",
    "SavedModel",
    "ScaleGMN",
    "StatNN",
    "Trunk",
    "layer_statistics",
    "load_model",
    "make_editor",
    "make_model",
    "save_model",
]
