"""A learned optimiser in the form of ``torch.optim``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import GraphSpec
from weightspace.importers import module_spec
from weightspace.importers.exporting import Inputs
from weightspace.tasks.optimising.features import DECAYS, Memory
from weightspace.tasks.optimising.network import OptimiserNetwork


class GraphOptimizer(torch.optim.Optimizer):
    """Trains a module by a learned optimiser that reads the module's graph.

    Kofinas et al. 2024, section 4.4. Used like any optimiser; its state dict holds the momenta.

    Args:
        module: what is trained; traced once.
        example_inputs: inputs for tracing it.
        network: the learned optimiser.
        lr: multiplies every update.

    Raises:
        TraceError: the module cannot be followed.
        ModelError: it has no parameters.

    >>> module = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> x = torch.randn(16, 2)
    >>> optimizer = GraphOptimizer(module, x, OptimiserNetwork())
    >>> before = module(x).square().mean()
    >>> before.backward()
    >>> optimizer.step()
    >>> bool(module(x).square().mean() < before)
    True
    """

    def __init__(
        self,
        module: nn.Module,
        example_inputs: Inputs,
        network: OptimiserNetwork,
        *,
        lr: float = 1.0,
    ) -> None:
        named = dict(module.named_parameters())
        if not named:
            raise ModelError("module", expected="parameters", found="none")
        super().__init__(list(named.values()), {"lr": lr})
        self.spec: GraphSpec = module_spec(module, example_inputs)
        self.network = network.requires_grad_(False)
        self._named = named
        self._module = module

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters that have gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        gradients = {
            name: parameter.grad[None]
            for name, parameter in self._named.items()
            if parameter.grad is not None
        }
        if gradients:
            state = {name: tensor[None] for name, tensor in self._module.state_dict().items()}
            memory = self._memory(gradients).after(gradients)
            updates = self.network(self.spec, state, gradients, memory)
            rate = self.param_groups[0]["lr"]
            for name, update in updates.items():
                self._named[name].add_(update[0], alpha=rate)
            self._keep(memory)
        return loss

    def _memory(self, gradients: dict[str, Tensor]) -> Memory:
        """What the state holds; zeros for parameters that had no gradient before."""
        own = {name: self.state[self._named[name]] for name in gradients}
        for name, state in own.items():
            if not state:
                zeros = torch.zeros_like(gradients[name])
                state.update({f"momentum_{i}": zeros.clone() for i in range(len(DECAYS))})
                state["squares"], state["step"] = zeros.clone(), 0
        momenta = tuple(
            {name: state[f"momentum_{i}"] for name, state in own.items()}
            for i in range(len(DECAYS))
        )
        step = max(state["step"] for state in own.values())
        return Memory(momenta, {name: state["squares"] for name, state in own.items()}, step)

    def _keep(self, memory: Memory) -> None:
        for name in memory.squares:
            state = self.state[self._named[name]]
            for i, momentum in enumerate(memory.momenta):
                state[f"momentum_{i}"] = momentum[name]
            state["squares"], state["step"] = memory.squares[name], memory.step
