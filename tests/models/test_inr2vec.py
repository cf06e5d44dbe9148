"""INR2Vec's encoder against a loop over rows, and the symmetry it has: the order of rows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.models import baselines as check
from weightspace.errors import ModelError
from weightspace.graph import GraphSpec, MixedGraph, NeuralGraph, Reordering, chain_spec
from weightspace.models import Editor, Inr2Vec, Metanetwork, Predictor, Requirements, make_model

SPEC = chain_spec([2, 5, 5, 1], activations="tanh")
DEEP = chain_spec([2, 5, 5, 5, 1], activations="relu")


def make(*specs: GraphSpec, editor: bool = False) -> Metanetwork:
    torch.manual_seed(0)
    trunk = Inr2Vec(Requirements.of(specs or [SPEC]), scale=0.02)
    model = Editor(trunk) if editor else Predictor(trunk, outputs=3)
    with torch.no_grad():
        for module in trunk.modules():
            if isinstance(module, torch.nn.BatchNorm1d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
    if editor:
        check.without_scales(model)
    batch = MixedGraph.of([check.graph_of(spec, 20, 1) for spec in specs or [SPEC]])
    return check.fitted(model, batch)


def row_by_row(model: Predictor, graph: NeuralGraph) -> torch.Tensor:
    normal = model.normaliser.normalisation(graph)
    results = []
    for i in range(graph.batch_size):
        state = normal.state_dict(i)
        rows = [*state["0.weight"].T, *state["1.weight"], *state["2.weight"]]
        rows += [state["0.bias"], state["1.bias"]]
        features = []
        for row in rows:
            x = row
            for linear, norm, _ in model.trunk.encoder:
                x = linear(x)
                x = (x - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
                x = F.relu(x * norm.weight + norm.bias)
            features.append(x)
        results.append(torch.stack(features).amax(0))
    return model.last(torch.stack(results))


def test_against_a_loop_over_rows() -> None:
    model, graph = make(), check.graph_of(SPEC, 3)
    torch.testing.assert_close(model(graph), row_by_row(model, graph))


def test_invariant_to_the_order_of_rows_and_not_of_neurons() -> None:
    model, graph = make(), check.graph_of(SPEC, 3)
    stacked = graph.stacked_state()
    rows = {**stacked, "1.weight": stacked["1.weight"].flip(1)}
    torch.testing.assert_close(model(NeuralGraph.from_stacked(SPEC, rows)), model(graph))
    columns = {**stacked, "1.weight": stacked["1.weight"].flip(2)}
    assert not torch.allclose(model(NeuralGraph.from_stacked(SPEC, columns)), model(graph))
    moved = Reordering.sample(SPEC, 3, generator=torch.Generator().manual_seed(0)).act_graph(graph)
    assert not torch.allclose(model(moved), model(graph))


def test_batch_mates_matter_in_training_only() -> None:
    model, graph = make(), check.graph_of(SPEC, 4)
    check.check_batch_mates_do_not_matter(model, graph)
    check.check_batch_mates_do_not_matter(make(editor=True), graph)
    model.train()  # batch normalisation, as published
    assert not torch.allclose(model(graph[[0]])[0], model(graph)[0])


@pytest.mark.parametrize("editor", [False, True])
def test_as_every_baseline(editor: bool, tmp_path: Path) -> None:
    check.check_every_parameter_learns(make(editor=editor), check.graph_of(SPEC, 6))
    small = chain_spec([1, 2, 2, 1], activations="tanh")
    check.check_gradients(make(small, editor=editor), small)
    mixed = [check.graph_of(spec, 2) for spec in (SPEC, DEEP)]
    check.check_mixed(make(SPEC, DEEP, editor=editor), mixed)
    check.check_round_trip(make(editor=editor), "inr2vec", check.graph_of(SPEC, 3), tmp_path)


def test_a_rows_change_comes_back_to_its_row() -> None:
    """Reordered rows give reordered edits."""
    model, graph = make(editor=True), check.graph_of(SPEC, 2)
    stacked = graph.stacked_state()
    rows = {**stacked, "1.weight": stacked["1.weight"].flip(1)}
    one = model(graph).stacked_state()
    two = model(NeuralGraph.from_stacked(SPEC, rows)).stacked_state()
    torch.testing.assert_close(two["1.weight"], one["1.weight"].flip(1))
    for name in set(stacked) - {"1.weight"}:
        torch.testing.assert_close(two[name], one[name])
        assert not torch.allclose(one[name], stacked[name])


def test_published_size() -> None:
    spec = chain_spec([2, 32, 32, 1], activations="sine")
    trunk = Inr2Vec(Requirements.of([spec]))
    maps = 33 * 512 + 513 * 512 + 513 * 1024 + 1025 * 1024
    norms = 2 * (512 + 512 + 1024 + 1024)
    assert sum(p.numel() for p in trunk.parameters()) == maps + norms


def test_layers_of_different_widths_are_refused() -> None:
    for sizes, place in (([2, 5, 4, 1], "node set 1"), ([2, 4, 5, 1], "node set 0")):
        with pytest.raises(ModelError, match=f"{place}: expected the width 5"):
            make_model("inr2vec", Requirements.of([chain_spec(sizes)]), outputs=2)
    with pytest.raises(ModelError, match="hidden layer"):
        Inr2Vec(Requirements.of([chain_spec([2, 1])]))
