"""Changing a network's graph while it trains: a step of an architecture search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from weightspace.errors import GraphError
from weightspace.relational.graph import RelationalGraph, connected_parts
from weightspace.relational.layers import WiredLayer
from weightspace.relational.wiring import Wiring

Kind = Literal["add", "remove", "rewire"]
Edge = tuple[int, int]
Fresh = Literal["zero", "fan_in"]


@dataclass(frozen=True)
class Mutation:
    """A changed graph and what changed.

    Args:
        graph: after the change, connected.
        added: the edge that is new, if any.
        removed: the edge that is gone, if any.
    """

    graph: RelationalGraph
    added: Edge | None = None
    removed: Edge | None = None


def mutate(graph: RelationalGraph, kind: Kind, *, seed: int) -> Mutation:
    """Add, remove or move one edge of a graph at random; it stays connected.

    Args:
        graph: to change; left as it is.
        kind: ``"add"`` joins two nodes, ``"remove"`` parts two, ``"rewire"`` moves one end of
            an edge, so that density stays the same.
        seed: of the choice.

    Raises:
        GraphError: there is no such change: all nodes are joined already, or every edge holds
            the graph together.

    >>> from weightspace.relational import ring
    >>> mutation = mutate(ring(6), "add", seed=0)
    >>> len(mutation.graph.edges) - len(ring(6).edges)
    1
    """
    if kind not in _KINDS:
        raise GraphError("kind", expected=f"one of {', '.join(_KINDS)}", found=repr(kind))
    return _KINDS[kind](graph, np.random.default_rng(seed))


def adopt_graph(
    module: nn.Module,
    graph: RelationalGraph,
    *,
    fresh: Fresh = "zero",
    optimiser: torch.optim.Optimizer | None = None,
) -> int:
    """Go on with another graph in all layers wired by one of as many nodes.

    Weights of edges that both graphs have are kept; those of edges that are gone become zero,
    and their running averages in the optimiser with them. With new edges at zero, adding edges
    leaves the function unchanged, and their gradients are not zero.

    Args:
        module: the network, changed in place.
        graph: the new one, on the layers' own order of nodes.
        fresh: whether weights of new edges start at zero or are drawn by the number of inputs
            that a neuron then has.
        optimiser: whose state follows.

    Returns:
        How many layers changed.

    Raises:
        GraphError: no layer is wired by a graph of so many nodes.
    """
    layers = [p for p in module.modules() if isinstance(p, WiredLayer) and p.graph.n == graph.n]
    if not layers:
        sizes = sorted({p.graph.n for p in module.modules() if isinstance(p, WiredLayer)})
        raise GraphError(
            "graph",
            expected=f"a graph of as many nodes as a wired layer has ({sizes or 'none there'})",
            found=f"{graph.n} nodes",
        )
    for layer in layers:
        _adopt(layer, graph, fresh, optimiser)
    return len(layers)


def mutate_network(
    module: nn.Module,
    kind: Kind,
    *,
    seed: int,
    fresh: Fresh = "zero",
    optimiser: torch.optim.Optimizer | None = None,
) -> Mutation:
    """Change the graph that a network's layers share, keep their weights, train on.

    Args:
        module: the network, changed in place.
        kind: of the change, see :func:`mutate`.
        seed: of the choice.
        fresh: how weights of new edges start, see :func:`adopt_graph`.
        optimiser: whose state follows.

    Raises:
        GraphError: the layers do not share one graph, or there is no such change.
    """
    graphs = {p.graph.fingerprint: p.graph for p in module.modules() if isinstance(p, WiredLayer)}
    if len(graphs) != 1:
        raise GraphError(
            "module",
            expected="layers wired by one graph",
            found=f"{len(graphs)} graphs",
            hint="Mutate the graphs yourself and pass each to adopt_graph with its layers.",
        )
    mutation = mutate(next(iter(graphs.values())), kind, seed=seed)
    adopt_graph(module, mutation.graph, fresh=fresh, optimiser=optimiser)
    return mutation


# -- graphs ------------------------------------------------------------------------------


def _added(graph: RelationalGraph, rng: np.random.Generator) -> Mutation:
    missing = np.argwhere(np.triu(~graph.adjacency, 1))
    if not len(missing):
        raise GraphError(
            f"graph {graph.name}",
            expected=f"fewer than {graph.n * (graph.n - 1) // 2} edges, to add one",
            found=f"{len(graph.edges)}",
        )
    edge = _edge(missing[rng.integers(len(missing))])
    return Mutation(_changed(graph, add=edge), added=edge)


def _removed(graph: RelationalGraph, rng: np.random.Generator) -> Mutation:
    for place in rng.permutation(len(graph.edges)):
        edge = _edge(graph.edges[place])
        if _holds(graph, remove=edge):
            return Mutation(_changed(graph, remove=edge), removed=edge)
    raise GraphError(
        f"graph {graph.name}",
        expected="an edge without which the graph stays connected",
        found=f"{len(graph.edges)} edges, each of which holds it together",
    )


def _rewired(graph: RelationalGraph, rng: np.random.Generator) -> Mutation:
    for place in rng.permutation(2 * len(graph.edges)):
        u, v = _edge(graph.edges[place // 2])[:: 1 if place % 2 else -1]
        for w in rng.permutation(graph.n):
            if w in (u, v) or graph.adjacency[u, w]:
                continue
            new = _edge((u, w))
            if _holds(graph, remove=(u, v), add=new):
                changed = _changed(graph, remove=(u, v), add=new)
                return Mutation(changed, added=new, removed=_edge((u, v)))
    raise GraphError(
        f"graph {graph.name}",
        expected="an edge that can end at another node",
        found=f"{len(graph.edges)} edges of {graph.n} nodes",
    )


_KINDS: Mapping[str, Callable[[RelationalGraph, np.random.Generator], Mutation]] = MappingProxyType(
    {"add": _added, "remove": _removed, "rewire": _rewired}
)


def _edge(ends: Any) -> Edge:
    low, high = sorted(int(end) for end in ends)
    return low, high


def _matrix(graph: RelationalGraph, add: Edge | None, remove: Edge | None) -> Any:
    adjacency = graph.adjacency.copy()
    if remove is not None:
        adjacency[remove] = adjacency[remove[::-1]] = False
    if add is not None:
        adjacency[add] = adjacency[add[::-1]] = True
    return adjacency


def _holds(graph: RelationalGraph, *, remove: Edge, add: Edge | None = None) -> bool:
    return connected_parts(_matrix(graph, add, remove)) == 1


def _changed(
    graph: RelationalGraph, *, add: Edge | None = None, remove: Edge | None = None
) -> RelationalGraph:
    return RelationalGraph(_matrix(graph, add, remove), graph.name)


# -- weights -----------------------------------------------------------------------------


@torch.no_grad()
def _adopt(
    layer: WiredLayer, graph: RelationalGraph, fresh: Fresh, optimiser: torch.optim.Optimizer | None
) -> None:
    before = layer.mask.clone()
    old = layer.wiring_
    layer.wiring_ = Wiring(graph, old.in_sizes, old.out_sizes)
    layer.wiring.copy_(torch.from_numpy(layer.wiring_.joined))
    layer.mask.copy_(layer.wiring_.mask().view(before.shape))
    new = (layer.mask * (1 - before)).expand_as(layer.weight)
    layer.weight.mul_(layer.mask * before)
    if fresh == "fan_in":
        kernel = layer.weight[0, 0].numel()
        bound = (layer.mask.flatten(1).sum(1) * kernel).rsqrt()
        drawn = torch.empty_like(layer.weight).uniform_(-1, 1)
        layer.weight.add_(drawn * bound.view(-1, *[1] * (drawn.dim() - 1)) * new)
    for value in {} if optimiser is None else optimiser.state.get(layer.weight, {}).values():
        if isinstance(value, Tensor) and value.shape == layer.weight.shape:
            value.mul_(layer.mask * before)
    if layer.weight.grad is not None:
        layer.weight.grad.mul_(layer.mask)
