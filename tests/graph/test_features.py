"""Feature functions: identities, normalisation, running the networks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.graph.strategies import chains, random_stacked
from weightspace.errors import DataError, SpecError, StateError
from weightspace.graph import (
    Activation,
    ChainRunner,
    GraphSpec,
    NeuralGraph,
    Normalisation,
    SymmetryGroup,
    activation_identities,
    chain_spec,
    position_counts,
    position_identities,
)


def test_position_identities() -> None:
    spec = chain_spec([2, 3, 4, 2])
    ids = position_identities(spec)
    assert {name: v.tolist() for name, v in ids.items()} == {
        "input": [0, 1],
        "0": [0, 0, 0],
        "1": [1, 1, 1, 1],
        "2": [0, 1],
    }
    assert position_counts(spec) == {"input": 2, "hidden": 2, "output": 2}


def test_activation_identities_spare_inputs_and_outputs() -> None:
    spec = chain_spec([2, 3, 1], activations="relu", output=Activation("tanh"))
    ids = activation_identities(spec)
    assert ids["input"] == ids["2" if "2" in ids else "1"] == 0
    assert ids["0"] == Activation("relu").identity != 0


def test_normalisation_of_the_training_set() -> None:
    spec = chain_spec([2, 8, 1])
    stacked = {k: 3 * v + 2 for k, v in random_stacked(spec, 50, 0).items()}
    graph = NeuralGraph.from_stacked(spec, stacked)
    normalised = Normalisation.fit(graph)(graph)
    for tensor in (normalised.edges["0.weight"], normalised.nodes["0"]):
        assert tensor.mean().item() == pytest.approx(0, abs=1e-5)
        assert tensor.std(correction=0).item() == pytest.approx(1, abs=1e-4)
    back = Normalisation.fit(graph).invert(normalised).stacked_state()
    for name, tensor in stacked.items():
        torch.testing.assert_close(back[name], tensor)


@given(chains(), st.integers(0, 99))
def test_normalisation_commutes_with_the_group(spec: GraphSpec, seed: int) -> None:
    graph = NeuralGraph.from_stacked(spec, random_stacked(spec, 3, seed))
    normalise = Normalisation.fit(graph)
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(seed))
    one, two = element.act_graph(normalise(graph)), normalise(element.act_graph(graph))
    for name in graph.edges:
        torch.testing.assert_close(one.edges[name], two.edges[name])


def test_constant_channels_do_not_divide_by_zero() -> None:
    spec = chain_spec([2, 4, 1])
    stacked = {k: torch.zeros_like(v) for k, v in random_stacked(spec, 3, 0).items()}
    graph = NeuralGraph.from_stacked(spec, stacked)
    assert bool(torch.isfinite(Normalisation.fit(graph)(graph).nodes["0"]).all())


def test_normalisation_refuses_nan_and_other_specs() -> None:
    spec = chain_spec([2, 4, 1])
    graph = NeuralGraph.from_stacked(spec, random_stacked(spec, 3, 0))
    other = chain_spec([2, 5, 1])
    with pytest.raises(StateError, match="another architecture"):
        Normalisation.fit(graph)(NeuralGraph.from_stacked(other, random_stacked(other, 1, 0)))
    bad = random_stacked(spec, 3, 0)
    bad["0.bias"][1, 2] = float("nan")
    with pytest.raises(DataError, match="finite"):
        Normalisation.fit(NeuralGraph.from_stacked(spec, bad))


def test_runner_against_a_plain_module() -> None:
    spec = chain_spec([2, 5, 4, 1], activations=["tanh", "relu"])
    module = torch.nn.Sequential(
        torch.nn.Linear(2, 5),
        torch.nn.Tanh(),
        torch.nn.Linear(5, 4),
        torch.nn.ReLU(),
        torch.nn.Linear(4, 1),
    )
    state = dict(zip([p.name for p in spec.parameters], module.parameters(), strict=True))
    x = torch.randn(6, 2)
    values = ChainRunner(spec).run(state, x)
    torch.testing.assert_close(values["2"], module(x))
    torch.testing.assert_close(values["1"], module[:4](x))


@given(chains(), st.integers(0, 99))
def test_probe_features_are_permuted_with_their_neurons(spec: GraphSpec, seed: int) -> None:
    graph = NeuralGraph.from_stacked(spec, random_stacked(spec, 2, seed, torch.float64))
    probes = torch.rand(3, spec.nodes_in("input"), dtype=torch.float64)
    runner = ChainRunner(spec)
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(seed))
    moved = runner.probe(element.act_graph(graph), probes)
    for name, values in runner.probe(graph, probes).items():
        torch.testing.assert_close(element.act_nodes(name, values), moved[name])


def test_running_refuses_what_it_cannot_run() -> None:
    with pytest.raises(SpecError, match="unknown"):
        ChainRunner(chain_spec([2, 3, 1], activations="unknown"))
    runner = ChainRunner(chain_spec([2, 3, 1]))
    state = {k: v[0] for k, v in random_stacked(runner.spec, 1, 0).items()}
    with pytest.raises(StateError, match="2 values a point"):
        runner.run(state, torch.zeros(4, 3))
