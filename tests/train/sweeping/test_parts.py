"""Networks, controls, images and graphs of a sweep."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.train.sweeping.tiny import GRAPHS, images
from weightspace.errors import DataError, FileError, GraphError, ModelError
from weightspace.relational import ws_flex
from weightspace.relational.layers import WiredLayer
from weightspace.train.sweeping import (
    CONTROLS,
    CnnNetwork,
    MlpNetwork,
    ModuleNetwork,
    SweepNetwork,
    Training,
    controls,
    read_graphs,
    sweep_data,
    wirings,
)
from weightspace.train.sweeping.networks import parameters
from weightspace.train.sweeping.training import train_network

T = TypeVar("T")

SHAPE = (1, 8, 8)
NETWORKS = [MlpNetwork(16), CnnNetwork(16)]
SIXTEEN = wirings([ws_flex(16, k, 0.3, seed=0) for k in (4, 6, 9, 12)])


def sent(thing: T) -> T:
    """What arrives in another process."""
    arrived: T = pickle.loads(pickle.dumps(thing))  # noqa: S301 (our own)
    return arrived


def there(module: nn.Module) -> int:
    """The weights that are there, counted one by one."""
    total = 0
    for part in module.modules():
        for name, tensor in part.named_parameters(recurse=False):
            wired = isinstance(part, WiredLayer) and name == "weight"
            total += int((part.mask.expand_as(tensor) != 0).sum()) if wired else tensor.numel()
    return total


@pytest.mark.parametrize("network", NETWORKS, ids=["mlp", "cnn"])
def test_controls_are_equal_in_what_they_say(network: SweepNetwork) -> None:
    dense = network.build(controls(SIXTEEN, ["complete"])[0], SHAPE, 10)
    assert not [p for p in dense.make().modules() if isinstance(p, WiredLayer)]
    own = {wired.name: network.build(wired, SHAPE, 10) for wired in SIXTEEN}
    assert all(1 <= built.flops / dense.flops < 1.15 for built in own.values())
    for wired in controls(SIXTEEN, [*CONTROLS], count=2):
        built = network.build(wired, SHAPE, 10)
        assert built.parameters == parameters(built.make()) == there(built.make())
        if wired.kind == "null":
            graph = next(w.graph for w in SIXTEEN if w.name == wired.control_of)
            assert (wired.graph.degrees == graph.degrees).all()
            assert wired.graph != graph
        if wired.kind == "equal-width":
            assert built.width == dense.width
            assert built.flops < dense.flops
        if wired.kind == "equal-parameters":
            assert 1 <= built.parameters / dense.parameters < 1.15
        if wired.kind == "grouped":
            assert 1 <= built.flops / dense.flops < 1.3


def test_groups_do_not_hear_each_other() -> None:
    grouped = controls(SIXTEEN, ["grouped"])
    assert [wired.groups for wired in grouped] == [2, 4]
    for network in NETWORKS:
        built = network.build(grouped[0], SHAPE, 10)
        module = built.make().eval()
        layers = [p for p in module.modules() if getattr(p, "groups", 1) == 2]
        assert len(layers) == (3 if network.name == "mlp" else 2)
        layer = layers[0]
        x = torch.randn(2, layer.in_channels, *([8, 8] if network.name == "cnn" else []))
        x.requires_grad_()
        layer(x)[:, 0].sum().backward()
        assert (x.grad[:, layer.in_channels // 2 :] == 0).all()
        assert (x.grad[:, : layer.in_channels // 2] != 0).any()


def test_training_is_the_plain_loop() -> None:
    data, training = images(), Training(epochs=3, rate=0.05, batch=16, decay=0.01)
    built = MlpNetwork(8).build(GRAPHS[1], data.shape, 3)
    found = train_network(built.make, data, training, seed=5, measured=(1, 3))
    torch.manual_seed(5)
    module = built.make().train()
    (x, y), test = data.tensors()["train"], data.tensors()["test"]
    momentum = [torch.zeros_like(p) for p in module.parameters()]
    errors = []
    for epoch in (1, 2, 3):
        rate = 0.05 * (1 + np.cos(np.pi * (epoch - 1) / 3)) / 2
        order = torch.randperm(70, generator=torch.Generator().manual_seed(5 * 100_003 + epoch))
        for start in range(0, 64, 16):
            batch = order[start : start + 16]
            gradients = torch.autograd.grad(
                cross_entropy(module(x[batch]), y[batch]), [*module.parameters()]
            )
            with torch.no_grad():
                for p, g, v in zip(module.parameters(), gradients, momentum, strict=True):
                    decayed = g + 0.01 * p
                    v.mul_(0.9).add_(decayed)
                    p.sub_(rate * (decayed + 0.9 * v))
        module.eval()
        errors.append(100 * float((module(test[0]).argmax(1) != test[1]).float().mean()))
        module.train()
    assert [own.error for own in found] == pytest.approx([errors[0], errors[2]], abs=2)
    assert found[-1].error < 45


def test_a_part_of_a_training_is_the_same() -> None:
    data, training = images(), Training(epochs=4, batch=16)
    built = MlpNetwork(8).build(GRAPHS[0], data.shape, 3)
    whole = train_network(built.make, data, training, seed=1, measured=(1, 2, 4))
    assert train_network(built.make, data, training, seed=1, measured=(1, 2)) == whole[:2]


def test_diverged_runs_have_no_error() -> None:
    data = images()
    found = train_network(
        lambda: nn.Sequential(nn.Flatten(), Exploding(), nn.Linear(16, 3)),
        data,
        Training(epochs=2, batch=16),
        seed=0,
        measured=(1, 2),
    )
    assert [np.isnan(own.error) for own in found] == [True, True]


class Exploding(nn.Module):
    """Gives numbers that are none."""

    def forward(self, x: Tensor) -> Tensor:
        """Divide by nothing."""
        return x / 0


class Small(nn.Module):
    """A network of a person's own."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()
        )
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Classify."""
        pooled: Tensor = self.body(x).mean((2, 3))
        return torch.as_tensor(self.head(pooled))


def test_any_module_is_rewired_and_sent() -> None:
    network = sent(ModuleNetwork("small", Small()))
    dense = network.build(controls(SIXTEEN, ["complete"])[0], SHAPE, 10)
    built = network.build(SIXTEEN[1], SHAPE, 10)
    assert 1 <= built.flops / dense.flops < 1.1
    assert built.width > 16
    torch.manual_seed(0)
    first, second = built.make(), built.make()
    assert not torch.equal(first.head.weight, second.head.weight)
    torch.manual_seed(0)
    assert torch.equal(built.make().head.weight, first.head.weight)
    assert not any(network.can(w) for w in controls(SIXTEEN, ["grouped", "equal-parameters"]))
    with pytest.raises(ModelError, match=r"network small: expected outputs of shape \(1, 7\)"):
        network.check(SIXTEEN[0].graph, SHAPE, 7)
    with pytest.raises(GraphError, match="at most 16 nodes"):
        network.check(ws_flex(24, 4, 0.1, seed=0), SHAPE, 10)


def test_images_are_divided_and_made_smaller(tmp_path: Path) -> None:
    data = sweep_data("digits", size=4, train=100, validation=30, test=50)
    assert data.shape == (1, 4, 4)
    assert {part: len(own) for part, own in data.images.items()} == {
        "train": 100,
        "validation": 30,
        "test": 50,
    }
    assert data.sha256 == sweep_data("digits", size=4, train=100, validation=30, test=50).sha256
    both = [*data.images["train"], *data.images["validation"]]
    assert len({own.tobytes() for own in both}) > 125  # no image is in two parts
    x = data.tensors()["train"][0]
    assert abs(float(x.mean())) < 1e-5
    assert float(x.std()) == pytest.approx(1, abs=1e-2)
    random = np.random.default_rng(0)
    pixels, labels = random.integers(0, 255, (20, 6, 5, 3), dtype=np.uint8), np.arange(20) % 4
    file = tmp_path / "own.npz"
    np.savez(file, x_train=pixels, y_train=labels, x_test=pixels[:9], y_test=labels[:9])
    own = sweep_data(str(file))
    assert (own.name, own.shape, own.classes) == ("own", (3, 6, 5), 4)
    assert sent(own).as_dict() == own.as_dict()
    with pytest.raises(DataError, match="expected 30 training and 2 validation images"):
        sweep_data(str(file), train=30)
    with pytest.raises(DataError, match="images: expected one of digits"):
        sweep_data("pictures")
    with pytest.raises(FileError, match=r"no\.npz: expected an .npz file"):
        sweep_data(str(tmp_path / "no.npz"))


def test_graphs_are_read_by_name_and_from_files(tmp_path: Path) -> None:
    assert len(read_graphs("published-48")) == 48
    assert [graph.n for graph in read_graphs("plane:2:12")] == [12, 12]
    one_way = np.triu(np.ones((5, 5)))
    np.savez(tmp_path / "g.npz", a=one_way, b=np.stack([one_way] * 2))
    found = read_graphs(str(tmp_path / "g.npz"))
    assert [graph.name for graph in found] == ["a", "b[0]", "b[1]"]
    assert found[0].density == 1
    assert len(read_graphs(f"{tmp_path / 'g.npz'}:a")) == 1
    np.savetxt(tmp_path / "m.txt", one_way)
    np.savetxt(tmp_path / "m.csv", one_way, delimiter=",")
    assert read_graphs(str(tmp_path / "m.txt")) == read_graphs(str(tmp_path / "m.csv"))
    np.savetxt(tmp_path / "parts.txt", np.eye(4))
    (tmp_path / "bad.txt").write_text("a b")
    for source, error, message in (
        ("published-53", GraphError, "expected published-52, published-48"),
        ("plane:x", GraphError, "expected plane:N"),
        (str(tmp_path / "g.npz:c"), FileError, "expected a matrix c, found a, b"),
        (str(tmp_path / "no.npz"), FileError, "expected adjacency matrices of numbers, found noth"),
        (str(tmp_path / "bad.txt"), FileError, "expected adjacency matrices of numbers"),
        (str(tmp_path / "parts.txt"), GraphError, "found 4 parts"),
    ):
        with pytest.raises(error, match=message):
            read_graphs(source)
    with pytest.raises(GraphError, match="controls: expected some of complete, null"):
        controls(SIXTEEN, ["nothing"])
