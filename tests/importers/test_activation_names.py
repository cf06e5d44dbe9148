"""Networks are run by the names of their activations: a name that says too little is unknown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weightspace import from_module
from weightspace.errors import WeightspaceError
from weightspace.graph import ChainRunner

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "none": lambda x: x,
    "leaky": lambda x: F.leaky_relu(x, 0.3),
    "sine": lambda x: torch.sin(3.0 * x),
    "sine of a half": lambda x: torch.sin(x / 2),
    "minus sine": lambda x: torch.sin(-x),
    "elu": F.elu,
    "softplus": F.softplus,
    "hardtanh": F.hardtanh,
    "offset": lambda x: x + 0.5,
    "minus offset": lambda x: x - 0.5,
    "wide hardtanh": lambda x: F.hardtanh(x, -0.2, 0.3),
    "steep elu": lambda x: F.elu(x, 0.1),
    "sharp softplus": lambda x: F.softplus(x, 5.0),
    "relu of a double": lambda x: F.relu(2 * x),
    "tanh of a half": lambda x: torch.tanh(x / 2),
    "twice": lambda x: 2 * F.relu(x),
    "minus tanh": lambda x: -torch.tanh(x),
    "tanh plus one": lambda x: torch.tanh(x) + 1,
    "one minus": lambda x: 1 - x,
    "clamp": lambda x: x.clamp(-0.1, 0.1),
    "relu of a sum": lambda x: F.relu(x + 1),
}
KNOWN = ["relu", "none", "leaky", "sine", "sine of a half", "minus sine", "elu", "softplus",
         "hardtanh", "offset", "minus offset"]  # fmt: skip


class Chain(nn.Module):
    """Two linear layers with a function between them."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.function = nn.Linear(3, 6), nn.Linear(6, 2), function

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_network_that_can_be_run_is_run_rightly(name: str) -> None:
    torch.manual_seed(0)
    module, x = Chain(FUNCTIONS[name]), torch.randn(20, 3)
    graph = from_module(module, x)
    try:
        runner = ChainRunner(graph.spec)
    except WeightspaceError:
        assert name not in KNOWN
        return
    assert name in KNOWN
    last = graph.spec.node_sets[-1].name
    torch.testing.assert_close(runner.run(graph.state_dict(), x)[last], module(x))
