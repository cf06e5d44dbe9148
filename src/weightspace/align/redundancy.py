"""Neurons that a network can do without: dead ones, and copies of others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from weightspace.align.hearing import Duplicates, Hearing
from weightspace.align.silence import Silence
from weightspace.graph import GraphSpec, State
from weightspace.graph.reordering import nested_sizes
from weightspace.importers.coupling import spec_couplings

__all__ = ["Dead", "Duplicates", "dead_neurons", "duplicate_neurons"]


@dataclass(frozen=True, eq=False)
class Dead:
    """The dead neurons of an axis.

    Args:
        neurons: ``[*parents' sizes, size]``, whether each can be removed.
        zero: the same, whether it is zero wherever it stands, whatever the input; a dead neuron
            that is not zero sends nothing to living ones.
    """

    neurons: Bool[Tensor, "*nested size"]
    zero: Bool[Tensor, "*nested size"]


def dead_neurons(
    spec: GraphSpec, state: State, *, coupled: Collection[str] = ()
) -> dict[str, Dead]:
    """Find neurons whose removal changes nothing, by exact zeros.

    A neuron has no effect where its value is exactly zero (all it hears is zero, so is its bias,
    and its activation maps zero to zero), or where its outgoing weights to all living neurons
    are. It is dead if one of both holds at every place where its axis stands: residual
    connections carry it from place to place. All dead neurons can be removed at once.

    Args:
        spec: the network's structure.
        state: its tensors.
        coupled: further axes whose neurons are read together, such as by a softmax; see
            :func:`weightspace.importers.coupling.module_couplings`. These and the axes that the
            spec shows to be read together (layer norms, attention's features) have no dead
            neurons.

    Returns:
        For each axis that could be judged, its dead neurons.

    Raises:
        StateError: the network is not of the spec.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([1, 3, 1])
    >>> state = {p.name: torch.ones(p.shape) for p in spec.parameters}
    >>> state["1.weight"][:, 1] = 0
    >>> dead_neurons(spec, state)["0"].neurons
    tensor([False,  True, False])
    """
    search = Silence(spec, state, _judged(spec, coupled))
    found = {name: torch.zeros(nested_sizes(spec, name), dtype=torch.bool) for name in search.axes}
    while True:
        harmless = search.harmless(found)
        grown = {name: own | search.on_axis(name, harmless) for name, own in found.items()}
        if all(torch.equal(grown[name], own) for name, own in found.items()):
            break
        found = grown
    return {n: Dead(own, own & search.on_axis(n, search.zero)) for n, own in found.items()}


def duplicate_neurons(
    spec: GraphSpec, state: State, *, coupled: Collection[str] = ()
) -> list[Duplicates]:
    """Find neurons that hear the same as another, up to a sign or scale that the group allows.

    Weights and biases are compared at every place where the axis stands: to the bit, and to the
    bit up to a sign where activations are odd; positive scales up to rounding where activations
    are homogeneous. Then one neuron can take over the other's outgoing weights, multiplied by
    the factor. Neurons of different parents (heads, groups) are not compared, dead neurons and
    those that hear nothing are left out.

    Args:
        spec: the network's structure.
        state: its tensors.
        coupled: as in :func:`dead_neurons`.

    Returns:
        The groups of equal neurons, by axis and first neuron.

    Raises:
        StateError: the network is not of the spec.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([1, 3, 1], activations="relu", bias=False)
    >>> state = {"0.weight": torch.tensor([[1.0], [-1.0], [2.0]]), "1.weight": torch.ones(1, 3)}
    >>> duplicate_neurons(spec, state)
    [Duplicates(axis='0', neurons=((0,), (2,)), factors=(1.0, 2.0))]
    """
    dead = dead_neurons(spec, state, coupled=coupled)
    heard = {block.target for block in spec.blocks}
    found: list[Duplicates] = []
    for name, own in dead.items():
        if all(n.name in heard for n in spec.node_sets if name in n.axes):
            rows = Hearing.of(spec, state, name)
            for parent, gone in enumerate(own.neurons.reshape(-1, spec.axis(name).size)):
                found += rows.groups(parent, ~gone)
    return found


def _judged(spec: GraphSpec, coupled: Collection[str]) -> list[str]:
    """The axes whose neurons are read by weights alone, as far as is known."""
    unjudged = spec_couplings(spec) | set(coupled)
    read = {block.source for block in spec.blocks}
    for node_set in spec.node_sets:
        if node_set.name not in read and node_set.role == "hidden":
            unjudged |= set(node_set.axes)  # what reads it is no block
    return [
        a.name for a in spec.axes if a.role == "hidden" and a.permutes and a.name not in unjudged
    ]
