"""A training step of every metanetwork at its published size.

64 networks SIREN 2-32-32-1, forward and backward in training mode on two threads. Each model takes
turns with a plain dense reference (``plain_*.py``): the same mathematics with the model's own
parameters in straightforward PyTorch, every temporary written out; its outputs must agree.

    python benchmarks/metanetworks.py --json metanetworks.json

With ``--only`` the figures of the other models in the file stay. A table of the file lies beside
it as ``.md``. For each model:

- ``ms`` and ``reference_ms``: medians; ``max_difference``: of the outputs of both;
- ``peak_mb``: how much three steps raise the largest resident memory of a fresh process that
  holds model and networks, so the gradients are in it and the parameters are not;
- ``matmul_fraction``: the time that the step's necessary matrix products, forward and backward,
  would take at ``matmul_gflops``, what this process reaches with matrices of 2048 x 2048, by
  ``ms``. Operations (``gflop``) are those of the reference's products as torch counts them, less
  what a reordering of its linear maps spares (``spared`` of the reference).

Passes over edges and pairs are compiled, as in training, where there is a compiler: those of
NG-GNN, ``ng-t`` and ``ng-t-edges``. For NG-GNN ``plain_ms`` is without them, and ``edge_list_ms``
the same mathematics on an edge list in PyTorch Geometric (``edge_list.py``), again in turns with
the model.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.markdown import Markdown

from harness import compare, machine, parser, peak_mb, seconds
from plain_layers import PlainReference, matrix_flops
from plain_ng_gnn import PlainNGGNN
from plain_relational import PlainNGT, PlainNGTEdges
from plain_scale_gmn import PlainScaleGMN
from plain_weight_space import PlainDWS, PlainNFN
from weightspace.graph import NeuralGraph
from weightspace.models import Predictor, Requirements, make_model
from weightspace.nn import fuse_kernels
from weightspace.train import keep_freed_memory
from weightspace.zoo import PUBLISHED, siren_spec
from weightspace.zoo.siren import initial_states

BATCH, THREADS, WIDTHS = 64, 2, [2, 32, 32, 1]
COMMAND = "python benchmarks/metanetworks.py"
Figures = dict[str, float]


@dataclass(frozen=True)
class Case:
    """A model at its published size.

    Args:
        reference: the same mathematics, plainly.
        options: that differ from the model's own defaults.
        repeats: of the comparison.
        wanted: the figures that were set as a goal.
        published_ms: what the published code took for such a step, on another machine.
    """

    reference: Callable[[Predictor], PlainReference]
    options: Mapping[str, int] = field(default_factory=dict)
    repeats: int = 7
    wanted: str = ""
    published_ms: int | None = None


CASES = {
    "ng-gnn": Case(PlainNGGNN, repeats=9, wanted="200 ms compiled", published_ms=1365),
    "ng-t": Case(PlainNGT, repeats=3, wanted="3000 ms, 1500 MB", published_ms=9616),
    "ng-t-edges": Case(PlainNGTEdges, repeats=5, wanted="800 ms"),
    "dws": Case(PlainDWS, repeats=15, wanted="80 ms", published_ms=324),
    "nfn-np": Case(PlainNFN, {"width": 512, "head": 1000}, 5, wanted="2500 ms", published_ms=4529),
    "scale-gmn": Case(PlainScaleGMN, repeats=3, wanted="4000 ms", published_ms=14110),
}


def networks() -> NeuralGraph:
    """The batch."""
    states = initial_states(WIDTHS, PUBLISHED, range(BATCH))
    return NeuralGraph.from_stacked(siren_spec(WIDTHS, PUBLISHED), states)


def model_of(name: str, graph: NeuralGraph) -> Predictor:
    """A model that reads the batch."""
    torch.manual_seed(0)
    options = CASES[name].options
    return make_model(name, Requirements.of([graph.spec]), outputs=10, options=options)


def step_of(module: torch.nn.Module, graph: NeuralGraph) -> Callable[[], None]:
    """A training step but for the optimiser."""
    labels = torch.arange(BATCH) % 10

    def step() -> None:
        module.zero_grad(set_to_none=True)
        F.cross_entropy(module(graph), labels).backward()

    return step


def measure(name: str, repeats: int | None = None) -> Figures:
    """All figures of a model."""
    graph, case = networks(), CASES[name]
    repeats = repeats or case.repeats
    model = model_of(name, graph)
    reference = case.reference(model)
    difference = _difference(model, reference, graph)
    flops = matrix_flops(reference, graph)
    rate = matmul_rate()
    candidate = step_of(model, graph)
    own, plain = compare(candidate, step_of(reference, graph), repeats=repeats)
    return {
        "ms": own * 1e3,
        "peak_mb": _fresh_peak(name),
        "reference_ms": plain * 1e3,
        "matmul_fraction": flops / rate / own,
        "matmul_gflops": rate / 1e9,
        "gflop": flops / 1e9,
        "parameters": model.parameter_count,
        "max_difference": difference,
        **(_ng_gnn_figures(model, graph, repeats) if name == "ng-gnn" else {}),
    }


def matmul_rate(size: int = 2048) -> float:
    """Floating-point operations a second in the product of two float32 matrices."""
    one, other = torch.randn(2, size, size)
    result = torch.empty(size, size)
    return 2 * size**3 / seconds(lambda: torch.mm(one, other, out=result), warmup=2)


def _difference(model: Predictor, reference: PlainReference, graph: NeuralGraph) -> float:
    """The largest difference of outputs, relative to the largest output."""
    reference.eval()
    some = graph[[0, 1, 2, 3]]
    with torch.no_grad():
        plain = reference(some)
        found = float((model(some) - plain).abs().max() / plain.abs().max())
    reference.train()
    assert found < 1e-4, f"the outputs differ by {found}"
    return found


def _fresh_peak(name: str) -> float:
    command = [sys.executable, __file__, "--peak", name]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _peak(name: str) -> float:
    """How much training steps raise this process's largest resident memory."""
    graph = networks()
    step = step_of(model_of(name, graph).train(), graph)
    before = peak_mb()
    for _ in range(3):
        step()
    return peak_mb() - before


def _ng_gnn_figures(model: Predictor, graph: NeuralGraph, repeats: int) -> Figures:
    from edge_list import EdgeListReference  # noqa: PLC0415 (PyTorch Geometric, for this alone)

    listed = EdgeListReference(model, graph)
    candidate, reference = step_of(model, graph), step_of(listed, graph)
    own, edges = compare(candidate, reference, repeats=repeats)
    fuse_kernels(False)
    plain, _ = compare(candidate, reference, repeats=repeats)
    fuse_kernels()
    return {"plain_ms": plain * 1e3, "edge_list_ms": edges * 1e3, "ratio_edge_list": edges / own}


def table(results: Mapping[str, Figures]) -> str:
    """The figures as Markdown."""
    head = [
        "model",
        "ms",
        "wanted",
        "published code, another machine, ms",
        "plain reference, same process, ms",
        "peak MB",
        "matmul fraction",
    ]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for name, case in CASES.items():
        if name in results:
            found = results[name]
            plain = f" ({found['plain_ms']:,.0f} not compiled)" if "plain_ms" in found else ""
            rows.append(
                [
                    name,
                    f"{found['ms']:,.0f}{plain}",
                    case.wanted,
                    "" if case.published_ms is None else f"{case.published_ms:,}",
                    f"{found['reference_ms']:,.0f}",
                    f"{found['peak_mb']:,.0f}",
                    f"{found['matmul_fraction']:.2f}",
                ]
            )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def write(results: Mapping[str, Figures], path: Path) -> None:
    """Write the figures, beside those of other models that the file has, and their table."""
    known = json.loads(path.read_text()) if path.exists() else {}
    title = f"Training step of metanetworks, {BATCH} SIRENs 2-32-32-1"
    about = {"benchmark": title, "command": COMMAND, "machine": machine()}
    data = about | {name: (known | results)[name] for name in CASES if name in known | results}
    path.write_text(json.dumps(data, indent=1) + "\n")
    rates = [data[name]["matmul_gflops"] for name in CASES if name in data]
    notes = (
        f"Forward and backward, medians; {machine()}; matrix products of 2048 x 2048 reach "
        f"{min(rates):.0f} to {max(rates):.0f} GFLOP/s. From `{COMMAND} --json {path.name}`, "
        "whose docstring says what each column is."
    )
    page = f"# {title}\n\n{table(data)}\n\n{notes}\n"
    path.with_suffix(".md").write_text(page)


def main() -> None:
    """Measure and report."""
    arguments = parser(__doc__)
    arguments.formatter_class = argparse.RawDescriptionHelpFormatter
    arguments.add_argument("--only", choices=CASES, help="measure this model alone")
    arguments.add_argument("--repeats", type=int, help="instead of each model's own number")
    arguments.add_argument("--peak", choices=CASES, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    keep_freed_memory()
    fuse_kernels()
    torch.set_num_threads(THREADS)
    if options.peak:
        print(_peak(options.peak))
        return
    results = {}
    for name in [options.only] if options.only else CASES:
        results[name] = measure(name, options.repeats)
        if options.json is not None:
            write(results, options.json)
    Console().print(Markdown(table(results)), json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
