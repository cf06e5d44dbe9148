"""What cannot be followed is refused, and a wrong rule does not go unnoticed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from weightspace import from_module
from weightspace.errors import SymmetryError, TraceError
from weightspace.importers.call import RULES
from weightspace.importers.rules.elementwise import elementwise

from .checking import stir


class Summing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).cumsum(-1))


X = torch.randn(4, 3, dtype=torch.float64)


def test_a_wrong_rule_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    net = stir(Summing())
    from_module(net, X).symmetry.check(net, X).require(1e-9)
    monkeypatch.setitem(RULES, "cumsum", elementwise)  # says that the order has no effect
    report = from_module(net, X).symmetry.check(net, X)
    assert report.max_relative_change > 1e-2
    with pytest.raises(SymmetryError, match="does not describe this network"):
        report.require()


def test_a_rule_that_forgets_a_tie_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scaled(Summing):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.randn(8))

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x) * self.scale)

    net = stir(Scaled())
    from_module(net, X).symmetry.check(net, X).require(1e-9)
    monkeypatch.setitem(RULES, "mul", lambda call: call.make(call.tensors[0].dims))
    assert from_module(net, X).symmetry.check(net, X).max_relative_change > 1e-2


def test_an_operation_without_a_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, "cumsum")
    outer = nn.Sequential(nn.Linear(3, 3), Summing())
    with pytest.raises(TraceError) as caught:
        from_module(outer, torch.randn(4, 3))
    text = str(caught.value)
    assert "aten.cumsum" in text
    assert "module 1" in text
    assert "(4, 8)" in text


def test_branches_on_data_are_refused() -> None:
    class Branching(Summing):
        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            return self.second(x) if x.sum() > 0 else self.second(-x)

    with pytest.raises(TraceError, match=r"module Branching: expected .* torch\.export"):
        from_module(Branching(), torch.randn(4, 3))


def test_wrong_inputs_are_refused() -> None:
    with pytest.raises(TraceError, match="module Linear"):
        from_module(nn.Linear(3, 2), torch.randn(4, 5))


def test_the_module_is_left_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2))
    net.train()
    net[1].eval()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    graph = from_module(net, torch.randn(4, 3))
    graph.symmetry.check(net, torch.randn(4, 3))
    assert [part.training for part in net] == [True, False, True, True]
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert all(p.requires_grad and p.grad is None for p in net.parameters())


def test_edits_come_back_into_the_module() -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    graph = from_module(net, torch.randn(4, 3))
    edges = {**graph.edges, "2.weight": graph.edges["2.weight"] * 0}
    nodes = {**graph.nodes, "2": graph.nodes["2"] + 1}
    net.load_state_dict(graph.with_features(nodes, edges).state_dict())
    bias = graph.state_dict()["2.bias"] + 1
    assert torch.equal(net(torch.randn(4, 3)), bias.expand(4, 2))


def test_edits_of_tied_tensors_reach_both_names() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.tokens(ids))

    graph = from_module(Tied(), torch.tensor([1, 2]))
    state = graph.map(lambda tensor: tensor * 2).state_dict()
    assert torch.equal(state["head.weight"], state["tokens.weight"])


def test_inputs_by_name_and_several_outputs() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(3, 8), nn.Linear(8, 2), nn.Linear(8, 5)

        def forward(self, x: Tensor, *, scale: Tensor) -> dict[str, Tensor]:
            h = self.a(x).relu() * scale
            return {"b": self.b(h), "c": self.c(h)}

    net = stir(Two())
    inputs = {"x": X, "scale": torch.tensor(2.0, dtype=torch.float64)}
    graph = from_module(net, inputs)
    graph.symmetry.check(net, inputs).require(1e-9)
    assert [n.name for n in graph.spec.of_role("output")] == ["b", "c"]


def test_unused_tensors_are_left_out_with_a_reason() -> None:
    class Idle(Summing):
        def __init__(self) -> None:
            super().__init__()
            self.idle = nn.Linear(2, 2)

    graph = from_module(Idle(), torch.randn(4, 3))
    assert {item.parameter.name for item in graph.spec.left_out} == {"idle.weight", "idle.bias"}
    assert all("not used" in item.reason for item in graph.spec.left_out)


def test_partly_used_tensors_are_in_the_graph_whole() -> None:
    class Short(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.places, self.a, self.b = (
                nn.Parameter(torch.randn(9, 4)),
                nn.Linear(3, 4),
                nn.Linear(4, 2),
            )

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a(x) + self.places[2:6])

    net = stir(Short())
    graph = from_module(net, X)
    graph.symmetry.check(net, X).require(1e-9)
    assert torch.equal(graph.state_dict()["places"], net.places)
    assert not graph.spec.left_out


def test_modules_that_cache_are_run_afresh() -> None:
    class Caching(Summing):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.cache = nn.Parameter(torch.randn(8)), {}

        def forward(self, x: Tensor) -> Tensor:
            if "scale" not in self.cache:
                self.cache["scale"] = self.scale.exp()
            return self.second(self.first(x) * self.cache["scale"])

    net = stir(Caching())
    graph = from_module(net, X)
    assert net.cache == {}
    assert "scale" in {p.name for p in graph.spec.parameters}
    graph.symmetry.check(net, X).require(1e-9)


def test_outputs_without_a_number_show_nothing() -> None:
    class Empty(Summing):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x)[:0]

    net = stir(Empty())
    with pytest.raises(SymmetryError, match="outputs that are empty"):
        from_module(net, X).symmetry.check(net, X)


def test_inputs_that_the_network_cannot_take_are_named() -> None:
    with pytest.raises(TraceError, match=r"runs on its inputs \(tensors of \(4, 7\)\).*shape"):
        from_module(Summing(), torch.zeros(4, 7))


def test_a_network_that_runs_but_cannot_be_exported_is_said_to_be_one() -> None:
    class Choosing(Summing):
        def forward(self, x: Tensor) -> Tensor:
            return self.first(x) if float(x.sum()) > 0 else self.first(-x)

    with pytest.raises(TraceError, match="Data-dependent control flow"):
        from_module(Choosing(), torch.ones(4, 3))
