"""Specs of plain chains of linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from weightspace.errors import SpecError
from weightspace.graph.activations import NONE, Activation
from weightspace.graph.axis import Axis, Rescaling, RescalingKind, Role
from weightspace.graph.binding import Factor, Parameter, Piece, Span, Weighing
from weightspace.graph.spec import EdgeBlock, GraphSpec, NodeSet

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChainLayer:
    """A linear layer of a chain, and where its tensors are.

    Args:
        name: what its output neurons are called.
        size: how many they are.
        weight: the weight's name.
        bias: the bias's name, or None.
        transposed: whether the weight is stored [inputs, outputs].
        dtype: the type of the tensors.
    """

    name: str
    size: int
    weight: str
    bias: str | None
    transposed: bool = False
    dtype: str = "float32"


def chain_spec(
    sizes: Sequence[int],
    *,
    activations: str | Activation | Sequence[str | Activation] = "relu",
    output: Activation = NONE,
    bias: bool | Sequence[bool] = True,
    layer_names: Sequence[str] | None = None,
    dtype: str = "float32",
) -> GraphSpec:
    """Describe a multilayer perceptron: ``x_{l+1} = sigma_l(W_l x_l + b_l)``.

    Kofinas et al. 2024, equations 1-3: block ``l`` of the adjacency is ``W_l``, the features
    of the nodes of layer ``l`` are ``b_l``; the input nodes have none.

    Args:
        sizes: the numbers of neurons, inputs first: ``[2, 32, 32, 1]``.
        activations: after each hidden layer; one for all, or one each.
        output: what is applied to the output neurons.
        bias: whether layers have biases; one for all, or one each.
        layer_names: module paths, so that the parameters are ``{name}.weight`` and
            ``{name}.bias``; ``"0"``, ``"1"``, ... if not given.
        dtype: the type of the tensors.

    Raises:
        SpecError: fewer than two sizes, or lists of another length than the layers.

    >>> [p.name for p in chain_spec([2, 8, 1], layer_names=["seq.0", "seq.1"]).parameters]
    ['seq.0.weight', 'seq.0.bias', 'seq.1.weight', 'seq.1.bias']
    """
    layers = len(sizes) - 1
    if layers < 1:
        raise SpecError(
            "sizes", expected="at least an input and an output size", found=f"{list(sizes)}"
        )
    names = [str(i) for i in range(layers)] if layer_names is None else list(layer_names)
    if isinstance(activations, str | Activation):
        activations = [activations] * (layers - 1)
    named = _one_each("activations", activations, layers - 1)
    functions = [*(Activation(a) if isinstance(a, str) else a for a in named), output]
    biases = _one_each("bias", [bias] * layers if isinstance(bias, bool) else bias, layers)
    if len(names) != layers:
        raise SpecError("layer_names", expected=f"{layers} names", found=str(len(names)))
    chain = [
        ChainLayer(name, size, f"{name}.weight", f"{name}.bias" if has_bias else None, dtype=dtype)
        for name, size, has_bias in zip(names, sizes[1:], biases, strict=True)
    ]
    return layered_chain_spec(sizes[0], chain, functions)


def layered_chain_spec(
    inputs: int,
    layers: Sequence[ChainLayer],
    activations: Sequence[Activation],
    *,
    input_name: str = "input",
) -> GraphSpec:
    """Describe a multilayer perceptron whose tensors have any names and orientation.

    Args:
        inputs: the number of input neurons.
        layers: in the order of computation.
        activations: after each layer, the last included.
        input_name: what the input neurons are called.

    Raises:
        SpecError: a name occurs twice.
    """
    names = [input_name, *(layer.name for layer in layers)]
    axes = _axes([inputs, *(layer.size for layer in layers)], names)
    nodes = [NodeSet(input_name, (input_name,), "input")]
    blocks: list[EdgeBlock] = []
    parameters: list[Parameter] = []
    for place, layer in enumerate(layers):
        source, target = axes[place], axes[place + 1]
        rows = Span((Factor(target.size, target.name, "target"),))
        columns = Span((Factor(source.size, source.name, "source"),))
        spans = (columns, rows) if layer.transposed else (rows, columns)
        row_place, column_place = (1, 0) if layer.transposed else (0, 1)
        entering = _weighings(target, activations[place], dimension=row_place, power=1)
        before = activations[place - 1] if place else NONE
        leaving = _weighings(source, before, dimension=column_place, power=-1)
        shape = tuple(span.length for span in spans)
        parameters.append(Parameter(layer.weight, shape, layer.dtype))
        pieces: tuple[Piece, ...] = ()
        if layer.bias is not None:
            parameters.append(Parameter(layer.bias, (target.size,), layer.dtype))
            shifts = _weighings(target, activations[place], dimension=0, power=1)
            pieces = (Piece(layer.bias, (rows,), shifts),)
        nodes.append(NodeSet(layer.name, (target.name,), target.role, activations[place], pieces))
        piece = Piece(layer.weight, spans, entering + leaving)
        blocks.append(
            EdgeBlock(layer.weight, nodes[place].name, layer.name, "dense", pieces=(piece,))
        )
    rescalings = tuple(
        Rescaling(weighing.rescaling, axis.name, kind)
        for axis, function in zip(axes[1:], activations, strict=True)
        for kind, weighing in _kinds(axis, function, dimension=0, power=1)
    )
    return GraphSpec(
        tuple(axes), tuple(nodes), tuple(blocks), tuple(parameters), rescalings=rescalings
    )


def _kinds(
    axis: Axis, function: Activation, *, dimension: int, power: int
) -> list[tuple[RescalingKind, Weighing]]:
    """The rescalings that a hidden axis's activation allows, acting along a dimension."""
    if axis.role != "hidden" or function.name == "unknown":
        return []
    allowed: list[tuple[RescalingKind, bool]] = [
        ("sign", function.law.odd),
        ("scale", function.law.homogeneous),
    ]
    return [
        (kind, Weighing(f"{axis.name} {kind}", dimension, power))
        for kind, holds in allowed
        if holds
    ]


def _weighings(
    axis: Axis, function: Activation, *, dimension: int, power: int
) -> tuple[Weighing, ...]:
    return tuple(w for _, w in _kinds(axis, function, dimension=dimension, power=power))


def _axes(sizes: Sequence[int], names: Sequence[str]) -> list[Axis]:
    last = len(sizes) - 1
    roles: list[Role] = ["input", *["hidden"] * (last - 1), "output"]  # type: ignore[list-item]
    return [
        Axis(name, size, role, permutes=role == "hidden")
        for name, size, role in zip(names, sizes, roles, strict=True)
    ]


def _one_each(what: str, values: Sequence[T], count: int) -> Sequence[T]:
    """Check that a list has one value for each layer."""
    if len(values) != count:
        raise SpecError(
            what, expected=f"one, or {count} (one for each layer)", found=str(len(values))
        )
    return values
