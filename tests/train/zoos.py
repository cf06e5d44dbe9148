"""A small zoo whose labels can be read from the weights' function, made without fitting."""

from __future__ import annotations

from pathlib import Path

import torch

from weightspace.graph import chain_spec
from weightspace.zoo import Zoo, ZooWriter

SPEC = chain_spec([2, 6, 1], activations="tanh")


def labelled_zoo(folder: Path, networks: int = 90) -> Zoo:
    """Networks of three classes: the scale of the last layer tells which."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(networks) % 3
    stacked = {
        p.name: torch.randn(networks, *p.shape, generator=generator) for p in SPEC.parameters
    }
    stacked["1.weight"] *= 4.0 ** (labels[:, None, None] - 1)
    writer = ZooWriter(folder, specs=[SPEC], recipe={"name": "labelled"})
    writer.write_part(0, stacked, [{"label": int(label)} for label in labels])
    third = networks // 3
    return writer.finish(
        splits={
            "train": list(range(third)),
            "validation": list(range(third, 2 * third)),
            "test": list(range(2 * third, networks)),
        }
    )
