"""The translations of operations, one family a file; importing this package registers them."""

from weightspace.importers.onnx.operators import (
    activation,
    contraction,
    convolution,
    elementwise,
    indexing,
    normalisation,
    pooling,
    recurrent,
    reduction,
    resizing,
    shape,
)

__all__ = [
    "activation",
    "contraction",
    "convolution",
    "elementwise",
    "indexing",
    "normalisation",
    "pooling",
    "recurrent",
    "reduction",
    "resizing",
    "shape",
]
