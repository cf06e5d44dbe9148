"""The layers' linear maps are all that commute with the permutations: found by solving for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from weightspace import from_module
from weightspace.graph import GraphSpec, GroupElement, MixedGraph, NeuralGraph, chain_spec
from weightspace.models import NFNHNP, DWSNet, Requirements
from weightspace.models.space_trunk import SpaceTrunk
from weightspace.nn import DWSLayer, NFLayer, arrange
from weightspace.nn.nf_layer import NFState
from weightspace.nn.nf_slots import Slots, segments

CHAINS = [[2, 3, 4, 2], [1, 2, 1], [3, 4, 1], [2, 1, 1, 2], [2, 2, 2, 1], [2, 3]]
Apply = Callable[[NeuralGraph], NeuralGraph]


class Stream(nn.Module):
    """A residual stream of three neurons, whose rows and columns are tied, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(1, 3), nn.Linear(3, 3), nn.Linear(3, 1)
        self.norm = nn.LayerNorm(3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(x + self.inner(self.norm(x)).relu())


def bases(spec: GraphSpec) -> NeuralGraph:
    """One network for every parameter, which is 1 while all others are 0."""
    count = spec.parameter_count
    parts = torch.eye(count, dtype=torch.float64).split([p.numel for p in spec.parameters], 1)
    return NeuralGraph.from_stacked(
        spec,
        {
            p.name: part.reshape(count, *p.shape)
            for p, part in zip(spec.parameters, parts, strict=True)
        },
    )


def matrix(graph: NeuralGraph) -> Tensor:
    """Networks as rows of all their parameters."""
    stacked = graph.stacked_state()
    return torch.cat([stacked[p.name].flatten(1) for p in graph.spec.parameters], 1)


def generators(spec: GraphSpec, *, ends: bool) -> Iterator[Tensor]:
    """A swap and a cycle of every axis that permutes; with ``ends``, inputs and outputs do."""
    for axis in spec.axes:
        if axis.size > 1 and (axis.permutes or ends):
            for order in ([1, 0, *range(2, axis.size)], [*range(1, axis.size), 0]):
                element = GroupElement(spec, {axis.name: torch.tensor(order)})
                yield matrix(element.act_graph(bases(spec)))


@cache
def solve(spec: GraphSpec, *, ends: bool) -> tuple[int, list[Tensor]]:
    """The dimension of ``{L : L g = g L}``: the null space of a Kronecker system."""
    found = list(generators(spec, ends=ends))
    eye = torch.eye(spec.parameter_count, dtype=torch.float64)
    system = torch.zeros(len(eye) ** 2, len(eye) ** 2, dtype=torch.float64)
    for g in found:
        equations = torch.kron(eye, g) - torch.kron(g.T.contiguous(), eye)
        system += equations.T @ equations
    return int((torch.linalg.eigvalsh(system) < 1e-8).sum()), found


@torch.no_grad()
def span(layer: nn.Module, apply: Apply, spec: GraphSpec) -> Tensor:
    """The layer's matrix for each of its weights set to 1 while all others are 0."""
    graph, found = bases(spec), []
    weights = [p for name, p in layer.named_parameters() if not name.endswith("bias")]
    for parameter in layer.parameters():
        parameter.zero_()
    for weight in weights:
        for i in range(weight.numel()):
            weight.view(-1)[i] = 1.0
            found.append(matrix(apply(graph)))
            weight.view(-1)[i] = 0.0
    return torch.stack(found)


def assert_complete(maps: Tensor, spec: GraphSpec, *, ends: bool) -> None:
    dimension, group = solve(spec, ends=ends)
    assert torch.linalg.matrix_rank(maps.flatten(1)) == dimension
    for g in group:
        torch.testing.assert_close(maps @ g, g @ maps)


def space_layer(spec: GraphSpec, model: type[SpaceTrunk]) -> tuple[DWSLayer, Apply]:
    """The second layer of a model of one channel, without what is not linear."""
    options = {"aggregate": "sum"} if model is DWSNet else {}
    trunk = model(Requirements.of([spec]), width=1, layers=2, **options).double()
    layer, channels, space = trunk.layers[1], trunk.channels, trunk.space
    layer.rectify = False

    def apply(graph: NeuralGraph) -> NeuralGraph:
        copies = [t.features for t in space.tensors]
        assert set(copies) == {1}
        values = channels.lower(layer(channels.lift(space.read([graph]))))
        nodes, edges = dict(graph.nodes), dict(graph.edges)
        for tensor, value in zip(space.tensors, values, strict=True):
            if tensor.is_edge:
                edges[spec.blocks[tensor.place].name] = tensor.write(value)
            else:
                nodes[spec.node_sets[tensor.place].name] = tensor.write(value)
        return graph.with_features(nodes, edges)

    return layer, apply


def np_layer(spec: GraphSpec) -> tuple[NFLayer, Apply]:
    """A layer of one channel, without what is not linear."""
    needs = Requirements.of([spec])
    slots = Slots(spec, needs.hidden, needs.node_features)
    layer = NFLayer(slots, 1, 1, rectify=False).double()

    def apply(graph: NeuralGraph) -> NeuralGraph:
        arrangement = arrange(MixedGraph.of(graph))
        parts = segments(arrangement, slots)
        nodes = {
            (0, place): graph.nodes[n.name]
            if n.pieces
            else torch.zeros(len(graph), spec.nodes_in(n.name), 1, dtype=torch.float64)
            for place, n in enumerate(spec.node_sets)
        }
        blocks = [graph.edges[block.name].flatten(0, 1) for block in spec.blocks]
        state = layer(arrangement, parts, NFState.of(blocks, arrangement.join(nodes)))
        cut = arrangement.split(state.nodes)
        new_nodes = {
            n.name: cut[0, place][..., : n.features] for place, n in enumerate(spec.node_sets)
        }
        new_edges = {
            block.name: values.view_as(graph.edges[block.name])
            for block, values in zip(spec.blocks, state.blocks, strict=True)
        }
        return graph.with_features(new_nodes, new_edges)

    return layer, apply


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sizes", CHAINS, ids=str)
@pytest.mark.parametrize("model", [DWSNet, NFNHNP])
def test_dws_and_hnp_span_all_maps(model: type[SpaceTrunk], sizes: list[int], bias: bool) -> None:
    spec = chain_spec(sizes, bias=bias)
    layer, apply = space_layer(spec, model)
    assert_complete(span(layer, apply, spec), spec, ends=False)


@pytest.mark.parametrize("model", [DWSNet, NFNHNP])
def test_tied_axes_have_all_fifteen_maps(model: type[SpaceTrunk]) -> None:
    spec = from_module(Stream().eval(), torch.randn(2, 1)).spec
    layer, apply = space_layer(spec, model)
    assert any(layer.tied)
    assert_complete(span(layer, apply, spec), spec, ends=False)


@pytest.mark.parametrize("bias", [True, False, [True, False, True]])
@pytest.mark.parametrize("sizes", CHAINS, ids=str)
def test_np_spans_the_maps_that_exchange_ends_too(sizes: list[int], bias: bool) -> None:
    biases = bias if isinstance(bias, bool) else bias[: len(sizes) - 1]
    spec = chain_spec(sizes, bias=biases)
    layer, apply = np_layer(spec)
    maps = span(layer, apply, spec)
    assert_complete(maps, spec, ends=True)


def test_np_spans_less_than_hnp() -> None:
    spec = chain_spec([2, 3, 4, 2])
    assert solve(spec, ends=True)[0] < solve(spec, ends=False)[0]


def test_a_map_that_is_missing_is_noticed() -> None:
    spec = chain_spec([2, 3, 1])
    layer, apply = space_layer(spec, DWSNet)
    maps = span(layer, apply, spec)
    with pytest.raises(AssertionError):
        assert_complete(maps[:-1], spec, ends=False)
    wrong = maps.clone()
    wrong[0, 0, -1] += 1
    with pytest.raises(AssertionError):
        assert_complete(wrong, spec, ends=False)
