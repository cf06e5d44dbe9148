"""The command ``weightspace view``: a page that shows a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from weightspace.cli.output import say, show_table, working, write_json, write_text

if TYPE_CHECKING:
    from weightspace.report.view_content import View


def view(
    network: Annotated[Positional[str], arg(metavar="FILE_OR_MODULE")],
    *,
    module: str | None = None,
    inputs: str | None = None,
    activation: str | None = None,
    data: str | None = None,
    out: Path = Path("view.html"),
    json: Path | None = None,
) -> None:
    """Show a network on a page: layers, weights, gradients, activations, symmetries.

    The page is one file that needs no network. Dead and duplicate neurons are marked. A
    network that can be run (a module, an .onnx file, a chain with a known activation) also
    shows activations and gradients. No code that a file holds is ever run; a module is
    imported, which runs its code, only because you name it.

    Args:
        network: a checkpoint file, an .onnx file, or package.module:name.
        module: package.module:name of the checkpoint's module; without it the structure is
            recognised from names and shapes.
        inputs: shapes of the inputs, such as "8,3,224,224"; needed for a module, which is run
            on as many random inputs as the first size says.
        activation: of a recognised chain, such as relu; needed to run it.
        data: images to run it on, instead of random inputs: digits, mnist, fashion-mnist, or
            an .npz file.
        out: the page.
        json: also write what was found to this file.
    """
    from weightspace.cli.viewing import view_of
    from weightspace.report.view_page import write_view

    with working(f"reading and running {network}"):
        made = view_of(network, module=module, inputs=inputs, activation=activation, data=data)
        write_text(out, write_view(made))
    show_table("facts", ["", ""], made.facts)
    show_table(
        "marked neurons",
        ["", "neurons", ""],
        [[mark.label, count_of(made, mark.key), mark.meaning] for mark in made.marks],
    )
    for note in made.notes:
        say(note)
    say(f"saved as {out} ({out.stat().st_size / 1e6:.1f} MB)")
    if json is not None:
        write_json(json, summary(made))


def count_of(made: View, key: str) -> int:
    """How many neurons have a mark."""
    return sum(len(finding.neurons) for finding in made.findings if finding.mark == key)


def summary(made: View) -> dict[str, object]:
    """What a page says, for programs."""
    spec = made.spec
    return {
        "neurons": spec.node_count,
        "connections": spec.edge_count,
        "parameters": sum(p.numel for p in spec.parameters if not p.buffer),
        **{mark.key: count_of(made, mark.key) for mark in made.marks},
        "findings": [
            {"kind": f.mark, "axis": f.axis, "neurons": list(f.neurons), "reason": f.text}
            for f in made.findings
        ],
        "blocks": {name: dict(own["statistics"]) for name, own in made.maps.items()},
        "notes": list(made.notes),
    }
