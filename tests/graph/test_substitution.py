"""Running modules with tensors of a mapping, and state dicts made as they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
import torch
from torch import Tensor, nn

from weightspace.errors import StateError
from weightspace.graph import NeuralGraph, chain_spec
from weightspace.graph.lazy_state import ActedState, GraphState
from weightspace.graph.substitution import substituted


class Counting(Mapping[str, Tensor]):
    """A state dict that counts how often each tensor is read."""

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        self.state = dict(state)
        self.reads: list[str] = []

    def __getitem__(self, name: str) -> Tensor:
        self.reads.append(name)
        return self.state[name].clone()

    def __contains__(self, name: object) -> bool:
        return name in self.state

    def __iter__(self) -> Iterator[str]:
        return iter(self.state)

    def __len__(self) -> int:
        return len(self.state)


def _network() -> nn.Module:
    torch.manual_seed(0)
    shared = nn.Linear(4, 4)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), shared, nn.Tanh(), shared).eval()


def _other(module: nn.Module) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.rand(t.shape, generator=generator) if t.is_floating_point() else t
        for name, t in module.state_dict().items()
        if not name.startswith("4.")
    }


@pytest.mark.parametrize(
    "network",
    [
        _network,
        lambda: nn.LSTM(3, 5, num_layers=2, batch_first=True),
        lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(),
    ],
)
def test_the_module_runs_as_if_it_had_loaded_the_state(network) -> None:
    module = network()
    width = 4 if isinstance(module, nn.TransformerEncoderLayer) else 3
    x = torch.randn(2, 5, width) if not isinstance(module, nn.Sequential) else torch.randn(2, 3)
    state, own = _other(module), {k: v.clone() for k, v in module.state_dict().items()}
    with torch.no_grad(), substituted(module, state):
        found = module(x)
    assert all(torch.equal(module.state_dict()[name], own[name]) for name in own)
    module.load_state_dict(state, strict=False)
    with torch.no_grad():
        expected = module(x)
    pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs if isinstance(a, Tensor))


def test_a_tensor_is_fetched_when_it_is_read_and_no_earlier() -> None:
    module = _network()
    state = Counting(_other(module))
    with torch.no_grad(), substituted(module, state):
        assert state.reads == []
        module[0](torch.zeros(1, 3))
        assert state.reads == ["0.weight", "0.bias"]
        assert next(module.parameters()).shape == (4, 3)
        assert dict(module[2].named_parameters())["bias"].equal(state.state["2.bias"])


def test_what_a_run_writes_is_forgotten() -> None:
    module = nn.BatchNorm1d(3)
    state = {name: t.clone() for name, t in module.state_dict().items()}
    before = {name: t.clone() for name, t in state.items()}
    with substituted(module, {name: t.clone() for name, t in state.items()}):
        module.running_mean = torch.full((3,), 7.0)
        assert module.running_mean[0] == 7
    assert type(module._buffers) is not None
    assert all(torch.equal(module.state_dict()[name], before[name]) for name in before)


def test_the_module_is_left_as_it_was_after_an_error() -> None:
    module = _network()
    tables = [part._parameters for part in module.modules()]
    with pytest.raises(RuntimeError, match="on purpose"), substituted(module, _other(module)):
        raise RuntimeError("on purpose")
    assert all(part._parameters is own for part, own in zip(module.modules(), tables, strict=True))


def test_a_name_that_the_module_lacks_is_refused() -> None:
    module = nn.Linear(2, 2)
    with pytest.raises(StateError, match="wrong"), substituted(module, {"wrong": torch.ones(1)}):
        pass
    assert type(module._parameters) is dict


def test_a_graph_gives_each_tensor_back_by_itself() -> None:
    spec = chain_spec([3, 5, 2])
    states = [{p.name: torch.randn(p.shape) for p in spec.parameters} for _ in range(3)]
    graph = NeuralGraph.from_states(spec, states)
    for index, state in enumerate(states):
        lazy = GraphState(graph, index)
        assert list(lazy) == list(graph.state_dict(index))
        assert all(torch.equal(lazy[name], state[name]) for name in state)


def test_equal_tensors_of_the_module_are_given_as_they_are() -> None:
    spec = chain_spec([3, 5, 2])
    state = {p.name: torch.randn(p.shape) for p in spec.parameters}
    graph = NeuralGraph.from_states(spec, [state])
    own = {**state, "0.bias": state["0.bias"] + 1}
    lazy = GraphState(graph, own=own)
    assert lazy["0.weight"].data_ptr() == state["0.weight"].data_ptr()
    assert torch.equal(lazy["0.bias"], state["0.bias"])


def test_acting_tensor_by_tensor_is_acting_on_all() -> None:
    spec = chain_spec([3, 6, 6, 2], activations="tanh")
    state = {p.name: torch.randn(p.shape) for p in spec.parameters}
    graph = NeuralGraph.from_states(spec, [state])
    kinds = ("permutation", "sign")
    element = graph.symmetry.sample(kinds=kinds, generator=torch.Generator().manual_seed(3))
    expected = element.act_state(state)
    lazy = ActedState(element, state)
    assert list(lazy) == list(state)
    assert all(torch.equal(lazy[name], expected[name]) for name in state)
    assert not torch.equal(lazy["0.weight"], state["0.weight"])
    assert lazy["0.weight"] is lazy["0.weight"]
