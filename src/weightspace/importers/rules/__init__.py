"""The rules of operations, one family a file; importing this package registers them."""

from weightspace.importers.rules import (
    attention,
    contraction,
    convolution,
    creation,
    elementwise,
    indexing,
    normalisation,
    pooling,
    recurrent,
    reduction,
    regions_of_images,
    shape,
)

__all__ = [
    "attention",
    "contraction",
    "convolution",
    "creation",
    "elementwise",
    "indexing",
    "normalisation",
    "pooling",
    "recurrent",
    "reduction",
    "regions_of_images",
    "shape",
]
