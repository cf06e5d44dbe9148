"""Sweep wirings of a small MLP and a small CNN on JPEG CIFAR-10, and analyse them.

    python experiments/relational_sweep/run.py

needs ``images/cifar10_jpeg.npz`` and ``connectomes/connectomes.npz`` of the data folder
(``WEIGHTSPACE_DATA``). It writes the runs, ``results/analysis.json``, ``results/report.html`` and
``results/table.md``. Interrupted, the same command goes on; ``--analyse`` only analyses what is
there.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from weightspace.cli.output import write_json, write_text
from weightspace.relational import RelationalGraph, connectome
from weightspace.relational.analysis import analyse, read_results, to_plain
from weightspace.report.relational_page import relational_page
from weightspace.train.sweeping import (
    CONTROLS,
    CnnNetwork,
    MlpNetwork,
    Sweep,
    SweepNetwork,
    Training,
    Wired,
    controls,
    read_graphs,
    run_sweep,
    sweep_data,
    wirings,
)
from weightspace.zoo.data_folder import data_file
from weightspace.zoo.recipe import LocalPool

RESULTS = Path(__file__).parent / "results"
RUNS = RESULTS / "runs"
IMAGES, SIZE, TRAIN, VALIDATION = "cifar10-jpeg", 8, 5_000, 2_000
TRAINING = Training(epochs=8)
CONTROLLED = 10
BRAINS = {
    "cat cortex": "cat_cortex",
    "macaque visual cortex": "macaque_visual_cortex",
    "macaque whole cortex": "macaque_whole_cortex",
}

Row = dict[str, Any]


def main() -> None:
    """Run what is missing, graphs before controls, then analyse all there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--analyse", action="store_true", help="run nothing")
    options = parser.parse_args()
    if not options.analyse:
        run(options.seeds, options.workers)
    analyse_runs()


def run(seeds: int, workers: int) -> None:
    """The MLP on 64 nodes is as wide as the largest brain has regions; the others have 16."""
    data = sweep_data(IMAGES, size=SIZE, train=TRAIN, validation=VALIDATION)
    large, small = wirings(read_graphs("published-52")), wirings(read_graphs("plane:52:16"))
    parts: list[tuple[str, SweepNetwork, Sequence[Wired]]] = [
        ("mlp", MlpNetwork(72), [*large, *controls(large, ["complete"])]),
        ("cnn", CnnNetwork(16), [*small, *controls(small, ["complete"])]),
        ("mlp", MlpNetwork(72), [*large, *compared(large), *wirings(brains(), kind="connectome")]),
        ("cnn", CnnNetwork(16), [*small, *compared(small)]),
        ("mlp-16", MlpNetwork(16, name="mlp-16"), [*small, *compared(small)]),
    ]
    for name, network, wired in parts:
        sweep = Sweep(wired, [network], [data], TRAINING, seeds)
        print(run_sweep(sweep, RUNS / f"{name}.parquet", engine=LocalPool(workers)), flush=True)


def compared(graphs: Sequence[Wired]) -> list[Wired]:
    """All controls."""
    return controls(graphs, [*CONTROLS], count=CONTROLLED)


def brains() -> list[RelationalGraph]:
    """The connectomes of the published study."""
    file = data_file("connectomes/connectomes.npz")
    return [RelationalGraph(connectome(file, key).adjacency, name) for name, key in BRAINS.items()]


def analyse_runs() -> None:
    """Write the analysis of all runs that are there."""
    found = analyse(read_results(RUNS))
    write_json(RESULTS / "analysis.json", to_plain(found))
    write_text(RESULTS / "report.html", relational_page(found, source="a small sweep"))
    rows = [
        row for file in sorted(RUNS.glob("*.parquet")) for row in pq.read_table(file).to_pylist()
    ]
    write_text(RESULTS / "table.md", table(rows))


def table(rows: Sequence[Row]) -> str:
    """Means over graphs and seeds, by network and kind, with what the networks cost."""
    lines = [
        "| network | kind | graphs | runs | test error, % | multiply-adds | parameters | seconds |",
        "|" + " --- |" * 8,
    ]
    ended = [row for row in rows if row["epoch"] == row["epochs"]]
    for network, kind in dict.fromkeys((row["network"], row["kind"]) for row in ended):
        own = [row for row in ended if (row["network"], row["kind"]) == (network, kind)]
        lines.append(_line(network, kind, own))
        if kind == "connectome":
            for name in dict.fromkeys(row["graph"] for row in own):
                lines.append(_line(network, name, [row for row in own if row["graph"] == name]))
    return "\n".join(lines) + "\n"


def _line(network: str, kind: str, rows: Sequence[Row]) -> str:
    cells = [
        network,
        kind,
        str(len({row["graph"] for row in rows})),
        str(len(rows)),
        f"{_mean(rows, 'error'):.2f}",
        f"{_mean(rows, 'flops'):,.0f}",
        f"{_mean(rows, 'parameters'):,.0f}",
        f"{sum(row['seconds'] for row in rows):,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _mean(rows: Sequence[Row], column: str) -> float:
    return float(sum(row[column] for row in rows) / len(rows))


if __name__ == "__main__":
    main()
