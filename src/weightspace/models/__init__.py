"""Metanetworks: models whose input is neural graphs. One paper a file, and the baselines."""

from weightspace.models.flat_mlp import FlatMLP
from weightspace.models.metanetwork import Metanetwork, Requirements
from weightspace.models.ng_gnn import NGGNN
from weightspace.models.registry import MODELS, Entry, make_model
from weightspace.models.saving import SavedModel, load_model, save_model

__all__ = [
    "MODELS",
    "NGGNN",
    "Entry",
    "FlatMLP",
    "Metanetwork",
    "Requirements",
    "SavedModel",
    "load_model",
    "make_model",
    "save_model",
]
