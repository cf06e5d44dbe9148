"""Where the neurons of a network are exactly zero, and what they send to others."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from weightspace.graph import EdgeBlock, GraphSpec, NeuralGraph, NodeSet, State
from weightspace.graph.layout import ancestors
from weightspace.graph.reordering import nested_sizes
from weightspace.importers.coupling import spec_couplings


class Silence:
    """Where each neuron is zero, and which connections carry something.

    Args:
        spec: the network's structure.
        state: its tensors.
        axes: the axes that are judged.
    """

    def __init__(self, spec: GraphSpec, state: State, axes: list[str]) -> None:
        self.spec, self.axes = spec, axes
        graph = NeuralGraph.from_stacked(spec, {n: t.detach()[None] for n, t in state.items()})
        self._carries = {b.name: (graph.edges[b.name][0] != 0).any(-1) for b in spec.blocks}
        self._parents = {axis.name: axis.within for axis in spec.axes}
        self._normed = spec_couplings(spec)
        self._added = {n.name: graph.nodes[n.name][0] != 0 for n in spec.node_sets}
        self.zero = self._zeros()

    def harmless(self, dead: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """For each node set, which neurons send nothing to living neurons of other axes."""
        living = {n.name: ~self._any(n, dead) for n in self.spec.node_sets}
        sends = {n: torch.zeros_like(zero) for n, zero in self.zero.items()}
        for block in self.spec.blocks:
            if _internal(self.spec, block):
                continue
            heard = self._carries[block.name] & self._ends(block, living[block.target], "target")
            sends[block.source] |= self._back(block, heard.any(1))
        return {name: ~own | self.zero[name] for name, own in sends.items()}

    def on_axis(self, name: str, holds: Mapping[str, Tensor]) -> Tensor:
        """Whether something holds for a neuron of an axis at every place."""
        chain = [*ancestors(name, self._parents), name]
        sizes = nested_sizes(self.spec, name)
        found = torch.ones(sizes, dtype=torch.bool)
        for node_set in self.spec.node_sets:
            if name in node_set.axes:
                own = [node_set.axes.index(axis) for axis in chain if axis in node_set.axes]
                grid = self._grid(node_set, holds[node_set.name])
                grid = grid.movedim(own, list(range(len(own))))
                shape = [n if a in node_set.axes else 1 for a, n in zip(chain, sizes, strict=True)]
                found &= grid.reshape(*shape, -1).all(-1)
        return found

    # -- where neurons are zero ------------------------------------------------------------

    def _zeros(self) -> dict[str, Tensor]:
        zero: dict[str, Tensor] = {}
        entering: dict[str, list[EdgeBlock]] = {}
        for block in self.spec.blocks:
            entering.setdefault(block.target, []).append(block)
        for node_set in self.spec.node_sets:
            count = self.spec.nodes_in(node_set.name)
            quiet = torch.ones(count, dtype=torch.bool)
            blocks = entering.get(node_set.name, [])
            for block in blocks:
                # of a place that comes later nothing is known
                source = zero.get(block.source, torch.zeros(1, dtype=torch.bool))
                quiet &= self._hears_zero(block, source)
            keeps = node_set.activation.name != "unknown" and _keeps_zero(node_set)
            zero[node_set.name] = quiet & ~self._shifted(node_set) & bool(blocks and keeps)
        return zero

    def _hears_zero(self, block: EdgeBlock, source: Tensor) -> Tensor:
        """Which of a block's targets hear zero through it."""
        carries = self._carries[block.name]
        if block.kind == "recurrent":
            return torch.zeros(1, dtype=torch.bool)
        if set(block.shared) & self._normed and block.kind == "diagonal":
            source = torch.zeros(1, dtype=torch.bool)  # a norm makes something of nothing
        speaks = ~self._ends(block, source.expand(self.spec.nodes_in(block.source)), "source")
        if block.kind == "diagonal":
            # a batch norm subtracts the mean before it multiplies
            speaks = speaks | self._ends(block, self._means(block.target), "target")
        return self._forth(block, ~(carries & speaks).any(2))

    def _shifted(self, node_set: NodeSet) -> Tensor:
        """Which neurons have a feature that is added to them."""
        return self._features(node_set, buffers=False)

    def _means(self, name: str) -> Tensor:
        """Which neurons of a node set have a running mean that is not zero."""
        return self._features(self.spec.node_set(name), buffers=True)

    def _features(self, node_set: NodeSet, *, buffers: bool) -> Tensor:
        kept = [
            self.spec.parameter(piece.parameter).buffer == buffers
            and not (buffers and "var" in piece.parameter.rpartition(".")[2])
            for piece in node_set.pieces
            for _ in range(piece.features)
        ]
        return self._added[node_set.name][:, torch.tensor(kept, dtype=torch.bool)].any(-1)

    # -- shapes ------------------------------------------------------------------------------

    def _grid(self, node_set: NodeSet, values: Tensor) -> Tensor:
        return values.reshape([self.spec.axis(axis).size for axis in node_set.axes])

    def _any(self, node_set: NodeSet, dead: Mapping[str, Tensor]) -> Tensor:
        """Which neurons of a node set lie on a dead neuron of any of its axes."""
        grid = torch.zeros([self.spec.axis(axis).size for axis in node_set.axes], dtype=torch.bool)
        for place, axis in enumerate(node_set.axes):
            above = ancestors(axis, self._parents)
            if axis in dead and all(a in node_set.axes[:place] for a in above):
                places = [node_set.axes.index(a) for a in above] + [place]
                shape = [n if i in places else 1 for i, n in enumerate(grid.shape)]
                grid |= dead[axis].reshape(shape)
        return grid.flatten()

    def _ends(self, block: EdgeBlock, values: Tensor, side: str) -> Tensor:
        """Values of a node set's neurons in a block's shape ``[groups, targets, sources]``."""
        node_set = self.spec.node_set(block.target if side == "target" else block.source)
        order = [node_set.axes.index(a) for a in block.shared]
        grid = self._grid(node_set, values).movedim(order, list(range(len(order))))
        rows = grid.reshape(self.spec.size_of(block.shared), -1)
        return rows[:, :, None] if side == "target" else rows[:, None, :]

    def _back(self, block: EdgeBlock, values: Tensor) -> Tensor:
        """Values ``[groups, sources]`` as those of the source's neurons."""
        return self._home(block, values, self.spec.node_set(block.source))

    def _forth(self, block: EdgeBlock, values: Tensor) -> Tensor:
        """Values ``[groups, targets]`` as those of the target's neurons."""
        return self._home(block, values, self.spec.node_set(block.target))

    def _home(self, block: EdgeBlock, values: Tensor, node_set: NodeSet) -> Tensor:
        axes = [*block.shared, *(a for a in node_set.axes if a not in block.shared)]
        grid = values.reshape([self.spec.axis(axis).size for axis in axes])
        return grid.permute([axes.index(axis) for axis in node_set.axes]).reshape(-1)


def _keeps_zero(node_set: NodeSet) -> bool:
    """Whether the activation maps zero to zero exactly."""
    return bool((node_set.activation(torch.zeros(1)) == 0).all())


def _internal(spec: GraphSpec, block: EdgeBlock) -> bool:
    """Whether a block joins each neuron with itself at another place."""
    ends = (spec.node_set(block.source).axes, spec.node_set(block.target).axes)
    return all(set(axes) == set(block.shared) for axes in ends)
