"""Canonical signs: the function stays, flipped copies meet, permutations pass through."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.graph.strategies import random_stacked
from weightspace import from_module
from weightspace.graph import Activation, ChainRunner, SymmetryGroup, canonical_signs, chain_spec

SPECS = [
    chain_spec([2, 5, 4, 3, 1], activations="tanh"),
    chain_spec([2, 5, 1], activations=Activation.of("sine", w0=2.0), bias=False),
    chain_spec([2, 5, 4, 1], activations=["tanh", "relu"]),
]


@settings(deadline=None)
@given(st.sampled_from(SPECS), st.integers(0, 99))
def test_flipped_copies_meet_and_the_function_stays(spec, seed: int) -> None:  # type: ignore[no-untyped-def]
    stacked = random_stacked(spec, 3, seed, torch.float64)
    x = torch.randn(4, 2, dtype=torch.float64)
    output = spec.node_sets[-1].name
    canonical = canonical_signs(spec, stacked)
    runner = ChainRunner(spec)
    torch.testing.assert_close(
        runner.run_stacked(canonical, x)[output], runner.run_stacked(stacked, x)[output]
    )
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(seed), kinds=("sign",))
    flipped = element.act_stacked(stacked)
    for name, tensor in canonical_signs(spec, flipped).items():
        assert torch.equal(tensor, canonical[name])


@settings(deadline=None)
@given(st.sampled_from(SPECS), st.integers(0, 99))
def test_permutations_pass_through(spec, seed: int) -> None:  # type: ignore[no-untyped-def]
    stacked = random_stacked(spec, 2, seed, torch.float64)
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(seed))
    one = canonical_signs(spec, element.act_stacked(stacked))
    two = element.act_stacked(canonical_signs(spec, stacked))
    for name in one:
        torch.testing.assert_close(one[name], two[name])


def test_signs_are_there_to_be_flipped() -> None:
    spec = SPECS[0]
    stacked = random_stacked(spec, 1, 0)
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(0), kinds=("sign",))
    assert not torch.equal(element.act_stacked(stacked)["0.weight"], stacked["0.weight"])


def test_every_network_has_its_own_signs_and_inputs_are_not_changed() -> None:
    spec = SPECS[0]
    stacked = random_stacked(spec, 4, 0)
    before = {name: tensor.clone() for name, tensor in stacked.items()}
    together = canonical_signs(spec, stacked)
    for i in range(4):
        alone = canonical_signs(spec, {name: t[i : i + 1] for name, t in stacked.items()})
        assert all(torch.equal(alone[name][0], together[name][i]) for name in stacked)
    assert all(torch.equal(stacked[name], before[name]) for name in stacked)


def test_relu_networks_have_no_signs() -> None:
    spec = chain_spec([2, 5, 1], activations="relu")
    stacked = random_stacked(spec, 2, 0)
    assert all(torch.equal(canonical_signs(spec, stacked)[n], stacked[n]) for n in stacked)


class Odd(nn.Module):
    """Odd functions on a residual stream, a depthwise convolution, and a tied decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner = nn.Conv2d(2, 6, 3), nn.Conv2d(6, 6, 3, padding=1)
        self.depthwise, self.last = nn.Conv2d(6, 6, 3, groups=6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        x = x + torch.tanh(self.inner(x))
        return self.last(torch.tanh(self.depthwise(x)).mean((2, 3)))


class Plain(nn.Sequential):
    """A chain as importers draw it."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


@pytest.mark.parametrize("module", [Odd(), Plain()], ids=["odd", "plain"])
def test_imported_networks(module: nn.Module) -> None:
    x = torch.randn(4, 2, 8, 8) if isinstance(module, Odd) else torch.randn(4, 2)
    module, x = module.double(), x.double()
    graph = from_module(module, x)
    assert any(rescaling.kind == "sign" for rescaling in graph.spec.rescalings)
    canonical = canonical_signs(graph.spec, graph.stacked_state())
    first = {name: tensor[0] for name, tensor in canonical.items()}
    torch.testing.assert_close(torch.func.functional_call(module, first, (x,)), module(x))
    changed = False
    for seed in range(5):
        element = graph.symmetry.sample(
            kinds=("sign",), generator=torch.Generator().manual_seed(seed)
        )
        moved = element.act_graph(graph).stacked_state()
        for name, tensor in canonical_signs(graph.spec, moved).items():
            torch.testing.assert_close(tensor, canonical[name])
            changed = changed or not torch.equal(moved[name], graph.stacked_state()[name])
    assert changed
