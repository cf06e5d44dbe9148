"""Networks of every kind as content of a page, run where that is possible."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightspace.errors import DataError, FileError, StateError

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from weightspace.report.view_content import View
    from weightspace.report.view_observing import Batch, Observation

CHUNK = 64
"""So many images at a time; an .onnx file says by itself how many it takes."""
ENOUGH = 64
"""Random inputs are drawn until there are so many, if each has at most SMALL values."""
SMALL = 4096

MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")


def view_of(
    network: str,
    *,
    module: str | None,
    inputs: str | None,
    activation: str | None,
    data: str | None,
) -> View:
    """Read a network and collect what the page shows of it.

    Raises:
        WeightspaceError: a file, module or option is bad.
    """
    path = Path(network)
    if module is not None:
        return _of_module(path.name, module, inputs, data, path)
    if not path.exists() and MODULE.match(network):
        return _of_module(network, network, inputs, data, None)
    if path.suffix.lower() == ".onnx":
        return _of_onnx(path, inputs, data)
    return _of_checkpoint(path, activation, data)


def _of_module(
    title: str, name: str, shapes: str | None, data: str | None, path: Path | None
) -> View:
    from weightspace.cli.modules import example_tensors, import_module

    tensors = example_tensors(shapes)
    module = import_module(name)
    if path is not None:
        load(module, path)
    return _run(title, module, tensors, data, CHUNK)


def load(module: nn.Module, path: Path) -> None:
    """Load a checkpoint file into a module.

    Raises:
        FileError: the file cannot be read, or is of another module.
    """
    from weightspace.importers import read_states

    tensors = read_states(path).tensors
    try:
        module.load_state_dict(dict(tensors), strict=True)
    except RuntimeError as error:
        raise FileError(
            path,
            expected=f"the tensors of {type(module).__name__}",
            found=" ".join(str(error).split())[:300],
            hint="Name the module that the checkpoint was saved from.",
        ) from error


def _of_onnx(path: Path, shapes: str | None, data: str | None) -> View:
    from weightspace.cli.modules import parse_shapes
    from weightspace.importers.onnx import onnx_module

    sizes = None if shapes is None else [shape for _, shape in parse_shapes(shapes)]
    built = onnx_module(path, input_shapes=sizes)
    given = built.example_inputs
    return _run(path.name, built, given, data, len(given[0]))


def _run(
    title: str, module: nn.Module, tensors: tuple[Tensor, ...], data: str | None, chunk: int
) -> View:
    """The content for a module, run on data or on random inputs, some at a time."""
    from weightspace.importers.coupling import module_couplings
    from weightspace.importers.flowing import FlowReader
    from weightspace.report.view_network import view_network
    from weightspace.report.view_observing import observe_module

    batches, described = _batches(data, tensors, chunk)
    first = batches[0].inputs
    reader = FlowReader(module, first)
    state = _tensors(module.state_dict())
    seen = observe_module(module, reader, state, batches, described=described)
    together = module_couplings(module, first)
    return view_network(reader.spec, state, title=title, observation=seen, coupled=together)


def _of_checkpoint(path: Path, activation: str | None, data: str | None) -> View:
    from weightspace.cli.networks import computable
    from weightspace.importers import from_checkpoint
    from weightspace.report.view_network import view_network

    try:
        graph = from_checkpoint(path, activations=activation)
    except StateError as error:
        raise FileError(
            path,
            expected=error.expected,
            found=error.found,
            hint="Give --module package.module:name and --inputs SHAPE.",
        ) from error
    spec, state = graph.spec, computable(graph.state_dict())
    seen, why = _run_chain(graph, state, data)
    return view_network(spec, state, title=path.name, observation=seen, why_not=why)


def _run_chain(
    graph: Any, state: Mapping[str, Tensor], data: str | None
) -> tuple[Observation | None, str]:
    """What a chain did, or why it cannot be run."""
    import torch

    from weightspace.errors import SpecError
    from weightspace.report.view_observing import observe_chain

    spec = graph.spec
    width = spec.nodes_in(spec.node_sets[0].name)
    example = torch.randn(256, width, generator=torch.Generator().manual_seed(0))
    weights = {name: tensor.float() for name, tensor in state.items()}
    try:
        if data is None:
            given, labels, described = example, None, "256 random inputs"
        else:
            given, labels, described = _images(data, (width,))
        seen = observe_chain(spec, weights, given, labels=labels, described=described)
    except SpecError as error:
        if data is not None:
            raise
        why = f"{error.expected} is needed to run the network"
        return None, f"{why}; give --activation, or --module and --inputs"
    return seen, ""


def _batches(data: str | None, tensors: tuple[Tensor, ...], chunk: int) -> tuple[list[Batch], str]:
    """What a module is run on, and that in words."""
    import torch

    from weightspace.report.view_observing import Batch

    if data is not None:
        images, labels, described = _images(data, tuple(tensors[0].shape[1:]), chunk)
        parts = zip(torch.split(images, chunk), torch.split(labels, chunk), strict=True)
        return [Batch((x,), y) for x, y in parts], described
    size = len(tensors[0]) if tensors[0].ndim else 1
    small = sum(t.numel() for t in tensors) <= SMALL * size
    batches = [Batch(tensors)]
    generator = torch.Generator().manual_seed(1)
    while small and len(batches) * size < ENOUGH:
        batches.append(Batch(tuple(_like(t, generator) for t in tensors)))
    count = len(batches) * size
    return batches, f"{count} random input{'' if count == 1 else 's'}"


def _like(tensor: Tensor, generator: torch.Generator) -> Tensor:
    import torch

    if tensor.is_floating_point():
        return torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
    return torch.randint(0, 2, tensor.shape, generator=generator).to(tensor.dtype)


def _images(data: str, wanted: tuple[int, ...], chunk: int = 1) -> tuple[Tensor, Tensor, str]:
    """Images in the shape of a network's inputs, their classes, and both in words.

    Raises:
        DataError: they do not have that shape, or are fewer than one batch.
    """
    from weightspace.zoo.data_folder import images_of

    images = images_of(data)
    test = len(images.test) > 0
    x = images.test if test else images.train
    y = images.test_labels if test else images.train_labels
    count = min(len(x), 256) // chunk * chunk
    if not count:
        raise DataError("--data", expected=f"at least {chunk} images", found=str(len(x)))
    x, y = x[:count], y[:count]
    shaped = x.movedim(-1, 1) if x.ndim == 4 and len(wanted) == 3 else x
    try:
        given = shaped.reshape(len(x), *wanted)
    except RuntimeError as error:
        raise DataError(
            "--data",
            expected=f"inputs of shape {list(wanted)}, as the network's are",
            found=f"{list(x.shape[1:])}",
        ) from error
    return given, y, f"{len(x)} {'test' if test else 'training'} images of {Path(data).name}"


def _tensors(state: Mapping[str, Any]) -> dict[str, Tensor]:
    from torch import Tensor

    return {name: t.detach() for name, t in state.items() if isinstance(t, Tensor)}
