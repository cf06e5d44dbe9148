"""Networks out of checkpoint files, for commands that read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from weightspace.errors import FileError, WeightspaceError

if TYPE_CHECKING:
    from torch import Tensor

    from weightspace.graph import GraphSpec, NeuralGraph
    from weightspace.importers import Chain
    from weightspace.models import Predictor


def read_chain(path: Path) -> Chain:
    """Read a checkpoint file that holds one chain of linear layers.

    Raises:
        FileError: the file cannot be read, or holds something else.
    """
    from weightspace.importers import read_states, recognise_chain

    try:
        return recognise_chain(read_states(path).tensors)
    except FileError:
        raise
    except WeightspaceError as error:
        raise FileError(
            path, expected=error.expected, found=error.found, hint=error.hint
        ) from error


TRAINED_ON = "The model was trained on networks of another architecture."


def read_network(path: Path, spec: GraphSpec, *, hint: str = TRAINED_ON) -> dict[str, Tensor]:
    """Read a checkpoint file as a network of a spec, whatever its tensors are called.

    Args:
        path: the file.
        spec: of the network.
        hint: what to say where the network is of another one.

    Raises:
        FileError: the file cannot be read, holds another architecture, or weights that are
            not finite.
    """
    from weightspace.importers import read_states, recognise_chain

    tensors = read_states(path).tensors
    try:
        state = _as_it_is(tensors, spec) or recognise_chain(tensors).renamed(spec)
    except WeightspaceError as error:
        raise FileError(
            path,
            expected=error.expected,
            found=error.found,
            hint=hint,
        ) from error
    _require_finite(path, state)
    return state


def computable(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors in types that numbers can be computed with: eight bits are stored only."""
    return {
        name: tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor
        for name, tensor in state.items()
    }


def read_graph(path: Path, model: Predictor) -> NeuralGraph:
    """Read a checkpoint file as a network that a model can read.

    Args:
        path: the file.
        model: of one architecture, whose spec the network is then brought to, or of many.

    Raises:
        FileError: the file cannot be read, holds another architecture, or weights that are
            not finite.
    """
    from weightspace.graph import NeuralGraph
    from weightspace.importers import from_checkpoint

    spec = model.trunk.requirements.spec
    if spec is not None:
        return NeuralGraph.from_states(spec, [read_network(path, spec)])
    try:
        graph = from_checkpoint(path)
    except FileError:
        raise
    except WeightspaceError as error:
        raise FileError(
            path,
            expected=error.expected,
            found=error.found,
            hint="What a bare file cannot tell is in a zoo: give the zoo's folder.",
        ) from error
    _require_finite(path, graph.state_dict())
    return graph


def checkpoints_in(path: Path) -> list[Path]:
    """The checkpoint files of a folder that is no zoo; anything else is given back as it is."""
    from weightspace.zoo.importing.listing import CHECKPOINT_SUFFIXES, suffix_of, walk
    from weightspace.zoo.store_manifest import MANIFEST

    if not path.is_dir() or (path / MANIFEST).is_file():
        return [path]
    found = [path / file for file in walk(path) if suffix_of(file) in CHECKPOINT_SUFFIXES]
    return found or [path]


def zoo_graphs(folder: Path) -> list[tuple[str, NeuralGraph]]:
    """Every network of a zoo by itself, with a name.

    Raises:
        FileError: the folder is not a zoo.
    """
    from weightspace.graph import MixedGraph
    from weightspace.tasks.batches import read_networks
    from weightspace.zoo import Zoo

    zoo = Zoo.open(folder)
    networks = MixedGraph.of(read_networks(zoo, range(len(zoo)))).networks()
    return [(f"{folder}#{row}", network) for row, network in enumerate(networks)]


def _as_it_is(tensors: Mapping[str, Tensor], spec: GraphSpec) -> dict[str, Tensor]:
    """The state of a network whose tensors have the spec's own names and shapes, or nothing."""
    import torch

    wanted = [*spec.parameters, *(item.parameter for item in spec.left_out)]
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if shapes != {parameter.name: tuple(parameter.shape) for parameter in wanted}:
        return {}
    return {p.name: tensors[p.name].to(getattr(torch, p.dtype)) for p in wanted}


def _require_finite(path: Path, state: Mapping[str, Tensor]) -> None:
    import torch

    plain = computable(state)
    bad = [name for name, tensor in plain.items() if not bool(torch.isfinite(tensor).all())]
    if bad:
        raise FileError(
            path,
            expected="finite weights",
            found=f"NaN or infinity in {bad[0]}",
            hint="The network's training diverged, or the file is damaged.",
        )
