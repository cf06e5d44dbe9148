"""Metanetworks: models whose input is neural graphs. One paper a file, and the baselines."""

from weightspace.models.changes import GraphChanges, GraphState
from weightspace.models.editor import Editor
from weightspace.models.flat_mlp import FlatMLP
from weightspace.models.metanetwork import Metanetwork
from weightspace.models.ng_gnn import NGGNN
from weightspace.models.predictor import Predictor
from weightspace.models.registry import MODELS, Entry, make_editor, make_model
from weightspace.models.requirements import Requirements
from weightspace.models.saving import SavedModel, load_model, save_model
from weightspace.models.trunk import Changes, ChangesHead, Prepared, Readout, Trunk

__all__ = [
    "MODELS",
    "NGGNN",
    "Changes",
    "ChangesHead",
    "Editor",
    "Entry",
    "FlatMLP",
    "GraphChanges",
    "GraphState",
    "Metanetwork",
    "Predictor",
    "Prepared",
    "Readout",
    "Requirements",
    "SavedModel",
    "Trunk",
    "load_model",
    "make_editor",
    "make_model",
    "save_model",
]
