"""From a trained network back to a relational graph: which groups of neurons hear each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from weightspace.errors import GraphError, ModelError
from weightspace.graph.interop import block_edges, node_offsets
from weightspace.graph.neural_graph import NeuralGraph
from weightspace.relational.generators import degree_preserving, erdos_renyi
from weightspace.relational.graph import RelationalGraph, connected_parts
from weightspace.relational.limits import require_count
from weightspace.relational.plane import distances, local_clustering, places

Array = npt.NDArray[Any]

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Shares of all pairs of nodes that are kept as edges, unless told otherwise."""

_TO_ITSELF = {"diagonal", "identity"}  # kinds of blocks that join every neuron with its own


@dataclass(frozen=True, eq=False)
class ReadGraph:
    """A graph read from weights: the pairs of nodes with the strongest blocks.

    Args:
        share: of all pairs, that are edges.
        threshold: the block norm from which a pair is an edge.
        adjacency: which are.
        parts: in how many parts the graph is.
        clustering: mean local clustering.
        path_length: mean shortest path; NaN in several parts.
    """

    share: float
    threshold: float
    adjacency: Bool[Array, "n n"]
    parts: int
    clustering: float
    path_length: float

    @property
    def graph(self) -> RelationalGraph:
        """The relational graph.

        Raises:
            GraphError: it is in several parts.
        """
        return RelationalGraph(self.adjacency, f"read from weights, {100 * self.share:g} % kept")


@dataclass(frozen=True)
class NullPlaces:
    """Where null graphs lie, and how many of their deviations away the graph read is.

    Args:
        clustering: their mean.
        path_length: their mean.
        clustering_z: of the graph read.
        path_length_z: of the graph read.
    """

    clustering: float
    path_length: float
    clustering_z: float
    path_length_z: float


def hidden_weights(module: nn.Module) -> list[Float[Tensor, "width width"]]:
    """The square weight matrices of a network's linear layers, of the width that most have.

    Raises:
        ModelError: no linear layer is square.
    """
    squares = [
        layer.weight.detach()
        for layer in module.modules()
        if isinstance(layer, nn.Linear) and layer.in_features == layer.out_features
    ]
    if not squares:
        raise ModelError(
            type(module).__name__,
            expected="linear layers with as many outputs as inputs",
            found="none",
            hint="neural_block_norms reads networks of any layers through their neural graph.",
        )
    width = Counter(len(weight) for weight in squares).most_common(1)[0][0]
    return [weight for weight in squares if len(weight) == width]


def layer_block_norms(
    weights: Sequence[Float[Tensor, "width width"]],
    n: int,
    *,
    groups: Int[Array, "width"] | None = None,
) -> Float[Array, "n n"]:
    """How strongly groups of neurons are joined, by the published procedure.

    You et al., Graph Structure of Neural Networks (2020): stack the hidden layers'
    weights, group the neurons into n nodes, add the transpose, and take the Frobenius norm of
    every block: ``sqrt(sum_l sum_{i in I, j in J} (W_l + W_l^T)_ij^2)``.

    Args:
        weights: of hidden layers of one width.
        n: nodes.
        groups: the node of each neuron; runs of neighbours of equal length unless given.

    Returns:
        Symmetric norms.

    Raises:
        GraphError: there are more nodes than neurons, or a node without one.
        ModelError: the matrices are not square, of one width and finite.
    """
    if not len(weights):
        raise ModelError("weights", expected="at least one hidden layer", found="none")
    width = len(weights[0])
    for i, weight in enumerate(weights):
        if tuple(weight.shape) != (width, width) or not torch.isfinite(weight).all():
            raise ModelError(
                f"weights of hidden layer {i}",
                expected=f"finite numbers of shape ({width}, {width})",
                found=f"shape {tuple(weight.shape)}",
            )
    members = _membership(width, n, groups)
    total = np.zeros((n, n))
    for weight in weights:
        own = weight.detach().to("cpu", torch.float64).numpy()
        total += members.T @ (own + own.T) ** 2 @ members
    norms: Array = np.sqrt(total)
    return norms


def neural_block_norms(graph: NeuralGraph, n: int, *, index: int = 0) -> Float[Array, "n n"]:
    """How strongly groups of neurons are joined, in any network.

    The hidden neurons of every place of the network are grouped into n nodes, in runs of
    neighbours; a block's norm is over all connections between two groups, whatever their
    layer and kind (kernels, attention, recurrence); then both directions are joined,
    ``sqrt(|W_IJ|^2 + |W_JI|^2)``. Connections of a neuron with its own (norms, depthwise
    kernels, residuals) join a node with itself and are left out, as are inputs and outputs.

    Args:
        graph: of the network (``importers.from_module``).
        n: nodes.
        index: which network of a batch.

    Raises:
        GraphError: there are more nodes than neurons in the narrowest hidden place that is
            joined with another.
        ModelError: no two hidden places are joined.
    """
    spec, offsets = graph.spec, node_offsets(graph.spec)
    total = torch.zeros(n * n, dtype=torch.float64)
    used = 0
    for block in spec.blocks:
        ends = [spec.node_set(name) for name in (block.source, block.target)]
        if block.kind in _TO_ITSELF or not block.features or {e.role for e in ends} != {"hidden"}:
            continue
        used += 1
        nodes = []
        for end, neurons in zip(ends, block_edges(spec, block), strict=True):
            groups = torch.from_numpy(_runs(spec.nodes_in(end.name), n, end.name))
            nodes.append(groups[neurons - offsets[end.name]])
        squares = graph.edges[block.name][index].detach().to("cpu", torch.float64).square()
        total.index_add_(0, nodes[1] * n + nodes[0], squares.sum(-1).flatten())
    if not used:
        raise ModelError(
            "network",
            expected="connections between two hidden layers",
            found="none",
            hint="A relational graph is read from at least two hidden layers.",
        )
    table = total.reshape(n, n).numpy()
    norms: Array = np.sqrt(table + table.T)
    return norms


def shuffled_weights(weights: Sequence[Tensor], *, seed: int) -> list[Tensor]:
    """Weights whose every matrix has its entries in random order: a null model of training.

    Their values are those learned; who they join is chance.
    """
    generator = torch.Generator().manual_seed(seed)
    return [
        weight.flatten()[torch.randperm(weight.numel(), generator=generator)].reshape(weight.shape)
        for weight in weights
    ]


def read_graphs(norms: Float[Array, "n n"], *, shares: Sequence[float] = SHARES) -> list[ReadGraph]:
    """Keep the strongest pairs of nodes as edges, at several thresholds.

    Args:
        norms: symmetric; the diagonal is ignored.
        shares: of all pairs, to keep.

    Raises:
        GraphError: a share is not above 0 and at most 1.
    """
    n = len(norms)
    pairs = np.triu_indices(n, 1)
    values = norms[pairs]
    order = np.argsort(-values, kind="stable")
    found = []
    for share in shares:
        if not 0 < share <= 1:
            raise GraphError("share of pairs", expected="above 0, at most 1", found=f"{share:g}")
        kept = order[: max(1, round(share * len(values)))]
        adjacency = np.zeros((n, n), dtype=bool)
        adjacency[pairs[0][kept], pairs[1][kept]] = True
        adjacency |= adjacency.T
        parts = connected_parts(adjacency)
        length = float(distances(adjacency).sum() / (n * (n - 1))) if parts == 1 else np.nan
        clustering = float(local_clustering(adjacency).mean())
        found.append(
            ReadGraph(share, float(values[kept[-1]]), adjacency, parts, clustering, length)
        )
    return found


def compare_with_nulls(read: ReadGraph, *, nulls: int = 20, seed: int = 0) -> dict[str, NullPlaces]:
    """Compare with Erdos-Renyi graphs of as many edges, and with graphs of equal degrees.

    Args:
        read: a graph in one part.
        nulls: graphs of each kind.
        seed: of them.

    Raises:
        GraphError: it is in several parts, or random graphs of so few edges are.
    """
    require_count("null graphs", nulls, 2)
    graph = read.graph
    degree = 2 * len(graph.edges) / graph.n
    seeds = range(seed, seed + nulls)
    kinds = {
        "erdos-renyi": [erdos_renyi(graph.n, degree, seed=own) for own in seeds],
        "degree-preserving": [degree_preserving(graph, seed=own) for own in seeds],
    }
    own = np.array([read.clustering, read.path_length])
    return {name: _null_places(places(graphs), own) for name, graphs in kinds.items()}


def _null_places(points: Float[Array, "nulls 2"], own: Float[Array, "2"]) -> NullPlaces:
    means, deviations = points.mean(0), points.std(0, ddof=1)
    z = np.divide(own - means, deviations, where=deviations > 0, out=np.full(2, np.nan))
    return NullPlaces(*(float(value) for value in (*means, *z)))


def _membership(width: int, n: int, groups: Int[Array, "width"] | None) -> Float[Array, "width n"]:
    """Ones where a neuron belongs to a node."""
    chosen = _runs(width, n, "hidden layer") if groups is None else np.asarray(groups)
    if chosen.shape != (width,) or not np.array_equal(np.unique(chosen), np.arange(n)):
        raise GraphError(
            "groups of neurons",
            expected=f"a node from 0 to {n - 1} for each of {width} neurons, and none empty",
            found=f"shape {chosen.shape}, nodes {np.unique(chosen).tolist()}"[:120],
        )
    return np.eye(n)[chosen]


def _runs(width: int, n: int, place: str) -> Int[Array, "width"]:
    """The node of each neuron, in runs of neighbours; the first ones longer by the remainder."""
    require_count("nodes n", n, 2)
    if n > width:
        raise GraphError(
            f"nodes of {place}", expected=f"at most {width}, one a neuron", found=str(n)
        )
    sizes = [width // n + (i < width % n) for i in range(n)]
    return np.repeat(np.arange(n), sizes)
