"""Sketches: short vectors whose inner products are nearly those of networks' matrices."""

from __future__ import annotations

import math
import zlib
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.find.matrices import matrix_names
from weightspace.find.network import Network

WIDTH = 256
_CACHED = 2**16


def sketch(network: Network) -> Float[np.ndarray, " width"]:
    """Project all matrices to one short vector, of norm one.

    Values get random signs and are summed in 256 buckets (Charikar et al. 2002), so that the
    inner product of two sketches is the similarity of the networks *in the order that their
    neurons are in*, up to ``1 / sqrt(256)``. Matrices count by their number of values, and those
    of one shape are projected alike in every network: networks that share layers are near,
    whatever else they have.

    Most fine-tunes keep the order of neurons. This finds them among thousands; descriptors find
    the networks that were reordered.

    >>> state = {"weight": torch.randn(8, 8)}
    >>> one, other = (sketch(Network.of({"weight": w}, None)) for w in (state["weight"],) * 2)
    >>> round(float(one @ other), 5)
    1.0
    """
    total = torch.zeros(WIDTH, dtype=torch.float64)
    for name in matrix_names(network):
        values = network.state[name].reshape(-1)
        weight = math.sqrt(len(values)) / max(float(torch.linalg.vector_norm(values)), 1e-30)
        signed = weight * values * _signs(tuple(network.state[name].shape))
        padded = torch.nn.functional.pad(signed, (0, -len(signed) % WIDTH))
        total += padded.reshape(-1, WIDTH).sum(0, dtype=torch.float64)
    norm = float(torch.linalg.vector_norm(total))
    return (total / norm if norm else total).float().numpy()


def _signs(shape: tuple[int, ...]) -> Tensor:
    small = np.prod(shape) <= _CACHED
    return _cached_signs(shape) if small else _make_signs(shape)


def _make_signs(shape: tuple[int, ...]) -> Tensor:
    generator = torch.Generator().manual_seed(zlib.crc32(repr(shape).encode()))
    size = int(np.prod(shape))
    return torch.randint(0, 2, (size,), generator=generator, dtype=torch.int8) * 2.0 - 1.0


@lru_cache(maxsize=64)
def _cached_signs(shape: tuple[int, ...]) -> Tensor:
    return _make_signs(shape)
