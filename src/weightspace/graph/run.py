"""Running a batch of networks of one spec, with the values at every node set."""

from __future__ import annotations

import itertools

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.errors import SpecError, StateError
from weightspace.graph.neural_graph import NeuralGraph, State
from weightspace.graph.spec import EdgeBlock, GraphSpec


class ChainRunner:
    """Runs networks that are plain chains of linear layers, straight from their spec.

    Args:
        spec: a chain, see :func:`weightspace.graph.chain_spec`.

    Raises:
        SpecError: the spec is not a chain, or an activation is unknown.

    >>> from weightspace.graph import chain_spec
    >>> runner = ChainRunner(chain_spec([2, 3, 1], activations="tanh"))
    >>> state = {p.name: torch.ones(p.shape) for p in runner.spec.parameters}
    >>> runner.run(state, torch.zeros(5, 2))["1"].shape
    torch.Size([5, 1])
    """

    def __init__(self, spec: GraphSpec) -> None:
        self.spec = spec
        self._blocks = _chain_blocks(spec)
        for node_set in spec.node_sets:
            _ = node_set.activation.law

    def run(
        self, state: State, inputs: Float[Tensor, "points inputs"]
    ) -> dict[str, Float[Tensor, "points neurons"]]:
        """Run one network and keep the values after every node set's activation."""
        stacked = {name: tensor[None] for name, tensor in state.items()}
        return {name: values[0] for name, values in self.run_stacked(stacked, inputs).items()}

    def run_stacked(
        self, stacked: State, inputs: Float[Tensor, "points inputs"]
    ) -> dict[str, Float[Tensor, "batch points neurons"]]:
        """Run every network of a stacked state dict on the same inputs.

        The matrix products of all networks are one batched product a layer.
        """
        batch = next(iter(stacked.values())).shape[0]
        first = self.spec.node_sets[0]
        size = self.spec.nodes_in(first.name)
        if inputs.shape[-1] != size:
            raise StateError(
                "inputs", expected=f"{size} values a point", found=f"shape {tuple(inputs.shape)}"
            )
        x = first.activation(inputs).expand(batch, *inputs.shape)
        values = {first.name: x}
        for block in self._blocks:
            target = self.spec.node_set(block.target)
            (piece,) = block.pieces
            weight = stacked[piece.parameter]
            if piece.spans[0].factors[0].side == "target":  # stored [outputs, inputs]
                weight = weight.transpose(1, 2)
            if target.pieces:
                bias = stacked[target.pieces[0].parameter].unsqueeze(1)
                x = torch.baddbmm(bias, x, weight)
            else:
                x = torch.bmm(x, weight)
            x = target.activation(x)
            values[target.name] = x
        return values

    def function(self, inputs: Tensor) -> ChainFunction:
        """The network's output on fixed inputs as a function of its state dict."""
        return ChainFunction(self, inputs)

    def probe(
        self, graph: NeuralGraph, inputs: Float[Tensor, "probes inputs"]
    ) -> dict[str, Float[Tensor, "batch neurons probes"]]:
        """Probe features: every neuron's values on the same inputs, for every network.

        Unchanged by any change of parameters that leaves the hidden functions unchanged.
        """
        values = self.run_stacked(graph.stacked_state(), inputs)
        return {name: tensor.transpose(1, 2) for name, tensor in values.items()}


class ChainFunction:
    """A network's output on fixed inputs, as a function of its state dict."""

    def __init__(self, runner: ChainRunner, inputs: Tensor) -> None:
        self._runner, self._inputs = runner, inputs

    def __call__(self, state: State) -> Tensor:
        """Run the network."""
        return self._runner.run(state, self._inputs)[self._runner.spec.node_sets[-1].name]


def _chain_blocks(spec: GraphSpec) -> tuple[EdgeBlock, ...]:
    """The blocks of a chain in order, after checking that it is one."""
    names = [node_set.name for node_set in spec.node_sets]
    ends = [(block.source, block.target) for block in spec.blocks]
    plain = all(
        block.kind == "dense" and len(block.pieces) == 1 and block.features == 1
        for block in spec.blocks
    ) and all(len(node_set.pieces) <= 1 for node_set in spec.node_sets)
    # neurons of one axis at two places: a layer that runs twice, or of a weight that does
    plain = plain and len({node_set.axes for node_set in spec.node_sets}) == len(names)
    if not plain or ends != list(itertools.pairwise(names)):
        raise SpecError(
            "spec",
            expected="a plain chain of linear layers",
            found=f"blocks {ends}",
            hint="Run such a network through its module.",
        )
    return spec.blocks
