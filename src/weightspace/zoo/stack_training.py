"""Training many networks of one architecture at once, each with hyperparameters of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from weightspace.errors import ModelError, require_between
from weightspace.zoo.allocator import keep_freed_memory

OPTIMISERS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
}
"""The optimisers that a network of a zoo may be trained by."""

LARGEST_LOSS = 1e4
"""A network whose loss exceeds this has diverged: guessing costs 2.3 with ten classes."""

_FUSED = ("sgd", "adam", "adamw")


@dataclass(frozen=True)
class OptimiserChoice:
    """What updates one network.

    Args:
        kind: one of :data:`OPTIMISERS`.
        learning_rate: constant over the training.
        weight_decay: added to the gradient (L2), with ``adamw`` decoupled from it.
        momentum: of ``sgd`` alone.
    """

    kind: str
    learning_rate: float
    weight_decay: float = 0.0
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if self.kind not in OPTIMISERS:
            raise ModelError(
                "optimiser", expected=f"one of {', '.join(OPTIMISERS)}", found=self.kind
            )
        require_between("learning rate", self.learning_rate, 0.0, 1e6)
        require_between("weight decay", self.weight_decay, 0.0, 1e6)

    def group(self, parameter: nn.Parameter) -> dict[str, Any]:
        """The parameter group of one network."""
        group = {
            "params": [parameter],
            "lr": self.learning_rate,
            "weight_decay": self.weight_decay,
        }
        return {**group, "momentum": self.momentum} if self.kind == "sgd" else group


class Problem(Protocol):
    """What the networks of a stack learn. Nothing of one network enters into another's."""

    def losses(self, state: Mapping[str, Tensor], update: int) -> Float[Tensor, " networks"]:
        """The losses on the batches of an update, differentiable."""

    def measure(self, state: Mapping[str, Tensor]) -> dict[str, Float[Tensor, " networks"]]:
        """What is recorded at a checkpoint; some of it has names that end with ``_loss``."""


@dataclass(frozen=True)
class Checkpoint:
    """Networks at a moment of their training.

    Args:
        update: how many updates they have had.
        state: the stacked state.
        measures: what the problem measures of each.
        diverged: those whose training broke down before; they are as they last were well.
    """

    update: int
    state: dict[str, Tensor]
    measures: dict[str, list[float]]
    diverged: list[bool]


class Stack:
    """Networks of one architecture in one buffer, a row each.

    Each row is a parameter of its own to torch's optimisers, so that every network has its
    kind of optimiser, learning rate and decay; all rows together are one leaf to autograd.

    Args:
        state: the stacked state, ``[networks, *shape]``.

    >>> stack = Stack({"w": torch.zeros(2, 3), "b": torch.ones(2)})
    >>> stack.flat.shape, stack.state()["b"]
    (torch.Size([2, 4]), tensor([1., 1.]))
    """

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        self._shapes = {name: tensor.shape[1:] for name, tensor in state.items()}
        self._sizes = [math.prod(shape) for shape in self._shapes.values()]
        rows = torch.cat([t.detach().reshape(t.shape[0], -1) for t in state.values()], 1)
        self.flat = nn.Parameter(rows.contiguous())
        self.gradients = torch.zeros_like(rows)
        self.flat.grad = self.gradients
        self.rows = [nn.Parameter(row) for row in self.flat.detach()]
        for row, gradient in zip(self.rows, self.gradients, strict=True):
            row.grad = gradient

    def views(self, flat: Tensor | None = None) -> dict[str, Tensor]:
        """The buffer, or one laid out like it, as a stacked state; differentiable."""
        parts = torch.split(self.flat if flat is None else flat, self._sizes, dim=1)
        return {
            name: part.reshape(part.shape[0], *shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def state(self) -> dict[str, Tensor]:
        """A copy of the networks as a stacked state."""
        return {
            name: view.contiguous().clone() for name, view in self.views(self.flat.detach()).items()
        }


def train_stack(
    problem: Problem,
    state: Mapping[str, Tensor],
    optimisers: Sequence[OptimiserChoice],
    *,
    checkpoints: Sequence[int],
    clip: float = math.inf,
) -> list[Checkpoint]:
    """Train the networks of a stack and keep what they were at some moments.

    A network whose loss stops being finite, or exceeds :data:`LARGEST_LOSS`, has diverged: it
    gets back the last weights with which its loss was good, and is not updated any more. The
    others go on as if it were not there.

    Args:
        problem: what they learn.
        state: the stacked state to begin with.
        optimisers: one for each network.
        checkpoints: ascending numbers of updates.
        clip: the largest norm of a network's gradient; longer ones are scaled down.

    Raises:
        ModelError: checkpoints are none, or not ascending.
    """
    if not checkpoints or list(checkpoints) != sorted(set(checkpoints)) or checkpoints[0] < 0:
        raise ModelError("checkpoints", expected="ascending numbers", found=str(list(checkpoints)))
    keep_freed_memory()
    training = _Training(problem, Stack(state), optimisers, clip)
    kept = []
    for update in range(checkpoints[-1] + 1):
        if update in checkpoints:
            kept.append(training.checkpoint(update))
        if update < checkpoints[-1]:
            training.update(update)
    return kept


class _Training:
    """A stack, its optimisers, and which networks are still well."""

    def __init__(
        self, problem: Problem, stack: Stack, optimisers: Sequence[OptimiserChoice], clip: float
    ) -> None:
        self._problem, self._stack, self._clip = problem, stack, clip
        self._optimisers = _optimisers(stack, optimisers)
        self._well = torch.ones(len(stack.rows), dtype=torch.bool)
        self._safe = stack.flat.detach().clone()

    def update(self, number: int) -> None:
        stack = self._stack
        stack.gradients.zero_()
        losses = self._problem.losses(stack.views(), number)
        torch.autograd.backward(losses.sum())
        self._judge(losses.detach())
        if self._clip < math.inf:
            norms = torch.linalg.vector_norm(stack.gradients, dim=1, keepdim=True)
            stack.gradients.mul_((self._clip / (norms + 1e-12)).clamp(max=1.0))
        for optimiser in self._optimisers:
            optimiser.step()
        if not self._well.all():
            self._restore()

    def checkpoint(self, number: int) -> Checkpoint:
        with torch.no_grad():
            measures = self._problem.measure(self._stack.views())
            self._judge(_worst(measures))
            if not self._well.all():
                self._restore()
                measures = self._problem.measure(self._stack.views())
        values = {name: values.tolist() for name, values in measures.items()}
        return Checkpoint(number, self._stack.state(), values, (~self._well).tolist())

    def _judge(self, losses: Tensor) -> None:
        """Find the networks that are still well, and remember how they are."""
        good: Bool[Tensor, " networks"] = (losses <= LARGEST_LOSS) & losses.isfinite()
        self._well &= good
        flat = self._stack.flat.detach()
        self._safe[self._well] = flat[self._well]

    def _restore(self) -> None:
        ill = ~self._well
        self._stack.flat.detach()[ill] = self._safe[ill]


def _worst(measures: Mapping[str, Tensor]) -> Float[Tensor, " networks"]:
    """The largest of each network's losses, NaN if one is."""
    losses = [values for name, values in measures.items() if name.endswith("_loss")]
    worst: Tensor = torch.stack(losses).amax(0)
    return worst


def _optimisers(stack: Stack, choices: Sequence[OptimiserChoice]) -> list[torch.optim.Optimizer]:
    """One of each kind, with a group for each of its networks."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row, choice in zip(stack.rows, choices, strict=True):
        groups.setdefault(choice.kind, []).append(choice.group(row))
    return [
        OPTIMISERS[kind](some, **({"fused": True} if kind in _FUSED else {}))
        for kind, some in groups.items()
    ]
