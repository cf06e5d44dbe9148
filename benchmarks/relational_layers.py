"""Layers wired by graphs against masked and dense ones, forward and backward.

Each row is a layer of 512 channels on 64 nodes; ``masked`` multiplies the weight by the mask
and is the same for every graph, ``ours`` is the layer as it chooses to compute itself, after
its one-time measurement. The three take turns of a few calls each in one process.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor, nn

from harness import machine, parser
from weightspace.relational import ring, ws_flex
from weightspace.relational.execution import MASKED, fixed_plan, resolve
from weightspace.relational.layers import RelationalConv2d, RelationalLinear
from weightspace.relational.networks import mlp_family
from weightspace.relational.stacked import StackedRelationalMLP
from weightspace.zoo.allocator import keep_freed_memory

NODES, WIDTH = 64, 512
_CALLS = 3
ROWS = ((4, 0.2, 512), (8, 0.2, 512), (8, 1.0, 1024), (16, 0.2, 1024), (32, 0.2, 1024))
# The best way of the table that these figures are held against, over a dense layer's time.
BEST = {(4, 0.2): 0.46, (8, 0.2): 0.61, (8, 1.0): 0.89, (16, 0.2): 0.87, (32, 0.2): 0.99}
MATCHED = ((4, 1856), (8, 1344), (16, 1024), (32, 704))
CONVOLUTIONS = ((4, 0.2), (8, 0.2), (16, 0.2))


def main() -> None:
    """Measure all rows; write JSON and a Markdown table."""
    arguments = parser(__doc__)
    arguments.add_argument("--markdown", type=Path, help="also write the table here")
    arguments.add_argument("--repeats", type=int, default=25)
    options = arguments.parse_args()
    torch.manual_seed(0)
    # As in the package's own training; all three ways gain from it.
    keep_freed_memory()
    results = {
        "benchmark": "relational layers",
        "machine": f"{machine()}, load {os.getloadavg()[0]:.0f}",
        "linear": [linear_row(*row, options.repeats) for row in ROWS],
        "matched_width": [matched_row(*row, options.repeats // 3 + 1) for row in MATCHED],
        "convolution": [convolution_row(*row, options.repeats // 3 + 1) for row in CONVOLUTIONS],
        "stacked": [stacked_row(*row) for row in ((64, 16), (128, 16), (512, 4))],
    }
    table = markdown(results)
    Console().print(table)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.markdown is not None:
        options.markdown.write_text(table)


def linear_row(k: int, p: float, batch: int, repeats: int) -> dict[str, Any]:
    """One graph, one layer."""
    layer = RelationalLinear(WIDTH, WIDTH, ws_flex(NODES, k, p, seed=1), bias=False)
    x = torch.randn(batch, WIDTH, requires_grad=True)
    return {"k": k, "p": p, "batch": batch, **timed(layer, x, WIDTH, repeats)}


def matched_row(k: int, width: int, repeats: int) -> dict[str, Any]:
    """A layer as wide as a dense one of 512 channels costs; batch 512."""
    layer = RelationalLinear(width, width, ws_flex(NODES, k, 0.2, seed=1), bias=False)
    x = torch.randn(512, width, requires_grad=True)
    return {"k": k, "p": 0.2, "batch": 512, "width": width, **timed(layer, x, WIDTH, repeats)}


def timed(layer: RelationalLinear, x: Tensor, dense_width: int, repeats: int) -> dict[str, Any]:
    """Milliseconds of the three ways, in turns."""
    dense = torch.randn(dense_width, dense_width, requires_grad=True)
    narrow = x.detach()[:, :dense_width].contiguous().requires_grad_()
    y = layer(x)
    plan = resolve(layer.plan, layer.wiring_, x)
    with fixed_plan(MASKED):
        # Rounding grows with the square root of how many numbers are summed.
        torch.testing.assert_close(y, layer(x), atol=2e-4, rtol=1e-3)
    upstream, small = torch.randn_like(y), torch.randn(len(x), dense_width)
    mask = layer.mask

    def masked() -> None:
        backward(F.linear(x, layer.weight * mask), (x, layer.weight), upstream)

    def ours() -> None:
        backward(layer(x), (x, layer.weight), upstream)

    def full() -> None:
        backward(F.linear(narrow, dense), (narrow, dense), small)

    m, o, d = turns([masked, ours, full], repeats)
    return {
        "masked_ms": m, "ours_ms": o, "dense_ms": d, "plan": str(plan),
        "masked_over_dense": m / d, "ours_over_dense": o / d, "ours_over_masked": o / m,
    }  # fmt: skip


def convolution_row(k: int, p: float, repeats: int) -> dict[str, Any]:
    """A 3x3 convolution of 256 channels on 8 images of 14 x 14."""
    graph = ws_flex(NODES, k, p, seed=1)
    layer = RelationalConv2d(256, 256, graph, 3, padding=1, bias=False)
    x = torch.randn(8, 256, 14, 14, requires_grad=True)
    upstream = torch.randn(8, 256, 14, 14)
    dense = torch.randn_like(layer.weight, requires_grad=True)
    layer(x)

    def masked() -> None:
        y = F.conv2d(x, layer.weight * layer.mask, padding=1)
        backward(y, (x, layer.weight), upstream)

    def ours() -> None:
        backward(layer(x), (x, layer.weight), upstream)

    def full() -> None:
        backward(F.conv2d(x, dense, padding=1), (x, dense), upstream)

    m, o, d = turns([masked, ours, full], repeats)
    return {"k": k, "p": p, "masked_ms": m, "ours_ms": o, "dense_ms": d, "ours_over_masked": o / m}


def stacked_row(width: int, graphs: int) -> dict[str, Any]:
    """Training steps of many perceptrons, batch 128, one after another and stacked."""
    several = [ring(16)] * graphs
    stack = StackedRelationalMLP(several, inputs=64, outputs=10, width=width)
    family = mlp_family(inputs=64, outputs=10, width=width)
    singles: list[nn.Module] = [family.module(graph) for graph in several]
    x = torch.randn(128, 64)

    def together() -> None:
        stack(x).square().sum().backward()

    def apart() -> None:
        for single in singles:
            single(x).square().sum().backward()

    s, a = turns([together, apart], 7)
    return {"width": width, "graphs": graphs, "stacked_ms": s, "apart_ms": a, "speedup": a / s}


def backward(y: Tensor, wanted: tuple[Tensor, ...], upstream: Tensor) -> None:
    """The gradients, without accumulating them."""
    torch.autograd.grad(y, wanted, upstream)


def turns(calls: list[Callable[[], None]], repeats: int) -> list[float]:
    """Median milliseconds of a call; a turn is a few calls of one way, as layers repeat."""
    for call in calls * 3:
        call()
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, own in zip(calls, times, strict=True):
            start = time.perf_counter()
            for _ in range(_CALLS):
                call()
            own.append(1e3 * (time.perf_counter() - start) / _CALLS)
    return [statistics.median(own) for own in times]


def markdown(results: dict[str, Any]) -> str:
    """The figures as tables."""
    lines = [
        "# Wired layers\n",
        f"{results['machine']}. Forward and backward, medians of turns of three calls each.\n",
        "512 channels, 64 nodes; times over a dense 512 x 512 layer's.\n",
        "| k (p), batch | masked | ours | to reach | plan | ours, ms | dense, ms |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in results["linear"]:
        lines.append(
            f"| {r['k']} ({r['p']}), {r['batch']} | {r['masked_over_dense']:.2f} "
            f"| {r['ours_over_dense']:.2f} | {BEST[r['k'], r['p']]:.2f} | {r['plan']} "
            f"| {r['ours_ms']:.2f} | {r['dense_ms']:.2f} |"
        )
    lines += [
        "\nAt the width that costs what a dense 512 x 512 layer does, batch 512, over its time:\n",
        "| k (p), width | masked | ours | plan |",
        "| --- | --- | --- | --- |",
    ]
    for r in results["matched_width"]:
        lines.append(
            f"| {r['k']} ({r['p']}), {r['width']} | {r['masked_over_dense']:.2f} "
            f"| {r['ours_over_dense']:.2f} | {r['plan']} |"
        )
    lines += [
        "\n3x3 convolution, 256 channels, 8 images of 14 x 14, ms:\n",
        "| k (p) | masked | ours | dense |",
        "| --- | --- | --- | --- |",
    ]
    for r in results["convolution"]:
        lines.append(
            f"| {r['k']} ({r['p']}) | {r['masked_ms']:.1f} | {r['ours_ms']:.1f} "
            f"| {r['dense_ms']:.1f} |"
        )
    lines += [
        "\nPerceptrons of 5 layers trained at once, batch 128, ms a step of all:\n",
        "| width, graphs | one by one | stacked | speedup |",
        "| --- | --- | --- | --- |",
    ]
    for r in results["stacked"]:
        lines.append(
            f"| {r['width']}, {r['graphs']} | {r['apart_ms']:.1f} | {r['stacked_ms']:.1f} "
            f"| {r['speedup']:.1f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
