"""The command ``weightspace align``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from weightspace.cli.output import say, show_figures, working, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from weightspace.align import Alignment
    from weightspace.align.frames import Kind
    from weightspace.cli.architecture import Architecture, Measured
    from weightspace.graph import State


def align(
    a: Annotated[Positional[Path], arg(metavar="A")],
    b: Annotated[Positional[Path], arg(metavar="B")],
    *,
    module: str | None = None,
    inputs: str | None = None,
    activation: str | None = None,
    method: Literal["weights", "activations"] = "weights",
    scales: bool = False,
    restarts: int = 1,
    data: str | None = None,
    out: Path = Path("aligned.safetensors"),
    json: Path | None = None,
) -> None:
    """Bring network B to network A: the same function, its neurons in A's order.

    The symmetries are derived from the architecture: what may be permuted, and where neurons
    may change sign or scale. Writes B's new tensors.

    Args:
        a: the checkpoint that stays.
        b: the checkpoint that is brought to it.
        module: package.module:name of the networks' module; without it the structure is
            recognised from names and shapes, which tells chains of layers only.
        inputs: shapes of the module's inputs, such as "1,3,32,32".
        activation: of a recognised chain, such as relu; needed to run it.
        method: by weights, or by what neurons do on inputs (needs the module).
        scales: also give B's neurons A's scales, where activations allow it.
        restarts: how many times to begin; the closest result counts.
        data: images that say how much the loss rises between A and B: digits, mnist,
            fashion-mnist, or an .npz file.
        out: the file for B's new tensors.
        json: also write the figures to this file.
    """
    from weightspace.align import align_weights
    from weightspace.cli.architecture import architecture_of, loss_on

    architecture = architecture_of(a, module=module, inputs=inputs, activation=activation)
    fixed, moving = architecture.read(a), architecture.read(b)
    measured = loss_on(architecture, data)
    examples = None if measured is None else measured.inputs
    kinds: tuple[Kind, ...] = ("sign", "scale") if scales else ("sign",)
    with working(f"aligning {b}"):
        if method == "weights":
            found = align_weights(architecture.spec, fixed, moving, kinds=kinds, restarts=restarts)
        else:
            found = _by_activations(architecture, fixed, moving, examples, kinds, restarts)
    write_network(out, found.aligned)
    figures = {
        "max_relative_change": change_of(architecture, moving, found.aligned, measured),
        "matched_exactly": found.matched_exactly,
        "distance_before": found.distance_before,
        "distance": found.distance,
        **_losses(measured, fixed, moving, found),
    }
    show_figures(f"{b} brought to {a}", figures)
    say(f"saved as {out}")
    if json is not None:
        write_json(json, figures)


def _by_activations(  # noqa: PLR0917 (one step of the command)
    architecture: Architecture,
    fixed: State,
    moving: State,
    examples: Tensor | None,
    kinds: Sequence[Kind],
    restarts: int,
) -> Alignment:
    from weightspace.align import align_activations
    from weightspace.importers.flowing import FlowReader

    module = architecture.module(fixed)
    given = architecture.random_inputs(256) if examples is None else examples[:256]
    reader = FlowReader(module, given)
    return align_activations(reader, fixed, moving, kinds=kinds, restarts=restarts)


def write_network(path: Path, state: State) -> None:
    """Write a network's tensors as a safetensors file, all or nothing.

    Raises:
        FileError: the file cannot be written.
    """
    from safetensors.torch import save

    from weightspace.cli.output import make_folder
    from weightspace.zoo.store_files import write_file

    seen: set[int] = set()
    tensors = {}
    for name, tensor in state.items():
        own = tensor.detach().contiguous()
        storage = own.untyped_storage().data_ptr()
        tensors[name] = own.clone() if storage in seen else own  # tied ones are written twice
        seen.add(storage)
    make_folder(path.parent)
    write_file(path, save(tensors))


def change_of(
    architecture: Architecture, before: State, after: State, measured: Measured | None
) -> float | None:
    """The largest change of the moved network's output, relative to its largest value."""
    from weightspace.errors import ModelError

    given = architecture.random_inputs(64) if measured is None else measured.inputs[:64]
    try:
        one, other = (architecture.run(state, given) for state in (before, after))
    except ModelError as error:
        say(f"the change of the output is not known: {error}")
        return None
    one, other = one.double(), other.double()
    return float((one - other).abs().max() / one.abs().max().clamp_min(1e-12))


def _losses(
    measured: Measured | None, fixed: State, moving: State, found: Alignment
) -> dict[str, Any]:
    """Losses half way from one network to the other, before and after, and the barriers."""
    if measured is None:
        return {"loss_before": None, "loss_after": None, "barrier": None}
    from weightspace.align import loss_path

    before = loss_path(measured.loss, fixed, moving)
    after = loss_path(measured.loss, fixed, found.aligned)
    return {
        "loss_before": before.middle,
        "loss_after": after.middle,
        "barrier_before": before.barrier,
        "barrier": after.barrier,
        "loss_of_a": after.losses[0],
        "loss_of_b": after.losses[-1],
    }
