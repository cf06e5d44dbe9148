"""Stacks of networks train as each would alone, and a diverged one harms nobody."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.zoo.classifying import shuffled, stacked_state, training_subset, vectorised
from weightspace.zoo.stack_training import (
    LARGEST_LOSS,
    OPTIMISERS,
    Checkpoint,
    OptimiserChoice,
    Stack,
    train_stack,
)

GENERATOR = torch.Generator().manual_seed(0)
INPUTS = torch.randn(3, 40, 5, 4, generator=GENERATOR)
TARGETS = torch.randn(3, 40, 5, 2, generator=GENERATOR)


class Regression:
    """The inputs of the chosen networks, a batch of five for each update."""

    def __init__(self, module: nn.Module, networks: list[int]) -> None:
        self._run, self._networks = vectorised(module), networks

    def losses(self, state: Mapping[str, Tensor], update: int) -> Tensor:
        inputs, targets = INPUTS[self._networks, update], TARGETS[self._networks, update]
        return (self._run(state, inputs, True) - targets).square().mean((1, 2))

    def measure(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"train_loss": self.losses(state, 0)}


def modules() -> list[nn.Sequential]:
    torch.manual_seed(3)
    return [nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)) for _ in range(3)]


def train(
    choices: list[OptimiserChoice], networks: list[int] | None = None, **options: float
) -> list[Checkpoint]:
    networks = networks or [0, 1, 2]
    made = modules()
    state = stacked_state([made[n] for n in networks])
    problem = Regression(made[0], networks)
    chosen = [choices[n] for n in networks]
    return train_stack(problem, state, chosen, checkpoints=[0, 15, 40], **options)


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_a_stack_trains_as_each_network_alone(kind: str) -> None:
    other = "adam" if kind == "sgd" else "sgd"
    choices = [
        OptimiserChoice(kind, 0.02, 0.01),
        OptimiserChoice(other, 0.01),
        OptimiserChoice(kind, 0.005, 0.1),
    ]
    first, middle, last = train(choices)
    assert (first.update, middle.update, last.update) == (0, 15, 40)
    for place, (module, choice) in enumerate(zip(modules(), choices, strict=True)):
        torch.testing.assert_close(first.state["0.weight"][place], module[0].weight)
        momentum = {"momentum": 0.9} if choice.kind == "sgd" else {}
        optimiser = OPTIMISERS[choice.kind](
            module.parameters(),
            lr=choice.learning_rate,
            weight_decay=choice.weight_decay,
            **momentum,
        )
        for update in range(40):
            optimiser.zero_grad()
            F.mse_loss(module(INPUTS[place, update]), TARGETS[place, update]).backward()
            optimiser.step()
        for name, parameter in module.named_parameters():
            torch.testing.assert_close(last.state[name][place], parameter, rtol=1e-4, atol=1e-5)
        loss = F.mse_loss(module(INPUTS[place, 0]), TARGETS[place, 0]).detach()
        assert last.measures["train_loss"][place] == pytest.approx(float(loss), rel=1e-4)
    assert last.diverged == [False] * 3


def test_a_diverged_network_keeps_its_last_good_weights_and_harms_nobody() -> None:
    choices = [
        OptimiserChoice("sgd", 0.01),
        OptimiserChoice("sgd", 1e3),
        OptimiserChoice("adam", 0.01),
    ]
    first, middle, last = train(choices)
    assert first.diverged == [False] * 3
    assert middle.diverged == last.diverged == [False, True, False]
    for name, tensor in last.state.items():
        assert bool(tensor.isfinite().all())
        assert torch.equal(tensor[1], middle.state[name][1])
    assert last.measures["train_loss"][1] <= LARGEST_LOSS
    for place in (0, 2):
        (*_, alone) = train(choices, [place])
        for name, tensor in last.state.items():
            torch.testing.assert_close(tensor[place], alone.state[name][0])


def test_a_network_that_breaks_down_in_the_last_update_is_noticed() -> None:
    made = modules()
    problem = Regression(made[0], [0, 1, 2])
    choices = [OptimiserChoice("sgd", lr) for lr in (0.01, 1e6, 1e6)]
    (kept,) = train_stack(problem, stacked_state(made), choices, checkpoints=[1])
    assert kept.diverged == [False, True, True]
    torch.testing.assert_close(kept.state["0.weight"][1], made[1][0].weight)


def test_long_gradients_are_scaled_down() -> None:
    made = modules()
    problem = Regression(made[0], [0, 1, 2])
    state = stacked_state(made)
    choices = [OptimiserChoice("sgd", 1.0)] * 3
    (kept,) = train_stack(problem, state, choices, checkpoints=[1], clip=1e-3)
    moved = sum((kept.state[n] - state[n]).square().flatten(1).sum(1) for n in state)
    torch.testing.assert_close(
        torch.as_tensor(moved).sqrt(), torch.full((3,), 1e-3), rtol=1e-2, atol=0
    )


def test_a_stack_gives_its_state_back() -> None:
    state = {**stacked_state(modules()), "scalar": torch.arange(3.0)}
    found = Stack(state).state()
    assert list(found) == list(state)
    for name, tensor in state.items():
        assert torch.equal(found[name], tensor)


def test_subsets_and_orders() -> None:
    subset = training_subset(50, 7, 1)
    assert len(set(subset.tolist())) == 7
    order = shuffled(subset, 16, 2)
    for epoch in (order[:7], order[7:14]):
        assert sorted(epoch.tolist()) == sorted(subset.tolist())
    assert order[:7].tolist() != order[7:14].tolist()
    with pytest.raises(ModelError, match="training images"):
        training_subset(5, 6, 0)


@pytest.mark.parametrize("checkpoints", [[], [3, 3], [4, 2]])
def test_checkpoints_ascend(checkpoints: list[int]) -> None:
    made = modules()
    problem = Regression(made[0], [0, 1, 2])
    with pytest.raises(ModelError, match="checkpoints"):
        train_stack(problem, stacked_state(made), [OptimiserChoice("sgd", 0.1)] * 3,
                    checkpoints=checkpoints)  # fmt: skip


def test_optimisers_are_checked() -> None:
    with pytest.raises(ModelError, match="optimiser: expected one of sgd, adam"):
        OptimiserChoice("lion", 0.1)
    with pytest.raises(ModelError, match="learning rate"):
        OptimiserChoice("sgd", float("nan"))
