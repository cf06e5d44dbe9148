"""Small transformers, written out as the usual libraries write them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Separate projections; grouped queries, rotary positions and eager products on request."""

    def __init__(self, width: int = 12, heads: int = 2, *, kv_heads: int | None = None,
                 head: int = 6, rotary: bool = False, eager: bool = False, bias: bool = True,
                 qk_norm: bool = False) -> None:  # fmt: skip
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads or heads, head
        self.rotary, self.eager = rotary, eager
        self.q = nn.Linear(width, heads * head, bias=bias)
        self.k = nn.Linear(width, self.kv_heads * head, bias=bias)
        self.v = nn.Linear(width, self.kv_heads * head, bias=bias)
        self.o = nn.Linear(heads * head, width, bias=bias)
        self.q_norm = nn.RMSNorm(head) if qk_norm else nn.Identity()
        self.k_norm = nn.RMSNorm(head) if qk_norm else nn.Identity()

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        memory = x if memory is None else memory
        batch, length, _ = x.shape

        def split(t: Tensor, heads: int) -> Tensor:
            return t.view(batch, t.shape[1], heads, self.head).transpose(1, 2)

        q = self.q_norm(split(self.q(x), self.heads))
        k = self.k_norm(split(self.k(memory), self.kv_heads))
        v = split(self.v(memory), self.kv_heads)
        if self.rotary:
            q, k = rotate(q), rotate(k)
        if self.kv_heads != self.heads:
            k, v = repeat(k, self.heads), repeat(v, self.heads)
        if self.eager:
            mixed = (q @ k.transpose(-1, -2) / self.head**0.5).softmax(-1) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        return self.o(mixed.transpose(1, 2).reshape(batch, length, -1))


def rotate(x: Tensor) -> Tensor:
    """Rotary positions by halves (Su et al. 2021)."""
    half = x.shape[-1] // 2
    frequencies = 10.0 ** -torch.arange(half, dtype=x.dtype)
    angles = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * frequencies
    angles = torch.cat([angles, angles], -1)
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * angles.cos() + turned * angles.sin()


def repeat(x: Tensor, heads: int) -> Tensor:
    """Copy each key or value head for its group of queries."""
    batch, own, length, head = x.shape
    wide = x[:, :, None].expand(batch, own, heads // own, length, head)
    return wide.reshape(batch, heads, length, head)


class Fused(nn.Module):
    """One tensor for queries, keys and values, in one of three usual layouts."""

    def __init__(self, layout: str, width: int = 12, heads: int = 2) -> None:
        super().__init__()
        self.layout, self.heads, self.head = layout, heads, width // heads
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        y = self.qkv(x)
        if self.layout == "parts":  # GPT-2
            parts = [p.view(batch, length, self.heads, self.head).transpose(1, 2)
                     for p in y.split(width, -1)]  # fmt: skip
        elif self.layout == "stacked":  # ViT
            shaped = y.view(batch, length, 3, self.heads, self.head)
            parts = list(shaped.permute(2, 0, 3, 1, 4).unbind(0))
        else:  # GPT-NeoX
            shaped = y.view(batch, length, self.heads, 3 * self.head)
            parts = [p.transpose(1, 2) for p in shaped.chunk(3, -1)]
        mixed = F.scaled_dot_product_attention(*parts)
        return self.o(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Pre-norm residual block around an attention, with a gated or a plain MLP."""

    def __init__(self, attention: nn.Module, width: int = 12, inner: int = 20, *,
                 gated: bool = False, norm: type[nn.Module] = nn.LayerNorm) -> None:  # fmt: skip
        super().__init__()
        self.attention = attention
        self.before, self.after = norm(width), norm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.gate = nn.Linear(width, inner) if gated else None

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before(x))
        y = self.after(x)
        inner = F.gelu(self.up(y)) if self.gate is None else F.silu(self.gate(y)) * self.up(y)
        return x + self.down(inner)


class Language(nn.Module):
    """Tokens in, logits out; positions learned or none, output tied or not."""

    def __init__(self, *blocks: nn.Module, width: int = 12, vocabulary: int = 17,
                 positions: int = 0, tied: bool = False) -> None:  # fmt: skip
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width) if positions else None
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


class Vision(nn.Module):
    """Patches, a class token and learned positions (Dosovitskiy et al. 2021)."""

    def __init__(self, *blocks: nn.Module, width: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.cls = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 5, width))
        self.blocks = nn.Sequential(*blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 3)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Windows(nn.Module):
    """Shifted windows with a table of relative position biases (Liu et al. 2021)."""

    def __init__(self, width: int = 12, heads: int = 2, window: int = 2) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.patches, self.head = nn.Conv2d(3, width, 2, 2), nn.Linear(width, 3)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        places = torch.stack(torch.meshgrid(*[torch.arange(window)] * 2, indexing="ij")).flatten(1)
        offset = (places[:, :, None] - places[:, None]) + window - 1
        self.register_buffer("index", offset[0] * (2 * window - 1) + offset[1])

    def forward(self, images: Tensor) -> Tensor:
        x = torch.roll(self.patches(images), (-1, -1), (2, 3)).permute(0, 2, 3, 1)
        b, h, w, c = x.shape
        n = self.window
        x = x.view(b, h // n, n, w // n, n, c).transpose(2, 3).reshape(-1, n * n, c)
        qkv = self.qkv(x).view(x.shape[0], n * n, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.table[self.index.view(-1)].view(n * n, n * n, self.heads).permute(2, 0, 1)
        scores = q @ k.transpose(-1, -2) + bias[None]
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))
        return self.head(x.mean((0, 1)))


class Experts(nn.Module):
    """Every expert, weighted by a soft router; experts as one stacked tensor."""

    def __init__(self, width: int = 6, inner: int = 5, experts: int = 3) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, width, inner))
        self.down = nn.Parameter(torch.randn(experts, inner, width))
        self.inlet, self.outlet = nn.Linear(3, width), nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inlet(x)
        weights = self.router(x).softmax(-1)
        each = torch.einsum("ti,eio->teo", x, self.up).relu()
        each = torch.einsum("teo,eoi->tei", each, self.down)
        return self.outlet((weights[..., None] * each).sum(1))
