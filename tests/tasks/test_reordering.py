"""The augmentation by symmetry, with functions as the judge."""

from __future__ import annotations

import torch

from tests.graph.strategies import random_stacked
from weightspace.graph import ChainRunner, chain_spec
from weightspace.tasks.reordering import ReorderingAugmentation


def test_functions_stay_and_orders_differ() -> None:
    spec = chain_spec([2, 6, 5, 1], activations="tanh")
    stacked = random_stacked(spec, 4, 0, torch.float64)
    kept = {name: tensor.clone() for name, tensor in stacked.items()}
    augment = ReorderingAugmentation(spec)
    moved = augment(stacked, torch.Generator().manual_seed(0))
    points = torch.randn(7, 2, dtype=torch.float64)
    runner = ChainRunner(spec)
    one, two = (runner.run_stacked(state, points)["2"] for state in (stacked, moved))
    torch.testing.assert_close(one, two)
    assert all(torch.equal(stacked[name], kept[name]) for name in kept)
    for i in range(4):
        assert not torch.equal(moved["0.weight"][i], stacked["0.weight"][i])
    again = augment(stacked, torch.Generator().manual_seed(0))
    other = augment(stacked, torch.Generator().manual_seed(1))
    assert torch.equal(again["1.weight"], moved["1.weight"])
    assert not torch.equal(other["1.weight"], moved["1.weight"])
