"""Aligning a network with a copy of itself, and with another."""

from __future__ import annotations

import pytest
import torch

from tests.align.networks import KINDS, trained
from weightspace import from_module
from weightspace.align import align_activations, align_weights
from weightspace.errors import StateError
from weightspace.graph import GroupElement, SymmetryGroup
from weightspace.importers.flowing import FlowReader


def random_copy(spec, state, seed=1):
    """The same function with permuted neurons, of other signs and scales."""
    generator = torch.Generator().manual_seed(seed)
    element = SymmetryGroup(spec).sample(generator)
    return GroupElement(spec, element.permutations, element.factors).act_state(state), element


def undone(alignment, element) -> bool:
    """Whether the reordering takes back the permutation."""
    found = alignment.reordering.element(0).act_state
    spec = element.spec
    numbered = {
        p.name: torch.arange(p.numel, dtype=torch.float64).reshape(p.shape)
        for p in (*spec.parameters, *(item.parameter for item in spec.left_out))
    }
    permuted = GroupElement(spec, element.permutations).act_state(numbered)
    back = found(permuted)
    return all(torch.equal(back[name], numbered[name]) for name in numbered)


@pytest.mark.parametrize("kind", KINDS)
def test_a_permuted_copy_is_found_exactly_by_its_weights(kind: str) -> None:
    module, inputs = trained(kind, 0)
    graph = from_module(module, inputs)
    state = module.state_dict()
    copy, element = random_copy(graph.spec, state)
    alignment = align_weights(graph.spec, state, copy, kinds=("sign", "scale"))
    assert alignment.matched_exactly
    assert undone(alignment, element)
    assert alignment.distance < 1e-4 < alignment.distance_before


@pytest.mark.parametrize("kind", KINDS)
def test_a_permuted_copy_is_found_exactly_by_what_it_does(kind: str) -> None:
    module, inputs = trained(kind, 0)
    reader = FlowReader(module, inputs)
    state = module.state_dict()
    copy, element = random_copy(reader.spec, state)
    alignment = align_activations(reader, state, copy, kinds=("sign", "scale"))
    assert undone(alignment, element)
    assert alignment.matched_exactly


@pytest.mark.parametrize("kind", KINDS)
def test_alignment_keeps_the_function(kind: str) -> None:
    one, inputs = trained(kind, 0)
    other, _ = trained(kind, 1)
    graph = from_module(one, inputs)
    before = other(inputs)
    alignment = align_weights(
        graph.spec, one.state_dict(), other.state_dict(), kinds=("sign", "scale")
    )
    assert not alignment.matched_exactly
    assert alignment.distance < alignment.distance_before
    other.load_state_dict(alignment.aligned)
    assert torch.allclose(other(inputs), before, rtol=1e-4, atol=1e-5)


def test_restarts_never_do_worse() -> None:
    one, inputs = trained("mlp", 0)
    other, _ = trained("mlp", 1)
    spec = from_module(one, inputs).spec
    states = one.state_dict(), other.state_dict()
    first, best = (align_weights(spec, *states, restarts=n) for n in (1, 8))
    assert best.distance <= first.distance


def test_bad_networks_are_named() -> None:
    one, inputs = trained("mlp", 0)
    spec, state = from_module(one, inputs).spec, one.state_dict()
    broken = {**state, "1.bias": torch.full_like(state["1.bias"], torch.nan)}
    with pytest.raises(StateError, match=r"moving network, tensor '1.bias'.*NaN"):
        align_weights(spec, state, broken)
    with pytest.raises(StateError):
        align_weights(spec, state, {"other": torch.zeros(2)})
