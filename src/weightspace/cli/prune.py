"""The command ``weightspace prune``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from weightspace.cli.output import say, show_figures, working, write_json


def prune(
    network: Annotated[Positional[Path], arg(metavar="FILE")],
    *,
    module: str,
    inputs: str,
    share: float = 0.0,
    out: Path = Path("pruned.safetensors"),
    json: Path | None = None,
) -> None:
    """Remove neurons from a network: a smaller one that works.

    First what changes nothing: dead neurons and copies of others. Then, with --share, of every
    layer the neurons with the smallest weights. Layers whose size is written into the module's
    code stay as they are, and are named. Writes the smaller tensors, and beside them a
    .json with the neurons that stay; `weightspace.align.keep_neurons` makes the smaller module
    of them.

    Args:
        network: a checkpoint file.
        module: package.module:name of the network's module.
        inputs: shapes of the module's inputs, such as "1,3,32,32".
        share: of the neurons of every layer that leave beyond that.
        out: the file for the smaller tensors.
        json: also write the figures to this file.
    """
    from weightspace.align import prune as prune_by_score
    from weightspace.align import remove_redundant
    from weightspace.cli.align import write_network
    from weightspace.cli.architecture import NamedModule
    from weightspace.errors import ModelError

    if not 0 <= share < 1:
        raise ModelError("--share", expected="a number in [0, 1)", found=str(share))
    architecture = NamedModule(module, inputs)
    own = architecture.module(architecture.read(network))
    with working("looking for neurons that do nothing"):
        exact = remove_redundant(own, architecture.inputs)
    steps = [exact]
    if share:
        with working("removing the least neurons"):
            steps.append(prune_by_score(exact.module, architecture.inputs, share=share))
    write_network(out, steps[-1].module.state_dict())
    for step in steps:
        for axis, why in step.fixed.items():
            say(f"the neurons of {axis} stay: {why}")
    kept = [{axis: which.tolist() for axis, which in step.kept.items()} for step in steps]
    write_json(out.with_suffix(".json"), kept)
    figures = {
        "parameters_before": exact.parameters[0],
        "parameters_without_redundancy": exact.parameters[1],
        "parameters": steps[-1].parameters[1],
        "neurons_removed_exactly": sum(
            architecture.spec.axis(axis).size - len(which) for axis, which in exact.kept.items()
        ),
    }
    show_figures(f"{network}, pruned", figures)
    say(f"saved as {out}; the neurons that stay are in {out.with_suffix('.json')}")
    if json is not None:
        write_json(json, {**figures, "kept": kept, "fixed": [dict(step.fixed) for step in steps]})
