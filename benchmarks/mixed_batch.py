"""A training step on 64 different CNNs against one on 64 CNNs of one architecture.

Every network of the mixed batch has its own depth, widths, kernels and activations; the uniform
batch has as many connections. Both go through the same NG-GNN, with the passes compiled as in
training where there is a compiler (``plain_*`` are without), and take turns.

    python benchmarks/mixed_batch.py --json mixed_batch.json
"""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from torch import nn

from harness import compare, parser, report
from weightspace import from_module
from weightspace.graph import MixedGraph, NeuralGraph
from weightspace.models import NGGNN, Predictor, Requirements
from weightspace.nn import arrange, fuse_kernels
from weightspace.train import keep_freed_memory

ACTIVATIONS = (nn.ReLU, nn.GELU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU)


def cnn(widths: list[int], kernels: list[int], functions: list[type[nn.Module]]) -> nn.Module:
    """A small CNN: convolutions, a global average pool, a linear layer."""
    steps: list[nn.Module] = []
    before = 1
    for width, kernel, function in zip(widths, kernels, functions, strict=True):
        steps += [nn.Conv2d(before, width, kernel, stride=2, padding=kernel // 2), function()]
        before = width
    return nn.Sequential(*steps, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


def different_cnns(count: int, seed: int) -> list[NeuralGraph]:
    """CNNs of which no two have the same architecture."""
    choose, found = random.Random(seed), {}
    while len(found) < count:
        depth = choose.randint(2, 5)
        widths = [choose.choice((4, 8, 16, 32)) for _ in range(depth)]
        kernels = [choose.choice((3, 5)) for _ in range(depth)]
        functions = [choose.choice(ACTIVATIONS) for _ in range(depth)]
        graph = from_module(cnn(widths, kernels, functions), torch.zeros(1, 1, 28, 28))
        found.setdefault(graph.spec, graph)
    return list(found.values())


def main() -> None:
    """Measure and report."""
    arguments = parser(__doc__)
    arguments.add_argument("--batch", type=int, default=64)
    arguments.add_argument("--repeats", type=int, default=9)
    options = arguments.parse_args()
    keep_freed_memory()
    torch.manual_seed(0)
    mixed = MixedGraph.of(different_cnns(options.batch, seed=0))
    edges = arrange(mixed).edge_count
    uniform = MixedGraph.of([_of_size(edges // options.batch)] * options.batch)
    model = Predictor(NGGNN(Requirements.of([*mixed.specs, *uniform.specs])), outputs=10)
    model.fit_normalisation(MixedGraph.of([*mixed.networks(), *uniform.networks()]))
    labels = torch.arange(options.batch) % 10

    def step(batch: MixedGraph) -> None:
        model.zero_grad(set_to_none=True)
        F.cross_entropy(model(batch), labels).backward()

    model.eval()
    with torch.no_grad():
        alone = torch.cat([model(network) for network in mixed.networks()])
        difference = float((model(mixed) - alone).abs().max())
    model.train()
    several, one = compare(lambda: step(mixed), lambda: step(uniform), repeats=options.repeats)
    plain = {"plain_mixed_ms": several * 1e3, "plain_ratio": several / one}
    if fuse_kernels():
        several, one = compare(lambda: step(mixed), lambda: step(uniform), repeats=options.repeats)
    first, again = compare(
        lambda: step(MixedGraph.of(mixed.networks())), lambda: step(mixed), repeats=3
    )
    results = {
        "architectures": len(mixed.parts),
        "edges": edges,
        "uniform_edges": arrange(uniform).edge_count,
        "mixed_ms": several * 1e3,
        "reference_ms": one * 1e3,
        "ratio": several / one,
        "collation_ms": (first - again) * 1e3,
        "max_difference_to_alone": difference,
        **plain,
    }
    report("A mixed batch", results, options.json)


def _of_size(edges: int) -> NeuralGraph:
    """A CNN of three equal layers with about so many connections."""
    width = min(range(2, 65), key=lambda w: abs(w + 2 * w * w + 10 * w - edges))
    functions: list[type[nn.Module]] = [nn.ReLU] * 3
    return from_module(cnn([width] * 3, [3, 3, 3], functions), torch.zeros(1, 1, 28, 28))


if __name__ == "__main__":
    main()
