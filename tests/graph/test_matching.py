"""Weight matching: exact on copies, never worse than trying every permutation of an axis."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.graph.strategies import chains, random_stacked
from tests.graph.test_reordering import residual
from weightspace import from_module
from weightspace.errors import ModelError, StateError
from weightspace.graph import (
    GraphSpec,
    GroupElement,
    State,
    SymmetryGroup,
    canonical_signs,
    chain_spec,
    match_stacked,
    match_weights,
)


def trained(spec: GraphSpec) -> list[str]:
    return [p.name for p in spec.parameters if not p.buffer]


def similarity(spec: GraphSpec, one: State, two: State) -> float:
    return sum(float((one[n].double() * two[n].double()).sum()) for n in trained(spec))


def networks(spec: GraphSpec, count: int, seed: int) -> list[dict[str, torch.Tensor]]:
    stacked = random_stacked(spec, count, seed)
    for item in spec.left_out:
        stacked[item.parameter.name] = torch.zeros(count, *item.parameter.shape)
    return [{name: tensor[i] for name, tensor in stacked.items()} for i in range(count)]


def recovers(spec: GraphSpec, fixed: State, seed: int) -> bool:
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(seed))
    moving = element.act_state(fixed)
    back = match_weights(spec, fixed, moving).element.act_state(moving)
    return all(torch.equal(back[name], fixed[name]) for name in trained(spec))


@settings(max_examples=30, deadline=None)
@given(chains(max_width=8), st.integers(0, 99))
def test_recovers_copies_of_chains(spec: GraphSpec, seed: int) -> None:
    (fixed,) = networks(spec, 1, seed)
    assert recovers(spec, fixed, seed)


@pytest.mark.parametrize("seed", range(5))
def test_recovers_copies_with_groups_norms_residuals_and_heads(seed: int) -> None:
    graph = residual()
    assert recovers(graph.spec, graph.state_dict(seed % 4), seed)


class Nested(nn.Module):
    """Two grouped convolutions in a row: groups within which channels permute."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(2, 12, 1)
        self.middle = nn.Conv1d(12, 12, 3, groups=3, padding=1)
        self.last = nn.Conv1d(12, 12, 3, groups=3, padding=1)
        self.head = nn.Linear(12, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.middle(self.first(x).relu()).relu()
        return self.head(self.last(x).relu().mean(-1))


@pytest.mark.parametrize("seed", range(5))
def test_recovers_copies_with_groups_within_groups(seed: int) -> None:
    torch.manual_seed(seed)
    graph = from_module(Nested().eval(), torch.randn(1, 2, 5))
    assert any(axis.within for axis in graph.spec.axes)
    assert recovers(graph.spec, graph.state_dict(), seed)


def test_one_axis_is_solved_exactly() -> None:
    spec = chain_spec([2, 5, 2])
    fixed, moving = networks(spec, 2, 0)
    found = match_weights(spec, fixed, moving)
    best = max(
        similarity(spec, fixed, GroupElement(spec, {"0": torch.tensor(order)}).act_state(moving))
        for order in itertools.permutations(range(5))
    )
    assert found.similarity == pytest.approx(best)
    assert found.before == pytest.approx(similarity(spec, fixed, moving))
    assert found.gain == pytest.approx(best - found.before)
    after = similarity(spec, fixed, found.element.act_state(moving))
    assert found.similarity == pytest.approx(after)


def test_heads_and_what_is_in_them_are_solved_exactly() -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(6, 2, batch_first=True)

    class Attend(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.attention(x, x, x)[0]

    spec = from_module(Attend().eval(), torch.randn(1, 4, 6)).spec
    heads, inner = (axis for axis in spec.axes if axis.permutes)
    assert (heads.size, inner.size, inner.within) == (2, 3, heads.name)
    fixed, moving = networks(spec, 2, 1)
    found = match_weights(spec, fixed, moving)
    orders = list(itertools.permutations(range(3)))
    best = max(
        similarity(
            spec,
            fixed,
            GroupElement(
                spec, {heads.name: torch.tensor(h), inner.name: torch.tensor(pair)}
            ).act_state(moving),
        )
        for h in itertools.permutations(range(2))
        for pair in itertools.product(orders, orders)
    )
    assert found.similarity == pytest.approx(best)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 99))
def test_no_axis_can_be_improved_afterwards(seed: int) -> None:
    spec = chain_spec([2, 4, 3, 4, 1])
    fixed, moving = networks(spec, 2, seed)
    found = match_weights(spec, fixed, moving)
    moved = found.element.act_state(moving)
    for axis in ("0", "1", "2"):
        for order in itertools.permutations(range(spec.axis(axis).size)):
            other = GroupElement(spec, {axis: torch.tensor(order)}).act_state(moved)
            assert similarity(spec, fixed, other) <= found.similarity + 1e-6


@pytest.mark.parametrize("nested", [False, True])
def test_networks_of_a_batch_do_not_matter_to_each_other(nested: bool) -> None:
    spec = residual().spec if nested else chain_spec([2, 6, 6, 1])
    fixed, *others = networks(spec, 9, 5)
    stacked = {name: torch.stack([state[name] for state in others]) for name in fixed}
    together = match_stacked(spec, fixed, stacked, restarts=2)
    for i, state in enumerate(others):
        alone = match_weights(spec, fixed, state, restarts=2)
        for name, permutation in together.reordering.permutations.items():
            assert torch.equal(alone.element.permutations[name], permutation[i])
        moved = alone.element.act_state(state)
        assert similarity(spec, fixed, moved) == pytest.approx(float(together.similarity[i]))


def test_restarts_do_not_make_it_worse_and_seeds_repeat() -> None:
    spec = chain_spec([2, 8, 8, 8, 1])
    fixed, *_ = networks(spec, 1, 5)
    stacked = random_stacked(spec, 8, 1)
    once = match_stacked(spec, fixed, stacked)
    often = match_stacked(spec, fixed, stacked, restarts=6)
    assert (often.similarity >= once.similarity - 1e-9).all()
    assert (often.similarity > once.similarity + 1e-3).any()
    again = match_stacked(spec, fixed, stacked, restarts=6)
    for name, permutation in often.reordering.permutations.items():
        assert torch.equal(again.reordering.permutations[name], permutation)
    with pytest.raises(ModelError, match="at least 1"):
        match_stacked(spec, fixed, stacked, restarts=0)


def test_flipped_signs_need_canonical_ones_first() -> None:
    spec = chain_spec([2, 8, 8, 1], activations="tanh")
    (fixed,) = networks(spec, 1, 0)
    element = SymmetryGroup(spec).sample(
        torch.Generator().manual_seed(1), kinds=("permutation", "sign")
    )
    moving = element.act_state(fixed)

    def canonical(state: State) -> dict[str, torch.Tensor]:
        stacked = canonical_signs(spec, {name: tensor[None] for name, tensor in state.items()})
        return {name: tensor[0] for name, tensor in stacked.items()}

    one, two = canonical(fixed), canonical(moving)
    back = match_weights(spec, one, two).element.act_state(two)
    assert all(torch.allclose(back[name], one[name]) for name in one)
    plain = match_weights(spec, fixed, moving)
    assert plain.similarity < 0.9 * similarity(spec, fixed, fixed)


def test_bad_states_are_refused() -> None:
    spec = chain_spec([2, 4, 1])
    fixed, moving = networks(spec, 2, 0)
    with pytest.raises(StateError, match=r"moving network, tensor '0\.weight'"):
        match_weights(spec, fixed, {**moving, "0.weight": torch.full((4, 2), torch.nan)})
    with pytest.raises(StateError, match="another architecture"):
        match_weights(spec, {**fixed, "0.bias": torch.zeros(3)}, moving)


def test_networks_without_neurons_to_permute() -> None:
    spec = chain_spec([2, 1])
    fixed, moving = networks(spec, 2, 0)
    found = match_weights(spec, fixed, moving)
    assert found.gain == 0
    assert not found.element.permutations
