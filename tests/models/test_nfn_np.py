"""NFN-NP: the battery, an oracle of single neurons, modules, positions, sizes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.graph.strategies import chains
from tests.models.networks import networks_of, plain_networks
from tests.nn.test_arrangement import Residual
from weightspace.errors import ModelError
from weightspace.graph import (
    GraphSpec,
    GroupElement,
    MixedGraph,
    NeuralGraph,
    SymmetryGroup,
    chain_spec,
)
from weightspace.models import NFNNP, Editor, Predictor, Requirements, Trunk
from weightspace.nn import NFLayer, arrange
from weightspace.nn.nf_layer import NFState
from weightspace.nn.nf_slots import IN, OUT, OWN, Slots, segments
from weightspace.testing import TrunkBattery
from weightspace.testing.networks import sample_graph


class TestNP(TrunkBattery):
    def make(self, requirements: Requirements) -> Trunk:
        return NFNNP(requirements, width=4, layers=2, frequencies=3, sigma=0.5, head=6)


def neuronwise(
    layer: NFLayer, spec: GraphSpec, weights: list[Tensor], biases: list[Tensor | None]
) -> tuple[list[Tensor], list[Tensor | None]]:
    """The layer for one chain, neuron by neuron.

    Args:
        layer: of equal input and output channels.
        spec: the chain.
        weights: ``[targets, sources, channels]``.
        biases: ``[neurons, channels]`` of each layer, the inputs first; None for none.
    """
    slots, width = layer.slots, layer.outputs
    means = [w.flatten(0, 1).mean(0) for w in weights]
    means += [b.mean(0) for b in biases if b is not None]
    constants = (layer.means.weight @ torch.cat(means) + layer.means.bias).split(width)
    given: dict[tuple[int, int, int], Tensor] = {}
    for place, bias in enumerate(biases):
        ports = slots.ports(place)
        for i in range(spec.nodes_in(spec.node_sets[place].name)):
            held = []
            for port in ports:
                if port == IN:
                    held.append(sum(weights[place - 1][i]) / len(weights[place - 1][i]))
                elif port == OWN:
                    held.append(bias[i])
                else:
                    held.append(sum(weights[place][:, i]) / len(weights[place][:, i]))
            mapped = (layer.ends[place].weight @ torch.cat(held)).split(width)
            for port, value in zip(ports, mapped, strict=True):
                given[place, i, port] = value
    new_weights = []
    for place, weight in enumerate(weights):
        result = torch.zeros_like(weight)
        for i in range(weight.shape[0]):
            for j in range(weight.shape[1]):
                total = layer.entries[place] @ weight[i, j] + constants[place]
                total = total + given[place + 1, i, IN] + given[place, j, OUT]
                result[i, j] = total.relu()
        new_weights.append(result)
    new_biases: list[Tensor | None] = []
    slot = len(weights)
    for place, bias in enumerate(biases):
        if bias is None:
            new_biases.append(None)
            continue
        rows = [given[place, i, OWN] + constants[slot] for i in range(len(bias))]
        new_biases.append(torch.stack(rows).relu())
        slot += 1
    return new_weights, new_biases


@settings(max_examples=15, deadline=None)
@given(chains(max_width=4, max_hidden=3), st.integers(0, 99))
def test_against_the_oracle(spec: GraphSpec, seed: int) -> None:
    torch.manual_seed(seed)
    graph = sample_graph(spec, 2, seed=seed)
    needs = Requirements.of([spec])
    layer = NFLayer(Slots(spec, needs.hidden, needs.node_features), 2, 2).double()
    nn.init.normal_(layer.means.bias)
    arrangement = arrange(MixedGraph.of(graph))
    parts = segments(arrangement, layer.slots)
    weights = [
        torch.randn(*graph.edges[b.name].shape[::1][:-1], 2).double()[:, 0] for b in spec.blocks
    ]
    biases = [
        torch.randn(2, spec.nodes_in(n.name), 2).double() if n.pieces else None
        for n in spec.node_sets
    ]
    nodes = {
        (0, place): torch.zeros(2, spec.nodes_in(n.name), 2).double() if b is None else b
        for place, (n, b) in enumerate(zip(spec.node_sets, biases, strict=True))
    }
    state = layer(arrangement, parts, NFState.of(weights, arrangement.join(nodes)))
    found = arrangement.split(state.nodes)
    for i in range(2):
        one, two = neuronwise(
            layer, spec, [w[i] for w in weights], [None if b is None else b[i] for b in biases]
        )
        for ours, theirs in zip(state.blocks, one, strict=True):
            torch.testing.assert_close(ours[i], theirs)
        for place, bias in enumerate(two):
            wanted = torch.zeros_like(found[0, place][i]) if bias is None else bias
            torch.testing.assert_close(found[0, place][i], wanted)


@pytest.mark.parametrize("kind", ["plain", "residual", "both"])
def test_blocks_of_every_kind(kind: str) -> None:
    graphs: list[NeuralGraph] = []
    if kind != "residual":
        graphs.append(plain_networks())
    if kind != "plain":
        example = torch.randn(1, 3, 6, 6) if kind == "residual" else torch.randn(1, 3, 4, 4)
        graphs.append(networks_of(Residual(), example))
    if kind == "both":  # equal inputs and outputs only
        graphs = [
            graphs[1],
            networks_of(
                nn.Sequential(
                    nn.Conv2d(3, 4, 3),
                    nn.Tanh(),
                    nn.AdaptiveAvgPool2d(1),
                    nn.Flatten(),
                    nn.Linear(4, 5),
                ),
                torch.randn(1, 3, 6, 6),
            ),
        ]
    needs = Requirements.of([graph.spec for graph in graphs])
    trunk = NFNNP(needs, width=4, layers=2, frequencies=3, head=6)
    predict, edit = Predictor(trunk, outputs=2).double().eval(), Editor(trunk).double().eval()
    together = predict(MixedGraph.of(graphs))
    alone = torch.cat([predict(graph) for graph in graphs])
    torch.testing.assert_close(together, alone, atol=1e-10, rtol=1e-10)
    for graph in graphs:
        element = SymmetryGroup(graph.spec).sample(torch.Generator().manual_seed(0))
        moved = element.act_graph(graph)
        torch.testing.assert_close(predict(graph), predict(moved), atol=1e-10, rtol=1e-10)
        one, two = element.act_graph(edit(graph)), edit(moved)
        for name, tensor in one.edges.items():
            torch.testing.assert_close(tensor, two.edges[name], atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("positions", [True, False])
def test_positions_tell_inputs_and_outputs_apart(positions: bool) -> None:
    spec = chain_spec([3, 4, 2])
    graph = sample_graph(spec, 2)
    torch.manual_seed(0)
    trunk = NFNNP(Requirements.of([spec]), width=8, positions=positions)
    model = Predictor(trunk, outputs=2).double()
    for axis, order in (("input", [1, 0, 2]), ("1", [1, 0])):
        moved = GroupElement(spec, {axis: torch.tensor(order)}).act_graph(graph)
        assert ((model(graph) - model(moved)).abs().max() > 1e-6) == positions


def test_other_permutations_change_the_output() -> None:
    graph = sample_graph(chain_spec([2, 6, 6, 1]), 1)
    model = Predictor(NFNNP(Requirements.of([graph.spec])), outputs=2).double()
    edges = {**graph.edges, "1.weight": graph.edges["1.weight"].flip(3)}
    assert (model(graph) - model(graph.with_features(edges=edges))).abs().max() > 1e-6


def test_deeper_networks_are_refused() -> None:
    needs = Requirements.of([chain_spec([2, 4, 1]), chain_spec([2, 4, 4, 1])])
    trunk = NFNNP(needs, width=4)
    trunk.check(chain_spec([2, 9, 7, 1]))
    with pytest.raises(ModelError, match="at most 2 hidden layers"):
        trunk.check(chain_spec([2, 4, 4, 4, 1]))
    with pytest.raises(ModelError, match="architecture"):
        NFNNP(Requirements.of([chain_spec([2, 4, 1])]), width=4).check(chain_spec([2, 5, 1]))


def test_published_size() -> None:
    needs = Requirements.of([chain_spec([2, 32, 32, 1], activations="sine")])
    with torch.device("meta"):
        model = Predictor(NFNNP(needs, width=512, head=1000), outputs=10)
    # published: 45 million
    assert 44_000_000 < model.parameter_count < 46_000_000
