from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.find.networks import TRACED, bare, chain, moved, small_cnn, state_of, traced, tuned
from weightspace.find import CHANNELS, Network, describe
from weightspace.find.descriptors import SAME
from weightspace.graph import SymmetryGroup, chain_spec


def gap(one: Network, other: Network) -> float:
    return float(np.linalg.norm(describe(one) - describe(other)))


@settings(deadline=None, max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=2, max_size=5),
    activation=st.sampled_from(["relu", "tanh", "sine", "gelu", "none"]),
    seed=st.integers(0, 99),
)
def test_the_group_of_a_chain_leaves_it_alone(sizes: list[int], activation: str, seed: int) -> None:
    spec = chain_spec(sizes, activations=activation)
    state = state_of(spec, seed)
    draw = torch.Generator().manual_seed(seed)
    element = SymmetryGroup(spec).sample(draw, kinds=("permutation", "sign", "scale"))
    one, other = Network.of(state, spec), Network.of(element.act_state(state), spec)
    assert gap(one, other) < SAME / 10


@pytest.mark.parametrize("kind", TRACED)
def test_the_derived_group_of_a_module_leaves_it_alone(kind: str) -> None:
    network = traced(kind)
    assert network.spec is not None
    draw = torch.Generator().manual_seed(1)
    group = SymmetryGroup(network.spec)
    element = group.sample(draw, kinds=("permutation", "sign", "scale"))
    other = Network.of(element.act_state(network.state), network.spec)
    assert any(not torch.equal(network.state[n], other.state[n]) for n in network.state)
    assert gap(network, other) < SAME


@pytest.mark.parametrize("kinds", [("permutation", "scale"), ("permutation", "sign")])
@pytest.mark.parametrize("network", [chain(), bare(small_cnn())], ids=["chain", "cnn"])
def test_rescalings_that_may_be_leave_it_alone(network: Network, kinds: tuple[str, ...]) -> None:
    assert gap(network, moved(network, kinds)) < SAME


def test_it_tells_networks_apart() -> None:
    network = chain()
    near, far = gap(network, tuned(network, 0.05)), gap(network, chain(1))
    assert SAME < near < far
    assert gap(network, chain(sizes=(12, 24, 6))) > far


def test_every_network_has_all_channels() -> None:
    loose = Network.of({"a.weight": torch.randn(3, 4, 2), "b": torch.ones(5)}, None)
    zero = Network.of({"a.weight": torch.zeros(3, 4)}, None)
    none = Network.of({"a": torch.ones(3)}, None)
    for network in (chain(), bare(small_cnn()), traced("transformer"), loose, zero, none):
        vector = describe(network)
        assert vector.shape == (len(CHANNELS),)
        assert np.isfinite(vector).all()
    assert len(set(CHANNELS)) == len(CHANNELS)


def test_without_a_structure_rows_and_columns_have_no_order() -> None:
    weight = torch.randn(6, 5)
    one, other = ({"w.weight": w} for w in (weight, weight.flip(0).roll(2, 1)))
    assert gap(Network.of(one, None), Network.of(other, None)) < SAME
