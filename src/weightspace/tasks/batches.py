"""Batches of networks out of a zoo, in an order that depends on seed and epoch alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int, Shaped
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from weightspace.graph import Batch, MixedGraph, NeuralGraph
from weightspace.zoo import Zoo

Augmentation = Callable[[dict[str, Tensor], torch.Generator], dict[str, Tensor]]
"""Changes every network of a stacked state dict at random."""


class NetworkBatch(NamedTuple):
    """Networks of a zoo of one or many specs, with a label each.

    Args:
        networks: the networks as graphs.
        rows: their numbers in the zoo.
        labels: what is to be learned of them, in the same order.
    """

    networks: Batch
    rows: Int[Tensor, " batch"]
    labels: Shaped[Tensor, "batch ..."]


def read_networks(zoo: Zoo, rows: Sequence[int] | Tensor) -> Batch:
    """Read networks of a zoo in the order of their numbers, whatever their specs.

    Args:
        zoo: the networks.
        rows: their numbers.

    Returns:
        A graph of one spec where the networks have one, a mixed one otherwise.
    """
    groups = zoo.groups(rows)
    parts = tuple(NeuralGraph.from_stacked(spec, state) for spec, _, state in groups)
    if len(parts) == 1:
        return parts[0]
    places = [place for _, found, _ in groups for place in found.tolist()]
    return MixedGraph(parts, tuple(sorted(range(len(places)), key=places.__getitem__)))


def network_batches(zoo: Zoo, rows: Sequence[int], batch_size: int = 64) -> Iterator[Batch]:
    """Read networks of a zoo a batch at a time, in the order of their numbers."""
    for start in range(0, len(rows), batch_size):
        yield read_networks(zoo, rows[start : start + batch_size])


def augmented(networks: Batch, augmentation: Augmentation, generator: torch.Generator) -> Batch:
    """Change networks at random.

    Args:
        networks: they are left as they are.
        augmentation: changes the networks of one spec; of a mixed batch, those of each.
        generator: the source of randomness, on the networks' device.
    """
    if isinstance(networks, MixedGraph):
        return networks.map_parts(lambda part: _augmented(part, augmentation, generator))
    return _augmented(networks, augmentation, generator)


class NetworkDataset(Dataset[NetworkBatch]):
    """Networks read from a zoo, a batch at a time.

    Args:
        zoo: the zoo, of one or many specs.
        rows: the numbers of the networks in it.
        labels: one for each of them.
    """

    def __init__(self, zoo: Zoo, rows: Sequence[int], labels: Tensor) -> None:
        self._zoo, self._rows, self._labels = zoo, torch.as_tensor(rows), labels

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, chosen: Sequence[int]) -> NetworkBatch:
        """Read the networks at these places."""
        places = torch.as_tensor(chosen)
        rows = self._rows[places]
        return NetworkBatch(read_networks(self._zoo, rows), rows, self._labels[places])


class EpochSampler(Sampler[list[int]]):
    """Batches of places, shuffled anew in every epoch.

    The order is a function of seed and epoch, so a run that was interrupted and resumed
    sees the same batches as one that was not.

    Args:
        count: how many networks there are.
        batch_size: how many a batch has; the last one may have fewer.
        seed: of the shuffling; None keeps the order.
    """

    def __init__(self, count: int, *, batch_size: int, seed: int | None) -> None:
        self._count, self._batch_size, self._seed = count, batch_size, seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch; Lightning calls this."""
        self._epoch = epoch

    def __len__(self) -> int:
        return math.ceil(self._count / self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        order: Int[Tensor, " networks"] = torch.arange(self._count)
        if self._seed is not None:
            generator = torch.Generator().manual_seed(mixed_seed(self._seed, self._epoch))
            order = torch.randperm(self._count, generator=generator)
        for part in order.split(self._batch_size):  # type: ignore[no-untyped-call]
            yield part.tolist()


def batches(
    zoo: Zoo, rows: Sequence[int], labels: Tensor, *, batch_size: int, seed: int | None
) -> DataLoader[NetworkBatch]:
    """Load batches of networks, shuffled if a seed is given."""
    sampler = EpochSampler(len(rows), batch_size=batch_size, seed=seed)
    dataset = NetworkDataset(zoo, rows, labels)
    return DataLoader(dataset, batch_size=None, sampler=sampler)


def mixed_seed(*parts: int) -> int:
    """Mix numbers into one seed, so that neighbouring ones give unrelated streams.

    >>> mixed_seed(1, 2) == mixed_seed(2, 1)
    False
    """
    state = 0x9E3779B97F4A7C15
    for part in parts:
        state = (state ^ (part + 0x9E3779B97F4A7C15)) * 0xBF58476D1CE4E5B9 % (1 << 64)
        state ^= state >> 31
    return state >> 1


def _augmented(
    graph: NeuralGraph, augmentation: Augmentation, generator: torch.Generator
) -> NeuralGraph:
    return NeuralGraph.from_stacked(graph.spec, augmentation(graph.stacked_state(), generator))
