"""Random networks out of the supported parts: the derived group always holds."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from .checking import faithful

FUNCTIONS = [torch.relu, torch.tanh, F.gelu, F.silu, torch.sin]


class Random(nn.Module):
    """A stack of steps drawn by Hypothesis; each maps [batch, channels, h, w] to its like."""

    def __init__(self, steps: list[tuple[Any, ...]]) -> None:
        super().__init__()
        self.steps = steps
        self.parts = nn.ModuleList()
        width = 3
        for step in steps:
            part, width = self._part(step, width)
            self.parts.append(part)
        self.head = nn.Linear(width, 2)

    @staticmethod
    def _part(step: tuple[Any, ...], width: int) -> tuple[nn.Module, int]:  # noqa: PLR0911
        kind, size = step[0], step[1]
        out = 4 * size
        if kind == "conv":
            groups = 2 if step[2] and width % 2 == 0 else 1
            return nn.Conv2d(width, out, 3, padding=1, groups=groups), out
        if kind == "residual":
            return nn.Sequential(
                nn.Conv2d(width, out, 1), nn.ReLU(), nn.Conv2d(out, width, 1)
            ), width
        if kind == "concat":
            return nn.Conv2d(width, out, 1), width + out
        if kind == "gate":
            return nn.Conv2d(width, width, 1), width
        if kind == "norm":
            options = [
                nn.BatchNorm2d(width),
                nn.GroupNorm(1, width),
                nn.InstanceNorm2d(width, affine=True),
            ]
            if width % 4 == 0:
                options.append(nn.GroupNorm(2, width))
            return options[size % len(options)], width
        if kind == "attention":
            return nn.MultiheadAttention(width, 1 + (width % 2 == 0), batch_first=True), width
        return nn.Identity(), width

    def forward(self, x: Tensor) -> Tensor:
        for step, part in zip(self.steps, self.parts, strict=True):
            kind, size = step[0], step[1]
            if kind in ("conv", "norm"):
                x = part(x)
            elif kind == "residual":
                x = x + part(x)
            elif kind == "concat":
                x = torch.cat([part(x), x], 1)
            elif kind == "gate":
                x = x * part(x.mean((2, 3), keepdim=True)).sigmoid()
            elif kind == "attention":
                tokens = x.flatten(2).transpose(1, 2)
                x = part(tokens, tokens, tokens)[0].transpose(1, 2).reshape(x.shape)
            elif kind == "shuffle" and x.shape[1] % 2 == 0:
                x = F.channel_shuffle(x, 2)
            elif kind == "pool":
                x = F.max_pool2d(x, 3, 1, 1) if size % 2 else F.avg_pool2d(x, 3, 1, 1)
            elif kind == "halves" and x.shape[1] % 2 == 0:
                a, b = x.chunk(2, 1)
                x = torch.cat([b, a.relu()], 1)
            x = FUNCTIONS[step[3]](x)
        return self.head(x.mean((2, 3)))


KINDS = ["conv", "residual", "concat", "gate", "norm", "attention", "shuffle", "pool", "halves"]
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(1, 3), st.booleans(), st.integers(0, 4)),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(steps=STEPS, seed=st.integers(0, 3))
def test_any_stack_of_parts_imports_faithfully(steps: list[tuple[Any, ...]], seed: int) -> None:
    torch.manual_seed(seed)
    net = Random([("conv", 2, False, 0), *steps])
    graph = faithful(net, torch.randn(1, 3, 4, 4))
    assert graph.symmetry.log_order >= 0
