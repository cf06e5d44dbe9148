"""Networks out of checkpoint files of any format, also several out of one file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from weightspace.graph import GraphSpec
from weightspace.importers import Checkpoint, read_states
from weightspace.importers.files.sorting import LEAVES
from weightspace.importers.recognition.keras_order import keras_order
from weightspace.zoo.importing.blueprints import BareBlueprint
from weightspace.zoo.importing.found import FoundNetwork
from weightspace.zoo.importing.tables import flat
from weightspace.zoo.shards import spec_tensors

if TYPE_CHECKING:
    import onnx

    from weightspace.importers.onnx.network import OnnxNetwork

_MANY_VALUES = 64


def read_networks(path: Path, *, activation: str | None = None) -> Iterator[FoundNetwork]:
    """Read every network of a file.

    A file holds several networks if its tensors are named ``network/parameter``, or if it is
    an archive of stacked arrays with the networks' names beside them. Of a training
    checkpoint the main network is taken; the notes name the other groups of tensors.

    Raises:
        WeightspaceError: the file cannot be read.
    """
    if path.suffix.lower() == ".onnx":
        yield _read_onnx(path)
        return
    checkpoint = read_states(path)
    stacked = _stacked(checkpoint)
    groups = _grouped(checkpoint.tensors)
    if stacked is not None:
        for key, state, row in stacked:
            yield bare(key, state, row, activation)
    elif groups:
        labels = _own_labels(checkpoint.config, groups)
        for key, state in groups.items():
            yield bare(key, state, labels.get(key, {}), activation)
    else:
        yield of_checkpoint(checkpoint, activation)


def of_checkpoint(checkpoint: Checkpoint, activation: str | None) -> FoundNetwork:
    """The main network of a checkpoint, with the plain values beside it."""
    others = ", ".join(sorted(checkpoint.others))
    return FoundNetwork(
        "",
        checkpoint.tensors,
        BareBlueprint(checkpoint.tensors, activation, keras_order(checkpoint)),
        dict(config_row(checkpoint.config)),
        notes=(f"tensors beside the network were not taken: {others}",) if others else (),
    )


def bare(
    key: str, state: Mapping[str, Tensor], row: Mapping[str, Any], activation: str | None
) -> FoundNetwork:
    """A network of a file with several."""
    return FoundNetwork(key, state, BareBlueprint(state, activation), row)


def config_row(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The plain values of a checkpoint as columns; what belongs to optimisers is left."""
    values = (item for item in flat(config, "config.") if "optim" not in item[0].lower())
    for _, (name, value) in zip(range(_MANY_VALUES), values, strict=False):
        if "param_groups" not in name:
            yield name, value


def _grouped(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The networks of a file whose tensors are named ``network/parameter``; none if it is not."""
    groups: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        key, slash, parameter = name.rpartition("/")
        if not slash or parameter in LEAVES or ":" in parameter:
            return {}  # A layer's tensors, such as dense_1/kernel:0.
        groups.setdefault(key, {})[parameter] = tensor
    several = len(groups) > 1 and all(
        any(tensor.ndim > 1 for tensor in state.values()) for state in groups.values()
    )
    return groups if several else {}


def _own_labels(config: Mapping[str, Any], groups: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Labels in a file's own metadata: JSON from the networks' names to dictionaries."""
    for text in config.values():
        if not isinstance(text, str) or not text.lstrip().startswith("{"):
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            continue
        rows = {k: dict(flat(v)) for k, v in found.items() if isinstance(v, dict)}
        if set(groups) <= set(rows):
            return rows
    return {}


def _stacked(
    checkpoint: Checkpoint,
) -> list[tuple[str, dict[str, Tensor], dict[str, Any]]] | None:
    """The networks of an archive of stacked arrays; None if it is none.

    One array of texts names the networks; arrays of one value a network are labels, the
    others are the stacked tensors of the state.
    """
    lists = {k: v for k, v in checkpoint.config.items() if isinstance(v, list)}
    if checkpoint.format != "npz" or len(lists) != 1:
        return None
    ((_, names),) = lists.items()
    tensors = checkpoint.tensors
    count = len(names)
    if count < 2 or len(set(names)) != count:
        return None
    if any(t.ndim == 0 or t.shape[0] != count for t in tensors.values()):
        return None
    labels = {name: t.tolist() for name, t in tensors.items() if t.ndim == 1}
    states = {name: t for name, t in tensors.items() if t.ndim > 1}
    if not any(t.ndim > 2 for t in states.values()):
        return None
    return [
        (
            str(key),
            {name: t[place] for name, t in states.items()},
            {name: values[place] for name, values in labels.items()},
        )
        for place, key in enumerate(names)
    ]


@dataclass(frozen=True, eq=False)
class OnnxBlueprint:
    """The spec of an ONNX file, traced as a module.

    Args:
        path: the file.
        digest: of its graph without the values of its weights.
    """

    path: Path
    digest: str

    @property
    def key(self) -> Hashable:
        """The graph and the shapes of the weights."""
        return ("onnx", self.digest)

    def make(self) -> GraphSpec:
        """Trace the file; its outputs are compared with another runtime's."""
        from weightspace.importers.onnx.from_onnx import graph_of, onnx_module  # noqa: PLC0415

        return graph_of(onnx_module(self.path)).spec


def _read_onnx(path: Path) -> FoundNetwork:
    from weightspace.importers.onnx.from_onnx import onnx_module  # noqa: PLC0415 (an extra)
    from weightspace.importers.onnx.reading import read_model  # noqa: PLC0415

    network = onnx_module(path, check=False)
    blueprint = OnnxBlueprint(path, _graph_digest(read_model(path), network))
    return FoundNetwork("", network.state_dict(), blueprint)


def _graph_digest(model: onnx.ModelProto, network: OnnxNetwork) -> str:
    """A digest of a graph without its weights, but with the values that it computes with."""
    weights = set(network.state_dict()) - set(network.settings)
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            for name in ("raw_data", "float_data", "double_data", "int32_data"):
                tensor.ClearField(name)
    model.ClearField("doc_string")
    model.graph.ClearField("name")
    return hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()


def digest_of(spec: GraphSpec, state: Mapping[str, Tensor]) -> str:
    """The SHA-256 of a network's weights."""
    import torch  # noqa: PLC0415 (loaded already; the name is needed here alone)

    digest = hashlib.sha256()
    for parameter in sorted(spec_tensors(spec), key=lambda p: p.name):
        tensor = state[parameter.name].detach().contiguous()
        digest.update(f"{parameter.name} {parameter.dtype} {tuple(parameter.shape)};".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def is_finite(state: Mapping[str, Tensor]) -> bool:
    """Whether no weight is NaN or infinite."""
    return all(
        bool(tensor.isfinite().all())
        for tensor in state.values()
        if tensor.is_floating_point() or tensor.is_complex()
    )
