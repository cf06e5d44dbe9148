"""Networks without output neurons, and layers that run twice."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.models.networks import networks_of
from weightspace import from_module
from weightspace.errors import ModelError, SpecError
from weightspace.graph import ChainRunner, SymmetryGroup
from weightspace.models import MODELS, Requirements, make_model

SMALL = {"width": 8, "layers": 2, "dropout": 0.0, "frequencies": 4, "heads": 2, "head": 8,
         "pair_width": 4, "size": 8, "node_hidden": 8, "pair_hidden": 8}  # fmt: skip
KINDS = {
    "scale-gmn": ("permutation", "sign", "scale"),
    "flat-mlp": (),
    "flat-mlp-augmented": (),
    "flat-mlp-aligned": (),
    "neuron-transformer": (),
}


class Mean(nn.Module):
    """A network that answers with one number: the mean of its last neurons."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).tanh()).mean(-1)


class Twice(nn.Module):
    """A layer that runs twice."""

    def __init__(self, *, width: int = 4) -> None:
        super().__init__()
        self.first, self.inner = nn.Linear(2, width), nn.Linear(width, width)
        self.last = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        for _ in range(2):
            x = self.inner(x).relu()
        return self.last(x)


class TwoBiases(Twice):
    """Two layers of one weight with biases of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Linear(4, 4)
        self.other.weight = self.inner.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.other(self.inner(self.first(x).relu()).relu()).relu())


def _options(name: str) -> dict[str, int | float]:
    known = inspect.signature(MODELS[name].family.__init__).parameters
    return {key: value for key, value in SMALL.items() if key in known}  # type: ignore[misc]


@pytest.mark.parametrize("name", [n for n in MODELS if "prob" not in n and n != "inr2vec"])
def test_networks_without_output_neurons_are_read(name: str) -> None:
    graph = networks_of(Mean(), torch.randn(2, 2), 3)
    assert not list(graph.spec.of_role("output"))
    torch.manual_seed(0)
    needs = Requirements.of([graph.spec])
    model = make_model(name, needs, outputs=2, options=_options(name)).double().eval()
    model.fit_normalisation(graph)
    expected = model(graph)
    assert (expected[0] - expected[1]).abs().max() > 1e-9
    torch.testing.assert_close(model(graph[[1]]), expected[1:2], rtol=1e-9, atol=1e-11)
    if kinds := KINDS.get(name, ("permutation",)):
        element = SymmetryGroup(graph.spec).sample(torch.Generator().manual_seed(0), kinds=kinds)
        moved = model(element.act_graph(graph))
        torch.testing.assert_close(moved, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("make", [Twice, TwoBiases, Mean])
@pytest.mark.parametrize("name", ["ng-gnn-probes", "ng-t-probes", "probe-only"])
def test_networks_that_their_spec_does_not_tell_are_not_run(
    name: str, make: Callable[[], nn.Module]
) -> None:
    spec = from_module(make().eval(), torch.randn(2, 2)).spec
    with pytest.raises(ModelError, match=r"so that (it|the networks?) can be run|linear layer"):
        make_model(name, Requirements.of([spec]), outputs=2, options=_options(name))


def test_a_layer_that_runs_twice_is_no_chain() -> None:
    with pytest.raises(SpecError, match="a plain chain"):
        ChainRunner(from_module(Twice().eval(), torch.randn(2, 2)).spec)


def test_neurons_that_stand_alone_are_refused() -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = nn.Parameter(torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            return self.value.expand(len(x), 3)

    spec = from_module(Constant().eval(), torch.randn(2, 3)).spec
    with pytest.raises(ModelError, match="specs: expected networks with connections"):
        Requirements.of([spec])
