"""Read a relational graph from a dense MLP while it trains on JPEG CIFAR-10.

    python experiments/relational_reading/run.py

needs ``images/cifar10_jpeg.npz`` of the data folder (``WEIGHTSPACE_DATA``) and writes
``results/reading.json`` and ``results/table.md``.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weightspace.cli.output import write_json, write_text
from weightspace.relational.from_weights import (
    compare_with_nulls,
    hidden_weights,
    layer_block_norms,
    read_graphs,
    shuffled_weights,
)
from weightspace.zoo.data_folder import named_images

RESULTS = Path(__file__).parent / "results"
WIDTH, LAYERS, NODES = 512, 5, 64
BATCH, RATE, DECAY = 128, 0.1, 5e-4
SHARES = (0.1, 0.15, 0.2, 0.3)
LOOKED_AT = (0, 1, 2, 4)

Row = dict[str, Any]


def main() -> None:
    """Train with every seed, look at the weights now and then, and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--images", type=int, default=20_000)
    options = parser.parse_args()
    images = named_images("cifar10-jpeg")
    train = flat(images.train[: options.images]), images.train_labels[: options.images]
    test = flat(images.test), images.test_labels
    rows = [
        row for seed in range(options.seeds) for row in trained(train, test, seed, options.epochs)
    ]
    write_json(RESULTS / "reading.json", {"settings": vars(options), "rows": rows})
    text = table(rows)
    write_text(RESULTS / "table.md", text)
    print(text)


def flat(images: Tensor) -> Tensor:
    """Images as rows of values in [-1, 1]."""
    return images.flatten(1) * 2 - 1


def network() -> nn.Sequential:
    """The published MLP: five layers, batch norm and ReLU after all but the last."""
    sizes = [3072, *[WIDTH] * (LAYERS - 1)]
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b, bias=False), nn.BatchNorm1d(b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 10))


def trained(
    train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], seed: int, epochs: int
) -> Iterator[Row]:
    """What is read from the weights at some epochs."""
    torch.manual_seed(seed)
    net = network()
    optimiser = torch.optim.SGD(
        net.parameters(), RATE, momentum=0.9, weight_decay=DECAY, nesterov=True
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for epoch in range(epochs + 1):
        if epoch in LOOKED_AT or epoch == epochs:
            yield from looked(net, test, seed, epoch)
        if epoch == epochs:
            return
        net.train()
        for batch in torch.randperm(len(train[0])).split(BATCH):
            loss = nn.functional.cross_entropy(net(train[0][batch]), train[1][batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()


def looked(net: nn.Module, test: tuple[Tensor, Tensor], seed: int, epoch: int) -> Iterator[Row]:
    """The graphs of the weights as they are, with their null models."""
    net.eval()
    with torch.no_grad():
        error = 100 * float((net(test[0]).argmax(1) != test[1]).float().mean())
    weights = hidden_weights(net)
    shuffled = read_graphs(
        layer_block_norms(shuffled_weights(weights, seed=seed), NODES), shares=SHARES
    )
    graphs = read_graphs(layer_block_norms(weights, NODES), shares=SHARES)
    for read, chance in zip(graphs, shuffled, strict=True):
        row: Row = {
            "seed": seed,
            "epoch": epoch,
            "error": error,
            "share": read.share,
            "parts": read.parts,
            "clustering": read.clustering,
            "path_length": read.path_length,
            "shuffled_clustering": chance.clustering,
            "shuffled_path_length": chance.path_length,
        }
        if read.parts == 1:
            row["nulls"] = {
                name: vars(found) for name, found in compare_with_nulls(read, seed=seed).items()
            }
        print(row["epoch"], f"{error:.1f}", read.share, read.parts, f"{read.clustering:.3f}")
        yield row


def table(rows: list[Row]) -> str:
    """Means over seeds."""
    lines = [
        "| pairs kept | epoch | error, % | C | L | C, Erdos-Renyi | L, Erdos-Renyi "
        "| C, equal degrees | L, equal degrees | C, shuffled | connected |",
        "|" + " --- |" * 11,
    ]
    for share in SHARES:
        for epoch in sorted({row["epoch"] for row in rows}):
            own = [row for row in rows if (row["share"], row["epoch"]) == (share, epoch)]
            lines.append(_line(share, epoch, own))
    return "\n".join(lines) + "\n"


def _line(share: float, epoch: int, rows: list[Row]) -> str:
    whole = [row for row in rows if row["parts"] == 1]
    cells = [
        f"{100 * share:g} %",
        str(epoch),
        _mean([row["error"] for row in rows], 1),
        _mean([row["clustering"] for row in rows], 3),
        _mean([row["path_length"] for row in whole], 3),
    ]
    for name in ("erdos-renyi", "degree-preserving"):
        for measure in ("clustering", "path_length"):
            cells.append(_mean([row["nulls"][name][measure] for row in whole], 3))
    cells.append(_mean([row["shuffled_clustering"] for row in rows], 3))
    cells.append(f"{len(whole)} of {len(rows)}")
    return f"| {' | '.join(cells)} |"


def _mean(values: list[float], digits: int) -> str:
    return f"{np.mean(values):.{digits}f}" if values else "-"


if __name__ == "__main__":
    main()
