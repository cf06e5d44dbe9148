"""The command ``weightspace diff``: what changed between two networks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from weightspace.cli.output import say, show_table, working, write_json, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from weightspace.graph import GraphSpec
    from weightspace.report.view_difference import Difference

SHOWN = 40
"""So many tensors are printed; the page and the JSON file have all."""
Only = list[tuple[str, str, str]]


def diff(
    a: Annotated[Positional[Path], arg(metavar="A")],
    b: Annotated[Positional[Path], arg(metavar="B")],
    *,
    module: str | None = None,
    inputs: str | None = None,
    scales: bool = False,
    out: Path = Path("diff.html"),
    json: Path | None = None,
) -> None:
    """Show what changed from network A to network B, once B's neurons are in A's order.

    Tensors that only one of them has, or that have another shape, are listed; then the
    tensors that both have are compared as they are.

    Args:
        a: the first checkpoint.
        b: the second.
        module: package.module:name of the networks' module; without it the structure is
            recognised from names and shapes.
        inputs: shapes of the module's inputs, such as "1,3,32,32".
        scales: also bring B's neurons to A's scales, where activations allow it.
        out: the page.
        json: also write what changed to this file.
    """
    from weightspace.report.view_difference import view_difference
    from weightspace.report.view_page import write_view

    with working(f"aligning {b}"):
        found, notes = _compared(a, b, module, inputs, scales)
    made = view_difference(found, title=f"{a.name} to {b.name}", notes=notes)
    write_text(out, write_view(made))
    _show(found)
    for note in notes:
        say(note)
    say(f"relative change of all trained tensors: {found.relative:.4g}")
    say(f"saved as {out} ({out.stat().st_size / 1e6:.1f} MB)")
    if json is not None:
        write_json(json, _summary(found, notes))


def _compared(
    a: Path, b: Path, module: str | None, inputs: str | None, scales: bool
) -> tuple[Difference, list[str]]:
    from weightspace.importers import read_states

    one, other = read_states(a).tensors, read_states(b).tensors
    only = _only(one, other)
    if only:
        return _side_by_side(a, one, other, only, module, inputs)
    return _aligned(a, b, module, inputs, scales)


def _aligned(
    a: Path, b: Path, module: str | None, inputs: str | None, scales: bool
) -> tuple[Difference, list[str]]:
    from weightspace.align import align_weights
    from weightspace.cli.architecture import architecture_of
    from weightspace.report.view_difference import Difference

    architecture = architecture_of(a, module=module, inputs=inputs, activation=None)
    spec, fixed, moving = architecture.spec, architecture.read(a), architecture.read(b)
    if all(bool((fixed[name] == moving[name]).all()) for name in fixed):
        return Difference.of(spec, fixed, moving, None), ["Both networks are the same."]
    aligned = align_weights(spec, fixed, moving, kinds=("sign", "scale") if scales else ("sign",))
    found = Difference.of(spec, fixed, moving, aligned)
    if aligned.matched_exactly:
        change = "order, sign or scale" if scales else "order or sign"
        note = f"B is A with its neurons in another {change}: their functions are the same."
    elif aligned.distance < aligned.distance_before:
        note = (
            f"Alignment brought the networks from distance {aligned.distance_before:.4g} to "
            f"{aligned.distance:.4g}."
        )
    else:
        note = "No order of neurons brings the networks closer: they are compared as they are."
    return found, [note]


def _side_by_side(  # noqa: PLR0917 (one step of the command)
    a: Path,
    one: Mapping[str, Tensor],
    other: Mapping[str, Tensor],
    only: Only,
    module: str | None,
    inputs: str | None,
) -> tuple[Difference, list[str]]:
    """Compare what both have, in the graph of the first."""
    from weightspace.cli.architecture import architecture_of
    from weightspace.errors import FileError
    from weightspace.report.view_difference import Difference

    architecture = architecture_of(a, module=module, inputs=inputs, activation=None)
    spec, fixed = architecture.spec, architecture.read(a)
    gone = {name for name, _, _ in only}
    common = [p.name for p in spec.parameters if p.name in other and p.name not in gone]
    if not common:
        raise FileError(
            a,
            expected="networks that have a tensor in common",
            found=f"none of the same name and shape among {len(one)} and {len(other)}",
        )
    moving = {name: other[name] if name in common else t for name, t in fixed.items()}
    found = Difference.of(spec, fixed, moving, None, only)
    kept = [change for change in found.changes if change.tensor in common]
    note = (
        f"The networks are not of one architecture: {len(kept)} tensors are in both and are "
        "compared as they are, without alignment. The page shows A, and what B lacks as unchanged."
    )
    return Difference(spec, found.a, found.b, kept, {}, only), [note]


def _only(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> Only:
    shapes = [{name: str(list(t.shape)) for name, t in own.items()} for own in (one, other)]
    names = dict.fromkeys([*shapes[0], *shapes[1]])
    rows = [(name, shapes[0].get(name, "-"), shapes[1].get(name, "-")) for name in names]
    return [row for row in rows if row[1] != row[2]]


def _show(found: Difference) -> None:
    if found.only:
        show_table("tensors that differ in kind", ["tensor", "in A", "in B"], found.only[:SHOWN])
    order = sorted(found.changes, key=lambda change: -change.relative)
    show_table(
        "change of each tensor, largest first",
        ["tensor", "shape", "relative change", "without alignment", "moved neurons"],
        [
            [
                c.tensor,
                list(c.shape),
                f"{c.relative:.4g}",
                f"{c.before:.4g}",
                moves(found, c.tensor),
            ]
            for c in order[:SHOWN]
        ],
    )
    if len(order) > SHOWN:
        say(f"{len(order) - SHOWN} more tensors are in the page")


def moves(found: Difference, tensor: str) -> str:
    """How many of a tensor's target neurons moved."""
    axes = _targets(found.spec, tensor)
    counts = [(found.moved_count(axis), found.spec.axis(axis).size) for axis in axes]
    return ", ".join(f"{moved} of {size}" for moved, size in counts) or "-"


def _targets(spec: GraphSpec, tensor: str) -> list[str]:
    pieces = [piece for piece in spec.pieces if piece.parameter == tensor]
    names = [
        f.axis
        for piece in pieces
        for f in piece.factors
        if f.axis is not None and f.side != "source"
    ]
    return [name for name in dict.fromkeys(names) if spec.axis(name).permutes]


def _summary(found: Difference, notes: list[str]) -> dict[str, object]:
    return {
        "relative_change": found.relative,
        "tensors": [
            {"name": c.tensor, "shape": list(c.shape), "relative_change": c.relative,
             "relative_change_before": c.before}
            for c in found.changes
        ],
        "moved": {
            axis.name: found.moved_count(axis.name)
            for axis in found.spec.axes
            if axis.name in found.moved
        },
        "added": [name for name, one, _ in found.only if one == "-"],
        "removed": [name for name, _, other in found.only if other == "-"],
        "reshaped": [name for name, one, other in found.only if "-" not in (one, other)],
        "notes": notes,
    }  # fmt: skip
