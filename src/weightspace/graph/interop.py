"""Neural graphs as edge lists, for networkx and PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor

from weightspace.errors import WeightspaceError
from weightspace.graph.features import activation_identities
from weightspace.graph.neural_graph import NeuralGraph
from weightspace.graph.spec import EdgeBlock, GraphSpec

if TYPE_CHECKING:
    import networkx as nx

ROLES = ("input", "hidden", "output")
"""The order of roles in :func:`to_pyg`'s ``role``."""


def node_offsets(spec: GraphSpec) -> dict[str, int]:
    """The number of a node set's first neuron when all neurons are numbered in order.

    >>> from weightspace.graph import chain_spec
    >>> node_offsets(chain_spec([2, 3, 1]))
    {'input': 0, '0': 2, '1': 5}
    """
    offsets, start = {}, 0
    for node_set in spec.node_sets:
        offsets[node_set.name] = start
        start += spec.nodes_in(node_set.name)
    return offsets


def block_edges(spec: GraphSpec, block: EdgeBlock) -> Int[Tensor, "two edges"]:
    """Source and target neurons of a block's connections, in the order of its features.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([2, 3, 1])
    >>> block_edges(spec, spec.blocks[0]).tolist()
    [[0, 1, 0, 1, 0, 1], [2, 2, 3, 3, 4, 4]]
    """
    shape = spec.shape_of(block)
    targets = _numbers(spec, block.target, block.shared)[:, :, None]
    sources = _numbers(spec, block.source, block.shared)[:, None, :]
    grid = (shape.groups, shape.targets, shape.sources)
    return torch.stack([sources.expand(grid).flatten(), targets.expand(grid).flatten()])


def _numbers(spec: GraphSpec, node_set: str, shared: tuple[str, ...]) -> Tensor:
    """Every neuron's number, as ``[groups, rest]``."""
    axes = spec.node_set(node_set).axes
    sizes = [spec.axis(axis).size for axis in axes]
    first = node_offsets(spec)[node_set]
    numbers = torch.arange(first, first + spec.nodes_in(node_set)).reshape(sizes)
    order = [axes.index(axis) for axis in shared]
    order += [place for place in range(len(axes)) if place not in order]
    return numbers.permute(order).reshape(spec.size_of(shared), -1)


def to_networkx(graph: NeuralGraph, index: int = 0) -> nx.MultiDiGraph[int]:
    """One network of a batch as a directed multigraph, a node for every neuron.

    Nodes have ``node_set``, ``role``, ``activation`` and ``features``; edges are keyed by
    their block and have ``kind`` and ``features``.
    """
    import networkx as nx  # noqa: PLC0415 (slow to load)

    spec = graph.spec
    result: nx.MultiDiGraph[int] = nx.MultiDiGraph(fingerprint=spec.fingerprint)
    offsets = node_offsets(spec)
    for node_set in spec.node_sets:
        common = {"node_set": node_set.name, "role": node_set.role,
                  "activation": str(node_set.activation)}  # fmt: skip
        rows = graph.nodes[node_set.name][index].tolist()
        first = offsets[node_set.name]
        result.add_nodes_from(
            (first + place, {**common, "features": row}) for place, row in enumerate(rows)
        )
    for block in spec.blocks:
        ends = block_edges(spec, block).T.tolist()
        rows = graph.edges[block.name][index].flatten(0, 2).tolist()
        result.add_edges_from(
            (source, target, block.name, {"kind": block.kind, "features": row})
            for (source, target), row in zip(ends, rows, strict=True)
        )
    return result


def to_pyg(graph: NeuralGraph, index: int = 0) -> Any:
    """One network of a batch as a ``torch_geometric.data.Data``.

    ``x`` and ``edge_attr`` hold the features, padded with zeros to the longest; ``node_set``
    and ``block`` number the spec's node sets and blocks; ``role`` and ``activation`` are as
    in :data:`ROLES` and :func:`activation_identities`.

    Raises:
        WeightspaceError: torch-geometric is not installed.
    """
    try:
        from torch_geometric.data import Data  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise WeightspaceError(
            "to_pyg",
            expected="torch-geometric",
            found="an installation without it",
            hint="pip install 'weightspace[pyg]'",
        ) from error
    spec = graph.spec
    nodes = [graph.nodes[n.name][index] for n in spec.node_sets]
    edges = [graph.edges[b.name][index].flatten(0, 2) for b in spec.blocks]
    identities = activation_identities(spec)
    return Data(
        x=torch.cat(list(_padded(nodes))),
        edge_index=torch.cat([block_edges(spec, b) for b in spec.blocks], dim=1),
        edge_attr=torch.cat(list(_padded(edges))),
        node_set=_repeated(range(len(nodes)), nodes),
        role=_repeated([ROLES.index(n.role) for n in spec.node_sets], nodes),
        activation=_repeated([identities[n.name] for n in spec.node_sets], nodes),
        block=_repeated(range(len(edges)), edges),
    )


def _padded(rows: list[Tensor]) -> Iterator[Tensor]:
    width = max((part.shape[1] for part in rows), default=0)
    for part in rows:
        yield torch.nn.functional.pad(part, (0, width - part.shape[1]))


def _repeated(values: Any, rows: list[Tensor]) -> Tensor:
    """One value for each row of each part."""
    counts = torch.tensor([len(part) for part in rows])
    return torch.repeat_interleave(torch.tensor(list(values)), counts)
