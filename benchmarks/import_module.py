"""How long it takes to read a large module as a neural graph, and how much memory.

ResNet-50 and ViT-B/16 (with random weights, from the configurations of transformers) are
imported and checked with two random group elements, each in a fresh process that has done
nothing before. The reference, in the same process and afterwards, is what cannot be done
without: ``torch.export`` alone, and running the network.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from harness import compare, parser, peak_mb, report, seconds
from weightspace import from_module

NETWORKS = ("resnet50", "vit_b_16")


def main() -> None:
    """Measure, print and write the figures."""
    options = parser(__doc__)
    options.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--alone", choices=NETWORKS, help=argparse.SUPPRESS)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    if given.alone is not None:
        print(json.dumps(measure(given.alone)))
        return
    results: dict[str, float] = {}
    for name in given.networks:
        command = [sys.executable, __file__, "--alone", name, "--threads", str(given.threads)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        figures = json.loads(done.stdout.splitlines()[-1])
        results |= {f"{name}_{key}": value for key, value in figures.items()}
    report("Importing and checking modules", results, given.json)


def build(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """A network of the usual size, and one image."""
    from transformers import (  # noqa: PLC0415 (only the process that measures needs it)
        ResNetConfig,
        ResNetForImageClassification,
        ViTConfig,
        ViTForImageClassification,
    )

    torch.manual_seed(0)
    module: nn.Module = (
        ResNetForImageClassification(ResNetConfig(num_labels=1000))
        if name == "resnet50"
        else ViTForImageClassification(ViTConfig(num_labels=1000))
    )
    return module.eval(), {"pixel_values": torch.randn(1, 3, 224, 224)}


def measure(name: str) -> dict[str, float]:
    """All figures of one network, in this process."""
    warnings.simplefilter("ignore")
    module, inputs = build(name)
    with torch.no_grad():
        module(**inputs)
    size = sum(tensor.nbytes for tensor in module.state_dict().values())
    forget_peak()
    before = peak_mb()
    start = time.perf_counter()
    graph = from_module(module, inputs)
    imported = time.perf_counter()
    change = graph.symmetry.check(module, inputs, samples=2).max_relative_change
    checked = time.perf_counter()
    extra = peak_mb() - before
    del graph
    again, export = compare(
        lambda: from_module(module, inputs), lambda: exported(module, inputs), repeats=3
    )
    return {
        "parameters": sum(p.numel() for p in module.parameters()),
        "model_mb": size / 1e6,
        "import_seconds": imported - start,
        "check_seconds": checked - imported,
        "total_seconds": checked - start,
        "extra_memory_mb": extra,
        "extra_memory_ratio": 1e6 * extra / size,
        "largest_change": change,
        "import_again_seconds": again,
        "reference_export_seconds": export,
        "reference_run_seconds": seconds(lambda: run(module, inputs), repeats=3),
        "ratio": again / export,
    }


def exported(module: nn.Module, inputs: dict[str, Tensor]) -> object:
    """The graph of core operations, by torch alone."""
    with torch.no_grad():
        program = torch.export.export(module, (), inputs, strict=False)
        return program.run_decompositions()


def run(module: nn.Module, inputs: dict[str, Tensor]) -> object:
    """One forward pass."""
    with torch.no_grad():
        return module(**inputs)


def forget_peak() -> None:
    """Start the record of the largest resident memory again, where the system can."""
    record = Path("/proc/self/clear_refs")
    if record.exists():
        record.write_text("5")


if __name__ == "__main__":
    main()
