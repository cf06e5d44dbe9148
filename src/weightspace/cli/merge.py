"""The command ``weightspace merge``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from weightspace.cli.output import say, show_figures, working, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from weightspace.align import Merge
    from weightspace.cli.architecture import Architecture, Measured
    from weightspace.graph import State

BATCH = 256
"""Inputs in a batch when statistics are estimated again."""


def merge(
    networks: Annotated[Positional[tuple[Path, ...]], arg(metavar="A B ...")],
    *,
    method: Literal["average", "slerp", "task-arithmetic"] = "average",
    weights: tuple[float, ...] = (),
    t: float = 0.5,
    base: Path | None = None,
    scale: float = 1.0,
    align: bool = True,
    module: str | None = None,
    inputs: str | None = None,
    activation: str | None = None,
    data: str | None = None,
    out: Path = Path("merged.safetensors"),
    json: Path | None = None,
) -> None:
    """Merge checkpoints of one architecture into one network.

    All are first brought to the first one (or to the base), so that equal neurons meet.

    Args:
        networks: the checkpoints.
        method: average; slerp (two networks, on the sphere); or task-arithmetic (the sum of
            what each learned beyond a base).
        weights: of an average, one a network; equal ones if not given.
        t: of slerp: 0 is the first network, 1 the second.
        base: of task-arithmetic: the checkpoint all others were tuned from.
        scale: of task-arithmetic's sum.
        align: bring the networks to the first one; --no-align merges them as they are.
        module: package.module:name of the networks' module; without it the structure is
            recognised from names and shapes, which tells chains of layers only.
        inputs: shapes of the module's inputs, such as "1,3,32,32".
        activation: of a recognised chain, such as relu; needed to run it.
        data: images on which the loss is taken, and batch norms' statistics estimated again
            (on the training images): digits, mnist, fashion-mnist, or an .npz file.
        out: the file for the merged network.
        json: also write the figures to this file.
    """
    from weightspace.align import align_weights, merge_states
    from weightspace.cli.align import change_of, write_network
    from weightspace.cli.architecture import architecture_of, loss_on
    from weightspace.errors import ModelError

    if not networks:
        raise ModelError("networks", expected="at least two checkpoints", found="none")
    first = networks[0] if base is None else base
    architecture = architecture_of(first, module=module, inputs=inputs, activation=activation)
    states = [architecture.read(path) for path in networks]
    goal = states[0] if base is None else architecture.read(base)
    how = _how(method, weights, t, goal if base is not None else None, scale)
    how.check(len(states))  # before the networks are aligned
    measured = loss_on(architecture, data)
    unaligned = None if measured is None else measured.loss(merge_states(states, how))
    exact, changes = [], []
    if align:
        for number, state in enumerate(states):
            if state is not goal:
                with working(f"aligning {networks[number]}"):
                    found = align_weights(architecture.spec, goal, state)
                exact.append(found.matched_exactly)
                changes.append(change_of(architecture, state, found.aligned, measured))
                states[number] = found.aligned
    merged = merge_states(states, how)
    repaired = _repair(architecture, merged, measured)
    write_network(out, merged)
    figures = {
        "networks": len(networks),
        "method": method,
        "matched_exactly": bool(exact) and all(exact),
        "statistics_repaired": repaired,
        "max_relative_change": max((c for c in changes if c is not None), default=None),
        **_losses(measured, states, merged, unaligned),
    }
    show_figures(f"{len(networks)} networks merged", figures)
    if figures["loss_after"] is not None and figures["loss_after"] > max(figures["losses"]):
        say("the merged network is worse than each of them: they do not lie in one valley")
    say(f"saved as {out}")
    if json is not None:
        write_json(json, figures)


def _how(
    method: str, weights: Sequence[float], t: float, base: State | None, scale: float
) -> Merge:
    from weightspace.align import Average, Slerp, TaskArithmetic
    from weightspace.errors import ModelError

    if method == "slerp":
        return Slerp(t)
    if method == "average":
        return Average(tuple(weights) or None)
    if base is None:
        raise ModelError(
            "--base", expected="the checkpoint that all networks were tuned from", found="none"
        )
    return TaskArithmetic(base, scale)


def _repair(
    architecture: Architecture, merged: dict[str, Tensor], measured: Measured | None
) -> bool:
    """Estimate batch norms' statistics of the merged network again, in place."""
    import torch

    from weightspace.align import repair_statistics

    statistics = any(name.endswith("running_var") for name in merged)
    if not statistics:
        return False
    if measured is None:
        say("batch norms keep the mean of their statistics: give --data to estimate them again")
        return False
    module = architecture.module(merged)
    repaired = repair_statistics(module, torch.split(measured.training, BATCH))
    merged.update({name: tensor.clone() for name, tensor in module.state_dict().items()})
    return repaired


def _losses(
    measured: Measured | None, states: Sequence[State], merged: State, unaligned: float | None
) -> dict[str, Any]:
    """The loss of the merged network, before and after alignment, and what it lies above."""
    if measured is None:
        return {"loss_before": None, "loss_after": None, "barrier": None}
    own, after = [measured.loss(state) for state in states], measured.loss(merged)
    return {
        "losses": own,
        "loss_before": unaligned,
        "loss_after": after,
        "barrier": after - sum(own) / len(own),
    }
