"""Rules of plain layers: function preserved, everything accounted for, the group as expected."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checking import faithful, groups


def images(channels: int = 3, size: int = 8) -> Tensor:
    return torch.randn(2, channels, size, size, generator=torch.Generator().manual_seed(3))


def test_mlp() -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 2))
    graph = faithful(net, torch.randn(4, 3))
    assert groups(graph) == ["5", "8"]
    assert [b.kind for b in graph.spec.blocks] == ["dense"] * 3
    assert [str(n.activation) for n in graph.spec.node_sets] == ["none", "tanh", "relu", "none"]
    assert graph.symmetry.log_order == pytest.approx(math.lgamma(9) + math.lgamma(6))


def test_raw_images_are_input_neurons() -> None:
    graph = faithful(
        nn.Sequential(nn.Flatten(), nn.Linear(192, 6), nn.ReLU(), nn.Linear(6, 2)), images()
    )
    assert groups(graph) == ["6"]
    assert graph.spec.nodes_in("input") == 192


CONVOLUTIONS = {
    "plain": (lambda: nn.Conv2d(3, 8, 3), lambda: nn.Conv2d(8, 6, 3), ["6", "8"]),
    "one by one": (lambda: nn.Conv2d(3, 8, 1), lambda: nn.Conv2d(8, 6, 1), ["6", "8"]),
    "dilated": (lambda: nn.Conv2d(3, 8, 3), lambda: nn.Conv2d(8, 6, 2, dilation=2), ["6", "8"]),
    "depthwise": (lambda: nn.Conv2d(3, 8, 3), lambda: nn.Conv2d(8, 8, 3, groups=8), ["8"]),
    "multiplied depthwise": (
        lambda: nn.Conv2d(3, 8, 3),
        lambda: nn.Conv2d(8, 16, 3, groups=8),
        ["2 in 8", "8"],
    ),
    "grouped": (
        lambda: nn.Conv2d(3, 8, 3),
        lambda: nn.Conv2d(8, 6, 3, groups=2),
        ["2", "3 in 2", "4 in 2"],
    ),
    "transposed": (
        lambda: nn.ConvTranspose2d(3, 8, 3),
        lambda: nn.ConvTranspose2d(8, 6, 3, stride=2),
        ["6", "8"],
    ),
    "grouped transposed": (
        lambda: nn.Conv2d(3, 8, 3),
        lambda: nn.ConvTranspose2d(8, 6, 3, groups=2),
        ["2", "3 in 2", "4 in 2"],
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    first, second, expected = CONVOLUTIONS[name]
    net = nn.Sequential(
        first(),
        nn.ReLU(),
        second(),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.LazyLinear(2),
    )
    net(images())
    assert groups(faithful(net, images())) == expected


@pytest.mark.parametrize("dims", [1, 3])
def test_convolutions_of_other_ranks(dims: int) -> None:
    conv = {1: nn.Conv1d, 3: nn.Conv3d}[dims]
    net = nn.Sequential(conv(3, 4, 3), nn.ReLU(), conv(4, 5, 3), nn.Flatten())
    graph = faithful(net, torch.randn(2, 3, *[6] * dims))
    assert groups(graph) == ["4"]
    assert graph.spec.shape_of(graph.spec.block("0.weight")).features == 3**dims


def test_flatten_makes_positions_features() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 4)
    )
    graph = faithful(net, images())
    assert groups(graph) == ["8"]
    assert graph.edges["4.weight"].shape == (1, 1, 4, 8, 9)


NORMS = {
    "batch": (lambda: nn.BatchNorm2d(8), ["8"]),
    "instance": (lambda: nn.InstanceNorm2d(8, affine=True), ["8"]),
    "tracked instance": (
        lambda: nn.InstanceNorm2d(8, affine=True, track_running_stats=True),
        ["8"],
    ),
    "group": (lambda: nn.GroupNorm(2, 8), ["2", "4 in 2"]),
    "one group": (lambda: nn.GroupNorm(1, 8), ["8"]),
    "all groups": (lambda: nn.GroupNorm(8, 8), ["8"]),
    "layer over channels and places": (lambda: nn.LayerNorm([8, 6, 6]), ["8"]),
    "layer without parameters": (lambda: nn.LayerNorm([8, 6, 6], elementwise_affine=False), ["8"]),
    "local response": (lambda: nn.LocalResponseNorm(3), []),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms(name: str) -> None:
    make, expected = NORMS[name]
    net = nn.Sequential(nn.Conv2d(3, 8, 3), make(), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2))
    graph = faithful(net, images())
    assert groups(graph) == expected
    if name == "batch":
        assert graph.nodes["1"].shape == (1, 8, 3)
        assert graph.spec.block("1.weight").kind == "diagonal"


@pytest.mark.parametrize("norm", [nn.LayerNorm(8), nn.RMSNorm(8), nn.BatchNorm1d(8)])
def test_norms_of_features(norm: nn.Module) -> None:
    net = nn.Sequential(nn.Linear(3, 8), norm, nn.GELU(), nn.Linear(8, 2))
    assert groups(faithful(net, torch.randn(4, 3))) == ["8"]


POINTWISE = [
    nn.ReLU(),
    nn.GELU(),
    nn.SiLU(),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.LeakyReLU(0.2),
    nn.ELU(),
    nn.SELU(),
    nn.CELU(),
    nn.Mish(),
    nn.Hardswish(),
    nn.Hardsigmoid(),
    nn.Hardtanh(),
    nn.ReLU6(),
    nn.Softplus(),
    nn.Softsign(),
    nn.LogSigmoid(),
    nn.Tanhshrink(),
    nn.Softshrink(),
    nn.Hardshrink(),
    nn.Threshold(0.1, 0.2),
    nn.Softmax(-1),
    nn.LogSoftmax(-1),
    nn.Softmin(-1),
    nn.Dropout(),
    nn.AlphaDropout(),
    nn.Identity(),
    nn.PReLU(),
    nn.PReLU(8),
]


@pytest.mark.parametrize("function", POINTWISE, ids=str)
def test_pointwise_functions(function: nn.Module) -> None:
    net = nn.Sequential(nn.Linear(3, 8), function, nn.Linear(8, 2))
    assert groups(faithful(net, torch.randn(4, 3))) == ["8"]


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(30.0 * x)


def test_sine_keeps_its_frequency() -> None:
    net = nn.Sequential(nn.Linear(2, 8), Sine(), nn.Linear(8, 1))
    graph = faithful(net, torch.rand(4, 2))
    assert str(graph.spec.node_set("0").activation) == "sine(w0=30)"


class Wired(nn.Module):
    """A network whose forward is given."""

    def __init__(self, forward, **parts: nn.Module) -> None:  # type: ignore[no-untyped-def]
        super().__init__()
        self.body = forward
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self, x)


def linear_parts(*sizes: tuple[int, int]) -> dict[str, nn.Module]:
    return {f"l{i}": nn.Linear(*size) for i, size in enumerate(sizes)}


WIRINGS = {
    "residual": (
        lambda s, x: s.l2(F.relu(s.l0(x)) + s.l1(F.relu(s.l0(x)))),
        [(3, 8), (8, 8), (8, 2)],
        ["8"],
    ),
    "concat": (
        lambda s, x: s.l2(torch.cat([F.relu(s.l0(x)), s.l1(x).tanh()], -1)),
        [(3, 8), (3, 5), (13, 2)],
        ["5", "8"],
    ),
    "concat, then normalised": (
        lambda s, x: s.l2(F.layer_norm(torch.cat([s.l0(x), s.l1(x)], -1), [13])),
        [(3, 8), (3, 5), (13, 2)],
        ["5", "8"],
    ),
    "stack and mean": (
        lambda s, x: s.l2(torch.stack([s.l0(x), s.l1(x)]).mean(0)),
        [(3, 8), (3, 8), (8, 2)],
        ["8"],
    ),
    "gate": (
        lambda s, x: s.l2(F.silu(s.l0(x)) * s.l1(x)),
        [(3, 8), (3, 8), (8, 2)],
        ["8"],
    ),
    "gated linear unit": (lambda s, x: s.l1(F.glu(s.l0(x))), [(3, 16), (8, 2)], ["8"]),
    "chunks": (
        lambda s, x: s.l1(torch.cat([c.relu() for c in s.l0(x).chunk(3, -1)][:2], -1)),
        [(3, 24), (16, 2)],
        ["8", "8", "8"],
    ),
    "interleaved pairs": (
        lambda s, x: s.l1(s.l0(x)[..., ::2] * s.l0(x)[..., 1::2]),
        [(3, 16), (8, 2)],
        ["8"],
    ),
    "padding shortcut": (
        lambda s, x: s.l2(s.l1(F.relu(s.l0(x))) + F.pad(F.relu(s.l0(x)), (2, 3))),
        [(3, 8), (8, 13), (13, 2)],
        ["2", "3", "8"],
    ),
    "called twice": (
        lambda s, x: s.l2(s.l1(F.relu(s.l1(F.relu(s.l0(x)))))),
        [(3, 8), (8, 8), (8, 2)],
        ["8"],
    ),
    "gathered features are fixed": (
        lambda s, x: s.l1(s.l0(x)[:, torch.tensor([3, 1, 0, 2])]),
        [(3, 4), (4, 2)],
        [],
    ),
    "running sums are fixed": (
        lambda s, x: s.l1(s.l0(x).cumsum(-1)),
        [(3, 4), (4, 2)],
        [],
    ),
    "sorted features are fixed": (
        lambda s, x: s.l1(s.l0(x).sort(-1).values),
        [(3, 4), (4, 2)],
        [],
    ),
    "outer product": (
        lambda s, x: s.l2(torch.einsum("bi,bj->bij", s.l0(x), s.l1(x)).flatten(1)),
        [(3, 4), (3, 5), (20, 2)],
        ["4", "5"],
    ),
    "own outer product": (
        lambda s, x: s.l1(torch.einsum("bi,bj->bij", s.l0(x), s.l0(x)).flatten(1)),
        [(3, 4), (16, 2)],
        [],
    ),
    "maxout": (
        lambda s, x: s.l1(s.l0(x).view(-1, 8, 2).amax(-1)),
        [(3, 16), (8, 2)],
        ["2 in 8", "8"],
    ),
    "blocks summed": (
        lambda s, x: s.l1(s.l0(x).view(-1, 2, 8).sum(1)),
        [(3, 16), (8, 2)],
        ["2", "8"],
    ),
    "nothing hidden": (lambda s, x: s.l0(x) + x, [(3, 3)], []),
}


@pytest.mark.parametrize("name", WIRINGS)
def test_wirings(name: str) -> None:
    forward, sizes, expected = WIRINGS[name]
    graph = faithful(Wired(forward, **linear_parts(*sizes)), torch.randn(4, 3))
    assert groups(graph) == expected


def test_residual_is_an_identity_block() -> None:
    net = Wired(
        lambda s, x: s.l2(F.relu(s.l0(x)) + s.l1(F.relu(s.l0(x)))),
        **linear_parts((3, 8), (8, 8), (8, 2)),
    )
    spec = faithful(net, torch.randn(4, 3)).spec
    assert [(b.source, b.target) for b in spec.blocks if b.kind == "identity"] == [("l0", "l1")]


SPATIAL = {
    "pixel shuffle": (lambda s, x: s.b(F.pixel_shuffle(s.a(x), 2)), (3, 16), (4, 2), ["4"]),
    "pixel unshuffle": (lambda s, x: s.b(F.pixel_unshuffle(s.a(x), 2)), (3, 4), (16, 2), ["4"]),
    "channel shuffle": (
        lambda s, x: s.b(F.channel_shuffle(s.a(x), 2).relu()),
        (3, 8),
        (8, 2),
        ["2", "4 in 2"],
    ),
    "shuffle by views": (
        lambda s, x: s.b(s.a(x).view(2, 2, 4, 8, 8).transpose(1, 2).reshape(2, 8, 8, 8)),
        (3, 8),
        (8, 2),
        ["2", "4 in 2"],
    ),
    "roll": (lambda s, x: s.b(torch.roll(s.a(x), (1, 2), (2, 3))), (3, 8), (8, 2), ["8"]),
    "windows": (
        lambda s, x: s.b(
            s.a(x).view(2, 8, 2, 4, 2, 4).permute(0, 2, 4, 1, 3, 5).reshape(8, 8, 4, 4)
        ),
        (3, 8),
        (8, 2),
        ["8"],
    ),
    "interpolation": (
        lambda s, x: s.b(F.interpolate(s.a(x), scale_factor=2, mode="bilinear")),
        (3, 8),
        (8, 2),
        ["8"],
    ),
    "nearest": (lambda s, x: s.b(F.interpolate(s.a(x), scale_factor=2)), (3, 8), (8, 2), ["8"]),
    "unfold": (
        lambda s, x: s.b(F.unfold(s.a(x), 3, padding=1).view(2, 72, 8, 8)),
        (3, 8),
        (72, 2),
        ["8"],
    ),
    "reflection": (
        lambda s, x: s.b(F.pad(s.a(x), (1, 1, 1, 1), mode="reflect")),
        (3, 8),
        (8, 2),
        ["8"],
    ),
    "dense block": (
        lambda s, x: s.b(torch.cat([s.a(x), F.max_pool2d(s.a(x), 3, 1, 1)], 1)),
        (3, 8),
        (16, 2),
        ["8"],
    ),
}


@pytest.mark.parametrize("name", SPATIAL)
def test_spatial_operations(name: str) -> None:
    forward, a, b, expected = SPATIAL[name]
    net = Wired(forward, a=nn.Conv2d(*a, 3, padding=1), b=nn.Conv2d(*b, 1))
    assert groups(faithful(net, images())) == expected


class Excite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.down, self.up, self.head = (
            nn.Conv2d(3, 8, 3),
            nn.Conv2d(8, 4, 1),
            nn.Conv2d(4, 8, 1),
            nn.Conv2d(8, 2, 1),
        )
        self.scale = nn.Parameter(torch.randn(8, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        gate = self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))).sigmoid()
        return self.head(self.scale * (x * gate) + x)


def test_squeeze_excite_and_layer_scale() -> None:
    graph = faithful(Excite(), images())
    assert groups(graph) == ["4", "8"]
    assert graph.spec.block("scale").kind == "diagonal"


@pytest.mark.parametrize("wrap", ["weight_norm", "spectral_norm", "old_weight_norm"])
@pytest.mark.filterwarnings("ignore")
def test_parametrised_weights(wrap: str) -> None:
    wrapped = {
        "weight_norm": nn.utils.parametrizations.weight_norm,
        "spectral_norm": nn.utils.parametrizations.spectral_norm,
        "old_weight_norm": nn.utils.weight_norm,
    }[wrap]
    net = nn.Sequential(
        wrapped(nn.Linear(3, 8)), nn.ReLU(), wrapped(nn.Linear(8, 5)), nn.Tanh(), nn.Linear(5, 2)
    )
    net(torch.randn(2, 3))
    assert groups(faithful(net, torch.randn(4, 3))) == ["5", "8"]


@pytest.mark.parametrize("after", [lambda y: y, torch.sigmoid])
def test_a_single_output_is_one_without_its_dimension(after: Callable[[Tensor], Tensor]) -> None:
    net = Wired(
        lambda s, x: after(s.head(torch.tanh(s.lift(x))).squeeze(-1)),
        lift=nn.Linear(3, 8),
        head=nn.Linear(8, 1),
    )
    graph = faithful(net, torch.randn(4, 3))
    assert [n.role for n in graph.spec.node_sets] == ["input", "hidden", "output"]
    assert groups(graph) == ["8"]


def test_token_mixing_sums_over_positions() -> None:
    net = Wired(
        lambda s, x: s.head(s.b(F.gelu(s.a(s.embed(x).transpose(1, 2)))).transpose(1, 2).mean(1)),
        embed=nn.Linear(3, 8),
        a=nn.Linear(5, 6),
        b=nn.Linear(6, 5),
        head=nn.Linear(8, 2),
    )
    assert groups(faithful(net, torch.randn(2, 5, 3))) == ["5", "6", "8"]


def test_bilinear() -> None:
    net = Wired(
        lambda s, x: s.head(s.b(s.a(x), x)),
        a=nn.Linear(3, 4),
        b=nn.Bilinear(4, 3, 5),
        head=nn.Linear(5, 2),
    )
    assert groups(faithful(net, torch.randn(2, 3))) == ["4", "5"]
