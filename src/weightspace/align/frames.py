"""Canonical forms of a network, and the way back from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from weightspace.graph import GraphSpec, State, canonical_flips
from weightspace.graph.settling import settled_factors

Kind = Literal["sign", "scale"]


@dataclass(frozen=True, eq=False)
class Frame:
    """A network in canonical form, and the numbers that its tensors were multiplied by.

    Networks of one function that differ in the signs or scales of their neurons have one form,
    up to the order of neurons; bringing another network to this frame gives it this network's
    signs and scales.

    Args:
        form: the canonical tensors.
        applied: what the network's own tensors were multiplied by, for each kind; the number one
            for tensors that no factor acts on.
    """

    form: dict[str, Tensor]
    applied: tuple[dict[str, Tensor], ...]

    @classmethod
    def of(cls, spec: GraphSpec, state: State, kinds: Sequence[Kind]) -> Frame:
        """Bring a network to canonical form; scales come before signs.

        Args:
            spec: its structure.
            state: its tensors.
            kinds: of the rescalings that are undone; those that the spec does not have are
                passed over.
        """
        stacked = {name: tensor[None] for name, tensor in state.items()}
        applied = []
        for kind in ("scale", "sign"):
            if kind in kinds:
                settle = canonical_flips if kind == "sign" else _scales
                stacked, factors = settle(spec, stacked)
                if kind == "sign":  # in bytes: of large networks this is kept for long
                    factors = {name: factor.to(torch.int8) for name, factor in factors.items()}
                applied.append({n: f[0] if f.ndim else f for n, f in factors.items()})
        return cls({name: tensor[0] for name, tensor in stacked.items()}, tuple(applied))

    def back(self, form: State) -> dict[str, Tensor]:
        """Give a canonical form this network's signs and scales."""
        result = dict(form)
        del form  # a tensor is freed as soon as it is replaced, if nobody else holds it
        for factors in reversed(self.applied):
            for name, factor in factors.items():
                if factor.ndim and result[name].is_floating_point():
                    result[name] = result[name] / factor
        return result


def _scales(spec: GraphSpec, stacked: dict[str, Tensor]) -> tuple[dict[str, Tensor], ...]:
    return settled_factors(spec, stacked, "scale")
