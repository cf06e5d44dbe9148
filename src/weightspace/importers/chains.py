"""Multilayer perceptrons in bare checkpoints, whatever their tensors are called."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from weightspace.errors import StateError
from weightspace.graph.activations import LAWS, NONE, Activation
from weightspace.graph.neural_graph import NeuralGraph
from weightspace.graph.spec import GraphSpec
from weightspace.importers.chain_graph import Activations, sequences_spec
from weightspace.importers.recognition.layers import Layer
from weightspace.importers.recognition.recogniser import LayerSequence, Recognition, recognise
from weightspace.importers.recognition.tensor_names import is_index

MODULE_HINT = (
    "Name the network's module: package.module:name and --inputs SHAPE for commands, from_module "
    "in Python."
)


@dataclass(frozen=True, eq=False)
class Chain:
    """A plain chain of linear layers: ``x_{l+1} = sigma_l(W_l x_l + b_l)``.

    Args:
        name: what the layers' names share, such as ``seq`` or ``mlp_extractor.policy_net``.
        layers: in order, each with the names of its weight and bias, whether the weight is
            stored inputs first, and its sizes.
        tensors: the chain's tensors by their names in the file.
        activations: what the file calls the functions after the hidden layers; ``unknown``
            where it says nothing.
    """

    name: str
    layers: tuple[Layer, ...]
    tensors: Mapping[str, Tensor] = field(repr=False)
    activations: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of neurons, inputs first."""
        return (self.layers[0].inputs, *(layer.outputs for layer in self.layers))

    def to_spec(
        self, *, activations: Activations | None = None, output: Activation = NONE
    ) -> GraphSpec:
        """Describe the chain; the spec's parameters have the file's own names and layout.

        Args:
            activations: after each hidden layer; one for all, or one each. What the file says
                if not given.
            output: what is applied to the output neurons.

        Raises:
            SpecError: the number of activations is not that of the hidden layers.
        """
        sequence = LayerSequence(self.name, self.layers)
        chosen = self.activations if activations is None else activations
        return sequences_spec([sequence], self.tensors, activations=chosen, output=output)

    def renamed(self, to_spec: GraphSpec) -> dict[str, Tensor]:
        """The same network under another spec's names, orientation and number types.

        Args:
            to_spec: a plain chain, such as the spec that a metanetwork was trained on.

        Raises:
            StateError: the spec is another architecture.
        """
        expected, found = _shape_of(to_spec), (self.sizes, self._biases)
        if expected != found:
            raise StateError(
                f"chain {self.name or self.layers[0].name}",
                expected=_describe(expected) if expected else "a spec that is a plain chain",
                found=_describe(found),
                hint="The network has another architecture than the spec.",
            )
        graph = NeuralGraph.from_states(self.to_spec(), [self.tensors])
        own = graph.spec
        nodes = {
            new.name: graph.nodes[old.name]
            for new, old in zip(to_spec.node_sets, own.node_sets, strict=True)
        }
        edges = {
            new.name: graph.edges[old.name]
            for new, old in zip(to_spec.blocks, own.blocks, strict=True)
        }
        return NeuralGraph(to_spec, nodes, edges).state_dict()

    @property
    def _biases(self) -> tuple[bool, ...]:
        return tuple(layer.bias is not None for layer in self.layers)


def recognise_chain(tensors: Mapping[str, Tensor]) -> Chain:
    """Recognise the one multilayer perceptron that a state holds.

    Layers are ordered by the numbers in their names and must fit together by their shapes.
    Weights called ``w``, ``kernel`` or ``A`` are taken to be stored [inputs, outputs], others
    [outputs, inputs], unless shapes or biases say otherwise; the custom alone decides where
    both readings fit, as with square weights.

    Args:
        tensors: a state, such as that of an implicit neural representation.

    Raises:
        StateError: it holds no chain, several, or tensors that are no part of one.

    >>> import torch
    >>> names = ("0000.dense.A", "0000.dense.b", "0002.dense.A", "0002.dense.b")
    >>> shapes = ((2, 8), (8,), (8, 1), (1,))
    >>> tensors = {name: torch.ones(shape) for name, shape in zip(names, shapes)}
    >>> recognise_chain(tensors).sizes
    (2, 8, 1)
    """
    chains = recognise_chains(tensors)
    if len(chains) != 1:
        raise StateError(
            "state",
            expected="one chain of linear layers",
            found=f"{len(chains)}: {', '.join(chain.name for chain in chains)}",
            hint="Take one of them from recognise_chains.",
        )
    return chains[0]


def recognise_chains(tensors: Mapping[str, Tensor]) -> list[Chain]:
    """Recognise every multilayer perceptron of a state, such as an actor and a critic.

    Raises:
        StateError: tensors are left whose place is not sure, or there are convolutions or
            norms.
    """
    recognition = recognise(tensors)
    require_all_placed(recognition, "state")
    others = [
        layer.name
        for sequence in recognition.sequences
        for layer in (*sequence.layers, *sequence.sides)
        if layer.kind != "linear" or layer in sequence.sides
    ]
    if others or not recognition.sequences:
        raise StateError(
            "state",
            expected="chains of linear layers",
            found=f"also {', '.join(others[:5])}" if others else "no layers",
            hint="Read it with from_checkpoint.",
        )
    return [
        Chain(
            sequence.name,
            sequence.layers,
            {name: tensors[name] for layer in sequence.layers for name in layer.tensors},
            named_activations(sequence, recognition.left_out),
        )
        for sequence in recognition.sequences
    ]


def require_all_placed(recognition: Recognition, subject: object) -> None:
    """Check that every tensor has a place.

    Raises:
        StateError: naming the tensors that have none, and why.
    """
    if not recognition.unplaced:
        return
    reasons: dict[str, list[str]] = {}
    for name, reason in recognition.unplaced.items():
        reasons.setdefault(reason, []).append(name)
    parts = [f"{_few(names)} ({reason})" for reason, names in reasons.items()]
    more = f"; and for {len(parts) - 4} other reasons" if len(parts) > 4 else ""
    raise StateError(
        subject,
        expected="layers whose order names and shapes make sure",
        found=f"tensors that could not be placed: {'; '.join(parts[:4])}{more}",
        hint=MODULE_HINT,
    )


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def named_activations(sequence: LayerSequence, left_out: Mapping[str, str]) -> tuple[str, ...]:
    """The functions that a file names between its layers, as ``0001.relu._`` does."""
    markers = [name.split(".") for name in left_out]
    operations = [(int(m[0]), m[1]) for m in markers if len(m) > 1 and is_index(m[0])]
    places = [layer.name.split(".")[0] for layer in sequence.matrices]
    if not all(is_index(place) for place in places):
        return ("unknown",) * (len(places) - 1)
    names = []
    for before, after in itertools.pairwise(places):
        between = [name for place, name in operations if int(before) < place < int(after)]
        known = len(between) == 1 and between[0] in LAWS
        names.append(between[0] if known else "unknown")
    return tuple(names)


Shape = tuple[tuple[int, ...], tuple[bool, ...]]


def _shape_of(spec: GraphSpec) -> Shape | None:
    """The sizes of a chain and which layers have biases; None if the spec is no chain."""
    names = [node_set.name for node_set in spec.node_sets]
    ends = [(block.source, block.target) for block in spec.blocks]
    plain = all(
        block.kind == "dense" and block.features == 1 and len(block.pieces) == 1
        for block in spec.blocks
    )
    if not plain or spec.left_out or ends != list(itertools.pairwise(names)):
        return None
    sizes = tuple(spec.nodes_in(name) for name in names)
    return sizes, tuple(bool(node_set.pieces) for node_set in spec.node_sets[1:])


def _describe(shape: Shape) -> str:
    sizes, biases = shape
    bias = "with" if all(biases) else "without" if not any(biases) else "partly with"
    return f"{'-'.join(map(str, sizes))} {bias} biases"
