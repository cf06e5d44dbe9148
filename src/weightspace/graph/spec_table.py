"""Specs as tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from weightspace.graph.axis import Axis
from weightspace.graph.spec import GraphSpec


def spec_table(spec: GraphSpec) -> str:
    """Print a spec as tables of axes, node sets and blocks.

    >>> from weightspace.graph import chain_spec
    >>> print(spec_table(chain_spec([2, 3, 1], activations="relu")).splitlines()[0])
    GraphSpec: 6 nodes, 9 edges, 13 parameters
    """
    axes = [[a.name, str(a.size), a.role, describe_group(spec, a)] for a in spec.axes]
    nodes = [
        [
            n.name,
            " x ".join(n.axes),
            str(spec.nodes_in(n.name)),
            n.role,
            str(n.activation),
            ", ".join(piece.parameter for piece in n.pieces) or "-",
        ]
        for n in spec.node_sets
    ]
    blocks = []
    for block in spec.blocks:
        shape = spec.shape_of(block)
        sizes = f"{shape.groups}x{shape.targets}x{shape.sources}x{shape.features}"
        names = ", ".join(piece.parameter for piece in block.pieces) or "-"
        blocks.append([block.name, block.kind, f"{block.source} -> {block.target}", sizes, names])
    parts = [
        f"GraphSpec: {spec.node_count} nodes, {spec.edge_count} edges, "
        f"{spec.parameter_count} parameters",
        _table(["axis", "size", "role", "group"], axes),
        _table(["node set", "axes", "size", "role", "activation", "parameters"], nodes),
        _table(
            ["block", "kind", "from -> to", "groups x out x in x features", "parameters"], blocks
        ),
    ]
    if spec.left_out:
        left_out = [
            [item.parameter.name, str(item.parameter.shape), item.reason] for item in spec.left_out
        ]
        parts.append(_table(["left out", "shape", "reason"], left_out))
    return "\n\n".join(parts)


def describe_group(spec: GraphSpec, axis: Axis) -> str:
    """Name the symmetries of an axis, such as ``S_32, sign``."""
    names = (
        [f"S_{axis.size}"]
        if axis.permutes
        else ["fixed" + (f" ({axis.reason})" if axis.reason else "")]
    )
    if axis.within is not None:
        names[0] += f" within {axis.within}"
    names += [r.kind for r in spec.rescalings if r.axis == axis.name]
    names += [f"GL_{axis.size}" for m in spec.mixings if m.axis == axis.name]
    return ", ".join(names)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, ["-" * width for width in widths], *rows)
    ]
    return "\n".join(lines)
