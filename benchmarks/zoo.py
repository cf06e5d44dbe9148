"""How fast and with how much memory a zoo is read.

A zoo of small SIRENs (2-32-32-1) is written to a temporary folder; a fresh process opens
it and reads every network once in random batches. The reference reads batches of the same
size from one safetensors file a network.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from harness import compare, parser, peak_mb, report
from weightspace.graph import Activation, GraphSpec, chain_spec
from weightspace.zoo import Zoo, ZooWriter

SPEC: GraphSpec = chain_spec([2, 32, 32, 1], activations=Activation.of("sine", w0=30.0))


def main() -> None:
    """Measure, print and write the figures."""
    options = parser(__doc__)
    options.add_argument("--networks", type=int, default=60_000)
    options.add_argument("--part", type=int, default=1_000, help="networks a shard")
    options.add_argument("--batch", type=int, default=64)
    options.add_argument("--reference-networks", type=int, default=2_000)
    options.add_argument("--reader", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.reader is not None:
        print(json.dumps(read_all(given.reader, given.batch)))
        return
    with tempfile.TemporaryDirectory() as folder:
        zoo = make_zoo(Path(folder) / "zoo", given.networks, given.part)
        files = make_files(Path(folder) / "files", min(given.reference_networks, given.networks))
        command = [sys.executable, __file__, "--reader", str(zoo), "--batch", str(given.batch)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        results = json.loads(done.stdout)
        results |= against_files(zoo, files, given.batch)
    title = f"Reading a zoo: {given.networks} networks of {SPEC.parameter_count} weights"
    report(title, {"batch": given.batch, **results}, given.json)


def make_zoo(path: Path, networks: int, part_size: int) -> Path:
    """Write networks with random weights."""
    writer = ZooWriter(path, specs=[SPEC], recipe={"name": "benchmark"})
    generator = torch.Generator().manual_seed(0)
    for part, start in enumerate(range(0, networks, part_size)):
        count = min(part_size, networks - start)
        stacked = {
            p.name: torch.randn(count, *p.shape, generator=generator) for p in SPEC.parameters
        }
        rows = [{"label": i % 10, "source": i} for i in range(start, start + count)]
        writer.write_part(part, stacked, rows)
    writer.finish()
    return path


def make_files(path: Path, networks: int) -> list[Path]:
    """Write one safetensors file a network."""
    path.mkdir()
    files = [path / f"{index:06d}.safetensors" for index in range(networks)]
    for file in files:
        save_file({p.name: torch.randn(p.shape) for p in SPEC.parameters}, file)
    return files


def read_all(path: Path, batch: int) -> dict[str, float]:
    """Open a zoo and read all of it once, in random batches."""
    start = time.perf_counter()
    zoo = Zoo.open(path)
    opened = time.perf_counter() - start
    order = torch.randperm(len(zoo), generator=torch.Generator().manual_seed(1))
    durations = []
    for indices in order.split(batch):
        start = time.perf_counter()
        zoo.states(indices)
        durations.append(time.perf_counter() - start)
    results = {
        "open_seconds": opened,
        "networks_per_second": batch / statistics.median(durations),
        "networks_per_second_mean": len(zoo) / sum(durations),
        "reader_mb": peak_mb(),
    }
    zoo.column("label")
    return {**results, "reader_with_labels_mb": peak_mb()}


def against_files(path: Path, files: list[Path], batch: int) -> dict[str, float]:
    """Random batches of the zoo and of single files, taking turns."""
    zoo = Zoo.open(path)
    generator = torch.Generator().manual_seed(2)

    def from_zoo() -> None:
        zoo.states(torch.randint(len(zoo), (batch,), generator=generator))

    def from_files() -> None:
        chosen = torch.randint(len(files), (batch,), generator=generator).tolist()
        states = [load_file(files[index]) for index in chosen]
        _ = {name: torch.stack([state[name] for state in states]) for name in states[0]}

    zoo_seconds, file_seconds = compare(from_zoo, from_files, repeats=50)
    return {
        "reference_networks_per_second": batch / file_seconds,
        "ratio": file_seconds / zoo_seconds,
    }


if __name__ == "__main__":
    main()
