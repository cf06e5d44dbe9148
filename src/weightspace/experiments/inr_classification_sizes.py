"""The models that are compared on implicit networks, and the options that give their sizes."""

from __future__ import annotations

from typing import Any

_NO_DROPOUT = {"dropout": 0.0}
_SMALL_NGT: dict[str, Any] = {
    "width": 32,
    "pair_width": 16,
    "size": 64,
    "heads": 4,
    "layers": 2,
    "node_hidden": 64,
    "pair_hidden": 32,
    **_NO_DROPOUT,
}
SMALL: dict[str, dict[str, Any]] = {
    "ng-gnn-probes": _NO_DROPOUT,
    "ng-gnn": _NO_DROPOUT,
    "ng-gnn-linear": {"width": 64, **_NO_DROPOUT},
    "ng-t-probes": _SMALL_NGT,
    "ng-t": _SMALL_NGT,
    "ng-t-edges": _SMALL_NGT,
    "dws": {},
    "nfn-np": {"width": 64},
    "nfn-hnp": {"width": 64},
    "nft": {"width": 32, "layers": 2},
    "scale-gmn": {"width": 32, "layers": 3},
    "inr2vec": {},
    "neuron-transformer": _NO_DROPOUT,
    "flat-mlp": _NO_DROPOUT,
    "flat-mlp-augmented": _NO_DROPOUT,
    "flat-mlp-aligned": _NO_DROPOUT,
    "stat-nn": _NO_DROPOUT,
    "probe-only": _NO_DROPOUT,
}
"""The models, and their options where the published size takes too long on two cores.

Without dropout, because nothing learns by heart in so few epochs.
"""

PUBLISHED_SIZE: dict[str, dict[str, Any]] = {
    **{name: {} for name in SMALL},
    "nfn-np": {"width": 512, "head": 1000},
    "nfn-hnp": {"width": 512, "head": 1000},
    "nft": {"width": 256},
    "dws": {"aggregate": "attention"},
}
"""The models with the options that give the papers' sizes."""
