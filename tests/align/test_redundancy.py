"""Dead and duplicate neurons: none that has an effect, and all that were planted."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from tests.align.networks import KINDS, Residual
from weightspace.align import keep_neurons
from weightspace.align.redundancy import Dead, dead_neurons, duplicate_neurons
from weightspace.graph import GraphSpec, chain_spec
from weightspace.graph.layout import piece_grid
from weightspace.importers import module_spec
from weightspace.importers.coupling import module_couplings


class Attention(nn.Module):
    """Heads whose projections are layers of their own, and a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(6, 8) for _ in range(3))
        self.gate, self.up, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (2, 4)).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.out(self.up(y) * torch.sigmoid(self.gate(y)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTM(4, 6, batch_first=True), nn.GRU(6, 5, batch_first=True)
        self.out = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.second(self.first(x)[0])[0])


class Together(nn.Module):
    """Reads neurons together in ways that no parameter shows."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(6, 6) for _ in range(4))
        self.out = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x).softmax(-1)
        x = nn.functional.layer_norm(self.b(x), (6,))
        y = self.c(x).tanh()
        z = self.d(y).exp()
        return self.out(z / (1 + z)) + y.mean(-1, keepdim=True)


def grouped() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8), nn.BatchNorm2d(8), nn.GELU(),
        nn.Conv2d(8, 12, 1, groups=2), nn.GroupNorm(3, 12), nn.Flatten(), nn.Linear(192, 3),
    )  # fmt: skip


MAKERS = {
    **KINDS,
    "attention": (Attention, (3, 5, 6)),
    "recurrent": (Recurrent, (3, 5, 4)),
    "together": (Together, (7, 6)),
    "grouped": (grouped, (2, 1, 8, 8)),
}


def noisy(kind: str, seed: int) -> tuple[nn.Module, Tensor]:
    """A network where half of what neurons hear, send, add or are scaled by is zero."""
    make, shape = MAKERS[kind]
    torch.manual_seed(seed)
    module, inputs = make().eval(), torch.randn(shape)
    spec = module_spec(module, inputs)
    with torch.no_grad():
        state = module.state_dict()
        for piece in spec.pieces:
            grid = piece_grid(piece, state[piece.parameter][None])[0]
            grid.add_(0.3 * torch.rand_like(grid))
            for place, factor in enumerate(piece.factors):
                if factor.axis is not None and "var" not in piece.parameter:
                    grid.movedim(place, 0)[torch.rand(factor.size) < 0.25] = 0
    return module, inputs


def change(module: nn.Module, inputs: Tensor, state: dict[str, Tensor]) -> float:
    with torch.no_grad():
        one, other = module(inputs), functional_call(module, state, (inputs,))
    return float((one - other).abs().max() / one.abs().max().clamp_min(1.0))


def removed(spec: GraphSpec, state: dict[str, Tensor], found: dict[str, Dead]) -> dict[str, Tensor]:
    """Zeros for all that touches dead neurons."""
    result = {name: tensor.clone() for name, tensor in state.items()}
    for piece in spec.pieces:
        grid = piece_grid(piece, result[piece.parameter][None])[0]
        for place, factor in enumerate(piece.factors):
            own = found.get(str(factor.axis))
            if own is not None and own.neurons.ndim == 1 and "var" not in piece.parameter:
                grid.movedim(place, 0)[own.neurons] = 0
    return result


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", MAKERS)
def test_no_dead_neuron_has_an_effect(kind: str, seed: int) -> None:
    module, inputs = noisy(kind, seed)
    spec, state = module_spec(module, inputs), module.state_dict()
    found = dead_neurons(spec, state, coupled=module_couplings(module, inputs))
    assert change(module, inputs, removed(spec, state, found)) < 1e-5


def test_planted_neurons_are_found_and_leave() -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    inputs = torch.randn(5, 3)
    with torch.no_grad():
        net[2].weight[:, 1] = 0  # sends nothing
        net[0].weight[2] = 0  # is always zero
        net[0].bias[2] = 0
        net[0].weight[3] = 0  # is constant, which has an effect
        net[4].weight[:, 5] = 0
        net[2].weight[:5, 4] = 0  # sends to a dead neuron alone
        net[2].weight[6:, 4] = 0
    found = dead_neurons(module_spec(net, inputs), net.state_dict())
    assert {n: torch.nonzero(d.neurons).flatten().tolist() for n, d in found.items()} == {
        "0": [1, 2, 4],
        "2": [5],
    }
    assert found["0"].zero.tolist() == [i == 2 for i in range(8)]
    kept = {name: torch.nonzero(~own.neurons).flatten() for name, own in found.items()}
    small = keep_neurons(net, inputs, kept).module
    torch.testing.assert_close(small(inputs), net(inputs))


def test_constant_neurons_after_a_sigmoid_are_not_dead() -> None:
    spec = chain_spec([2, 3, 1], activations="sigmoid")
    state = {p.name: torch.ones(p.shape) for p in spec.parameters}
    state["0.weight"][0], state["0.bias"][0] = 0, 0
    assert not dead_neurons(spec, state)["0"].neurons.any()
    unknown = chain_spec([2, 3, 1], activations="unknown")
    assert not dead_neurons(unknown, state)["0"].neurons.any()


def test_a_residual_channel_is_dead_if_it_is_at_every_place() -> None:
    net, inputs = Residual(4).eval(), torch.randn(2, 1, 8, 8)
    with torch.no_grad():
        net.stem[1].weight[1] = net.stem[1].bias[1] = 0
        net.second[1].weight[1:3] = net.second[1].bias[1:3] = 0
        net.stem[1].running_mean[:] = 0.5
    found = dead_neurons(module_spec(net, inputs), net.state_dict())
    assert found["stem.0"].neurons.tolist() == [False, True, False, False]
    assert found["stem.0"].zero.tolist() == [False, False, False, False]  # the convolution is not
    with torch.no_grad():
        net.first[0].weight[:, 2] = 0
        net.head.weight[:, 2] = 0
    found = dead_neurons(module_spec(net, inputs), net.state_dict())
    assert found["stem.0"].neurons.tolist() == [False, True, True, False]


def merged(
    spec: GraphSpec, state: dict[str, Tensor], module: nn.Module, inputs: Tensor
) -> dict[str, Tensor]:
    """All duplicates' outgoing weights given to the first of them, by hand."""
    result = {name: tensor.clone() for name, tensor in state.items()}
    for group in duplicate_neurons(spec, state, coupled=module_couplings(module, inputs)):
        for piece in spec.pieces:
            grid = piece_grid(piece, result[piece.parameter][None])[0]
            for place, factor in enumerate(piece.factors):
                if factor.axis != group.axis or factor.side != "source":
                    continue
                for neuron, factor_of in zip(group.neurons[1:], group.factors[1:], strict=True):
                    part = grid.movedim(place, 0)
                    part[group.neurons[0][-1]] += factor_of * part[neuron[-1]]
                    part[neuron[-1]] = 0
    return result


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.GELU])
def test_duplicates_are_found_up_to_what_the_activation_allows(activation: type[nn.Module]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(3, 8), activation(), nn.Linear(8, 6), activation(), nn.Linear(6, 2)
    )
    inputs = torch.randn(5, 3)
    with torch.no_grad():
        for layer, to, by in ((0, 3, 1.0), (0, 5, -1.0), (0, 6, 0.7), (0, 7, -3.0)):
            net[layer].weight[to] = by * net[layer].weight[1]
            net[layer].bias[to] = by * net[layer].bias[1]
        net[2].weight[4], net[2].bias[4] = net[2].weight[0], net[2].bias[0]
    spec, state = module_spec(net, inputs), net.state_dict()
    wanted = {nn.ReLU: [1, 3, 6], nn.Tanh: [1, 3, 5], nn.GELU: [1, 3]}[activation]
    found = {
        (d.axis, tuple(n[0] for n in d.neurons)): d.factors for d in duplicate_neurons(spec, state)
    }
    pair = {("0", (5, 7)): (1.0, 3.0)} if activation is nn.ReLU else {}
    factors = {1: 1.0, 3: 1.0, 5: -1.0, 6: 0.7}
    assert set(found) == {("0", tuple(wanted)), ("2", (0, 4)), *pair}
    assert found["0", tuple(wanted)] == pytest.approx([factors[i] for i in wanted])
    assert change(net, inputs, merged(spec, state, net, inputs)) < 1e-5


@pytest.mark.parametrize("kind", [k for k in MAKERS if k not in ("grouped", "together")])
def test_merging_duplicates_changes_nothing(kind: str) -> None:
    make, shape = MAKERS[kind]
    torch.manual_seed(1)
    module, inputs = make().eval(), torch.randn(shape)
    spec, state = module_spec(module, inputs), module.state_dict()
    with torch.no_grad():
        for piece in spec.pieces:
            grid = piece_grid(piece, state[piece.parameter][None])[0]
            grid.add_(0.3 * torch.rand_like(grid))
        for axis in spec.axes:
            for piece in spec.pieces:
                grid = piece_grid(piece, state[piece.parameter][None])[0]
                for place, factor in enumerate(piece.factors):
                    if factor.axis == axis.name and factor.side != "source" and axis.permutes:
                        part = grid.movedim(place, 0)
                        part[axis.size - 1] = part[0]
    groups = duplicate_neurons(spec, state, coupled=module_couplings(module, inputs))
    assert groups or kind == "together"
    assert change(module, inputs, merged(spec, state, module, inputs)) < 1e-5


def test_what_no_parameter_shows_is_seen_in_the_module() -> None:
    module, inputs = Together(), torch.randn(7, 6)
    assert module_couplings(module, inputs) == {"a", "b", "c", "d"}


class Shifted(nn.Module):
    """Adds numbers to its neurons that are in no state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.register_buffer("shift", torch.ones(4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu() + self.shift)


def test_added_constants_keep_zeros_from_being_dead() -> None:
    module, inputs = Shifted(), torch.randn(5, 3)
    with torch.no_grad():
        module.first.weight[1], module.first.bias[1] = 0, 0
    spec, coupled = module_spec(module, inputs), module_couplings(module, inputs)
    assert "first" in coupled
    assert dead_neurons(spec, module.state_dict(), coupled=coupled) == {}
