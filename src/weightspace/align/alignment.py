"""Bringing one network to another by the symmetries of their architecture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from weightspace.align.frames import Frame, Kind
from weightspace.errors import StateError
from weightspace.graph import (
    GraphSpec,
    Reordering,
    State,
    Term,
    check_state,
    match_pairs,
    match_weights,
)
from weightspace.importers.flowing import Flow, FlowReader

SAMPLES = 2048
"""Samples of a value, at the most, that neurons are compared by."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """A network that was brought to another.

    Args:
        aligned: its tensors: the same function with neurons in the other's order.
        reordering: the order its neurons were given.
        distance: between the two networks' trained tensors, as vectors.
        distance_before: the same without alignment.
    """

    aligned: dict[str, Tensor]
    reordering: Reordering
    distance: float
    distance_before: float

    @property
    def matched_exactly(self) -> bool:
        """Whether the networks are the same but for symmetries, up to rounding."""
        return self.distance <= 1e-5 * max(self.distance_before, self._size)

    @property
    def _size(self) -> float:
        squares = (t.double().square().sum() for t in self.aligned.values() if _real(t))
        return math.sqrt(sum(float(square) for square in squares))


def align_weights(
    spec: GraphSpec,
    fixed: State,
    moving: State,
    *,
    kinds: Sequence[Kind] = ("sign",),
    restarts: int = 1,
    generator: torch.Generator | None = None,
) -> Alignment:
    """Bring a network to another by their weights.

    Ainsworth et al. 2023, section 3.2, on the group that the architecture has
    (:func:`weightspace.graph.match_weights`): permutations of neurons, channels, heads and
    features, tied where residual connections tie them. Where activations are odd, neurons also
    get the other network's signs, and with the kind ``"scale"`` its scales.

    Args:
        spec: the structure of both.
        fixed: the network that stays.
        moving: the network that is brought to it.
        kinds: of rescalings that are aligned, too.
        restarts: how many times to begin; the closest result counts.
        generator: the source of randomness.

    Raises:
        StateError: a network is not of the spec, or has values that are not finite.

    >>> from weightspace.graph import SymmetryGroup, chain_spec
    >>> spec = chain_spec([2, 5, 1], activations="tanh")
    >>> state = {p.name: torch.randn(p.shape) for p in spec.parameters}
    >>> copy = SymmetryGroup(spec).sample(torch.Generator().manual_seed(1)).act_state(state)
    >>> align_weights(spec, state, copy).matched_exactly
    True
    """
    pair = _Pair.of(spec, fixed, moving, kinds)
    found = match_weights(spec, pair.goal.form, pair.form, restarts=restarts, generator=generator)
    return pair.aligned_by(Reordering.of([found.element]))


def align_activations(
    reader: FlowReader,
    fixed: State,
    moving: State,
    *,
    kinds: Sequence[Kind] = ("sign",),
    restarts: int = 1,
    generator: torch.Generator | None = None,
) -> Alignment:
    """Bring a network to another by what its neurons do on inputs.

    Ainsworth et al. 2023, section 3.1: neurons are paired so that the sum of the correlations
    of their values is largest, over all places where an axis stands, tied ones together.

    Args:
        reader: of the architecture, with the inputs.
        fixed: the network that stays.
        moving: the network that is brought to it.
        kinds: of rescalings that are aligned, too.
        restarts: how many times to begin.
        generator: the source of randomness.

    Raises:
        StateError: a network is of another architecture.
    """
    pair = _Pair.of(reader.spec, fixed, moving, kinds)
    flows = zip(reader(pair.goal.form), reader(pair.form), strict=True)
    compared = [_compared(one, other) for one, other in flows]
    found = match_pairs(reader.spec, compared, restarts=restarts, generator=generator)
    return pair.aligned_by(found.reordering)


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two networks with their canonical forms: the one that stays is the goal.

    Of large networks this is the most memory: nothing is held that is not needed again.
    """

    spec: GraphSpec
    fixed: State
    moving: State
    goal: Frame
    form: dict[str, Tensor]

    @classmethod
    def of(cls, spec: GraphSpec, fixed: State, moving: State, kinds: Sequence[Kind]) -> _Pair:
        for what, state in (("fixed network", fixed), ("moving network", moving)):
            check_state(spec, state)
            for name, tensor in state.items():
                if _real(tensor) and not bool(torch.isfinite(tensor).all()):
                    raise StateError(
                        f"{what}, tensor {name!r}",
                        expected="finite values",
                        found="NaN or infinity",
                    )
        goal, form = Frame.of(spec, fixed, kinds), Frame.of(spec, moving, kinds).form
        return cls(spec, fixed, moving, goal, form)

    def aligned_by(self, order: Reordering) -> Alignment:
        """The moving network with another order of neurons and the goal's signs and scales."""
        aligned = self.goal.back(order.element(0).act_state(self.form))
        trained = [p.name for p in self.spec.parameters if not p.buffer]
        after = _distance(self.fixed, aligned, trained)
        return Alignment(aligned, order, after, _distance(self.fixed, self.moving, trained))


def _distance(one: State, other: State, names: Sequence[str]) -> float:
    total = sum(float((one[n].double() - other[n].double()).square().sum()) for n in names)
    return math.sqrt(total)


def _compared(one: Flow, other: Flow) -> Term:
    """A value of both networks, each neuron's samples with mean 0 and norm 1."""
    axes = tuple(axis for axis in one.axes if axis is not None)
    return Term(_standardised(one)[None], _standardised(other)[None], (*axes, None))


def _standardised(flow: Flow) -> Tensor:
    """``[*axes' sizes, samples]`` of some samples, the same for every value of that size."""
    named = [i for i, axis in enumerate(flow.axes) if axis is not None]
    values = flow.values.double().movedim(named, list(range(len(named)))).flatten(len(named))
    count = values.shape[-1]
    if count > SAMPLES:
        values = values[..., torch.linspace(0, count - 1, SAMPLES).long()]
    centred = values - values.mean(-1, keepdim=True)
    norm: Tensor = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
    return centred / norm.clamp_min(1e-12)


def _real(tensor: Tensor) -> bool:
    return tensor.is_floating_point()
