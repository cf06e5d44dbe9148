"""A learned optimiser: equivariant, Adam at first, better after training, an Optimizer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import SymmetryGroup
from weightspace.importers import module_spec
from weightspace.tasks.optimising import (
    HELD_OUT,
    GraphOptimizer,
    Memory,
    MetaTask,
    OptimiserNetwork,
    Problems,
    episodes,
    learned_curve,
    optimizer_curve,
)
from weightspace.tasks.optimising.network import STEP_SIZE
from weightspace.train import Budget, fit_task
from weightspace.zoo import digits_images


def small_cnn(width: int = 4) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(width, width, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(width, 10),
    )


def stirred(network: OptimiserNetwork) -> OptimiserNetwork:
    """With heads that do something."""
    torch.manual_seed(0)
    for head in (network.node_head, network.edge_head):
        nn.init.normal_(head[2].weight)
    return network


@pytest.fixture
def problems() -> Problems:
    return Problems.of(small_cnn(), digits_images(), count=300)


def stacked_like(module: nn.Module, count: int) -> dict[str, Tensor]:
    return {
        name: torch.randn(count, *p.shape, dtype=torch.float64)
        for name, p in module.named_parameters()
    }


def test_updates_are_permuted_with_the_networks_neurons() -> None:
    module = small_cnn()
    spec = module_spec(module, torch.zeros(1, 1, 8, 8))
    torch.manual_seed(0)
    theta, gradients = stacked_like(module, 2), stacked_like(module, 2)
    network = stirred(OptimiserNetwork()).double()
    sample = SymmetryGroup(spec).sample(torch.Generator().manual_seed(1))
    element = type(sample)(spec, sample.permutations)

    def updates(theta: dict[str, Tensor], gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        memory = Memory.of(theta).after(gradients).after(gradients)
        return network(spec, theta, gradients, memory)

    plain = updates(theta, gradients)
    moved = updates(element.act_stacked(theta), element.act_stacked(gradients))
    wanted = element.act_stacked(plain)
    assert all(torch.allclose(moved[name], wanted[name], atol=1e-12) for name in wanted)
    assert any(not torch.allclose(plain[name], wanted[name]) for name in wanted)


def test_networks_do_not_depend_on_batch_mates() -> None:
    module = small_cnn()
    spec = module_spec(module, torch.zeros(1, 1, 8, 8))
    torch.manual_seed(0)
    theta, gradients = stacked_like(module, 3), stacked_like(module, 3)
    network = stirred(OptimiserNetwork()).double()
    together = network(spec, theta, gradients, Memory.of(theta).after(gradients))
    one, own = ({n: t[1:2] for n, t in each.items()} for each in (theta, gradients))
    alone = network(spec, one, own, Memory.of(one).after(own))
    assert all(torch.allclose(together[n][1:2], alone[n], atol=1e-12) for n in alone)


def test_an_untrained_optimiser_is_nearly_adam(problems: Problems) -> None:
    seeds = [1, 2]
    learned = learned_curve(OptimiserNetwork(), problems, seeds, 12)
    adam = optimizer_curve(
        lambda p: torch.optim.Adam(p, lr=STEP_SIZE, betas=(0.9, 0.999)), problems, seeds, 12
    )
    assert torch.allclose(learned, adam, atol=0.05)


def test_every_parameter_learns(problems: Problems) -> None:
    network = stirred(OptimiserNetwork())
    seeds = [1, 2]
    theta = problems.starts(seeds)
    gradients = {name: torch.randn_like(t) for name, t in theta.items()}
    memory = Memory.of(theta).after(gradients)
    for _ in range(2):
        updates = network(problems.spec, theta, gradients, memory)
        theta = {name: tensor + updates[name] for name, tensor in theta.items()}
    problems.losses(theta, seeds, 0).sum().backward()
    idle = {n for n, p in network.named_parameters() if p.grad is None or not p.grad.any()}
    assert idle == set()


def task(problems: Problems, **options: float) -> MetaTask:
    torch.manual_seed(0)
    return MetaTask(OptimiserNetwork(width=8, layers=1), [problems], networks=4, **options)


def test_training_makes_it_better_on_other_problems(problems: Problems, tmp_path: Path) -> None:
    made = task(problems, steps=12, window=6, learning_rate=1e-2)
    seeds = [HELD_OUT + 7000 + i for i in range(6)]
    before = learned_curve(made.network, problems, seeds, 12).mean()
    budget = Budget(epochs=3, patience=3, clip=None)
    fit_task(
        made,
        episodes(4),
        episodes(1),
        tmp_path,
        budget=budget,
        monitor="val_loss",
        mode="min",
        progress=False,
    )
    assert learned_curve(made.network, problems, seeds, 12).mean() < before - 0.02


def test_it_is_an_optimizer_with_a_state(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = small_cnn(), torch.randn(8, 1, 8, 8)
    y = torch.arange(8)
    network = stirred(OptimiserNetwork())

    def steps(module: nn.Module, optimizer: GraphOptimizer, count: int) -> float:
        for _ in range(count):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(module(x), y)
            loss.backward()
            optimizer.step()
        return float(loss.detach())

    optimizer = GraphOptimizer(module, x, network)
    steps(module, optimizer, 3)
    torch.save((module.state_dict(), optimizer.state_dict()), tmp_path / "half.pt")
    whole = steps(module, optimizer, 3)
    again = small_cnn()
    second = GraphOptimizer(again, x, network)
    weights, state = torch.load(tmp_path / "half.pt", weights_only=True)
    again.load_state_dict(weights)
    second.load_state_dict(state)
    assert steps(again, second, 3) == whole


def test_frozen_parameters_stay(problems: Problems) -> None:
    module, x = small_cnn(), torch.randn(4, 1, 8, 8)
    module[0].weight.requires_grad_(False)
    before = module[0].weight.clone()
    optimizer = GraphOptimizer(module, x, OptimiserNetwork())
    module(x).square().mean().backward()
    optimizer.step()
    assert torch.equal(module[0].weight, before)
    with pytest.raises(ModelError, match="parameters"):
        GraphOptimizer(nn.ReLU(), x, OptimiserNetwork())
