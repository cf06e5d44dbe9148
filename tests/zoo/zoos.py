"""Zoos that the store's tests read."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weightspace.graph import Activation, GraphSpec, LeftOut, Parameter, chain_spec
from weightspace.zoo import Zoo, ZooWriter
from weightspace.zoo.shards import spec_tensors

SIREN = chain_spec([2, 4, 1], activations=Activation.of("sine", w0=30.0))
MLP = chain_spec([3, 5, 2], activations="relu")
RECIPE: dict[str, Any] = {"name": "random", "steps": 100, "sizes": [2, 4, 1]}


def with_counter(spec: GraphSpec, dtype: str = "int64") -> GraphSpec:
    """A spec with a scalar tensor that the graph leaves out, such as a norm's counter."""
    counter = Parameter("num_batches_tracked", (), dtype, buffer=True)
    return dataclasses.replace(spec, left_out=(LeftOut(counter, "a counter"),))


def random_states(spec: GraphSpec, networks: int, seed: int = 0) -> dict[str, Tensor]:
    """Random bytes as weights, apart from NaN and infinity."""
    generator = torch.Generator().manual_seed(seed)
    states = {}
    for parameter in spec_tensors(spec):
        dtype = getattr(torch, parameter.dtype)
        normal = torch.randn(networks, *parameter.shape, generator=generator)
        states[parameter.name] = (normal if dtype.is_floating_point else normal * 100).to(dtype)
    return states


def rows(first: int, count: int) -> list[dict[str, Any]]:
    """Labels, a metric that is sometimes NaN, and sources of three networks each."""
    nan = float("nan")
    return [
        {"label": i % 10, "psnr": i / 3 if i % 7 else nan, "source": f"image {i // 3}"}
        for i in range(first, first + count)
    ]


def make_zoo(
    path: Path, parts: list[tuple[GraphSpec, int]], **finishing: Any
) -> tuple[Zoo, list[dict[str, Tensor]]]:
    """Write a zoo of random networks; returns it and each part's weights."""
    specs = list(dict.fromkeys(spec for spec, _ in parts))
    writer = ZooWriter(path, specs=specs, recipe=RECIPE)
    states = []
    first = 0
    for number, (spec, count) in enumerate(parts):
        states.append(random_states(spec, count, seed=number))
        writer.write_part(number, states[-1], rows(first, count), spec=specs.index(spec))
        first += count
    return writer.finish(**finishing), states


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
