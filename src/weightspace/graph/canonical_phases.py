"""Canonical phases: one representative of the sine networks that differ in neurons' phases."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from weightspace.errors import SpecError
from weightspace.graph.binding import Piece
from weightspace.graph.run import ChainRunner
from weightspace.graph.spec import EdgeBlock, GraphSpec, NodeSet

Stacked = dict[str, Tensor]


def canonical_phases(spec: GraphSpec, stacked: Stacked) -> Stacked:
    """Shift the biases of sine neurons by multiples of ``pi / w0`` into ``|b| <= pi / (2 w0)``.

    A sine neuron computes ``sin(w0 (z + b))``: a bias shifted by ``pi / w0`` flips the sign of
    what it gives, which its outgoing weights take back (Kalogeropoulos et al. 2024, on the
    shift of the sine); one shifted by twice that gives the same. So does this, exactly up to the
    rounding of the bias. Flipping a neuron's sign flips the canonical form's; permuting neurons
    permutes it. The one exception has measure zero: at ``|b| = pi / (2 w0)`` both ends of the
    range are the same network.

    Only chains are changed, where the spec says all that happens between a bias and its sine.

    Args:
        spec: whose sine layers are brought to canonical form.
        stacked: the networks' tensors with a leading batch dimension.

    Returns:
        New tensors of the same functions.

    >>> from weightspace.graph import Activation, chain_spec
    >>> spec = chain_spec([1, 1, 1], activations=Activation.of("sine", w0=math.pi))
    >>> one = torch.ones(1, 1, 1)
    >>> state = {"0.weight": one, "1.weight": one, "1.bias": one[0]}
    >>> found = canonical_phases(spec, {**state, "0.bias": torch.tensor([[1.25]])})
    >>> found["0.bias"].item(), found["1.weight"].item()
    (0.25, -1.0)
    """
    return canonical_turns(spec, stacked)[0]


def canonical_turns(spec: GraphSpec, stacked: Stacked) -> tuple[Stacked, Stacked]:
    """The tensors of :func:`canonical_phases`, and the signs that they were multiplied by."""
    result = dict(stacked)
    applied = {name: tensor.new_ones(()) for name, tensor in stacked.items()}
    for node_set, block in _sines(spec):
        bias, weight = node_set.pieces[0].parameter, block.pieces[0].parameter
        half_turn = math.pi / dict(node_set.activation.arguments).get("w0", 1.0)
        turns = (stacked[bias].detach() / half_turn).round()
        result[bias] = stacked[bias] - turns * half_turn
        signs = _along_columns(block.pieces[0], 1 - 2 * turns.remainder(2))
        result[weight] = result[weight] * signs
        applied[weight] = signs
    return result, applied


@lru_cache(maxsize=64)
def _sines(spec: GraphSpec) -> list[tuple[NodeSet, EdgeBlock]]:
    """The sine layers of a chain that have a bias, with the weights that read them."""
    try:
        ChainRunner(spec)
    except SpecError:
        return []
    names = [parameter.name for parameter in spec.parameters]
    used = [piece.parameter for piece in spec.pieces]
    if sorted(names) != sorted(used) or any(item.same_as for item in spec.left_out):
        return []  # a tensor with several readers cannot turn for one of them
    readers = {block.source: block for block in spec.blocks}
    return [
        (node_set, readers[node_set.name])
        for node_set in spec.of_role("hidden")
        if node_set.activation.name == "sine" and node_set.pieces and node_set.name in readers
    ]


def _along_columns(piece: Piece, signs: Tensor) -> Tensor:
    """Signs ``[batch, neurons]`` shaped for the dimension of the weight that they are."""
    rows_first = piece.spans[0].factors[0].side == "target"
    return torch.unsqueeze(signs, 1 if rows_first else 2)
