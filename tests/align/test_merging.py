"""Merging networks, the loss between them, and the statistics of the result."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

from tests.align.networks import KINDS, trained
from weightspace import from_module
from weightspace.align import (
    Average,
    Slerp,
    TaskArithmetic,
    align_weights,
    loss_path,
    merge_states,
    repair_statistics,
)
from weightspace.errors import ModelError, StateError


def test_the_mean_of_two() -> None:
    one, other = {"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([3.0, 6.0])}
    assert merge_states([one, other], Average((0.25, 0.75)))["w"].tolist() == [2.5, 5.0]
    assert one["w"].tolist() == [1.0, 2.0]


def test_slerp_keeps_the_norm_and_meets_both_ends() -> None:
    torch.manual_seed(0)
    one, other = ({"w": F.normalize(torch.randn(40), dim=0)} for _ in range(2))
    merged = merge_states([one, other], Slerp(0.3))["w"]
    assert merged.norm() == pytest.approx(1.0, abs=1e-5)
    assert torch.allclose(merge_states([one, other], Slerp(0.0))["w"], one["w"])
    assert torch.allclose(merge_states([one, other], Slerp(1.0))["w"], other["w"], atol=1e-6)
    assert torch.allclose(merge_states([one, one], Slerp(0.3))["w"], one["w"])


def test_task_arithmetic_adds_what_was_learned() -> None:
    base = {"w": torch.tensor([1.0]), "n": torch.tensor(3)}
    tuned = [{"w": torch.tensor([1.5]), "n": torch.tensor(4)}, {"w": torch.tensor([0.0]), **{}}]
    tuned[1]["n"] = torch.tensor(5)
    merged = merge_states(tuned, TaskArithmetic(base, 2.0))
    assert merged["w"].tolist() == [0.0]
    assert merged["n"] == 4


def test_what_cannot_be_merged_is_said() -> None:
    one = {"w": torch.zeros(2)}
    with pytest.raises(StateError, match=r"network 1.*first network's"):
        merge_states([one, {"w": torch.zeros(3)}], Average())
    with pytest.raises(ModelError, match="at least two"):
        merge_states([one], Average())
    with pytest.raises(ModelError, match="two for slerp"):
        merge_states([one] * 3, Slerp())
    with pytest.raises(ModelError, match="weights"):
        merge_states([one] * 3, Average((0.5, 0.5)))
    for weights in ((1.0, 1.0), (float("nan"), 1.0)):
        with pytest.raises(ModelError, match="a sum of 1"):
            merge_states([one] * 2, Average(weights))
    for base in ({}, {"w": torch.zeros(3)}):
        with pytest.raises(StateError, match=r"base, tensor 'w'.*shape \[2\]"):
            merge_states([one], TaskArithmetic(base))


def test_slerp_of_half_precision_does_not_overflow() -> None:
    torch.manual_seed(0)
    one, other = ({"w": 300 * torch.randn(4000)} for _ in range(2))
    halves = [{"w": state["w"].half()} for state in (one, other)]
    merged, exact = merge_states(halves, Slerp()), merge_states([one, other], Slerp())
    assert merged["w"].dtype == torch.float16
    assert torch.allclose(merged["w"].float(), exact["w"], rtol=1e-2, atol=1.0)


def test_statistics_of_a_merged_network_are_those_of_its_values() -> None:
    module, inputs = trained("residual", 0)
    assert repair_statistics(module, [inputs])
    values = module.stem[0](inputs)
    assert torch.allclose(module.stem[1].running_mean, values.mean((0, 2, 3)), atol=1e-5)
    assert not module.training
    assert not repair_statistics(trained("mlp", 0)[0], [inputs])


def digits() -> tuple[Tensor, Tensor]:
    data = load_digits()
    return torch.tensor(data.images, dtype=torch.float32)[:, None] / 16, torch.tensor(data.target)


def fit(kind: str, seed: int, x: Tensor, y: Tensor, width: int = 64) -> nn.Module:
    """Train on digits from a seed's own start and order."""
    torch.manual_seed(seed)
    module = (
        nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
        if kind == "mlp"
        else KINDS[kind][0]()
    )
    optimiser = torch.optim.Adam(module.parameters(), 3e-3)
    for _ in range(12):
        for rows in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            F.cross_entropy(module(x[rows]), y[rows]).backward()
            optimiser.step()
    return module.eval()


def test_alignment_lowers_the_barrier_between_two_trained_networks() -> None:
    x, y = digits()
    one, other = (fit("mlp", seed, x, y, width=256) for seed in (0, 1))
    spec = from_module(one, x[:2]).spec

    def loss(state: dict[str, Tensor]) -> float:
        return float(F.cross_entropy(torch.func.functional_call(one, state, (x,)), y))

    before = loss_path(loss, one.state_dict(), other.state_dict(), points=5)
    aligned = align_weights(spec, one.state_dict(), other.state_dict()).aligned
    after = loss_path(loss, one.state_dict(), aligned, points=5)
    assert after.losses[-1] == pytest.approx(before.losses[-1], rel=1e-3)
    assert after.barrier < 0.3 * before.barrier
    assert after.barrier < 0.2
