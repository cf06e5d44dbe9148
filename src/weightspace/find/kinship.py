"""Kinship: what two networks are to each other, from their weights alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from torch import Tensor

from weightspace.find.comparing import ORDERED, RELATED, Comparison, compare
from weightspace.find.descriptors import SAME, describe
from weightspace.find.matrices import matrix_names
from weightspace.find.network import Network
from weightspace.find.rounding import Rounding, rounding_of
from weightspace.find.shared_part import compare_shared
from weightspace.find.sketching import sketch

Kind = Literal[
    "copy", "permuted copy", "quantised", "pruned", "fine-tune", "related", "unrelated", "unlike"
]
KINDS: tuple[Kind, ...] = (
    "copy", "permuted copy", "quantised", "pruned", "fine-tune", "related", "unrelated", "unlike",
)  # fmt: skip
"""From the nearest to the farthest; ``unlike`` networks have no layer of one shape."""

FINE_TUNED = 0.7
"""The similarity from which on kin counts as fine-tuned one from the other."""
DEVIATIONS = 6.0
"""And how many standard deviations of independent weights, ``1 / sqrt(values)``, the similarity
of networks that were not reordered must be for kin."""
EXACT = 1e-5
LEAST_SHARED = 0.2
"""The part of a network that must be shared for a verdict on networks of different structure."""


@dataclass(frozen=True, slots=True)
class Features:
    """What is known of a network by itself.

    Args:
        descriptor: see :func:`~weightspace.find.describe`.
        rounding: what its weights were rounded to.
        zeros: the share of its matrices' values that are zero.
        sketch: see :func:`~weightspace.find.sketching.sketch`.
    """

    descriptor: Float[np.ndarray, " channels"]
    rounding: Rounding
    zeros: float
    sketch: Float[np.ndarray, " width"]

    @classmethod
    def of(cls, network: Network) -> Features:
        """Find them out."""
        names = list(matrix_names(network))
        values = sum(network.state[name].numel() for name in names)
        zeros = sum(int((network.state[name] == 0).sum()) for name in names)
        return cls(
            describe(network),
            rounding_of(network),
            zeros / values if values else 0.0,
            sketch(network),
        )


@dataclass(frozen=True, slots=True)
class Kinship:
    """What a network is to another.

    Args:
        kind: see :data:`KINDS`.
        distance: ``|A - B| / sqrt(|A|^2 + |B|^2)`` after alignment, with layers that are not
            shared at right angles: 0 for copies, about 1 for unrelated networks.
        similarity: the cosine of the angle between what is shared, after alignment.
        shared: the part of the larger network's values that was compared.
        derived: which of the two was made of the other, if the weights prove it: by zeros or
            rounding that the other does not have.
        rise: how much farther the other's largest weights stand out, see :func:`peak_rise`.
        moved: whether neurons had to be reordered or rescaled.
        note: what the verdict supposes.
    """

    kind: Kind
    distance: float
    similarity: float
    shared: float = 1.0
    derived: Literal["", "one", "other"] = ""
    rise: float = 0.0
    moved: bool = False
    note: str = ""

    @property
    def is_kin(self) -> bool:
        """Whether the networks have anything to do with each other."""
        return self.kind not in {"unrelated", "unlike"}


def kinship(
    one: Network,
    other: Network,
    *,
    features: tuple[Features, Features] | None = None,
) -> Kinship:
    """Say what two networks are to each other.

    Args:
        one: a network.
        other: another, of any architecture.
        features: of both, if they are known already.

    >>> import torch
    >>> from weightspace.graph import SymmetryGroup, chain_spec
    >>> spec = chain_spec([8, 16, 4], activations="relu")
    >>> draw = torch.Generator().manual_seed(0)
    >>> state = {p.name: torch.randn(p.shape, generator=draw) for p in spec.parameters}
    >>> element = SymmetryGroup(spec).sample(draw, kinds=("permutation", "scale"))
    >>> kinship(Network.of(state, spec), Network.of(element.act_state(state), spec)).kind
    'permuted copy'
    """
    same = one.structure == other.structure
    if same and one.sha256 == other.sha256:
        return Kinship("copy", 0.0, 1.0)
    known = features or (Features.of(one), Features.of(other))
    near = float(np.linalg.norm(known[0].descriptor - known[1].descriptor)) < SAME
    found = compare(one, other, exactly=near) if same else compare_shared(one, other)
    if found is None:
        return Kinship("unlike", 1.0, 0.0, 0.0)
    verdict = _verdict(found, known)
    derived = _derived(known) if verdict in {"quantised", "pruned"} else ""
    gap = math.sqrt(found.shared * found.distance**2 + 1 - found.shared)
    return Kinship(
        verdict,
        gap,
        found.similarity,
        found.shared,
        derived,
        peak_rise(found),
        found.moved,
        _note(found, one, verdict),
    )


def peak_rise(found: Comparison) -> float:
    """The mean over weights of what ``log(max |W| / rms W)`` of their matrices differs by.

    Training lets single weights stand out: of all statistics that were tried, this one rose the
    most reliably from a network to its fine-tunes (docs/find.md).
    """
    total = values = 0.0
    for one, other in zip(found.one, found.other, strict=True):
        if bool(one.any()) and bool(other.any()):
            total += one.numel() * (_peak(other) - _peak(one))
            values += one.numel()
    return total / values if values else 0.0


def _peak(matrix: Tensor) -> float:
    values = matrix.double()
    return math.log(float(values.abs().max() / values.square().mean().sqrt()))


def _verdict(found: Comparison, features: tuple[Features, Features]) -> Kind:
    whole = found.shared == 1.0
    if found.shared < LEAST_SHARED:
        return "unlike"
    if whole and max(found.distance, found.vector_gap) <= EXACT:
        return "permuted copy"
    coarse, fine = sorted((f.rounding for f in features), key=lambda r: -r.coarseness)
    if whole and coarse.coarseness > fine.coarseness:
        # Both may have been rounded: the error of the finer one adds to it. Where neurons were
        # scaled, the errors were, too.
        slack = 4.0 if found.rescaled else 2.0
        if found.distance * math.sqrt(2) <= slack * math.hypot(coarse.error, fine.error):
            return "quantised"
    if abs(features[0].zeros - features[1].zeros) > 0.05 and _agree_on_the_rest(found):
        return "pruned"
    values = sum(tensor.numel() for tensor in found.one)
    least = RELATED if found.moved else max(ORDERED, DEVIATIONS / math.sqrt(max(values, 1)))
    if found.beyond_chance < least:
        return "unrelated"
    return "fine-tune" if found.similarity >= FINE_TUNED else "related"


def _agree_on_the_rest(found: Comparison) -> bool:
    """Whether two networks are alike where neither is zero."""
    masks = [(o != 0) & (t != 0) for o, t in zip(found.one, found.other, strict=True)]
    if not any(bool(mask.any()) for mask in masks):
        return False  # Nothing is left that could agree.
    one = tuple(tensor * mask for tensor, mask in zip(found.one, masks, strict=True))
    other = tuple(tensor * mask for tensor, mask in zip(found.other, masks, strict=True))
    return Comparison(one, other).similarity >= PRUNED


PRUNED = 0.9
"""The similarity of what is left from which on a network with more zeros counts as pruned."""


def _derived(features: tuple[Features, Features]) -> Literal["", "one", "other"]:
    one, other = ((f.rounding.coarseness, f.zeros) for f in features)
    if one[0] >= other[0] and one[1] >= other[1] and one != other:
        return "one"
    return "other" if one != other and other[0] >= one[0] and other[1] >= one[1] else ""


def _note(found: Comparison, one: Network, verdict: Kind) -> str:
    if verdict in {"unrelated", "unlike"}:
        return ""
    if found.assumed:
        return f"if activations are like {'ReLU' if 'scale' in found.rescaled else 'tanh'}"
    if one.spec is None:
        return "structure not known: not reordered"
    return "" if found.shared == 1.0 else f"shares {found.shared:.0%} of the values"
