"""The modules of trained networks that are kept as bare state dicts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .transformers import repeat


class BasicBlock(nn.Module):
    """He et al. 2016, with the parameter-free shortcut (option A)."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.pad = (outer - inner) // 2

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        short = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad)) if self.pad else x
        return F.relu(y + short)


class ResNet20(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        widths = [(16, 16), (16, 32), (32, 64)]
        for stage, (inner, outer) in enumerate(widths, start=1):
            blocks = [BasicBlock(inner, outer, 1 + (inner != outer))]
            blocks += [BasicBlock(outer, outer, 1) for _ in range(2)]
            self.add_module(f"layer{stage}", nn.Sequential(*blocks))
        self.linear = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        for stage in (self.layer1, self.layer2, self.layer3):
            x = stage(x)
        return self.linear(F.avg_pool2d(x, x.shape[3]).flatten(1))


class LeNet5(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convnet = nn.ModuleDict(
            {"c1": nn.Conv2d(1, 6, 5), "c3": nn.Conv2d(6, 16, 5), "c5": nn.Conv2d(16, 120, 5)}
        )
        self.fc = nn.ModuleDict({"f6": nn.Linear(120, 84), "f7": nn.Linear(84, 10)})

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.convnet["c1"](x).relu(), 2)
        x = F.max_pool2d(self.convnet["c3"](x).relu(), 2)
        x = self.convnet["c5"](x).relu().flatten(1)
        return F.log_softmax(self.fc["f7"](self.fc["f6"](x).relu()), -1)


class ProposalNet(nn.Module):
    """The P-Net of MTCNN (Zhang et al. 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 10, 3), nn.PReLU(10)
        self.conv2, self.prelu2 = nn.Conv2d(10, 16, 3), nn.PReLU(16)
        self.conv3, self.prelu3 = nn.Conv2d(16, 32, 3), nn.PReLU(32)
        self.conv4_1, self.conv4_2 = nn.Conv2d(32, 2, 1), nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.max_pool2d(self.prelu1(self.conv1(x)), 2, 2, ceil_mode=True)
        x = self.prelu3(self.conv3(self.prelu2(self.conv2(x))))
        return self.conv4_2(x), self.conv4_1(x).softmax(1)


class AttaCut(nn.Module):
    """Embeddings read by three convolutions of different widths at once."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(139, 48, padding_idx=0)
        for place, (kernel, dilation) in enumerate([(3, 1), (5, 3), (9, 2)], start=1):
            pad = dilation * (kernel - 1) // 2
            conv = nn.Conv1d(48, 196, kernel, padding=pad, dilation=dilation)
            self.add_module(f"conv{place}", nn.ModuleDict({"conv": conv}))
        self.linear1, self.linear2 = nn.Linear(196, 32), nn.Linear(32, 1)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embeddings(ids).transpose(1, 2)
        parts = [part["conv"](x) for part in (self.conv1, self.conv2, self.conv3)]
        x = torch.stack(parts, 2).max(2).values.relu().transpose(1, 2)
        return self.linear2(self.linear1(x).relu())


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class StoryBlock(nn.Module):
    """A LLaMA block with rotary positions on neighbouring pairs (Touvron et al. 2023)."""

    def __init__(self, width: int, heads: int, kv_heads: int, inner: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads, width // heads
        kv = kv_heads * self.head
        self.attention = nn.ModuleDict(
            {name: nn.Linear(width, out, bias=False)
             for name, out in (("wq", width), ("wk", kv), ("wv", kv), ("wo", width))}
        )  # fmt: skip
        self.feed_forward = nn.ModuleDict(
            {"w1": nn.Linear(width, inner, bias=False), "w2": nn.Linear(inner, width, bias=False),
             "w3": nn.Linear(width, inner, bias=False)}
        )  # fmt: skip
        self.attention_norm, self.ffn_norm = RMSNorm(width), RMSNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        y = self.attention_norm(x)
        q, k, v = (
            self.attention[name](y).view(batch, length, heads, self.head)
            for name, heads in (("wq", self.heads), ("wk", self.kv_heads), ("wv", self.kv_heads))
        )
        q, k, v = (
            rotate_pairs(q).transpose(1, 2),
            rotate_pairs(k).transpose(1, 2),
            v.transpose(1, 2),
        )
        k, v = repeat(k, self.heads), repeat(v, self.heads)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention["wo"](mixed.transpose(1, 2).reshape(batch, length, width))
        y, part = self.ffn_norm(x), self.feed_forward
        return x + part["w2"](F.silu(part["w1"](y)) * part["w3"](y))


def rotate_pairs(x: Tensor) -> Tensor:
    """Rotary positions on pairs (2 i, 2 i + 1) of ``[batch, length, heads, head]``."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * 10000.0 ** (
        -torch.arange(half, dtype=x.dtype) / half
    )
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class Stories(nn.Module):
    def __init__(self, state: dict[str, Tensor]) -> None:
        super().__init__()
        vocabulary, width = state["tok_embeddings.weight"].shape
        self.tok_embeddings = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList([StoryBlock(width, 8, 4, 172) for _ in range(5)])
        self.norm = RMSNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)
        self.output.weight = self.tok_embeddings.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok_embeddings(ids)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


class NeRF(nn.Module):
    """Mildenhall et al. 2020 as in krrish94's code: a skip, two heads, a view direction."""

    def __init__(self, state: dict[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in state.items():
            if name.endswith("weight"):
                path = name.removesuffix(".weight").split(".")
                parent: nn.Module = self
                for part in path[:-1]:
                    if not hasattr(parent, part):
                        parent.add_module(part, nn.ModuleDict())
                    parent = getattr(parent, part)
                parent.add_module(path[-1], nn.Linear(tensor.shape[1], tensor.shape[0]))
        self.points = state["layer1.weight"].shape[1]
        self.views = state["layers_dir.0.weight"].shape[1] - state["fc_feat.weight"].shape[0]

    def forward(self, x: Tensor) -> Tensor:
        points, views = x.split([self.points, self.views], -1)
        y = self.layer1(points)
        for layer in self.layers_xyz._modules.values():
            skip = layer.in_features != y.shape[-1]
            y = layer(torch.cat([y, points], -1) if skip else y).relu()
        features, density = self.fc_feat(y).relu(), self.fc_alpha(y)
        y = torch.cat([features, views], -1)
        for layer in self.layers_dir._modules.values():
            y = layer(y).relu()
        return torch.cat([self.fc_rgb(y), density], -1)
