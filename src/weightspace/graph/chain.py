"""Specs of plain chains of linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from weightspace.errors import SpecError
from weightspace.graph.activations import NONE, Activation
from weightspace.graph.axis import Axis, Role
from weightspace.graph.binding import Factor, Parameter, Piece, Span
from weightspace.graph.spec import EdgeBlock, GraphSpec, NodeSet

T = TypeVar("T")


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
    axes = _axes(sizes, names)
    nodes = [NodeSet("input", (axes[0].name,), "input")]
    blocks: list[EdgeBlock] = []
    parameters: list[Parameter] = []
    for place, name in enumerate(names):
        source, target = axes[place], axes[place + 1]
        rows = Span((Factor(target.size, target.name, "target"),))
        columns = Span((Factor(source.size, source.name, "source"),))
        weight = f"{name}.weight"
        parameters.append(Parameter(weight, (target.size, source.size), dtype))
        pieces: tuple[Piece, ...] = ()
        if biases[place]:
            parameters.append(Parameter(f"{name}.bias", (target.size,), dtype))
            pieces = (Piece(f"{name}.bias", (rows,)),)
        nodes.append(NodeSet(name, (target.name,), target.role, functions[place], pieces))
        blocks.append(
            EdgeBlock(
                weight, nodes[place].name, name, "dense", pieces=(Piece(weight, (rows, columns)),)
            )
        )
    return GraphSpec(tuple(axes), tuple(nodes), tuple(blocks), tuple(parameters))


def _axes(sizes: Sequence[int], names: Sequence[str]) -> list[Axis]:
    last = len(sizes) - 1
    roles: list[Role] = ["input", *["hidden"] * (last - 1), "output"]  # type: ignore[list-item]
    return [
        Axis(name, size, role, permutes=role == "hidden")
        for name, size, role in zip(["input", *names], sizes, roles, strict=True)
    ]


def _one_each(what: str, values: Sequence[T], count: int) -> Sequence[T]:
    """Check that a list has one value for each layer."""
    if len(values) != count:
        raise SpecError(
            what, expected=f"one, or {count} (one for each layer)", found=str(len(values))
        )
    return values
