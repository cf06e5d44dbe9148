"""Removing redundant neurons leaves the function as it was."""

from __future__ import annotations

import torch
from torch import nn

from tests.align.networks import Residual
from weightspace.align import remove_redundant


def test_dead_neurons_and_copies_leave_a_multilayer_perceptron() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 2))
    with torch.no_grad():
        net[0].weight[1], net[0].bias[1] = 0, 0  # hears nothing
        net[2].weight[:, 4] = 0  # is not heard
        net[0].weight[6], net[0].bias[6] = 2 * net[0].weight[2], 2 * net[0].bias[2]
        net[2].weight[5], net[2].bias[5] = -net[2].weight[0], -net[2].bias[0]
    x = torch.randn(20, 3)
    pruned = remove_redundant(net, x)
    assert [pruned.module[i].out_features for i in (0, 2)] == [5, 5]
    assert torch.allclose(pruned.module(x), net(x), atol=1e-6)


def test_channels_leave_a_residual_network_with_their_norms() -> None:
    torch.manual_seed(0)
    net = Residual().eval()
    inner = net.first[0]
    with torch.no_grad():
        net.second[0].weight[:, [2, 7]] = 0
        inner.weight[5] = inner.weight[1]
        inner.bias[5] = inner.bias[1]
    x = torch.randn(4, 1, 8, 8)
    pruned = remove_redundant(net, x)
    assert pruned.module.first[0].out_channels == pruned.module.first[1].num_features == 9
    assert torch.allclose(pruned.module(x), net(x), atol=1e-5)


def test_a_network_without_redundancy_stays() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    pruned = remove_redundant(net, torch.zeros(1, 3))
    assert pruned.kept == {}
    assert pruned.parameters[0] == pruned.parameters[1]


def test_a_layer_of_dead_neurons_keeps_one() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        net[2].weight.zero_()
    pruned = remove_redundant(net, torch.zeros(1, 3))
    x = torch.randn(5, 3)
    assert pruned.module[0].out_features == 1
    assert torch.allclose(pruned.module(x), net(x))
