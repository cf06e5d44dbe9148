"""Reading ViT-B/16, a graph of 86 million weights, with the linear NG-GNN.

Four layers of width 64, both directions, three lifts of every weight: 24 products of all weights
with node states of that width. The reference is as many plain matrix products of the same
tensors, nothing else; it takes turns with the model in the same process.

    python benchmarks/huge_network.py --json huge_network.json

``seconds`` is the median of inference from the graph to the output; ``peak_mb_beyond_weights``
the largest resident memory above that of the loaded network, its spec and its graph's own tensors
included; ``train_peak_gb`` the same over training steps (forwards, backwards into all parameters).
``supernode_seconds`` and ``supernode_error`` are inference with at most 64 supernodes a layer and
the relative error of its embedding (of random weights, which have no groups to be found).
``second_pass_seconds`` is inference on a copy with one changed block through a node-state cache
that has seen the network.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from harness import compare, parser, peak_mb, report
from weightspace.graph import NeuralGraph
from weightspace.importers.from_module import module_spec
from weightspace.models import NGGNNLinear, Predictor, Requirements
from weightspace.models.supernode_error import supernode_error
from weightspace.nn.product_cache import ProductCache
from weightspace.train import keep_freed_memory

WIDTH, LAYERS = 64, 4


def vision_transformer() -> tuple[nn.Module, dict[str, Tensor]]:
    """ViT-B/16 with random weights, and inputs to trace it with."""
    from transformers import ViTConfig, ViTForImageClassification  # noqa: PLC0415 (slow to load)

    torch.manual_seed(0)
    module = ViTForImageClassification(ViTConfig(num_labels=1000)).eval()
    return module, {"pixel_values": torch.zeros(1, 3, 224, 224)}


def graph_of(spec: object, module: nn.Module) -> NeuralGraph:
    """The network's graph over its own memory: dense blocks are views."""
    return NeuralGraph.from_stacked(
        spec, {name: tensor.detach()[None] for name, tensor in module.state_dict().items()}
    )


def resident_mb() -> float:
    """The resident memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def peak_during(function: Callable[[], object]) -> float:
    """The largest resident memory while a function runs, in megabytes."""
    Path("/proc/self/clear_refs").write_text("5")
    function()
    return peak_mb()


def plain_products(graph: NeuralGraph) -> Callable[[], None]:
    """As many products of all weights with states as the model takes, each in one call."""
    matrices = [
        tensor[0, 0, :, :, channel]
        for tensor in graph.edges.values()
        if tensor.shape[1] == 1
        for channel in range(tensor.shape[-1])
        if min(tensor.shape[2:4]) > 3
    ]
    states = torch.randn(max(max(m.shape) for m in matrices), WIDTH)

    def run() -> None:
        for _ in range(3 * LAYERS):
            for matrix in matrices:
                _ = matrix @ states[: matrix.shape[1]]
                _ = matrix.T @ states[: matrix.shape[0]]

    return run


def step(model: Predictor, graph: NeuralGraph) -> None:
    """One training step without the optimiser's."""
    model.zero_grad(set_to_none=True)
    model(graph).square().sum().backward()


def timed(function: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    """Measure and report."""
    arguments = parser(__doc__)
    arguments.add_argument("--repeats", type=int, default=3)
    options = arguments.parse_args()
    keep_freed_memory()
    module, inputs = vision_transformer()
    spec = module_spec(module, inputs)
    weights = resident_mb()
    graph = graph_of(spec, module)
    model = Predictor(NGGNNLinear(Requirements.of([spec]), width=WIDTH, layers=LAYERS), outputs=10)
    model.eval()
    with torch.no_grad():
        peak = peak_during(lambda: model(graph)) - weights
        seconds, reference = compare(
            lambda: model(graph), plain_products(graph), repeats=options.repeats
        )
        results: dict[str, float | int | str] = {
            "edges": spec.edge_count,
            "weights": spec.parameter_count,
            "seconds": seconds,
            "reference_seconds": reference,
            "ratio": reference / seconds,
            "peak_mb_beyond_weights": peak,
            **supernode_figures(model, graph),
            **cache_figures(model, graph, spec, module),
        }
    model.train()
    train_peak = peak_during(lambda: step(model, graph)) - weights
    train = statistics.median(timed(lambda: step(model, graph)) for _ in range(options.repeats))
    results |= {"train_seconds": train, "train_peak_gb": train_peak / 1e3}
    report("Reading ViT-B/16 with the linear NG-GNN", results, options.json)


def supernode_figures(model: Predictor, graph: NeuralGraph) -> dict[str, float]:
    """Reading with supernodes."""
    model.trunk.supernodes = 64
    seconds = timed(lambda: model(graph))
    model.trunk.supernodes = 0
    error = supernode_error(model, graph, supernodes=64)
    return {"supernode_seconds": seconds, "supernode_error": error}


def cache_figures(
    model: Predictor, graph: NeuralGraph, spec: object, module: nn.Module
) -> dict[str, float]:
    """Reading a copy of a seen network, one block of which was fine-tuned."""
    cache = ProductCache(most_bytes=2 << 30)
    model.trunk.products = cache
    first = timed(lambda: model(graph))
    with torch.no_grad():
        dict(module.named_parameters())["classifier.weight"].mul_(1.1)
    hits, misses = cache.hits, cache.misses
    changed = graph_of(spec, module)
    second = timed(lambda: model(changed))
    found = {
        "cached_pass_seconds": first,
        "second_pass_seconds": second,
        "second_pass_hits": cache.hits - hits,
        "second_pass_misses": cache.misses - misses,
        "cache_mb": cache.held_bytes / 1e6,
    }
    model.trunk.products = None
    return found


if __name__ == "__main__":
    main()
