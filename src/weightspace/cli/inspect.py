"""The command ``weightspace inspect``: a network's graph and its symmetries."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from weightspace.cli.output import say, show_table, working, write_json

if TYPE_CHECKING:
    from torch import Tensor, nn

    from weightspace.graph import GraphSpec, NeuralGraph


def inspect(
    network: Annotated[Positional[str], arg(metavar="FILE_OR_MODULE")],
    *,
    inputs: str | None = None,
    json: Path | None = None,
) -> None:
    """Show a network as a graph: node sets, blocks, axes and what may be done to them.

    An .onnx file is traced and run. A checkpoint's structure is recognised from the names and
    shapes of its tensors; it cannot be run, as its activations are not known. A module is
    named as package.module:name, where name is an nn.Module, a class or a function that gives
    one: the package is imported, which runs its code, only because you name it. No code that
    a file holds is ever run.

    Args:
        network: an .onnx file, a checkpoint file, or package.module:name.
        inputs: shapes of the inputs, such as "1,3,224,224"; several are separated by ";",
            whole numbers are written int:1,16. Needed for a module; for an .onnx file where it
            leaves sizes open.
        json: also write it as JSON to this file.
    """
    started = time.perf_counter()
    with working(f"reading and running {network}"):
        found = _read(network, inputs)
        change, reason = _largest_change(found)
    seconds = time.perf_counter() - started
    spec = found.graph.spec
    _show(spec)
    held, total = _counts(spec)
    say(f"\nparameters: {held:,} of {total:,} values are in the graph")
    if change is None:
        say(f"largest change of the output under random group elements: not known, {reason}")
    else:
        say(f"largest change of the output under random group elements: {change:.2g}")
    say(f"read and checked in {seconds:.1f} s")
    if json is not None:
        write_json(json, _summary(spec, change, reason, seconds))


@dataclass(frozen=True)
class Found:
    """A network's graph, and the network itself where it can be run."""

    graph: NeuralGraph
    module: nn.Module | None = None
    inputs: tuple[Tensor, ...] = ()
    reason: str = ""


_MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")


def _read(network: str, inputs: str | None) -> Found:
    from weightspace.importers import from_checkpoint, from_module
    from weightspace.importers.onnx import graph_of, onnx_module

    path = Path(network)
    if not path.exists() and _MODULE.match(network):
        from weightspace.cli.modules import example_tensors, import_module

        tensors = example_tensors(inputs)
        module = import_module(network)
        return Found(from_module(module, tensors), module, tensors)
    if path.suffix.lower() == ".onnx":
        shapes = None if inputs is None else [shape for _, shape in _shapes(inputs)]
        built = onnx_module(path, input_shapes=shapes)
        return Found(graph_of(built), built, built.example_inputs)
    return Found(
        from_checkpoint(path),
        reason="a checkpoint does not say how the network is run; give its module",
    )


def _shapes(inputs: str) -> list[tuple[bool, tuple[int, ...]]]:
    from weightspace.cli.modules import parse_shapes

    return parse_shapes(inputs)


def _largest_change(found: Found) -> tuple[float | None, str | None]:
    """Run the network before and after random permutations."""
    from weightspace.errors import SymmetryError

    if found.module is None:
        return None, found.reason
    try:
        report = found.graph.symmetry.check(found.module, found.inputs)
    except SymmetryError as error:
        return None, str(error)
    return report.max_relative_change, None


def _counts(spec: GraphSpec) -> tuple[int, int]:
    """How many trained values the graph holds, and how many there are; tied ones count once."""
    held = sum(p.numel for p in spec.parameters if not p.buffer)
    missing = sum(
        item.parameter.numel
        for item in spec.left_out
        if item.same_as is None and not item.parameter.buffer
    )
    return held, held + missing


def _show(spec: GraphSpec) -> None:
    from weightspace.graph.spec_table import describe_group

    show_table(
        "node sets",
        ["name", "axes", "neurons", "role", "activation", "parameters"],
        [
            [n.name, " x ".join(n.axes), spec.nodes_in(n.name), n.role, n.activation,
             ", ".join(piece.parameter for piece in n.pieces) or "-"]
            for n in spec.node_sets
        ],
    )  # fmt: skip
    show_table(
        "blocks",
        ["name", "kind", "from -> to", "connections", "features", "parameters"],
        [
            [b.name, b.kind, f"{b.source} -> {b.target}", f"{spec.shape_of(b).edges:,}",
             b.features, ", ".join(dict.fromkeys(p.parameter for p in b.pieces)) or "-"]
            for b in spec.blocks
        ],
    )  # fmt: skip
    show_table(
        "axes",
        ["name", "size", "role", "group"],
        [[a.name, a.size, a.role, describe_group(spec, a)] for a in spec.axes],
    )
    if spec.left_out:
        show_table(
            "left out",
            ["tensor", "shape", "reason"],
            [[i.parameter.name, i.parameter.shape, i.reason] for i in spec.left_out],
        )
    say(f"\n{spec.node_count:,} nodes, {spec.edge_count:,} connections")


def _summary(
    spec: GraphSpec, change: float | None, reason: str | None, seconds: float
) -> dict[str, Any]:
    from weightspace.graph.spec_table import describe_group

    held, total = _counts(spec)
    return {
        "nodes": spec.node_count,
        "edges": spec.edge_count,
        "parameters": total,
        "parameters_covered": held,
        "left_out": [
            {"name": item.parameter.name, "shape": list(item.parameter.shape),
             "reason": item.reason, "same_as": item.same_as}
            for item in spec.left_out
        ],
        "axes": [
            {"name": axis.name, "size": axis.size, "role": axis.role, "permutes": axis.permutes,
             "within": axis.within, "group": describe_group(spec, axis)}
            for axis in spec.axes
        ],
        "max_relative_change": change,
        "not_checked": reason,
        "seconds": seconds,
    }  # fmt: skip
