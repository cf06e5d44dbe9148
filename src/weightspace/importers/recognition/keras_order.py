"""The order of layers that the configuration of a Keras model tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weightspace.errors import StateError
from weightspace.importers.files import Checkpoint

MODULE_HINT = "Rebuild the network as a torch module and read that with from_module."


def keras_order(checkpoint: Checkpoint) -> Sequence[str] | None:
    """The names of a Keras model's layers in the order of computation.

    Keras numbers layers by kind as they are made, which tells nothing of how they are
    connected; so convolutional models are read only with their configuration.

    Returns:
        None if the file is not Keras's, or holds nothing but the weights of linear layers.

    Raises:
        StateError: the model is no plain sequence of layers.
    """
    if checkpoint.format != "keras":
        return None
    model = checkpoint.config.get("model_config")
    if not isinstance(model, Mapping):
        kernels = [name for name, tensor in checkpoint.tensors.items() if tensor.ndim > 2]
        if kernels:
            raise StateError(
                checkpoint.path,
                expected="the model's configuration beside the weights",
                found=f"weights alone, with convolutions such as {kernels[0]}",
                hint="Save the whole model with model.save(path).",
            )
        return None
    config = model.get("config", {})
    layers = config.get("layers", []) if isinstance(config, Mapping) else config
    doubt = _doubt(layers)
    if doubt:
        raise StateError(
            checkpoint.path,
            expected="a plain sequence of layers",
            found=f"a model in which {doubt}",
            hint=MODULE_HINT,
        )
    return [_name(layer) for layer in layers]


def _doubt(layers: Sequence[Mapping[str, Any]]) -> str:
    """Why a model is no plain sequence; empty if it is one."""
    before = ""
    for layer in layers:
        name, config = _name(layer), layer.get("config", {})
        if "layers" in config or "layer" in config:
            return f"{name} is a model or wrapper itself"
        if config.get("groups", 1) != 1 or "depthwise_constraint" in config:
            return f"{name} is a convolution in groups"
        if "inbound_nodes" in layer:
            sources = list(_sources(layer["inbound_nodes"]))
            if sources != ([before] if before else []):
                return f"{name} reads from {', '.join(sources) or 'nothing'}"
        before = name
    return ""


def _name(layer: Mapping[str, Any]) -> str:
    return str(layer.get("config", {}).get("name", ""))


def _sources(nodes: Any) -> Iterator[str]:
    """Every layer named in a configuration's ``inbound_nodes``, in its older or newer form."""
    if isinstance(nodes, Mapping):
        history = nodes.get("keras_history")
        if history:
            yield str(history[0])
        else:
            for value in nodes.values():
                yield from _sources(value)
    elif isinstance(nodes, Sequence) and not isinstance(nodes, str):
        named = len(nodes) > 1 and isinstance(nodes[0], str) and isinstance(nodes[1], int)
        if named:
            yield nodes[0]
        else:
            for value in nodes:
                yield from _sources(value)
