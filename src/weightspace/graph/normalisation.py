"""Normalisation of weights and biases by statistics of the training set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.errors import DataError, StateError
from weightspace.graph.mixed import MixedGraph
from weightspace.graph.neural_graph import NeuralGraph
from weightspace.graph.spec import EdgeBlock, GraphSpec, NodeSet

Owner = NodeSet | EdgeBlock
KeyOf = Callable[[GraphSpec, Owner], str]


def key_by_name(spec: GraphSpec, owner: Owner) -> str:
    """Name a layer's statistics by its place in the one spec that all networks have."""
    return f"node:{owner.name}" if isinstance(owner, NodeSet) else f"edge:{owner.name}"


def key_by_kind(spec: GraphSpec, owner: Owner) -> str:
    """Name a layer's statistics by what it has in common with those of other specs."""
    if isinstance(owner, NodeSet):
        return f"node:{owner.role}:{owner.features}"
    first = spec.node_set(owner.source).role == "input"
    last = spec.node_set(owner.target).role == "output"
    place = "only" if first and last else "first" if first else "last" if last else "inner"
    return f"edge:{owner.kind}:{place}:{owner.features}"


def statistics_keys(specs: Iterable[GraphSpec]) -> dict[str, int]:
    """Every key of the statistics of networks of these specs, and its feature channels."""
    specs = list(dict.fromkeys(specs))
    key_of = key_by_name if len(specs) == 1 else key_by_kind
    return {key_of(spec, owner): owner.features for spec in specs for owner in owners(spec)}


def owners(spec: GraphSpec) -> list[Owner]:
    """The node sets and blocks whose features are read from parameters."""
    return [
        *(node_set for node_set in spec.node_sets if node_set.pieces),
        *(block for block in spec.blocks if block.pieces),
    ]


@dataclass(frozen=True, eq=False)
class Normalisation:
    """One mean and one deviation for the weights of each layer, one for its biases.

    Per-neuron statistics would break the symmetry, so all values of a node set's or a
    block's feature channel share theirs. A metanetwork keeps the normalisation of its
    training set: a network's features never depend on its batch-mates.

    Args:
        spec: the structure of all training networks, whose layers have statistics of their
            own; None if they differ, and layers of one kind share theirs.
        mean: ``[features]`` for each key.
        std: the same; 1 where a channel is constant.
    """

    spec: GraphSpec | None
    mean: Mapping[str, Float[Tensor, " features"]]
    std: Mapping[str, Float[Tensor, " features"]]

    @classmethod
    def fit(cls, batch: NeuralGraph | MixedGraph, *, by_kind: bool = False) -> Normalisation:
        """Fit the statistics on a batch that holds the whole training set.

        Args:
            batch: the training networks.
            by_kind: let layers of one kind share theirs though all networks are of one spec,
                for reading networks of other specs later.

        Raises:
            DataError: a weight is not finite.
        """
        mixed = MixedGraph.of(batch)
        spec = mixed.specs[0] if len(set(mixed.specs)) == 1 and not by_kind else None
        key_of = key_by_kind if spec is None else key_by_name
        found: dict[str, list[Tensor]] = {}
        for part in mixed.parts:
            for owner in owners(part.spec):
                tensor = _features(part, owner).detach().double()
                found.setdefault(key_of(part.spec, owner), []).append(
                    tensor.reshape(-1, tensor.shape[-1])
                )
        mean, std = {}, {}
        for key, tensors in found.items():
            mean[key], std[key] = _statistics(key, tensors)
        return cls(spec, mean, std)

    @classmethod
    def identity(cls, spec: GraphSpec | None, keys: Mapping[str, int]) -> Normalisation:
        """The normalisation that changes nothing.

        Args:
            spec: of all networks, or None.
            keys: of the statistics with their feature channels, see :func:`statistics_keys`.
        """
        means = {key: torch.zeros(size) for key, size in keys.items()}
        return cls(spec, means, {key: torch.ones(size) for key, size in keys.items()})

    @property
    def key_of(self) -> KeyOf:
        """How a layer's statistics are named."""
        return key_by_kind if self.spec is None else key_by_name

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the statistics."""
        digest = hashlib.sha256()
        for key in sorted(self.mean):
            for values in (self.mean[key], self.std[key]):
                digest.update(f"{key} {values.double().tolist()}".encode())
        return digest.hexdigest()[:16]

    def __call__(self, graph: NeuralGraph) -> NeuralGraph:
        """Normalise a graph.

        Raises:
            StateError: the graph is of another spec, has layers of a kind that the training
                networks lacked, or is normalised already.
        """
        self.check(graph)
        normal = self._map(graph, lambda x, mean, std: (x - mean) / std)
        return replace(normal, statistics=self)

    def check(self, graph: NeuralGraph) -> None:
        """Check that a graph can be normalised.

        Raises:
            StateError: it is of another spec, or normalised already.
        """
        self._check(graph.spec)
        if graph.statistics is not None:
            raise StateError(
                "graph",
                expected="the networks' own weights",
                found=f"weights normalised by the statistics {graph.statistics.fingerprint}",
                hint=f"The model applies its own, {self.fingerprint}, by itself.",
            )

    def invert(self, graph: NeuralGraph) -> NeuralGraph:
        """Undo the normalisation.

        Raises:
            StateError: the graph was not normalised by these statistics.
        """
        found = graph.statistics
        if found is None or found.fingerprint != self.fingerprint:
            raise StateError(
                "graph",
                expected=f"weights normalised by the statistics {self.fingerprint}",
                found="their own weights" if found is None else f"statistics {found.fingerprint}",
            )
        own = self._map(graph, lambda x, mean, std: x * std + mean)
        return replace(own, statistics=None)

    def scale_of(self, spec: GraphSpec, owner: Owner) -> Float[Tensor, " features"]:
        """The deviation that a layer's features are divided by."""
        return self.std[self._key(spec, owner)]

    def of(self, spec: GraphSpec, owner: Owner) -> tuple[Tensor, Tensor]:
        """The mean and the deviation of a layer's features, ``[features]`` each.

        Raises:
            StateError: the training networks had no layer of its kind.
        """
        key = self._key(spec, owner)
        return self.mean[key], self.std[key]

    def _map(
        self, graph: NeuralGraph, change: Callable[[Tensor, Tensor, Tensor], Tensor]
    ) -> NeuralGraph:
        self._check(graph.spec)
        nodes, edges = dict(graph.nodes), dict(graph.edges)
        for owner in owners(graph.spec):
            key = self._key(graph.spec, owner)
            held = nodes if isinstance(owner, NodeSet) else edges
            values = held[owner.name]
            held[owner.name] = change(values, self.mean[key].to(values), self.std[key].to(values))
        return graph.with_features(nodes, edges)

    def _key(self, spec: GraphSpec, owner: Owner) -> str:
        key = self.key_of(spec, owner)
        if key not in self.mean:
            raise StateError(
                f"layer {owner.name}",
                expected=f"a layer of one of the kinds {', '.join(sorted(self.mean))}",
                found=key,
                hint="The training networks had no such layer.",
            )
        return key

    def _check(self, spec: GraphSpec) -> None:
        if self.spec is not None and spec != self.spec:
            raise StateError(
                "normalisation",
                expected=f"graphs of spec {self.spec.fingerprint}",
                found=f"spec {spec.fingerprint}",
                hint="It was fitted on networks of another architecture.",
            )


def _features(graph: NeuralGraph, owner: Owner) -> Tensor:
    return (graph.nodes if isinstance(owner, NodeSet) else graph.edges)[owner.name]


def _statistics(key: str, tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel."""
    values = tensors[0] if len(tensors) == 1 else torch.cat(tensors)
    if not bool(torch.isfinite(values).all()):
        raise DataError(
            f"weights of {key}",
            expected="finite values",
            found="NaN or infinity",
            hint="Run `weightspace zoo verify` to find the networks.",
        )
    deviation = values.std(dim=0, correction=0)
    std = torch.where(deviation > 1e-12, deviation, torch.ones((), dtype=deviation.dtype))
    return values.mean(dim=0).float(), std.float()
