"""Removing neurons that a network can do without, its function unchanged."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weightspace.align.pruning import Pruned
from weightspace.align.redundancy import Duplicates, dead_neurons, duplicate_neurons
from weightspace.align.shrinking import Shrinker
from weightspace.graph import GraphSpec
from weightspace.graph.layout import piece_grid
from weightspace.importers.coupling import module_couplings
from weightspace.importers.exporting import Inputs


def remove_redundant(module: nn.Module, example_inputs: Inputs) -> Pruned:
    """Make a module without dead neurons and without copies of others: the same function.

    Dead neurons (:func:`~weightspace.align.dead_neurons`) leave as they are; of neurons that hear
    the same (:func:`~weightspace.align.duplicate_neurons`) the first one stays and sends what all
    of them sent. Neurons within heads and groups stay, since every head has as many.

    Args:
        module: the network; it is left as it was.
        example_inputs: as for :func:`weightspace.from_module`.

    Raises:
        TraceError: the module cannot be followed.

    >>> net = nn.Sequential(nn.Linear(1, 3, bias=False), nn.ReLU(), nn.Linear(3, 1))
    >>> _ = net[0].weight.data.copy_(torch.tensor([[1.0], [0.0], [2.0]]))
    >>> small = remove_redundant(net, torch.zeros(1, 1)).module
    >>> x = torch.randn(5, 1)
    >>> small[0].out_features, torch.allclose(small(x), net(x))
    (1, True)
    """
    shrinker, coupled = Shrinker(module, example_inputs), module_couplings(module, example_inputs)
    spec, stiff = shrinker.spec, shrinker.shapes.stiff
    state = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    gone = {
        name: found.neurons.clone()
        for name, found in dead_neurons(spec, state, coupled=coupled).items()
        if name not in stiff and spec.axis(name).within is None
    }
    groups = [g for g in duplicate_neurons(spec, state, coupled=coupled) if g.axis in gone]
    for group in groups:
        gone[group.axis][[number for (number,) in group.neurons[1:]]] = True
    found = shrinker.possible({n: _others(own) for n, own in gone.items() if bool(own.any())})
    taken = [group for group in groups if group.axis in found.kept]
    for group in taken:
        _take_over(spec, state, group)
    made = shrinker.make(found.kept, state) if taken or found.module is None else found.module
    return Pruned.of(module, made, found.kept, found.fixed)


def _take_over(spec: GraphSpec, state: dict[str, Tensor], group: Duplicates) -> None:
    """Let the first neuron of a group send what all of them send, in place."""
    (first,), *others = group.neurons
    seen = set()
    for piece in spec.pieces:
        key = (piece.parameter, piece.cells)
        if key in seen:
            continue
        seen.add(key)
        grid = piece_grid(piece, state[piece.parameter][None])[0]
        for place, factor in enumerate(piece.factors):
            if factor.axis == group.axis and factor.side == "source":
                rows = grid.movedim(place, 0)
                for (other,), times in zip(others, group.factors[1:], strict=True):
                    rows[first] += times * rows[other]


def _others(gone: Tensor) -> Tensor:
    """The neurons that stay; the first one where none would, as a layer has at least one."""
    stay = torch.nonzero(~gone).flatten()
    return stay if len(stay) else torch.zeros(1, dtype=torch.long)
