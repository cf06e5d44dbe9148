"""The rules of operations, one family a file; importing this package registers them."""

from weightspace.importers.rules import (
    attention,
    contraction,
    convolution,
    creation,
    elementwise,
    indexing,
    joining,
    normalisation,
    pooling,
    recurrent,
    reduction,
    regions_of_images,
    shape,
    slicing,
)

__all__ = [
    "attention",
    "contraction",
    "convolution",
    "creation",
    "elementwise",
    "indexing",
    "joining",
    "normalisation",
    "pooling",
    "recurrent",
    "reduction",
    "regions_of_images",
    "shape",
    "slicing",
]
