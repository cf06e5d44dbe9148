from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.data import shared_data
from weightspace.errors import GraphError, ModelError
from weightspace.relational import RelationalGraph, complete, ring, ws_flex
from weightspace.relational.flops import count_flops
from weightspace.relational.layers import RelationalConv2d, RelationalLinear
from weightspace.relational.matching import match_widths
from weightspace.relational.networks import (
    PUBLISHED_BASELINES,
    cnn_family,
    mlp_family,
    published_family,
)
from weightspace.relational.node_sizes import node_sizes


def test_linear_and_convolution_count_weights_times_places() -> None:
    graph = ring(4)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        RelationalConv2d(8, 8, graph, 3, stride=2, padding=1),
        nn.Conv2d(8, 8, 3, groups=8, padding=1),
        nn.ConvTranspose2d(8, 2, 2),
        nn.Flatten(),
        RelationalLinear(50, 8, graph),
        nn.Linear(8, 2),
    )
    counted = count_flops(net, torch.zeros(1, 3, 8, 8))
    mask = net[6].mask
    assert counted.layers == {
        "0": 3 * 8 * 9 * 64,
        "2": int(8 * 8 * 9 * 16 * 3 / 4),
        "3": 8 * 9 * 16,
        "4": 8 * 2 * 4 * 16,
        "6": int(mask.sum()),
        "7": 16,
    }
    assert count_flops(net, torch.zeros(3, 3, 8, 8)).total == 3 * counted.total


def test_attention_and_recurrence_count_their_matrices() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.zeros(1, 5, 8)
    assert count_flops(attention, (x, x, x)).total == 5 * 4 * 64
    short = torch.zeros(1, 3, 8)
    assert count_flops(attention, (x, short, short)).total == (5 + 3 + 3 + 5) * 64
    lstm = nn.LSTM(3, 4, batch_first=True)
    assert count_flops(lstm, torch.zeros(1, 5, 3)).total == 5 * 16 * 7


def test_a_network_that_needs_numbers_is_counted_by_running_it() -> None:
    class Gate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) if x.sum().item() == 0 else x

    assert count_flops(Gate(), torch.zeros(1, 4)).total == 16
    with pytest.raises(ModelError, match="runs on these inputs"):
        count_flops(Gate(), torch.zeros(1, 5))


@pytest.mark.parametrize("name", PUBLISHED_BASELINES)
def test_the_published_baselines_are_counted(name: str) -> None:
    assert published_family(name).baseline == PUBLISHED_BASELINES[name]


def _published_graph(row: np.ndarray) -> RelationalGraph:  # type: ignore[type-arg]
    n, density, p, seed = int(row[0]), round(row[1], 6), round(row[2], 6), int(row[3])
    return ws_flex(n, n * density, p, seed=seed)


@pytest.mark.slow
def test_all_published_widths_of_the_mlp() -> None:
    """The smallest width whose count reaches the baseline: 3,942 of 3,942."""
    data = np.load(shared_data("graph2nn/published.npz"))
    stem, outputs, baseline = 512, 10, PUBLISHED_BASELINES["mlp"]

    def count(joined: np.ndarray, width: int) -> int:  # type: ignore[type-arg]
        own, first = np.array(node_sizes(width, 64)), np.array(node_sizes(stem, 64))
        wired = own @ joined @ first + 2 * (own @ joined @ own)
        return 3072 * stem + int(wired) + outputs * width

    rows = zip(data["graphs_n64_3942"], data["mlp_cifar10_width"], strict=True)
    for number, (row, width) in enumerate(rows):
        graph = _published_graph(row)
        joined = (graph.adjacency | np.eye(64, dtype=bool)).astype(np.int64)
        assert count(joined, int(width)) >= baseline > count(joined, int(width) - 1), row
        if number % 1000 == 0:
            family = mlp_family()
            assert family.count(graph, [int(width)] * 3) == count(joined, int(width))
            assert family.match(graph)[0][0] == width


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("cnn", "cnn6_imagenet"),
        ("resnet34", "resnet34_imagenet"),
        ("resnet34-sep", "resnet34_sep_imagenet"),
        ("resnet50", "resnet50_imagenet"),
    ],
)
def test_published_widths_of_convolutional_networks(name: str, key: str) -> None:
    data = np.load(shared_data("graph2nn/published.npz"))
    family = published_family(name)
    for number in (8,):
        widths, budget = family.match(_published_graph(data["graphs_n64_52"][number]))
        assert widths[0] == data[f"{key}_width0"][number]
        assert 0 <= budget.difference < 0.02 * budget.asked


def test_small_families_train_and_match() -> None:
    graph = ring(8)
    for family in (
        mlp_family(inputs=64, outputs=10, width=32),
        cnn_family(widths=(8, 16), rounds=1, image=16, channels=1, outputs=10, stem=8),
    ):
        built = family.build(graph)
        assert family.build().count == family.baseline
        assert 0 <= built.budget.difference < 0.2 * family.baseline
        y = built.module(torch.randn(3, *family.input_shape))
        assert y.shape == (3, 10)
        assert family.match(complete(8))[1].difference == 0
        assert family.match(complete(8))[0] == family.widths


def test_budgets_that_cannot_be_met() -> None:
    family = mlp_family(inputs=64, outputs=10, width=64)
    with pytest.raises(GraphError, match=r"at least 1[0-9],[0-9]{3} multiply-adds.*found 100"):
        family.match(complete(64), budget=100)
    with pytest.raises(GraphError, match=r"at most 64 nodes.*found 65"):
        family.match(ring(65))
    with pytest.raises(GraphError, match=r"at most about .*found 1,000"):
        match_widths(lambda widths: 10, (4,), 1000)
    with pytest.raises(GraphError, match="one of mlp, cnn"):
        published_family("vgg")
