"""Networks out of checkpoint files, for commands that read them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weightspace.errors import FileError, WeightspaceError

if TYPE_CHECKING:
    from torch import Tensor

    from weightspace.graph import GraphSpec
    from weightspace.importers import Chain


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


def read_network(path: Path, spec: GraphSpec) -> dict[str, Tensor]:
    """Read a checkpoint file as a network of a spec, whatever its tensors are called.

    Raises:
        FileError: the file cannot be read, holds another architecture, or weights that are
            not finite.
    """
    import torch

    try:
        state = read_chain(path).renamed(spec)
    except FileError:
        raise
    except WeightspaceError as error:
        raise FileError(
            path,
            expected=error.expected,
            found=error.found,
            hint="The model was trained on networks of another architecture.",
        ) from error
    bad = [name for name, tensor in state.items() if not bool(torch.isfinite(tensor).all())]
    if bad:
        raise FileError(
            path,
            expected="finite weights",
            found=f"NaN or infinity in {bad[0]}",
            hint="The network's training diverged, or the file is damaged.",
        )
    return state
