"""The one interface of all metanetworks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import (
    GraphSpec,
    NeuralGraph,
    Normalisation,
    canonical_signs,
    position_counts,
)
from weightspace.nn.normaliser import Normaliser
from weightspace.nn.plan import plan_of


@dataclass(frozen=True)
class Requirements:
    """What a metanetwork is sized by, and what a network must fit to be read.

    Args:
        inputs: input neurons, each with a learned vector.
        outputs: output neurons, the same.
        hidden: the most hidden node sets, a learned vector each.
        node_features: the most feature channels of a node.
        edge_features: the most feature channels of an edge.
        log_degree: the mean of ``log(degree + 1)`` over all nodes of the training networks.
        values: feature values of one network; 0 if the training networks differ in it.

    >>> from weightspace.graph import chain_spec
    >>> Requirements.of([chain_spec([2, 32, 32, 1])]).hidden
    2
    """

    inputs: int
    outputs: int
    hidden: int
    node_features: int
    edge_features: int
    log_degree: float
    values: int

    @classmethod
    def of(cls, specs: Iterable[GraphSpec]) -> Requirements:
        """Derive the requirements of a training set's specs.

        Raises:
            ModelError: there are none, or they differ in inputs or outputs.
        """
        specs = list(specs)
        counts = [position_counts(spec) for spec in specs]
        ends = {(count["input"], count["output"]) for count in counts}
        if len(ends) != 1:
            raise ModelError(
                "specs",
                expected="networks with the same inputs and outputs",
                found=f"{sorted(ends)} inputs and outputs",
            )
        plans = [plan_of(spec) for spec in specs]
        logs = [
            (math.log(degree + 1), size)
            for plan in plans
            for degree, size in zip(plan.degrees, plan.sizes, strict=True)
        ]
        return cls(
            inputs=counts[0]["input"],
            outputs=counts[0]["output"],
            hidden=max(count["hidden"] for count in counts),
            node_features=max([n.features for s in specs for n in s.node_sets], default=0),
            edge_features=max([b.features for s in specs for b in s.blocks], default=1),
            values=_values(specs[0]) if len(set(specs)) == 1 else 0,
            log_degree=sum(log * size for log, size in logs) / sum(size for _, size in logs),
        )

    def check(self, spec: GraphSpec) -> None:
        """Check that a network can be read.

        Raises:
            ModelError: naming the first thing that does not fit.
        """
        counts = position_counts(spec)
        for role, wanted in (("input", self.inputs), ("output", self.outputs)):
            found = counts[role]  # type: ignore[index]
            if found != wanted:
                raise ModelError(
                    "network",
                    expected=f"{wanted} {role} neurons",
                    found=str(found),
                    hint="The model was trained on networks of another shape.",
                )
        limits = (
            ("hidden layers", self.hidden, counts["hidden"]),
            ("node features", self.node_features, max(n.features for n in spec.node_sets)),
            ("edge features", self.edge_features, max(b.features for b in spec.blocks)),
        )
        for what, most, found in limits:
            if found > most:
                raise ModelError(
                    "network",
                    expected=f"at most {most} {what}",
                    found=str(found),
                    hint="The model was trained on smaller networks.",
                )


def _values(spec: GraphSpec) -> int:
    """How many feature values a network of a spec has."""
    nodes = sum(spec.nodes_in(n.name) * n.features for n in spec.node_sets)
    return nodes + sum(spec.shape_of(b).edges * b.features for b in spec.blocks if b.pieces)


class Metanetwork(nn.Module, ABC):
    """A model whose input is a batch of neural graphs and whose output is a vector each.

    Subclasses keep their options, so that a saved model can be made again:
    ``type(model)(model.requirements, outputs=model.outputs, **model.options)``.

    The graphs it is given hold the networks' own weights: some models also run the networks.
    Subclasses call :meth:`represent` first and :meth:`normalise` on what they read.

    Args:
        requirements: the networks it reads.
        outputs: the length of the output vector.
        canonical: whether networks are first brought to canonical signs, see
            :func:`weightspace.graph.canonical_signs`.
    """

    def __init__(
        self, requirements: Requirements, *, outputs: int, canonical: bool = False
    ) -> None:
        super().__init__()
        self.requirements = requirements
        self.outputs = outputs
        self.canonical = canonical
        self.normaliser: Normaliser | None = None

    def fit_normalisation(self, graph: NeuralGraph) -> None:
        """Fit the normalisation on a batch that holds the whole training set."""
        self.normaliser = Normaliser(Normalisation.fit(self.represent(graph)))

    def represent(self, graph: NeuralGraph) -> NeuralGraph:
        """Check that the networks can be read, and bring them to canonical signs if asked.

        Raises:
            ModelError: they do not fit the requirements.
        """
        self.requirements.check(graph.spec)
        if not self.canonical:
            return graph
        return NeuralGraph.from_stacked(
            graph.spec, canonical_signs(graph.spec, graph.stacked_state())
        )

    def normalise(self, graph: NeuralGraph) -> NeuralGraph:
        """Apply the fitted normalisation, if there is one."""
        return graph if self.normaliser is None else self.normaliser(graph)

    @property
    @abstractmethod
    def options(self) -> dict[str, int | float | bool]:
        """The keyword arguments that make this model again."""

    @abstractmethod
    def embed(self, graph: NeuralGraph) -> Float[Tensor, "batch d"]:
        """Read the networks: a vector each, before the last linear map."""

    @abstractmethod
    def head(self, embedding: Float[Tensor, "batch d"]) -> Float[Tensor, "batch outputs"]:
        """Map embeddings to outputs."""

    def forward(self, graph: NeuralGraph) -> Float[Tensor, "batch outputs"]:
        """Read the networks: an output vector each."""
        return self.head(self.embed(graph))

    @property
    def parameter_count(self) -> int:
        """The number of trained values."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)
