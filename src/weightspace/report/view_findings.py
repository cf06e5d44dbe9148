"""The neurons that a page marks: dead, silent, and copies of others."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod

import torch

from weightspace.align.redundancy import Dead, dead_neurons, duplicate_neurons
from weightspace.graph import GraphSpec, State
from weightspace.graph.reordering import nested_sizes
from weightspace.report.view_content import Finding, Mark
from weightspace.report.view_observing import Observation

MARKS = (
    Mark(
        "dead",
        "dead",
        "Exact zeros take all their effect away: they can be removed and nothing changes.",
        "model-1",
    ),
    Mark(
        "silent",
        "never active",
        "Zero on every input that the network was run on, once all layers that they stand at are "
        "passed; on other inputs they may not be. Not looked for where residual connections add.",
        "model-4",
    ),
    Mark(
        "duplicate",
        "duplicate",
        "They hear the same as another neuron, up to a factor that the activation allows: one "
        "can take over the other's outgoing weights.",
        "model-3",
    ),
)


def findings(
    spec: GraphSpec,
    state: State,
    observation: Observation | None,
    coupled: Collection[str] = (),
) -> list[Finding]:
    """All marked neurons of a network.

    Args:
        spec: its structure.
        state: its tensors.
        observation: what it did on inputs, for silent neurons.
        coupled: axes whose neurons are read together.
    """
    dead = dead_neurons(spec, state, coupled=coupled)
    found = [finding for axis, own in dead.items() for finding in _dead(axis, own)]
    for group in duplicate_neurons(spec, state, coupled=coupled):
        indices = tuple(flat_index(spec, group.axis, neuron) for neuron in group.neurons)
        factors = ", ".join(f"{factor:.6g}" for factor in group.factors)
        found.append(Finding("duplicate", group.axis, indices, f"equal up to factors {factors}"))
    if observation is not None:
        found += _silent(spec, observation)
    return found


def flat_index(spec: GraphSpec, axis: str, neuron: tuple[int, ...]) -> int:
    """A neuron's number on its axis, all copies of a nested axis counted through."""
    index = 0
    for place, size in zip(neuron, nested_sizes(spec, axis), strict=True):
        index = index * size + place
    return index


def _dead(axis: str, own: Dead) -> Iterator[Finding]:
    for which, text in (
        (own.zero, "zero wherever it stands, whatever the input"),
        (own.neurons & ~own.zero, "nothing it sends reaches a living neuron"),
    ):
        for index in torch.nonzero(which.flatten()).flatten().tolist():
            yield Finding("dead", axis, (index,), text)


def _silent(spec: GraphSpec, observation: Observation) -> Iterator[Finding]:
    summed = {a for b in spec.blocks if not b.pieces for a in spec.node_set(b.target).axes}
    for axes, silent in observation.silent.items():
        axis = axes[-1]
        if silent.numel() != prod(nested_sizes(spec, axis)):
            continue  # a product of axes: its neurons are of none of them alone
        if summed & set(axes):
            continue  # zero at the end of a residual stream says nothing of its other places
        for index in torch.nonzero(silent.flatten()).flatten().tolist():
            yield Finding("silent", axis, (index,), f"zero on all of {observation.inputs}")
