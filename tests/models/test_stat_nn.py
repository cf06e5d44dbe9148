"""StatNN: its statistics against numpy, and all that it cannot see."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.graph.test_reordering import residual
from tests.models import baselines as check
from weightspace.errors import ModelError
from weightspace.graph import GraphSpec, MixedGraph, NeuralGraph, Reordering, chain_spec
from weightspace.models import Editor, Predictor, Requirements, StatNN, layer_statistics

SPEC = chain_spec([2, 5, 4, 1], activations="tanh")
DEEP = chain_spec([2, 3, 5, 4, 1], activations="relu")


def make(*specs: GraphSpec, **options: int) -> Predictor:
    torch.manual_seed(0)
    trunk = StatNN(Requirements.of(specs or [SPEC]), **{"width": 8, "dropout": 0.0, **options})
    batch = MixedGraph.of([check.graph_of(spec, 20, 1) for spec in specs or [SPEC]])
    return check.fitted(Predictor(trunk, outputs=3), batch)


def test_statistics_against_numpy() -> None:
    graph = check.graph_of(SPEC, 2)
    found = layer_statistics(graph)
    assert found.shape == (2, 3, 2, 7)
    for i in range(2):
        state = graph.state_dict(i)
        for layer in range(3):
            for kind, name in enumerate((f"{layer}.weight", f"{layer}.bias")):
                values = state[name].flatten().numpy()
                quantiles = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
                expected = [values.mean(), values.var(), *quantiles]
                np.testing.assert_allclose(found[i, layer, kind].numpy(), expected)


def test_statistics_of_modules_count_every_weight() -> None:
    graph = residual()
    found = layer_statistics(graph)
    hidden = [node_set.name for node_set in graph.spec.of_role("hidden")]
    state = graph.state_dict(0)
    place = hidden.index("grouped")
    torch.testing.assert_close(found[0, place, 0, 0], state["grouped.weight"].mean())
    torch.testing.assert_close(found[0, place, 1, 6], state["grouped.bias"].max())
    place = hidden.index("attention.in_proj_weight")
    torch.testing.assert_close(found[0, place, 0, 2], state["attention.in_proj_weight"].min())
    assert not found[0, hidden.index("network.add")].any()
    assert torch.equal(found[:, -1, 1, 0], graph.nodes["last"].flatten(1).mean(1))


def test_standardised_by_the_training_networks() -> None:
    model, graph = make(), check.graph_of(SPEC, 20, 1)
    trunk = model.trunk
    seen = (layer_statistics(graph) - trunk.mean) / trunk.deviation
    torch.testing.assert_close(seen.mean(0), torch.zeros_like(seen[0]))
    varied = seen.std(0, correction=0)  # the one output bias has no variance
    assert torch.allclose(varied[:2], torch.ones_like(varied[:2]))
    expected = model.last(trunk.hidden(seen.flatten(1)))
    torch.testing.assert_close(model(graph), expected)


def test_invariant_to_any_exchange_within_a_layer_and_to_nothing_else() -> None:
    model, graph = make(), check.graph_of(SPEC, 3)
    before = model(graph)
    moved = Reordering.sample(SPEC, 3, generator=torch.Generator().manual_seed(0)).act_graph(graph)
    torch.testing.assert_close(model(moved), before)
    stacked = graph.stacked_state()
    outside = {**stacked, "1.weight": stacked["1.weight"].flip(2)}
    torch.testing.assert_close(model(NeuralGraph.from_stacked(SPEC, outside)), before)
    other = {**stacked, "1.weight": -stacked["1.weight"]}
    assert not torch.allclose(model(NeuralGraph.from_stacked(SPEC, other)), before)
    swapped = stacked["1.bias"], stacked["1.weight"][:, :, 0]
    other = {**stacked, "1.bias": swapped[1]}
    other["1.weight"] = torch.cat([swapped[0][..., None], stacked["1.weight"][:, :, 1:]], dim=2)
    assert not torch.allclose(model(NeuralGraph.from_stacked(SPEC, other)), before)


def test_mixed_depths_fill_the_layers_they_have() -> None:
    model = make(SPEC, DEEP)
    check.check_mixed(model, [check.graph_of(SPEC, 2), check.graph_of(DEEP, 2)])
    found = layer_statistics(check.graph_of(SPEC, 2), layers=4)
    assert not found[:, 2].any()
    torch.testing.assert_close(found[:, 3], layer_statistics(check.graph_of(SPEC, 2))[:, 2])


def test_as_every_baseline(tmp_path: Path) -> None:
    model, graph = make(), check.graph_of(SPEC, 4)
    check.check_batch_mates_do_not_matter(model, graph)
    check.check_batch_mates_do_not_matter(model.train(), graph)
    check.check_every_parameter_learns(model, graph)
    check.check_gradients(make(chain_spec([1, 3, 1])), chain_spec([1, 3, 1]))
    check.check_round_trip(model, "stat-nn", graph, tmp_path)


def test_it_cannot_edit() -> None:
    with pytest.raises(ModelError, match="ng-gnn"):
        Editor(StatNN(Requirements.of([SPEC])))
