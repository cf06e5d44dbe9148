"""Specs and graphs as small HTML tables, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from weightspace.errors import counted
from weightspace.graph.spec import GraphSpec

MOST = 30
"""Rows of a table that are shown at the most."""


def html_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[object]], *, most: int = MOST
) -> str:
    """A table in HTML; every text is escaped, because names come from files.

    >>> html_table("t", ["a"], [["<script>"]])
    '<p>t</p><table><tr><th>a</th></tr><tr><td>&lt;script&gt;</td></tr></table>'
    """
    lines = [list(row) for row in rows[:most]]
    if len(rows) > most:
        lines.append([f"... and {len(rows) - most:,} more", *[""] * (len(header) - 1)])
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in line)}</tr>" for line in lines
    )
    return f"<p>{escape(title)}</p><table><tr>{head}</tr>{body}</table>"


def spec_html(spec: GraphSpec, *, networks: int | None = None) -> str:
    """A spec's blocks as a table.

    Args:
        spec: the structure.
        networks: how many networks of it there are, for a batch of them.
    """
    front = "GraphSpec" if networks is None else f"NeuralGraph of {counted(networks, 'network')}"
    title = (
        f"{front}: {spec.node_count:,} nodes, {spec.edge_count:,} edges, "
        f"{spec.parameter_count:,} parameters"
    )
    rows = []
    for block in spec.blocks:
        shape = spec.shape_of(block)
        sizes = f"{shape.groups} x {shape.targets} x {shape.sources} x {shape.features}"
        activation = str(spec.node_set(block.target).activation)
        names = ", ".join(piece.parameter for piece in block.pieces) or "-"
        rows.append([block.name, block.kind, block.source, block.target, sizes, activation, names])
    header = ["block", "kind", "from", "to", "groups x out x in x features", "then", "parameters"]
    return html_table(title, header, rows)
