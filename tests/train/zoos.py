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


MIXED_SPECS = (
    SPEC,
    chain_spec([2, 5, 1], activations="tanh"),
    chain_spec([2, 4, 4, 1], activations="tanh"),
)


def measured_zoo(folder: Path, networks: int = 120, *, mixed: bool = True) -> Zoo:
    """Networks of one or three specs; ``size`` is how large the last layer is, up to noise.

    Also the columns ``loss`` (the same on another scale), ``share`` (in [0, 1]), ``family``
    (the spec), ``name`` (a text of its own), ``constant``, ``partly`` (missing for a fifth of
    the networks) and ``diverged`` (true for the last network, whose weights are not numbers).
    """
    specs = MIXED_SPECS if mixed else MIXED_SPECS[:1]
    generator = torch.Generator().manual_seed(1)
    writer = ZooWriter(folder, specs=specs, recipe={"name": "measured"}, parts=len(specs))
    each, number = networks // len(specs), 0
    splits: dict[str, list[int]] = {"train": [], "val": [], "test": []}
    for index, spec in enumerate(specs):
        size = torch.rand(each, generator=generator)
        stacked = {
            p.name: torch.randn(each, *p.shape, generator=generator) for p in spec.parameters
        }
        last = spec.parameters[-2].name
        stacked[last] *= (4.0 ** (2 * size - 1))[:, None, None]
        rows = []
        for i, value in enumerate(size.tolist()):
            splits[("train", "train", "val", "test")[i % 4]].append(number)
            rows.append(
                {
                    "size": value,
                    "loss": 1e4 + 300 * value,
                    "share": value,
                    "label": int(3 * value),
                    "family": index,
                    "name": f"network {number}",
                    "constant": 1.5,
                    "partly": None if i % 5 == 0 else value,
                    "diverged": False,
                }
            )
            number += 1
        if index == len(specs) - 1:
            rows[-1]["diverged"] = True
            stacked[last][-1] = float("nan")
        writer.write_part(index, stacked, rows, spec=index)
    return writer.finish(splits=splits)
