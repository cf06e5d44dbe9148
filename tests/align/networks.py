"""Networks of several kinds, with inputs, for alignment."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    """A small residual network with batch norms."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width))
        self.first = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.second = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width))
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        x = torch.relu(x + self.second(self.first(x)))
        return self.head(x.mean((2, 3)))


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 16), nn.Tanh(), nn.Linear(16, 10)
    )


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
    return nn.Sequential(nn.Linear(8, 16), nn.TransformerEncoder(layer, 2), nn.Linear(16, 10))


KINDS = {
    "mlp": (mlp, (16, 1, 8, 8)),
    "residual": (Residual, (16, 1, 8, 8)),
    "transformer": (transformer, (16, 8, 8)),
}


def trained(kind: str, seed: int) -> tuple[nn.Module, Tensor]:
    """A network with random weights, biases and statistics, and inputs."""
    make, shape = KINDS[kind]
    torch.manual_seed(seed)
    module, inputs = make(), torch.randn(shape)
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(0.1 * torch.rand_like(tensor))
    return module.eval(), inputs
