"""Trained networks: imported, accounted for, symmetric, brought back exactly."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.data import shared_data
from weightspace import from_module
from weightspace.graph import NeuralGraph

from .checking import groups
from .real_networks import AttaCut, LeNet5, NeRF, ProposalNet, ResNet20, Stories


def load(name: str) -> dict[str, Tensor]:
    path = shared_data(f"models/torch/{name}")
    loaded: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return loaded


def imports(net: nn.Module, inputs: Tensor) -> NeuralGraph:
    """In the precision that the network was trained in."""
    graph = from_module(net, inputs)
    graph.symmetry.check(net, inputs).require(1e-4)
    graph.symmetry.check(net, inputs, kinds=("permutation", "scale")).require(1e-4)
    state, back = net.state_dict(), graph.state_dict()
    assert state.keys() == back.keys()
    assert all(torch.equal(tensor, back[name]) for name, tensor in state.items())
    covered = sum(p.numel for p in graph.spec.parameters if not p.buffer)
    assert covered == sum(p.numel() for p in net.parameters())
    return graph


def test_resnet20() -> None:
    net = ResNet20()
    state = load("resnet20_cifar10.th")["state_dict"]
    own = {k.removeprefix("module."): v for k, v in state.items()}  # type: ignore[attr-defined]
    net.load_state_dict(own, strict=False)
    graph = imports(net, torch.randn(2, 3, 32, 32))
    # Shortcuts pad with zeros: the last stage's channels are five segments.
    assert groups(graph) == sorted(["16"] * 6 + ["8"] * 2 + ["32"] * 3 + ["64"] * 3)


def test_lenet5() -> None:
    net = LeNet5()
    net.load_state_dict(load("lenet5_mnist.pth"))
    assert groups(imports(net, torch.rand(2, 1, 32, 32))) == ["120", "16", "6", "84"]


def test_mtcnn() -> None:
    net = ProposalNet()
    net.load_state_dict(load("mtcnn_pnet.pt"))
    assert groups(imports(net, torch.randn(1, 3, 24, 24))) == ["10", "16", "32"]


def test_attacut() -> None:
    net = AttaCut()
    net.load_state_dict(load("attacut_c_dilated_cnn.pth"))
    assert groups(imports(net, torch.randint(1, 139, (2, 12)))) == ["196", "32", "48"]


@pytest.mark.parametrize("part", ["model_coarse_state_dict", "model_fine_state_dict"])
def test_nerf(part: str) -> None:
    state: dict[str, Tensor] = load("nerf_lego.ckpt")[part]  # type: ignore[assignment]
    net = NeRF(state)
    net.load_state_dict(state)
    graph = imports(net, torch.randn(5, net.points + net.views))
    assert graph.symmetry.log_order > 1000


def test_stories() -> None:
    from safetensors.torch import load_file

    state = load_file(shared_data("models/safetensors/stories260K_llama.safetensors"))
    net = Stories(state)
    net.load_state_dict({**state, "output.weight": state["tok_embeddings.weight"]})
    graph = imports(net, torch.tensor([[1, 403, 407, 261]]))
    layer = ["172", "2 in 4", "4", "8 in 4"]
    assert groups(graph) == sorted([*layer * 5, "64"])
