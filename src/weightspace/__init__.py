"""weightspace: trained neural networks as data."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weightspace.importers.checkpoint import from_checkpoint
    from weightspace.importers.from_module import from_module
    from weightspace.importers.onnx import from_onnx
    from weightspace.rank.estimators import NetworkClassifier, NetworkFeatures, NetworkRegressor

__version__ = "0.1.0"
__all__ = [
    "NetworkClassifier",
    "NetworkFeatures",
    "NetworkRegressor",
    "__version__",
    "from_checkpoint",
    "from_module",
    "from_onnx",
]

_HOMES = {
    "NetworkClassifier": "weightspace.rank.estimators",
    "NetworkFeatures": "weightspace.rank.estimators",
    "NetworkRegressor": "weightspace.rank.estimators",
    "from_checkpoint": "weightspace.importers.checkpoint",
    "from_module": "weightspace.importers.from_module",
    "from_onnx": "weightspace.importers.onnx",
}


def __getattr__(name: str) -> Any:
    """Import public names when they are first used, so that the package itself loads fast."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
