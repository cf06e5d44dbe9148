"""Networks in which a symmetry ends: the group is never larger than the function allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weightspace.graph import NeuralGraph

from .checking import faithful, groups

Function = Callable[..., Any]
Made = tuple[nn.Module, tuple[Tensor, ...]]


class Network(nn.Module):
    """Parts, and a function of them and the inputs."""

    def __init__(self, function: Function, **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


def layers(**sizes: tuple[int, int]) -> dict[str, nn.Module]:
    return {name: nn.Linear(*size) for name, size in sizes.items()}


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape))


def rescaled(graph: NeuralGraph) -> list[str]:
    return sorted(rescaling.name for rescaling in graph.spec.rescalings)


def mixed(graph: NeuralGraph) -> list[str]:
    return sorted(mixing.name.rsplit(".", 1)[1] for mixing in graph.spec.mixings)


def heads(x: Tensor, count: int = 2) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def added(part: nn.Module, x: Tensor) -> Tensor:
    """A residual connection."""
    return (x + part(x)).relu()


X = torch.randn(4, 3)

# -- signs and scales ----------------------------------------------------------------------

RESCALED: dict[str, tuple[Function, dict[str, Any], list[str]]] = {
    "added to one number for all": (
        lambda s, x: s.c((s.a(x) + s.b(x)).relu()),
        layers(a=(3, 8), b=(3, 1), c=(8, 2)),
        [],
    ),
    "one number that multiplies all": (
        lambda s, x: s.c(s.a(x) * s.b(x).sigmoid()),
        layers(a=(3, 1), b=(3, 8), c=(8, 2)),
        [],
    ),
    "lopsided hardtanh": (
        lambda s, x: s.c(F.hardtanh(s.a(x), -0.1, 2.0)),
        layers(a=(3, 8), c=(8, 2)),
        [],
    ),
    "relu6": (lambda s, x: s.c(F.relu6(s.a(x))), layers(a=(3, 8), c=(8, 2)), []),
    "hardtanh": (
        lambda s, x: s.c(F.hardtanh(s.a(x), -0.5, 0.5)),
        layers(a=(3, 8), c=(8, 2)),
        ["a.sign"],
    ),
    "rounded division": (
        lambda s, x: s.c(torch.div(s.a(x), 0.3, rounding_mode="floor")),
        layers(a=(3, 8), c=(8, 2)),
        [],
    ),
    "cast to integers": (
        lambda s, x: s.c((3 * s.a(x)).to(torch.int64).to(x.dtype)),
        layers(a=(3, 8), c=(8, 2)),
        [],
    ),
    "exponential of a weight": (
        lambda s, x: s.c(F.linear(x, s.a.weight.exp(), s.a.bias).relu()),
        layers(a=(3, 8), c=(8, 2)),
        [],
    ),
    "exponential of a bias": (
        lambda s, x: s.c(F.linear(x, s.a.weight, s.a.bias.exp()).relu()),
        layers(a=(3, 8), c=(8, 2)),
        [],
    ),
    "weights times a number": (
        lambda s, x: F.linear(F.linear(x, 0.3 * s.a.weight).relu(), s.c.weight / 2),
        layers(a=(3, 8), c=(8, 2)),
        ["a.scale"],
    ),
    "a penalty on weights": (
        lambda s, x: (s.c(s.a(x).relu()), s.a.weight.abs().sum()),
        layers(a=(3, 8), c=(8, 2)),
        [],
    ),
    "a layer on inputs and on neurons": (
        lambda s, x: (s.c(s.b(x).relu()), s.c(s.b(s.a(x).relu()).relu())),
        layers(a=(3, 3), b=(3, 8), c=(8, 2)),
        [],
    ),
    "a layer on two inputs": (
        lambda s, x: s.c(s.a(x).relu() - s.a(2 * x).relu()),
        layers(a=(3, 8), c=(8, 2)),
        ["a.scale"],
    ),
    "a layer again in a residual stream": (
        lambda s, x: s.c(added(s.b, added(s.b, s.a(x).relu()))),
        layers(a=(3, 8), b=(8, 8), c=(8, 2)),
        ["a.scale"],
    ),
    "bilinear": (
        lambda s, x: s.c(s.m(s.a(x).relu(), s.b(x).relu()).relu()),
        {**layers(a=(3, 8), b=(3, 5), c=(7, 2)), "m": nn.Bilinear(8, 5, 7)},
        [],
    ),
    "a bias along positions": (
        lambda s, x: s.c(torch.addmm(s.b, s.w, x.t()).relu().t()),
        {**layers(c=(8, 2)), "w": parameter(8, 3), "b": parameter(4)},
        [],
    ),
    "batch norm without a shift": (
        lambda s, x: s.c(F.batch_norm(s.a(x), s.running_mean, s.running_var, s.w).relu()),
        {
            **layers(a=(3, 8), c=(8, 2)),
            "w": parameter(8),
            "running_mean": torch.randn(8),
            "running_var": torch.rand(8) + 0.5,
        },
        ["a.scale"],
    ),
    "an autoencoder of one odd weight": (
        lambda s, x: F.linear(torch.tanh(F.linear(x, s.w, s.b)), s.w.t()),
        {"w": parameter(8, 3), "b": parameter(8)},
        ["w.sign"],
    ),
    "an autoencoder of one weight": (
        lambda s, x: F.linear(torch.relu(F.linear(x, s.w, s.b)), s.w.t()),
        {"w": parameter(8, 3), "b": parameter(8)},
        [],
    ),
}


@pytest.mark.parametrize("name", RESCALED)
def test_where_signs_and_scales_end(name: str) -> None:
    function, parts, expected = RESCALED[name]
    graph = faithful(Network(function, **parts), X)
    assert rescaled(graph) == expected


def test_an_embedding_that_is_also_the_last_layer_keeps_its_scale() -> None:
    net = Network(
        lambda s, ids: F.linear(s.b(s.a(s.e(ids)).relu()), s.e.weight),
        e=nn.Embedding(10, 6), **layers(a=(6, 8), b=(8, 6)),
    )  # fmt: skip
    assert rescaled(faithful(net, torch.tensor([[1, 2, 3]]))) == ["a.scale"]


def test_depthwise_convolutions_pass_scales_on() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=4), nn.ReLU(), nn.Conv2d(4, 2, 1)
    )
    assert rescaled(faithful(net, torch.randn(2, 3, 6, 6))) == ["0.scale", "0.scale (2)"]
    residual = Network(
        lambda s, x: s.c(added(s.b, s.a(x).relu())),
        a=nn.Conv2d(3, 4, 3), b=nn.Conv2d(4, 4, 3, groups=4, padding=1), c=nn.Conv2d(4, 2, 1),
    )  # fmt: skip
    assert rescaled(faithful(residual, torch.randn(2, 3, 6, 6))) == ["a.scale"]


# -- attention -----------------------------------------------------------------------------

TOKENS = torch.randn(2, 6, 3)
QKVO = layers(q=(3, 8), k=(3, 8), v=(3, 8), o=(8, 2))


def attend(s: Any, x: Tensor, **options: Any) -> Tensor:
    q, k, v = heads(s.q(x)), heads(s.k(x)), heads(s.v(x))
    return joined(F.scaled_dot_product_attention(q, k, v, **options))


def pooled(x: Tensor) -> Tensor:
    return F.max_pool1d(x.transpose(1, 2), 2).transpose(1, 2)


def twice(s: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    y = attend(s, x)
    return s.o(y), s.o(y)


MIXED: dict[str, tuple[Function, list[str]]] = {
    "nothing in between": (lambda s, x: s.o(attend(s, x)), ["query-key", "value-output"]),
    "pooled keys and values": (
        lambda s, x: s.o(
            joined(
                F.scaled_dot_product_attention(
                    heads(s.q(x)), heads(pooled(s.k(x))), heads(pooled(s.v(x)))
                )
            )
        ),
        [],
    ),
    "queries used elsewhere": (
        lambda s, x: (s.o(attend(s, x)), s.o(s.q(x).tanh())),
        [],
    ),
    "a function of the values": (lambda s, x: s.o(attend(s, x).relu()), ["query-key"]),
    "a penalty on keys": (
        lambda s, x: (s.o(attend(s, x)), s.k.weight.abs().sum()),
        ["value-output"],
    ),
    "a last layer that is read twice": (
        twice,
        ["query-key"],
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_where_mixings_end(name: str) -> None:
    function, expected = MIXED[name]
    assert mixed(faithful(Network(function, **QKVO), TOKENS)) == expected


def test_masks_made_of_parameters_move_with_the_heads() -> None:
    net = Network(lambda s, x: s.o(attend(s, x, attn_mask=s.m)), m=parameter(2, 6, 6), **QKVO)
    graph = faithful(net, TOKENS)
    assert not graph.spec.left_out
    assert "2" in groups(graph)
    linear = Network(
        lambda s, x, pairs: s.o(attend(s, x, attn_mask=s.m(pairs).permute(0, 3, 1, 2))),
        m=nn.Linear(4, 2), **QKVO,
    )  # fmt: skip
    assert not rescaled(faithful(linear, TOKENS, torch.randn(2, 6, 6, 4)))


def test_causal_attention_fixes_the_order_of_learned_tokens() -> None:
    def function(s: Any, x: Tensor, causal: bool) -> Tensor:
        return s.o(attend(s, s.t + x.mean(1, keepdim=True), is_causal=causal).square().mean(1))

    for causal in (False, True):
        net = Network(lambda s, x, c=causal: function(s, x, c), t=parameter(1, 5, 3), **QKVO)
        assert ("5" in groups(faithful(net, TOKENS))) is not causal


# -- permutations --------------------------------------------------------------------------


def test_states_of_projected_cells() -> None:
    def made(function: Function) -> nn.Module:
        cell = nn.LSTM(4, 8, proj_size=3, batch_first=True)
        return Network(function, r=cell, **layers(a=(3, 2), b=(8, 2)))

    x, states = torch.randn(2, 5, 4), (torch.randn(1, 2, 3), torch.randn(1, 2, 8))
    given = faithful(made(lambda s, x, h, c: s.a(s.r(x, (h, c))[0])), x, *states)
    assert groups(given) == []
    read = faithful(made(lambda s, x: s.b(s.r(x)[1][1][0])), x)
    assert groups(read) == ["3", "8"]
    returned = faithful(made(lambda s, x: (s.a(s.r(x)[0]), s.r(x)[1][1])), x)
    assert groups(returned) == ["3"]


def test_states_that_are_given_have_meanings() -> None:
    class Fixed(nn.Module):
        def __init__(self, state: Tensor) -> None:
            super().__init__()
            self.r, self.o = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 2)
            self.register_buffer("h", state.double(), persistent=False)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.o(self.r(x, self.h)[0])
            return y

    x = torch.randn(2, 5, 4)
    assert groups(faithful(Fixed(torch.randn(1, 2, 6)), x)) == []
    assert groups(faithful(Fixed(torch.ones(1, 2, 6)), x)) == ["6"]
    given = Network(lambda s, x, h: s.o(s.r(x, h)[0]), r=nn.GRU(4, 6), o=nn.Linear(6, 2))
    graph = faithful(given, torch.randn(5, 2, 4), torch.randn(1, 2, 6))
    assert graph.spec.nodes_in("r.weight_ih_l0") == 6  # the gates are features, not neurons


def test_sampled_channels_go_with_their_places() -> None:
    def function(s: Any, x: Tensor) -> Tensor:
        values, places = s.v(x).unflatten(1, (2, 4)), s.g(x).tanh().unflatten(1, (2, 2))
        grid = places.flatten(0, 1).permute(0, 2, 3, 1)
        y = F.grid_sample(values.flatten(0, 1), grid, align_corners=False)
        return s.o(y.unflatten(0, (2, 2)).flatten(1, 2))

    net = Network(
        function, v=nn.Conv2d(3, 8, 1), g=nn.Conv2d(3, 4, 1), o=nn.Conv2d(8, 2, 1)
    )  # fmt: skip
    assert groups(faithful(net, torch.randn(2, 3, 5, 5))) == ["2", "4 in 2"]


def test_unpooling_ties_the_channels() -> None:
    def function(s: Any, x: Tensor) -> Tensor:
        y, places = F.max_pool2d(s.a(x).relu(), 2, return_indices=True)
        return s.c(F.max_unpool2d(s.b(y).relu(), places, 2))

    net = Network(
        function, a=nn.Conv2d(3, 4, 3), b=nn.Conv2d(4, 4, 1), c=nn.Conv2d(4, 2, 1)
    )  # fmt: skip
    graph = faithful(net, torch.randn(2, 3, 10, 10))
    assert groups(graph) == ["4"]


def test_written_and_read_indices_of_some_columns() -> None:
    index = torch.zeros(4, 5, dtype=torch.long)
    written = Network(
        lambda s, x, i: s.c(s.a(x).scatter_add(0, i, s.b(x))),
        **layers(a=(3, 8), b=(3, 8), c=(8, 2)),
    )  # fmt: skip
    assert groups(faithful(written, X, index)) == []
    read = Network(
        lambda s, x, i: s.c(s.a(x).gather(0, i)), **layers(a=(3, 8), c=(5, 2))
    )  # fmt: skip
    assert groups(faithful(read, X, index)) == []


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode: str) -> None:
    net = Network(
        lambda s, i: s.c(s.a(s.e(i)).relu()),
        e=nn.EmbeddingBag(9, 6, mode=mode),
        **layers(a=(6, 8), c=(8, 2)),
    )
    graph = faithful(net, torch.tensor([[1, 2, 3], [4, 5, 6]]))
    assert groups(graph) == ["6", "8"]
    assert graph.spec.block("e.weight").kind == "embedding"


def test_complex_parameters_are_left_out_with_a_reason() -> None:
    net = Network(
        lambda s, x: s.c(torch.view_as_real(s.a(x).to(s.w.dtype) @ s.w).flatten(-2)),
        w=nn.Parameter(torch.randn(8, 3, dtype=torch.complex128)), **layers(a=(3, 8), c=(6, 2)),
    )  # fmt: skip
    for part in (net.a, net.c):
        part.double()
    graph = faithful(net.eval(), X, stirred=True)
    assert "complex" in graph.spec.left_out[0].reason
