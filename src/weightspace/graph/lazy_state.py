"""State dicts whose tensors are made when they are read, for networks that fill the memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from weightspace.graph.binding import Piece
from weightspace.graph.layout import Frame, write_piece
from weightspace.graph.neural_graph import NeuralGraph, State
from weightspace.graph.symmetry import GroupElement

_KEPT_SHARE = 8


class GraphState(Mapping[str, Tensor]):
    """One network of a batch as a state dict, written back one tensor at a time.

    Args:
        graph: the networks.
        index: which of them.
        own: tensors to give instead where they are equal, as those of the module that the
            graph was read from: they need no memory.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([2, 3, 1])
    >>> graph = NeuralGraph.from_states(spec, [{p.name: torch.ones(p.shape) for p in
    ...     spec.parameters}])
    >>> GraphState(graph)["0.weight"].shape
    torch.Size([3, 2])
    """

    def __init__(
        self, graph: NeuralGraph, index: int = 0, *, own: Mapping[str, Any] | None = None
    ) -> None:
        self._graph, self._index = graph, index
        spec = graph.spec
        self._parameters = {p.name: p for p in spec.parameters}
        self._uses: dict[str, list[tuple[Frame, Piece, Tensor]]] = {p: [] for p in self._parameters}
        for node_set in spec.node_sets:
            features = graph.nodes[node_set.name][index, None, None, :, None, :]
            self._add(Frame.of_nodes(node_set), node_set.pieces, features)
        for block in spec.blocks:
            features = graph.edges[block.name][index, None]
            self._add(Frame.of_block(spec, block), block.pieces, features)
        own = own or {}
        self._own: dict[str, Tensor] = {}
        for name in self:
            if name in own and _equal(self[name], own[name]):
                self._own[name] = own[name].detach()

    def _add(self, frame: Frame, pieces: tuple[Piece, ...], features: Tensor) -> None:
        start = 0
        for piece in pieces:
            part = features[..., start : start + piece.features]
            self._uses[piece.parameter].append((frame, piece, part))
            start += piece.features

    def __getitem__(self, name: str) -> Tensor:
        if name in self._own:
            return self._own[name]
        if name not in self._parameters:
            return self._graph.left_out[name][self._index]
        parameter = self._parameters[name]
        dtype = self._graph.dtypes.get(name, getattr(torch, parameter.dtype))
        tensor = torch.empty((1, *parameter.shape), dtype=dtype, device=self._graph.device)
        for frame, piece, part in self._uses[name]:
            write_piece(self._graph.spec, frame, piece, part, tensor)
        return tensor[0]

    def __contains__(self, name: object) -> bool:
        return name in self._parameters or name in self._graph.left_out

    def __iter__(self) -> Iterator[str]:
        return iter((*self._parameters, *self._graph.left_out))

    def __len__(self) -> int:
        return len(self._parameters) + len(self._graph.left_out)


def _equal(one: Tensor, two: Any) -> bool:
    return (
        isinstance(two, Tensor)
        and one.dtype == two.dtype
        and one.device == two.device
        and torch.equal(one, two)
    )


class ActedState(Mapping[str, Tensor]):
    """A state dict under a group element, one tensor at a time.

    The tensors read last are kept, up to an eighth of all: layers that share their tensors
    read them many times in one run.

    Args:
        element: what acts.
        state: what it acts on.
    """

    def __init__(self, element: GroupElement, state: State) -> None:
        self._element, self._state = element, state
        left_out = element.spec.left_out
        self._twins = {i.parameter.name: i.same_as for i in left_out if i.same_as is not None}
        self._recent: OrderedDict[str, Tensor] = OrderedDict()
        self._bytes = 0
        sizes = (p.numel * getattr(torch, p.dtype).itemsize for p in element.spec.parameters)
        self._most = sum(sizes) // _KEPT_SHARE

    def __getitem__(self, name: str) -> Tensor:
        name = self._twins.get(name, name)
        if name in self._recent:
            self._recent.move_to_end(name)
            return self._recent[name]
        tensor = self._element.act_tensor(name, self._state[name])
        self._recent[name] = tensor
        self._bytes += tensor.nbytes
        while self._bytes > self._most and len(self._recent) > 1:
            self._bytes -= self._recent.popitem(last=False)[1].nbytes
        return tensor

    def __contains__(self, name: object) -> bool:
        return name in self._state

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)
