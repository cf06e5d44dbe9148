"""Features of a spec that are not weights: who a node is and what it computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weightspace.errors import DataError, StateError
from weightspace.graph.axis import Role
from weightspace.graph.neural_graph import NeuralGraph
from weightspace.graph.spec import GraphSpec


def position_identities(spec: GraphSpec) -> dict[str, Int[Tensor, " neurons"]]:
    """Number the nodes that a learned vector tells apart, each role counted by itself.

    Kofinas et al. 2024, section 3.1: one vector is shared by all nodes of a hidden layer;
    every input node and every output node has its own.

    >>> from weightspace.graph import chain_spec
    >>> list(position_identities(chain_spec([2, 3, 3, 1])).values())
    [tensor([0, 1]), tensor([0, 0, 0]), tensor([1, 1, 1]), tensor([0])]
    """
    identities: dict[str, Tensor] = {}
    start = dict.fromkeys(get_args(Role), 0)
    for node_set in spec.node_sets:
        size = spec.nodes_in(node_set.name)
        own = 1 if node_set.role == "hidden" else size
        identities[node_set.name] = (start[node_set.role] + torch.arange(own)).expand(size)
        start[node_set.role] += own
    return identities


def position_counts(spec: GraphSpec) -> dict[Role, int]:
    """How many identities :func:`position_identities` gives in each role."""
    return {
        role: sum(spec.nodes_in(n.name) if role != "hidden" else 1 for n in spec.of_role(role))
        for role in get_args(Role)
    }


def activation_identities(spec: GraphSpec) -> dict[str, int]:
    """Number each node set's activation function; input and output nodes count as none.

    Kofinas et al. 2024, section 3.2.
    """
    return {n.name: n.activation.identity if n.role == "hidden" else 0 for n in spec.node_sets}


@dataclass(frozen=True, eq=False)
class Normalisation:
    """One mean and one deviation for the weights of each layer, one for its biases.

    Per-neuron statistics would break the symmetry, so all values of a node set's or a
    block's feature channel share theirs. A metanetwork keeps the normalisation of its
    training set: a network's features never depend on its batch-mates.

    Args:
        spec: the structure it was fitted on.
        mean: ``[features]`` for each node set and block.
        std: the same; 1 where a channel is constant.
    """

    spec: GraphSpec
    mean: Mapping[str, Float[Tensor, " features"]]
    std: Mapping[str, Float[Tensor, " features"]]

    @classmethod
    def fit(cls, graph: NeuralGraph) -> Normalisation:
        """Fit the statistics on a batch that holds the whole training set.

        Raises:
            DataError: a weight is not finite.
        """
        mean, std = {}, {}
        for key, tensor in _keyed(graph).items():
            values = tensor.detach().double().reshape(-1, tensor.shape[-1])
            if not bool(torch.isfinite(values).all()):
                raise DataError(
                    f"weights of {key}",
                    expected="finite values",
                    found="NaN or infinity",
                    hint="Run `weightspace zoo verify` to find the networks.",
                )
            deviation = values.std(dim=0, correction=0)
            mean[key] = values.mean(dim=0).float()
            std[key] = torch.where(deviation > 1e-12, deviation, torch.ones(())).float()
        return cls(graph.spec, mean, std)

    @classmethod
    def identity(cls, spec: GraphSpec) -> Normalisation:
        """The normalisation of a spec that changes nothing."""
        nodes = {f"node:{n.name}": n.features for n in spec.node_sets if n.features}
        edges = {f"edge:{b.name}": b.features for b in spec.blocks if b.pieces}
        sizes = {**nodes, **edges}
        return cls(
            spec,
            {key: torch.zeros(size) for key, size in sizes.items()},
            {key: torch.ones(size) for key, size in sizes.items()},
        )

    def __call__(self, graph: NeuralGraph) -> NeuralGraph:
        """Normalise a graph.

        Raises:
            StateError: the graph is of another spec.
        """
        self._check(graph)
        keyed = {
            key: (tensor - self.mean[key].to(tensor)) / self.std[key].to(tensor)
            for key, tensor in _keyed(graph).items()
        }
        return _unkeyed(graph, keyed)

    def invert(self, graph: NeuralGraph) -> NeuralGraph:
        """Undo the normalisation."""
        self._check(graph)
        keyed = {
            key: tensor * self.std[key].to(tensor) + self.mean[key].to(tensor)
            for key, tensor in _keyed(graph).items()
        }
        return _unkeyed(graph, keyed)

    def _check(self, graph: NeuralGraph) -> None:
        if graph.spec != self.spec:
            raise StateError(
                "normalisation",
                expected=f"graphs of spec {self.spec.fingerprint}",
                found=f"spec {graph.spec.fingerprint}",
                hint="It was fitted on networks of another architecture.",
            )


def _keyed(graph: NeuralGraph) -> dict[str, Tensor]:
    """Node and edge features under one set of keys; those without channels are left away."""
    nodes = {f"node:{name}": tensor for name, tensor in graph.nodes.items() if tensor.shape[-1]}
    edges = {
        f"edge:{name}": tensor
        for name, tensor in graph.edges.items()
        if graph.spec.block(name).pieces
    }
    return {**nodes, **edges}


def _unkeyed(graph: NeuralGraph, keyed: Mapping[str, Tensor]) -> NeuralGraph:
    nodes = {name: keyed.get(f"node:{name}", tensor) for name, tensor in graph.nodes.items()}
    edges = {name: keyed.get(f"edge:{name}", tensor) for name, tensor in graph.edges.items()}
    return graph.with_features(nodes, edges)
