"""Vectors of networks of any architectures by a trained metanetwork."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from weightspace.errors import FileError, WeightspaceError
from weightspace.find.network import Network, structure_of
from weightspace.graph import GraphSpec, MixedGraph, NeuralGraph
from weightspace.models import Predictor

BATCH = 32


def embed_networks(
    model: Predictor, networks: Iterable[Network]
) -> Iterator[tuple[Network, Tensor | WeightspaceError]]:
    """Read networks with a metanetwork: the vectors before its last linear map.

    Args:
        model: of one architecture, to whose names the networks' are brought, or of many.
        networks: to be read; in batches, so that few are in memory.

    Yields:
        Each network with its vector ``[d]``, or with why the model cannot read it.
    """
    model.eval()
    waiting = iter(networks)
    while batch := list(islice(waiting, BATCH)):
        readable: list[tuple[Network, NeuralGraph]] = []
        for network in batch:
            try:
                readable.append((network, _graph(network, model.trunk.requirements.spec)))
            except WeightspaceError as error:
                yield network, error
        yield from _embed(model, readable)


def _embed(
    model: Predictor, pairs: Sequence[tuple[Network, NeuralGraph]]
) -> Iterator[tuple[Network, Tensor | WeightspaceError]]:
    """Read a batch, or, if that fails, one by one, to find out whose fault it is."""
    if not pairs:
        return
    try:
        with torch.no_grad():
            found = model.embed(MixedGraph.of([graph for _, graph in pairs]))
    except WeightspaceError as error:
        if len(pairs) == 1:
            yield pairs[0][0], error
        else:
            for pair in pairs:
                yield from _embed(model, [pair])
        return
    for (network, _), vector in zip(pairs, found, strict=True):
        yield network, vector


def _graph(network: Network, wanted: GraphSpec | None) -> NeuralGraph:
    """A network as a graph, with the names of the architecture that a model was made for.

    Raises:
        FileError: it has another architecture, or none that is known.
    """
    if network.spec is None:
        raise FileError(
            network.name,
            expected="a network whose structure names and shapes tell",
            found="one that needs its module",
        )
    if wanted is None:
        return NeuralGraph.from_states(network.spec, [network.state])
    if network.structure != structure_of(wanted):
        raise FileError(
            network.name,
            expected="the architecture that the model was trained on",
            found="another one",
        )
    like = Network("", "", {}, wanted)
    return NeuralGraph.from_states(wanted, [network.named_as(like)])
