"""Options out of their range, and things that are no networks, are errors that say so."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

from weightspace.errors import ModelError, StateError, WeightspaceError
from weightspace.graph import MixedGraph, chain_spec
from weightspace.models import MODELS, Predictor, Requirements, make_model
from weightspace.models.option_limits import checked_options
from weightspace.testing import sample_graph

SPEC = chain_spec([2, 4, 4, 1], activations="sine")
NEEDS = Requirements.of([SPEC])

WRONG: dict[type, list[Any]] = {
    int: [-1, 2.5, "8", None, True, float("nan"), [8], 10**9],
    float: [-0.5, "a", None, float("nan"), float("inf"), True],
    bool: ["no", 2, None],
    str: ["nope", 3, "", None],
}
MAY_BE_ZERO = {"probes", "supernodes", "values", "answers", "restarts"}


def _options() -> list[tuple[str, str, type]]:
    found = []
    for name, entry in MODELS.items():
        parameters = inspect.signature(entry.family.__init__).parameters
        found += [
            (name, key, type(parameter.default))
            for key, parameter in parameters.items()
            if type(parameter.default) in WRONG
        ]
    return found


@pytest.mark.parametrize(("name", "option", "kind"), _options())
def test_options_out_of_range_are_refused(name: str, option: str, kind: type) -> None:
    wrong = [*WRONG[kind], *([0] if kind is int and option not in MAY_BE_ZERO else [])]
    for value in wrong:
        with pytest.raises(ModelError, match=option):
            make_model(name, NEEDS, outputs=2, options={option: value})


def test_dropout_of_everything_is_refused() -> None:
    for name in ("ng-gnn", "stat-nn", "flat-mlp"):
        with pytest.raises(ModelError, match="option dropout: expected a rate"):
            make_model(name, NEEDS, outputs=2, options={"dropout": 1.0})


@pytest.mark.parametrize("name", ["ng-t", "ng-t-edges", "nft", "neuron-transformer"])
def test_heads_must_divide(name: str) -> None:
    with pytest.raises(ModelError, match="a number that divides the"):
        make_model(name, NEEDS, outputs=2, options={"heads": 7})


def test_probes_alone_need_probes() -> None:
    with pytest.raises(ModelError, match="probes: expected a whole number from 1"):
        make_model("probe-only", NEEDS, outputs=2, options={"probes": 0})


@pytest.mark.parametrize("outputs", [0, -1, 2.5, "3", None, True])
def test_outputs_are_a_whole_number(outputs: Any) -> None:
    with pytest.raises(ModelError, match="option outputs"):
        make_model("ng-gnn", NEEDS, outputs=outputs)
    with pytest.raises(ModelError, match="option outputs"):
        Predictor(make_model("ng-gnn", NEEDS, outputs=1).trunk, outputs=outputs)


@pytest.mark.parametrize("canonical", ["no", None, 1])
def test_canonical_is_a_switch(canonical: Any) -> None:
    with pytest.raises(ModelError, match="option canonical: expected True or False"):
        make_model("ng-gnn", NEEDS, outputs=1, options={"canonical": canonical})


@pytest.mark.parametrize("name", [None, ["ng-gnn"], 3, "NG-GNN", ""])
def test_unknown_names_are_refused(name: Any) -> None:
    with pytest.raises(ModelError, match="expected one of ng-gnn-probes, ng-gnn"):
        make_model(name, NEEDS, outputs=1)


@pytest.mark.parametrize("specs", [None, [], [SPEC, 3], SPEC, "specs"])
def test_requirements_are_of_specs(specs: Any) -> None:
    with pytest.raises(ModelError, match="specs: expected"):
        Requirements.of(specs)
    with pytest.raises(ModelError, match="requirements: expected"):
        make_model("ng-gnn", specs, outputs=1)


@pytest.mark.parametrize(
    "batch", [None, torch.zeros(3), torch.zeros(()), {"a": 1}, [None], [], "zoo", 3]
)
def test_batches_are_of_graphs(batch: Any) -> None:
    with pytest.raises(StateError, match="batch: expected"):
        MixedGraph.of(batch)


def test_batches_come_from_any_iterable() -> None:
    graph = sample_graph(SPEC, 2)
    assert len(MixedGraph.of(part for part in (graph, graph))) == 4  # type: ignore[arg-type]


@pytest.mark.parametrize("executor", ["fast", None])
def test_unknown_executors_are_refused(executor: Any) -> None:
    model = make_model("ng-gnn", NEEDS, outputs=1, options={"width": 4}).double()
    with pytest.raises(ModelError, match="executor: expected stored, deferred or auto"):
        model(sample_graph(SPEC, 2), executor=executor)


@pytest.mark.parametrize("name", list(MODELS))
def test_normalised_networks_are_refused(name: str) -> None:
    graph = sample_graph(SPEC, 3, dtype=torch.float32)
    model = make_model(name, NEEDS, outputs=1)
    model.fit_normalisation(graph)
    normal = model.normaliser.normalisation(graph)
    with pytest.raises(WeightspaceError, match="the networks' own weights"):
        model(normal)
    with pytest.raises(WeightspaceError, match="the networks' own weights"):
        model.fit_normalisation(normal)


def test_limits_go_by_name() -> None:
    assert checked_options({"probes": 0, "width": 1, "dropout": 0, "sigma": 2}) == {
        "probes": 0,
        "width": 1,
        "dropout": 0,
        "sigma": 2,
    }
