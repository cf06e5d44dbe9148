"""The transformer over neurons: its tokens, and that places break the symmetry."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.graph.test_reordering import residual
from tests.models import baselines as check
from tests.nn.batches import mixed_batch
from weightspace.errors import ModelError
from weightspace.graph import GraphSpec, MixedGraph, NeuralGraph, Reordering, chain_spec
from weightspace.models import (
    Editor,
    Metanetwork,
    NeuronTransformer,
    Predictor,
    Requirements,
)
from weightspace.nn.neuron_values import cut_values, neuron_values

SPEC = chain_spec([2, 5, 4, 1], activations="tanh")
OTHER = chain_spec([2, 3, 1], activations="relu")


def make(*specs: GraphSpec, editor: bool = False) -> Metanetwork:
    torch.manual_seed(0)
    trunk = NeuronTransformer(
        Requirements.of(specs or [SPEC]), width=8, layers=2, heads=2, dropout=0.0
    )
    model = check.without_scales(Editor(trunk)) if editor else Predictor(trunk, outputs=3)
    batch = [check.graph_of(spec, 20, 1) for spec in specs or [SPEC] if spec is not None]
    return check.fitted(model, MixedGraph.of(batch))


def layer_by_layer(layer: torch.nn.TransformerEncoderLayer, x: torch.Tensor) -> torch.Tensor:
    """One encoder layer on one network, attention written out."""
    own = layer.self_attn
    seen = layer.norm1(x)
    q, k, v = (seen @ own.in_proj_weight.T + own.in_proj_bias).chunk(3, dim=-1)
    heads = []
    for h in range(2):
        part = slice(4 * h, 4 * h + 4)
        weights = (q[:, part] @ k[:, part].T / 2).softmax(-1)
        heads.append(weights @ v[:, part])
    x = x + own.out_proj(torch.cat(heads, -1))
    return x + layer.linear2(torch.nn.functional.gelu(layer.linear1(layer.norm2(x))))


def test_against_tokens_written_out() -> None:
    model, graph = make(), check.graph_of(SPEC, 2)
    normal, trunk = model.normaliser.normalisation(graph), model.trunk
    rows = []
    for i in range(2):
        state = normal.state_dict(i)
        tokens = [trunk.whole]
        for layer, (size, place) in enumerate(((5, 2), (4, 3), (1, 1))):
            for j in range(size):
                own = torch.cat([state[f"{layer}.weight"][j], state[f"{layer}.bias"][[j]]])
                value = own @ trunk.values.weight[:, : len(own)].T + trunk.values.bias
                tokens.append(value + trunk.layer.weight[place] + trunk.place.weight[j])
        x = torch.stack(tokens)
        for layer in trunk.encoder.layers:
            x = layer_by_layer(layer, x)
        rows.append(trunk.encoder.norm(x[0]))
    torch.testing.assert_close(model(graph), model.last(torch.stack(rows)))


def test_places_break_the_symmetry_and_nothing_else_does() -> None:
    model, graph = make(), check.graph_of(SPEC, 3)
    moved = Reordering.sample(SPEC, 3, generator=torch.Generator().manual_seed(0)).act_graph(graph)
    assert not torch.allclose(model(moved), model(graph))
    # without places, the neurons of the last hidden layer are a set, but for what reads them
    with torch.no_grad():
        model.trunk.place.weight.zero_()
    stacked = graph.stacked_state()
    flipped = {n: t.flip(1) if n in ("1.weight", "1.bias") else t for n, t in stacked.items()}
    torch.testing.assert_close(model(NeuralGraph.from_stacked(SPEC, flipped)), model(graph))
    assert not torch.allclose(model(moved), model(graph))


@pytest.mark.parametrize("editor", [False, True])
def test_as_every_baseline(editor: bool, tmp_path: Path) -> None:
    model, graph = make(editor=editor), check.graph_of(SPEC, 4)
    check.check_batch_mates_do_not_matter(model, graph)
    check.check_batch_mates_do_not_matter(model.train(), graph)
    small = chain_spec([1, 2, 1], activations="tanh")
    check.check_gradients(make(small, editor=editor), small)
    check.check_round_trip(make(editor=editor), "neuron-transformer", graph, tmp_path)
    mixed = [check.graph_of(spec, 2) for spec in (SPEC, OTHER)]
    check.check_mixed(make(SPEC, OTHER, editor=editor), mixed)


@pytest.mark.parametrize("editor", [False, True])
def test_every_parameter_learns(editor: bool) -> None:
    model, graph = make(editor=editor), check.graph_of(SPEC, 4)
    model.train()
    sum(value.square().sum() for value in check.outputs(model, graph)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_values_of_neurons_are_cut_back_to_their_places() -> None:
    for graph in (residual(), *mixed_batch(True).parts):
        values = neuron_values(graph)
        widest = max(v.shape[-1] for v in values.values())
        filled = [torch.nn.functional.pad(v, (0, widest - v.shape[-1])) for v in values.values()]
        nodes, edges = cut_values(graph.spec, torch.cat(filled, dim=1))
        for place, own in nodes.items():
            assert torch.equal(own, graph.nodes[graph.spec.node_sets[place].name])
        for place, block in enumerate(graph.spec.blocks):
            assert (place in edges) == bool(block.pieces)
            if block.pieces:
                assert torch.equal(edges[place], graph.edges[block.name])


def test_modules_with_groups_norms_residuals_and_heads() -> None:
    graph = residual().to(torch.float64)
    torch.manual_seed(0)
    trunk = NeuronTransformer(Requirements.of([graph.spec]), width=8, layers=1, heads=2)
    editor = check.fitted(check.without_scales(Editor(trunk)), graph)
    before, after = graph.stacked_state(), editor(graph).stacked_state()
    for parameter in graph.spec.parameters:
        same = torch.allclose(before[parameter.name], after[parameter.name])
        assert same == parameter.buffer, parameter.name
    check.check_batch_mates_do_not_matter(editor, graph)


def test_what_does_not_fit_is_refused() -> None:
    model = make(SPEC, OTHER)
    wide = chain_spec([2, 6, 1])
    with pytest.raises(ModelError, match="node set 0: expected at most 5 neurons"):
        model(check.graph_of(wide, 1))
    with pytest.raises(ModelError, match="a number that divides the width"):
        NeuronTransformer(Requirements.of([SPEC]), width=8, heads=3)
