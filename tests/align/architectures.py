"""Networks of unusual architectures, with inputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Tied(nn.Module):
    """A language model whose embedding is its last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.up, self.down = nn.Embedding(11, 8), nn.Linear(8, 12), nn.Linear(12, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        return self.head(x + self.down(self.up(x).relu()))


class Attention(nn.Module):
    """torch's attention within a residual stream."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 16), nn.Linear(16, 3)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(x + self.attention(x, x, x, need_weights=False)[0])


class GroupedQueries(nn.Module):
    """Attention whose code has the number of heads, or that of features, written into it."""

    def __init__(self, *, heads: int = 4, keys: int = 2, free: bool = False) -> None:
        super().__init__()
        self.heads, self.keys = (-1, -1) if free else (heads, keys)
        self.first, self.last = nn.Linear(5, 12), nn.Linear(12, 3)
        self.query, self.key = nn.Linear(12, 4 * heads), nn.Linear(12, 4 * keys)
        self.value, self.out = nn.Linear(12, 4 * keys), nn.Linear(4 * heads, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        rows = x.shape[:2]
        query = self.query(x).view(*rows, self.heads, 4).transpose(1, 2)
        key = self.key(x).view(*rows, self.keys, 4).transpose(1, 2)
        value = self.value(x).view(*rows, self.keys, 4).transpose(1, 2)
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        heads = F.scaled_dot_product_attention(query, key, value)
        return self.last(x + self.out(heads.transpose(1, 2).flatten(2)))


class HeadsByNumber(nn.Module):
    """Attention that divides whatever width it is given by its number of heads."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 16), nn.Linear(16, 3)
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        parts = [f(x).unflatten(-1, (4, -1)) for f in (self.query, self.key, self.value)]
        heads = F.scaled_dot_product_attention(*(part.transpose(1, 2) for part in parts))
        return self.last(heads.transpose(1, 2).flatten(2))


class Recurrent(nn.Module):
    """A recurrent layer and a linear one."""

    def __init__(self, kind: str, width: int, **options: object) -> None:
        super().__init__()
        self.recurrence = getattr(nn, kind)(5, 6, batch_first=True, **options)
        self.last = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.recurrence(x)[0][:, -1])


class Masked(nn.Module):
    """A buffer that is not saved, and a parameter that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.unused = nn.Linear(5, 8), nn.Linear(8, 3), nn.Linear(8, 2)
        self.mask: Tensor
        self.register_buffer("mask", torch.rand(8) + 0.5, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).relu() * self.mask)


class Experts(nn.Module):
    """A mixture of experts in stacked tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.gate, self.last = nn.Linear(5, 8), nn.Linear(8, 3), nn.Linear(8, 2)
        self.up = nn.Parameter(torch.randn(3, 8, 6))
        self.down = nn.Parameter(torch.randn(3, 6, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        hidden = torch.einsum("bd,edh->beh", x, self.up).relu()
        each = torch.einsum("beh,ehd->bed", hidden, self.down)
        return self.last(x + (self.gate(x).softmax(-1)[..., None] * each).sum(1))


def grouped() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(2, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=4), nn.ReLU()),
        *(nn.Conv2d(8, 12, 1, groups=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(12, 3),
    )


def multiplied() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(2, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3, groups=8), nn.BatchNorm2d(16)),
        *(nn.ReLU6(), nn.Conv2d(16, 4, 1), nn.Flatten(), nn.Linear(64, 3)),
    )


def transposed() -> nn.Module:
    return nn.Sequential(
        *(nn.ConvTranspose2d(2, 6, 3), nn.ReLU(), nn.ConvTranspose2d(6, 6, 3, groups=3)),
        *(nn.Tanh(), nn.ConvTranspose2d(6, 4, 1), nn.ReLU(), nn.Conv2d(4, 1, 1)),
    )


def group_norms() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(2, 8, 3), nn.GroupNorm(4, 8), nn.ReLU(), nn.Conv2d(8, 6, 3)),
        *(nn.GroupNorm(1, 6), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 16, 3)),
    )


def gated() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 12), nn.GLU(), nn.Linear(6, 8), nn.GLU(), nn.Linear(4, 3))


def normed() -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(5, 8), nn.LayerNorm(8, elementwise_affine=False), nn.ReLU()),
        *(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 2)),
    )


def single() -> nn.Module:
    return nn.Sequential(nn.Linear(1, 1), nn.Tanh(), nn.Linear(1, 1), nn.Tanh(), nn.Linear(1, 1))


def twins() -> nn.Module:
    """Layers with the same weights."""
    net = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    net[2].load_state_dict(net[0].state_dict())
    return net


Made = Callable[[], nn.Module]
KINDS: dict[str, tuple[Made, tuple[int, ...]]] = {
    "tied": (Tied, (3, 4)),
    "attention": (Attention, (2, 3, 5)),
    "grouped queries": (GroupedQueries, (2, 3, 5)),
    "free heads": (lambda: GroupedQueries(keys=4, free=True), (2, 3, 5)),
    "heads by number": (HeadsByNumber, (2, 3, 5)),
    "lstm": (lambda: Recurrent("LSTM", 12, num_layers=2, bidirectional=True), (2, 3, 5)),
    "lstm with projections": (lambda: Recurrent("LSTM", 4, proj_size=4), (2, 3, 5)),
    "gru": (lambda: Recurrent("GRU", 6), (2, 3, 5)),
    "buffer": (Masked, (4, 5)),
    "experts": (Experts, (4, 5)),
    "grouped": (grouped, (2, 2, 7, 7)),
    "multiplied": (multiplied, (2, 2, 8, 8)),
    "transposed": (transposed, (2, 2, 4, 4)),
    "group norms": (group_norms, (2, 2, 8, 8)),
    "gated": (gated, (4, 5)),
    "normed": (normed, (4, 5)),
    "single": (single, (4, 1)),
    "twins": (twins, (4, 6)),
}


def made(kind: str) -> tuple[nn.Module, Tensor]:
    """A network whose tensors are all random, and inputs."""
    make, shape = KINDS[kind]
    torch.manual_seed(0)
    module = make().eval()
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(0.1 * torch.rand_like(tensor))
    return module, torch.randint(0, 11, shape) if kind == "tied" else torch.randn(shape)
