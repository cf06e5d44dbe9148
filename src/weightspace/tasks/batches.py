"""Batches of networks out of a zoo, in an order that depends on seed and epoch alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from weightspace.zoo import Zoo


class NetworkBatch(NamedTuple):
    """Networks of one spec as a stacked state dict, with a label each."""

    stacked: dict[str, Tensor]
    labels: Tensor


class NetworkDataset(Dataset[NetworkBatch]):
    """Networks of one spec read from a zoo, a batch at a time.

    Args:
        zoo: the zoo.
        networks: the indices of the networks in it.
        labels: ``[networks]``, one for each index.
    """

    def __init__(self, zoo: Zoo, networks: Sequence[int], labels: Tensor) -> None:
        self._zoo, self._networks, self._labels = zoo, torch.as_tensor(networks), labels

    def __len__(self) -> int:
        return len(self._networks)

    def __getitem__(self, chosen: Sequence[int]) -> NetworkBatch:
        """Read the networks at these places."""
        places = torch.as_tensor(chosen)
        return NetworkBatch(self._zoo.states(self._networks[places]), self._labels[places])


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
    zoo: Zoo, networks: Sequence[int], labels: Tensor, *, batch_size: int, seed: int | None
) -> DataLoader[NetworkBatch]:
    """Load batches of networks, shuffled if a seed is given."""
    sampler = EpochSampler(len(networks), batch_size=batch_size, seed=seed)
    dataset = NetworkDataset(zoo, networks, labels)
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
