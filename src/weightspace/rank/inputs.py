"""Networks in whatever form people have them, as rows of features."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from weightspace.errors import DataError, WeightspaceError
from weightspace.graph import NeuralGraph
from weightspace.importers import from_checkpoint, from_module, from_state
from weightspace.rank.features import features_of, features_of_all
from weightspace.tasks.batches import network_batches
from weightspace.zoo import Zoo

Array = npt.NDArray[np.float64]


def network_features(networks: Any, *, activation: str | None = None) -> Array:
    """Describe networks of any form by a row each, see :func:`weightspace.rank.features_of`.

    Args:
        networks: a zoo, or a sequence of: paths or addresses of the Hugging Face hub
            (``hf://org/name/file``), modules, pairs of a module and its example inputs, state
            dicts, neural graphs of one network. An array ``[networks, features]`` of numbers is
            taken as features.
        activation: of all hidden layers, where files and state dicts do not tell.

    Raises:
        DataError: there are no networks, or one of them is of none of these forms.
        WeightspaceError: one cannot be read.

    >>> network_features([nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))]).shape[0]
    1
    """
    if isinstance(networks, Zoo):
        return features_of_all(network_batches(networks, range(len(networks)), 256))
    if isinstance(networks, NeuralGraph):
        return features_of(networks)
    if isinstance(networks, np.ndarray) and networks.dtype.kind in "fiu":
        return np.asarray(networks, dtype=np.float64)
    if isinstance(networks, str | os.PathLike):
        raise DataError(
            "networks",
            expected="a sequence of networks, or a zoo",
            found=f"one path, {str(networks)!r}",
            hint="Put it into a list; of a folder, list the files: sorted(Path(...).glob('*.pt')).",
        )
    listed = list(networks)
    if not listed:
        raise DataError("networks", expected="at least one", found="none")
    rows = []
    for place, network in enumerate(listed):
        row = features_of(_graph(network, place, activation))
        if len(row) != 1 or not np.isfinite(row).all():
            raise DataError(
                f"network {place}",
                expected="one network with finite weights",
                found=f"{len(row)} networks" if len(row) != 1 else "NaN or infinity",
            )
        rows.append(row)
    return np.concatenate(rows)


def _graph(network: Any, place: int, activation: str | None) -> NeuralGraph:
    if isinstance(network, NeuralGraph):
        return network
    if isinstance(network, str | os.PathLike):
        return from_checkpoint(network, activations=activation)
    if isinstance(network, nn.Module):
        return _of_module(network, activation)
    if isinstance(network, Mapping) and all(isinstance(t, Tensor) for t in network.values()):
        return from_state(network, activations=activation)
    pair = isinstance(network, Sequence) and len(network) == 2
    if pair and isinstance(network[0], nn.Module):
        inputs = network[1] if isinstance(network[1], tuple) else (network[1],)
        return from_module(network[0], inputs)
    raise DataError(
        f"network {place}",
        expected="a path, module, pair of module and inputs, state dict or neural graph",
        found=type(network).__name__,
    )


def _of_module(module: nn.Module, activation: str | None) -> NeuralGraph:
    """A module without example inputs: its structure from names and shapes."""
    try:
        return from_state(module.state_dict(), activations=activation)
    except WeightspaceError as error:
        raise DataError(
            type(module).__name__,
            expected=error.expected,
            found=error.found,
            hint="Give the pair (module, example inputs).",
        ) from error
