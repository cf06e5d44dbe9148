"""Signs and scales: exactly where the functions in between allow them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weightspace.graph import NeuralGraph

from .checking import TOLERANCE, faithful


def kinds(graph: NeuralGraph) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for rescaling in graph.spec.rescalings:
        found.setdefault(rescaling.axis, []).append(rescaling.kind)
    return found


def holds(net: nn.Module, *inputs: Tensor) -> NeuralGraph:
    """The group with signs and scales holds, and a scale does something."""
    graph = faithful(net, *inputs)
    inputs = tuple(x.double() for x in inputs)
    for kind in ("sign", "scale"):
        chosen = (kind, "permutation")
        report = graph.symmetry.check(net, inputs, kinds=chosen)
        assert report.max_relative_change <= TOLERANCE, (kind, str(graph.spec))
    return graph


FUNCTIONS = {
    "relu": (torch.relu, ["scale"]),
    "leaky": (lambda x: F.leaky_relu(x, 0.1), ["scale"]),
    "tanh": (torch.tanh, ["sign"]),
    "sine": (lambda x: torch.sin(30 * x), ["sign"]),
    "gelu": (F.gelu, None),
    "sigmoid": (torch.sigmoid, None),
    "linear": (lambda x: x, ["scale", "sign"]),
    "tanh of relu": (lambda x: torch.tanh(torch.relu(x)), None),
}


class Layers(nn.Module):
    def __init__(self, function) -> None:  # type: ignore[no-untyped-def]
        super().__init__()
        self.a, self.b, self.function = nn.Linear(3, 8), nn.Linear(8, 2), function

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.function(self.a(x)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function, expected = FUNCTIONS[name]
    assert kinds(holds(Layers(function), torch.randn(4, 3))).get("a") == expected


def test_a_scale_moves_the_weights() -> None:
    graph = holds(Layers(torch.relu), torch.randn(4, 3))
    element = graph.symmetry.sample(kinds=("scale",))
    moved = graph.symmetry.act(element)
    ratio = moved.edges["a.weight"] / graph.edges["a.weight"]
    assert torch.allclose(ratio[0, 0, :, :, 0], element.factors["a.scale"][:, None].expand(8, 3))


def test_convolutions_with_batch_norm() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 1),
        nn.ReLU(), nn.Flatten(), nn.Linear(45, 2),
    )  # fmt: skip
    graph = holds(net, torch.randn(2, 3, 8, 8))
    assert kinds(graph) == {"0": ["scale"], "4": ["scale"]}


def test_residuals_share_one_scale() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x).relu()
            return self.c((x + self.b(x).relu()).relu())

    assert kinds(holds(Residual(), torch.randn(4, 3))) == {"a": ["scale"]}


def test_gates_scale_their_linear_side() -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.g, self.u, self.d = nn.Linear(3, 8), nn.Linear(3, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.d(F.silu(self.g(x)) * self.u(x))

    assert kinds(holds(Gated(), torch.randn(4, 3))) == {"g": ["scale", "sign"]}


def test_concatenated_layers_keep_their_own() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(3, 8), nn.Linear(3, 5), nn.Linear(13, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.c(torch.cat([self.a(x).relu(), self.b(x).tanh()], -1))

    assert kinds(holds(Both(), torch.randn(4, 3))) == {"a": ["scale"], "b": ["sign"]}


def test_layers_called_twice_and_norms_end_a_scale() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.c(self.b(self.b(self.a(x).relu()).relu()).relu())

    holds(Twice(), torch.randn(4, 3))
    normed = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))
    assert kinds(holds(normed, torch.randn(4, 3))) == {"0": ["scale"]}
