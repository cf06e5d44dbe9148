from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from weightspace.errors import GraphError, ModelError
from weightspace.relational import complete, ring, ws_flex
from weightspace.relational.blocks import MobileBlock, Residual, basic, bottleneck, separable
from weightspace.relational.flops import count_flops
from weightspace.relational.layers import RelationalConv2d, RelationalLinear, WiredLayer
from weightspace.relational.networks import mlp_family
from weightspace.relational.node_sizes import node_sizes
from weightspace.relational.rewire import rewire

GRAPH = ws_flex(8, 3, 0.3, seed=1)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.rnn = kind(5, 24, 2, batch_first=True)
        self.head = nn.Linear(24, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.rnn(x)[0][:, -1])
        return y


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(5, 24)
        self.norm = nn.LayerNorm(24)
        self.q, self.k, self.v, self.out = (nn.Linear(24, 24) for _ in range(4))
        self.head = nn.Linear(24, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.norm(x)
        x = x + self.out(
            nn.functional.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y))
        )
        return self.head(x.mean(1))


class WrittenOut(nn.Module):
    """Attention whose code divides its width by the number of heads."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 24)
        self.places = nn.Parameter(torch.randn(1, 6, 24))
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)
        self.norm, self.up, self.down = nn.LayerNorm(24), nn.Linear(24, 64), nn.Linear(64, 24)
        self.head = nn.Linear(24, 20, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x) + self.places
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (t.view(batch, length, 3, -1).transpose(1, 2) for t in (q, k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return self.head(x + self.down(nn.functional.gelu(self.up(x))))  # type: ignore[no-any-return]


class Concatenating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1)
        self.c, self.norm = nn.Conv2d(24, 12, 3, padding=1), nn.BatchNorm2d(36)
        self.d, self.head = nn.Conv2d(36, 16, 1), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        x = torch.cat([x, self.b(x)], 1)
        x = torch.cat([x, self.c(x)], 1)
        y: Tensor = self.head(self.d(torch.relu(self.norm(x))).mean((2, 3)))
        return y


def convolutional(*blocks: nn.Module, last: int) -> nn.Module:
    stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
    return nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 5))


def residual(branch: Any) -> nn.Module:
    return convolutional(
        Residual(branch(None, 16, 32, 1), None, 16, 32, 1),
        Residual(branch(None, 32, 32, 1), None, 32, 32, 1),
        last=32,
    )


IMAGE, SERIES = torch.zeros(2, 3, 8, 8), torch.zeros(2, 4, 5)
CASES: Mapping[str, tuple[Any, Tensor]] = {
    "mlp": (lambda: mlp_family(inputs=12, outputs=3, width=32).module(), torch.zeros(2, 12)),
    "flatten": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.GroupNorm(4, 16), nn.ReLU(),
            nn.Flatten(), nn.Linear(16 * 16, 24), nn.PReLU(24), nn.Linear(24, 2),
        ),
        IMAGE,
    ),
    "basic": (lambda: residual(basic), IMAGE),
    "separable": (lambda: residual(separable), IMAGE),
    "bottleneck": (lambda: residual(bottleneck), IMAGE),
    "mobile": (
        lambda: convolutional(
            MobileBlock(None, 16, 16, expanded=48, kernel=3, stride=1),
            MobileBlock(None, 16, 24, expanded=64, kernel=3, stride=2),
            last=24,
        ),
        IMAGE,
    ),
    "lstm": (lambda: Recurrent(nn.LSTM), SERIES),
    "gru": (lambda: Recurrent(nn.GRU), SERIES),
    "rnn": (lambda: Recurrent(nn.RNN), SERIES),
    "attention": (Attention, SERIES),
    "transformer": (
        lambda: nn.Sequential(
            nn.Linear(5, 24),
            nn.TransformerEncoderLayer(24, 3, 40, batch_first=True, dropout=0.0),
            nn.Linear(24, 2),
        ),
        SERIES,
    ),
    "concatenating": (Concatenating, IMAGE),
    "written-out": (WrittenOut, torch.zeros(2, 6, dtype=torch.long)),
    "conv1d": (
        lambda: nn.Sequential(
            nn.Conv1d(4, 16, 3), nn.ReLU(), nn.Conv1d(16, 16, 2), nn.ReLU(), nn.Flatten(),
            nn.Linear(32, 2),
        ),
        SERIES,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_any_module_is_wired_at_the_same_cost(name: str) -> None:
    make, inputs = CASES[name]
    torch.manual_seed(0)
    module = make()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    rewired = rewire(module, GRAPH, inputs=inputs)
    budget = rewired.report.budget
    # The search's own count is that of the network it builds.
    assert budget.got == count_flops(rewired.module, inputs).total
    assert budget.asked == count_flops(module, inputs).total
    assert 0 <= budget.difference < 0.12 * budget.asked
    assert all(value.equal(before[key]) for key, value in module.state_dict().items())
    x = torch.randn_like(inputs) if inputs.is_floating_point() else inputs
    y = rewired.module(x)
    assert y.shape == module(x).shape
    y.square().sum().backward()
    assert rewired.report.wired
    for part in rewired.module.modules():
        if isinstance(part, WiredLayer):
            assert part.weight.grad is not None
            assert not part.weight.grad[part.mask.expand_as(part.weight) == 0].any()
    twin = copy.deepcopy(rewired.module)
    twin.load_state_dict(rewired.module.state_dict())
    torch.testing.assert_close(twin.eval()(x), rewired.module.eval()(x))


@pytest.mark.parametrize("name", ["flatten", "bottleneck", "lstm", "transformer"])
def test_rewired_modules_export(name: str) -> None:
    make, inputs = CASES[name]
    module = rewire(make(), GRAPH, inputs=inputs).module.eval()
    x = torch.randn_like(inputs)
    with torch.no_grad():
        exported = torch.export.export(module, (x,)).module()
        torch.testing.assert_close(exported(x), module(x), atol=1e-5, rtol=1e-4)


def test_information_flows_along_edges_only() -> None:
    """Naive oracle: after a round, exactly a node's neighbours have changed."""
    net = nn.Sequential(nn.Linear(4, 24), nn.Linear(24, 24), nn.Linear(24, 2))
    rewired = rewire(net, GRAPH, inputs=torch.zeros(1, 4), match_flops=False, reorder=False)
    layer = rewired.module[1]
    assert isinstance(layer, RelationalLinear)
    ends = np.cumsum(node_sizes(24, 8))
    for node in range(8):
        own = slice(ends[node] - node_sizes(24, 8)[node], ends[node])
        x = torch.zeros(1, 24)
        x[:, own] = torch.rand(own.stop - own.start) + 1
        changed = (layer(x) - layer(torch.zeros(1, 24)))[0].abs() > 0
        heard = [bool(part.any()) for part in changed.split(list(node_sizes(24, 8)))]
        expected = GRAPH.adjacency[node] | (np.arange(8) == node)
        assert heard == expected.tolist()


def test_the_widths_of_the_published_mlp() -> None:
    family = mlp_family(inputs=48, outputs=10, width=64)
    graph = ws_flex(16, 4, 0.2, seed=0)
    rewired = rewire(family.module(), graph, inputs=torch.zeros(1, 48))
    widths, budget = family.match(graph)
    assert rewired.report.budget.got == budget.got
    assert [new for _, new in rewired.report.widths.values()] == list(widths)


def test_stage_ratios_are_kept() -> None:
    net = convolutional(
        *(layer for a, b in ((16, 16), (16, 32), (32, 64)) for layer in basic(None, a, b, 1)),
        last=64,
    )
    widths = [new for _, new in rewire(net, GRAPH, inputs=IMAGE).report.widths.values()]
    first = widths[0]
    for width, ratio in zip(widths, (1, 1, 2, 2, 4, 4), strict=True):
        assert abs(width - ratio * first) <= ratio


def test_keep_overrides_the_ends() -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8))
    inputs = torch.zeros(1, 8)
    assert set(rewire(net, ring(8), inputs=inputs).report.wired) == {"2.weight"}
    every = rewire(net, ring(8), inputs=inputs, keep=[])
    assert set(every.report.wired) == {"0.weight", "2.weight", "4.weight"}
    some = rewire(net, ring(8), inputs=inputs, keep=["2"]).report
    assert set(some.wired) == {"0.weight", "4.weight"}
    assert some.dense == {"2.weight": "asked to be kept"}


def test_a_graph_for_each_layer() -> None:
    net = nn.Sequential(*(nn.Linear(16, 16) for _ in range(4)))
    graphs = {"1": ring(8), "2": complete(4)}
    report = rewire(net, graphs, inputs=torch.zeros(1, 16), match_flops=False).report
    assert report.wired == {"1.weight": 3 / 8, "2.weight": 1.0}
    assert report.budget.difference == -(16 * 16 * 5 // 8)
    with pytest.raises(GraphError, match="found 5"):
        rewire(net, {"5": ring(8)}, inputs=torch.zeros(1, 16))


def test_a_trained_network_keeps_its_numbers() -> None:
    net = residual(basic)
    rewired = rewire(net, GRAPH, inputs=IMAGE, match_flops=False, init="keep", reorder=False)
    layer = rewired.module[1].branch[0]  # type: ignore[index, union-attr]
    assert isinstance(layer, RelationalConv2d)
    dense = net[1].branch[0].weight  # type: ignore[index, union-attr]
    assert torch.equal(layer.weight, dense * layer.mask)
    same = rewire(net, complete(8), inputs=IMAGE, match_flops=False, init="keep").module
    x = torch.randn_like(IMAGE)
    torch.testing.assert_close(same.eval()(x), net.eval()(x))
    with pytest.raises(GraphError, match="match_flops=False"):
        rewire(net, GRAPH, inputs=IMAGE, init="keep")


def test_reordering_changes_nothing_but_the_order() -> None:
    net = residual(basic)
    plain = rewire(net, GRAPH, inputs=IMAGE, reorder=False).report
    ordered = rewire(net, GRAPH, inputs=IMAGE).report
    assert plain.budget == ordered.budget
    assert plain.widths == ordered.widths
    assert plain.wired == pytest.approx(ordered.wired)


def test_limits_are_said() -> None:
    net = nn.Sequential(nn.Linear(4, 16), nn.Linear(16, 16), nn.Linear(16, 2))
    inputs = torch.zeros(1, 4)
    with pytest.raises(GraphError, match=r"at most 16 nodes.*found 17"):
        rewire(net, ring(17), inputs=inputs)
    with pytest.raises(GraphError, match=r"at least .* multiply-adds.*found 10"):
        rewire(net, ring(16), inputs=inputs, budget=10)
    with pytest.raises(GraphError, match="between hidden neurons"):
        rewire(nn.Linear(4, 4), ring(4), inputs=inputs)


def test_sizes_written_into_code_are_named() -> None:
    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 16), nn.Linear(16, 16), nn.Linear(16, 2)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.c(self.b(self.a(x)) * torch.ones(16))
            return y

    with pytest.raises(ModelError, match="takes its sizes from its tensors"):
        rewire(Written(), ring(8), inputs=torch.zeros(1, 4))
    rewire(Written(), ring(8), inputs=torch.zeros(1, 4), match_flops=False)
