"""Specs of recognised sequences of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from weightspace.errors import SpecError
from weightspace.graph.activations import NONE, Activation
from weightspace.graph.axis import Axis, Rescaling, Role
from weightspace.graph.binding import Factor, LeftOut, Parameter, Piece, Side, Span
from weightspace.graph.chain import ChainLayer, layered_chain_spec
from weightspace.graph.spec import EdgeBlock, GraphSpec, NodeSet
from weightspace.importers.recognition.layers import Layer
from weightspace.importers.recognition.recogniser import LayerSequence

Activations = str | Activation | Sequence[str | Activation]


def sequences_spec(
    sequences: Sequence[LayerSequence],
    tensors: Mapping[str, Tensor],
    *,
    activations: Activations = "unknown",
    output: Activation = NONE,
    left_out: Mapping[str, str] | None = None,
) -> GraphSpec:
    """Describe sequences of layers, each a component of the graph of its own.

    A plain chain of linear layers gives the spec of
    :func:`weightspace.graph.chain_spec`, with the rescalings that its activations allow; other
    sequences have none, as what stands between the layers is not known. A convolution's
    connections have a feature for each kernel position, a flattened linear layer's one for
    each position of a channel; a norm is a diagonal block, its shift and running statistics
    are features of its neurons.

    Args:
        sequences: as recognised.
        tensors: the state, for shapes and types.
        activations: after each hidden layer (after its norms); one for all, or one each.
        output: what is applied to the outputs.
        left_out: the tensors that are in no sequence, with the reason.

    Raises:
        SpecError: the number of activations is not that of the hidden layers.
    """
    builder = _Builder(tensors, several=len(sequences) > 1)
    for sequence in sequences:
        hidden = len(sequence.matrices) - 1
        functions = [*_one_each(activations, hidden), output]
        if sequence.is_plain:
            builder.add_plain(sequence, functions)
        else:
            builder.add_sequence(sequence, functions)
    reasons = left_out or {}
    items = tuple(LeftOut(builder.parameter(name), reason) for name, reason in reasons.items())
    return GraphSpec(
        tuple(builder.axes),
        tuple(builder.node_sets),
        tuple(builder.blocks),
        tuple(builder.parameters),
        items,
        tuple(builder.rescalings),
    )


def _one_each(activations: Activations, hidden: int) -> list[Activation]:
    if isinstance(activations, str | Activation):
        activations = [activations] * hidden
    if len(activations) != hidden:
        raise SpecError(
            "activations",
            expected=f"one, or {hidden} (one for each hidden layer)",
            found=str(len(activations)),
        )
    return [Activation(a) if isinstance(a, str) else a for a in activations]


class _Builder:
    """Collects the parts of a spec, sequence after sequence."""

    def __init__(self, tensors: Mapping[str, Tensor], *, several: bool) -> None:
        self.tensors, self.several = tensors, several
        self.axes: list[Axis] = []
        self.node_sets: list[NodeSet] = []
        self.blocks: list[EdgeBlock] = []
        self.parameters: list[Parameter] = []
        self.rescalings: list[Rescaling] = []

    def parameter(self, name: str) -> Parameter:
        """Describe a tensor."""
        tensor = self.tensors[name]
        buffer = not tensor.is_floating_point() or "running_" in name or "moving_" in name
        return Parameter(
            name, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), buffer
        )

    def input_name(self, sequence: LayerSequence) -> str:
        """What the input neurons of a sequence are called."""
        taken = any(layer.name == "input" for layer in sequence.layers)
        return f"{sequence.name or 'layers'}.input" if self.several or taken else "input"

    def add_plain(self, sequence: LayerSequence, activations: Sequence[Activation]) -> None:
        """Add a plain chain of linear layers, with the rescalings that its functions allow."""
        layers = [
            ChainLayer(
                layer.name,
                layer.outputs,
                layer.weight or "",
                layer.bias,
                layer.transposed,
                self.parameter(layer.weight or "").dtype,
            )
            for layer in sequence.layers
        ]
        name = self.input_name(sequence)
        spec = layered_chain_spec(sequence.layers[0].inputs, layers, activations, input_name=name)
        self.axes += spec.axes
        self.node_sets += spec.node_sets
        self.blocks += spec.blocks
        self.parameters += [self.parameter(p.name) for p in spec.parameters]
        self.rescalings += spec.rescalings

    def add_sequence(self, sequence: LayerSequence, activations: Sequence[Activation]) -> None:
        """Add the node sets and blocks of one sequence."""
        last = len(sequence.matrices) - 1
        name = self.input_name(sequence)
        axis = self.add_axis(name, sequence.layers[0].inputs, "input")
        self.node_sets.append(NodeSet(name, (name,), "input"))
        done = -1
        reader = name
        for place, layer in enumerate(sequence.layers):
            source = self.node_sets[-1].name
            ends = place + 1 == len(sequence.layers)
            following = None if ends else sequence.layers[place + 1]
            role: Role = "output" if ends else "hidden"
            if layer.kind != "norm":
                done += 1
                reader = source if done == last else reader
                axis = self.add_axis(
                    layer.name, layer.outputs, "hidden" if done < last else "output"
                )
            normed = following is not None and following.kind == "norm"
            function = NONE if normed or done < 0 else activations[done]
            if layer.kind == "norm":
                self.add_norm(layer, source, axis, role, function)
            else:
                self.add_matrix(layer, source, axis, role, function)
        for side in sequence.sides:
            side_axis = self.add_axis(side.name, side.outputs, "output")
            self.add_matrix(side, reader, side_axis, "output", NONE)

    def add_axis(self, name: str, size: int, role: Role) -> Axis:
        """Add an axis; hidden ones permute."""
        axis = Axis(name, size, role, permutes=role == "hidden")
        self.axes.append(axis)
        return axis

    def add_matrix(
        self, layer: Layer, source: str, axis: Axis, role: Role, function: Activation
    ) -> None:
        """Add a linear layer or convolution and its output neurons."""
        assert layer.weight is not None
        sources = self.axis_of(source)
        rows = Span((Factor(axis.size, axis.name, "target"),))
        columns = [Factor(sources.size, sources.name, "source")]
        if layer.positions > 1:
            # Channels are outermost where weights are [outputs, inputs], innermost otherwise.
            spread = Factor(layer.positions, None, "feature")
            columns.insert(0 if layer.transposed else 1, spread)
        matrix = (rows, Span(tuple(columns)))
        kernel = tuple(Span((Factor(size, None, "feature"),)) for size in layer.kernel)
        spans = (*kernel, *reversed(matrix)) if layer.transposed else (*matrix, *kernel)
        self.add(layer.weight)
        pieces = self.vectors([layer.bias], axis, "target")
        self.node_sets.append(NodeSet(layer.name, (axis.name,), role, function, pieces))
        self.blocks.append(
            EdgeBlock(
                layer.weight, source, layer.name, "dense", pieces=(Piece(layer.weight, spans),)
            )
        )

    def add_norm(
        self, layer: Layer, source: str, axis: Axis, role: Role, function: Activation
    ) -> None:
        """Add a norm: a diagonal block onto a further node set of the same axis."""
        scales = self.vectors([layer.weight], axis, "shared")
        pieces = self.vectors([layer.bias, *layer.statistics], axis, "target")
        self.node_sets.append(NodeSet(layer.name, (axis.name,), role, function, pieces))
        self.blocks.append(
            EdgeBlock(
                layer.weight or layer.name,
                source,
                layer.name,
                "diagonal" if scales else "identity",
                shared=(axis.name,),
                pieces=scales,
            )
        )

    def axis_of(self, node_set: str) -> Axis:
        """The axis of a node set."""
        (name,) = next(n.axes for n in self.node_sets if n.name == node_set)
        return next(axis for axis in self.axes if axis.name == name)

    def vectors(self, names: Sequence[str | None], axis: Axis, side: Side) -> tuple[Piece, ...]:
        """The pieces of vectors with one value for each neuron of an axis."""
        present = [name for name in names if name is not None]
        for name in present:
            self.add(name)
        return tuple(Piece(n, (Span((Factor(axis.size, axis.name, side),)),)) for n in present)

    def add(self, name: str) -> None:
        """Note a tensor that is in the graph."""
        self.parameters.append(self.parameter(name))
