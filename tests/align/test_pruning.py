"""Removing neurons: the rest computes what it computed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.align.networks import KINDS, trained
from weightspace.align import keep_neurons, prune
from weightspace.errors import ModelError
from weightspace.importers import module_spec


class Joined(nn.Module):
    """Concatenated branches, a depthwise convolution, and a linear layer after a flattening."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(1, 6, 3), nn.Conv2d(1, 4, 3)
        self.depthwise = nn.Conv2d(10, 10, 3, groups=10)
        self.head = nn.Linear(10 * 16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.left(x), self.right(x)], dim=1).relu()
        return self.head(self.depthwise(x).relu().flatten(1))


def silenced(module: nn.Module, inputs: Tensor, axis: str, gone: list[int]) -> nn.Module:
    """The module with everything that some neurons send set to zero."""
    spec = module_spec(module, inputs)
    state = module.state_dict()
    from weightspace.graph.layout import piece_grid

    for piece in spec.pieces:
        grid = piece_grid(piece, state[piece.parameter][None])[0]
        for place, factor in enumerate(piece.factors):
            if factor.axis == axis and factor.side != "target":
                grid.movedim(place, 0)[gone] = 0
    return module


@pytest.mark.parametrize("axis", ["0", "left", "right"])
def test_neurons_that_send_nothing_can_leave(axis: str) -> None:
    torch.manual_seed(0)
    if axis == "0":
        module, inputs = (
            nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)),
            torch.randn(5, 3),
        )
    else:
        module, inputs = Joined(), torch.randn(2, 1, 8, 8)
    gone = [1, 3]
    spec = module_spec(module, inputs)
    assert axis in {own.name for own in spec.axes}, [own.name for own in spec.axes]
    if axis == "0":
        silenced(module, inputs, axis, gone)
    else:
        columns = torch.tensor(gone) + (6 if axis == "right" else 0)
        with torch.no_grad():
            module.head.weight.view(3, 10, 16)[:, columns] = 0
    size = spec.axis(axis).size
    stay = torch.tensor([i for i in range(size) if i not in gone])
    before = module(inputs)
    small = keep_neurons(module, inputs, {axis: stay})
    assert torch.allclose(small.module(inputs), before, atol=1e-6)
    assert small.parameters[1] < small.parameters[0]


def test_a_residual_stream_loses_the_same_channels_everywhere() -> None:
    module, inputs = trained("residual", 0)
    spec = module_spec(module, inputs)
    (stream,) = (axis.name for axis in spec.axes if axis.permutes and "stem" in axis.name)
    stay = torch.tensor([0, 2, 3, 5, 7, 8, 9, 11])
    small = keep_neurons(module, inputs, {stream: stay}).module
    assert small.stem[0].weight.shape[0] == small.head.weight.shape[1] == 8
    assert torch.equal(small.stem[1].running_mean, module.stem[1].running_mean[stay])
    assert small(inputs).shape == (16, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_pruning_by_norm_gives_a_working_module(kind: str) -> None:
    module, inputs = trained(kind, 0)
    before = module.state_dict()
    pruned = prune(module, inputs, share=0.5)
    assert pruned.parameters[1] < 0.8 * pruned.parameters[0]
    assert pruned.module(inputs).shape == module(inputs).shape
    assert all(torch.equal(module.state_dict()[n], t) for n, t in before.items())
    module_spec(pruned.module, inputs)


def test_the_strongest_stay() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))
    with torch.no_grad():
        module[0].weight[[0, 4]] *= 1e-3
        module[2].weight[:, 4] *= 1e3
    assert 0 not in prune(module, torch.zeros(1, 3), share=1 / 6).kept["0"].tolist()


def test_what_cannot_leave_is_said() -> None:
    module, inputs = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2)), torch.zeros(1, 3)
    with pytest.raises(ModelError, match=r"axis '2'.*can lose neurons: 0"):
        keep_neurons(module, inputs, {"2": torch.tensor([0])})
    for bad in ([], [6], [1, 0], [1, 1]):
        with pytest.raises(ModelError, match="indices below 6"):
            keep_neurons(module, inputs, {"0": torch.tensor(bad, dtype=torch.long)})
    with pytest.raises(ModelError, match="share"):
        prune(module, inputs, share=1.0)
    with pytest.raises(ModelError, match="hidden neurons"):
        prune(nn.Linear(3, 2), inputs, share=0.5)
