"""Recognising the sequences of layers that a bare checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from weightspace.importers.recognition.agents import find_deviations
from weightspace.importers.recognition.groups import Group, group_layers
from weightspace.importers.recognition.layers import Layer, gather_layers
from weightspace.importers.recognition.linking import link_groups
from weightspace.importers.recognition.tensor_names import untelling_word


@dataclass(frozen=True)
class LayerSequence:
    """Layers one after another.

    Args:
        name: what their names share; empty if that is nothing.
        layers: in the order of computation.
        sides: layers that read the last hidden neurons beside the last layer.
    """

    name: str
    layers: tuple[Layer, ...]
    sides: tuple[Layer, ...] = ()

    @property
    def matrices(self) -> tuple[Layer, ...]:
        """The layers that are no norms."""
        return tuple(layer for layer in self.layers if layer.kind != "norm")

    @property
    def is_plain(self) -> bool:
        """Whether it is a chain of linear layers and nothing else."""
        return not self.sides and all(layer.kind == "linear" for layer in self.layers)


@dataclass(frozen=True)
class Recognition:
    """What a checkpoint was recognised as.

    Args:
        sequences: the sequences of layers.
        left_out: the tensors that no neuron owns, with the reason.
        unplaced: the tensors whose place is not sure, with the reason; empty if all is clear.
    """

    sequences: tuple[LayerSequence, ...]
    left_out: Mapping[str, str]
    unplaced: Mapping[str, str]


def recognise(tensors: Mapping[str, Tensor], *, order: Sequence[str] | None = None) -> Recognition:
    """Recognise sequences of linear layers, convolutions and norms by names and shapes.

    Args:
        tensors: a network's state.
        order: the names of the layers in the order of computation, if the file tells it.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> [layer.name for layer in recognise(net.state_dict()).sequences[0].layers]
    ['0', '2']
    """
    telling = {name: word for name in tensors if (word := untelling_word(name))}
    if telling:
        return Recognition((), {}, {name: f"named {word!r}" for name, word in telling.items()})
    gathered = gather_layers(tensors)
    groups = [_in_order(gathered.layers, order)] if order else group_layers(gathered.layers)
    groups = link_groups([group.fitted(tensors) for group in groups], tensors)
    sides = {place: find_deviations(group, groups, gathered, tensors)
             for place, group in enumerate(groups)}  # fmt: skip
    beside = [layer for layers in sides.values() for layer in layers]
    sequences = tuple(
        LayerSequence(".".join(group.key), group.layers, tuple(sides[place]))
        for place, group in enumerate(groups)
        if not any(layer in beside for layer in group.layers)
    )
    placed = {name for layer in beside for name in layer.tensors} | set(gathered.left_out)
    unplaced = _misfits([g for g in groups if not any(la in beside for la in g.layers)])
    for name in gathered.strays:
        if name not in placed:
            unplaced[name] = "neither the weight nor the bias of a layer"
    return Recognition(sequences, gathered.left_out, unplaced)


def _in_order(layers: Sequence[Layer], order: Sequence[str]) -> Group:
    """All layers as one group, in a given order."""
    places = {name: place for place, name in enumerate(order)}
    unknown = [layer.name for layer in layers if layer.name not in places]
    misfit = f"{unknown[0]} has no place in the model's configuration" if unknown else ""
    known = sorted(layers, key=lambda layer: places.get(layer.name, len(places)))
    return Group((), tuple(known), (None,) * len(layers), misfit)


def _misfits(groups: Sequence[Group]) -> dict[str, str]:
    """The tensors of groups without a sure place, with the reason."""
    reasons: dict[str, str] = {}
    for group in groups:
        reason = group.misfit
        if not reason and len(groups) > 1 and len(group.matrices) < 2:
            reason = f"{group.layers[0].name} stands alone: its place is not clear"
        if reason:
            reasons |= {name: reason for layer in group.layers for name in layer.tensors}
    return reasons
