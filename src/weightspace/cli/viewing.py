"""Networks of every kind as content of a page, run where that is possible."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightspace.errors import DataError, FileError, StateError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from weightspace.report.view_content import View
    from weightspace.report.view_observing import Observation

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
    return _run(title, module, tensors, data)


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
    return _run(path.name, built, built.example_inputs, data)


def _run(title: str, module: nn.Module, tensors: tuple[Tensor, ...], data: str | None) -> View:
    """The content for a module, run on data or on the random tensors."""
    from weightspace.importers.coupling import module_couplings
    from weightspace.importers.flowing import FlowReader
    from weightspace.report.view_network import view_network
    from weightspace.report.view_observing import observe_module

    given, labels, described = _data(data, tensors)
    reader = FlowReader(module, given)
    state = _tensors(module.state_dict())
    seen = observe_module(module, reader, state, given, labels=labels, described=described)
    together = module_couplings(module, given)
    return view_network(reader.spec, state, title=title, observation=seen, coupled=together)


def _of_checkpoint(path: Path, activation: str | None, data: str | None) -> View:
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
    spec, state = graph.spec, graph.state_dict()
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
    try:
        given, labels, described = _data(data, (example,))
        weights = {name: tensor.float() for name, tensor in state.items()}
        seen = observe_chain(spec, weights, given[0], labels=labels, described=described)
    except SpecError as error:
        if data is not None:
            raise
        return None, f"the network cannot be run ({error}); give --activation or --module"
    return seen, ""


def _data(
    data: str | None, tensors: tuple[Tensor, ...]
) -> tuple[tuple[Tensor, ...], Tensor | None, str]:
    """What a network is run on, the classes if they are known, and both in words.

    Raises:
        DataError: the data do not have the shape of the network's inputs.
    """
    if data is None:
        count = len(tensors[0])
        return tensors, None, f"{count} random input{'' if count == 1 else 's'}"
    from weightspace.cli.architecture import labelled_images

    images = labelled_images(data)
    test = len(images.test) > 0
    x = images.test if test else images.train
    y = images.test_labels if test else images.train_labels
    x, y = x[:256], y[:256]
    wanted = tuple(tensors[0].shape[1:])
    shaped = x.movedim(-1, 1) if x.ndim == 4 and len(wanted) == 3 else x
    try:
        given = shaped.reshape(len(x), *wanted)
    except RuntimeError as error:
        raise DataError(
            "--data",
            expected=f"inputs of shape {list(wanted)}, as the network's are",
            found=f"{list(x.shape[1:])}",
        ) from error
    return (given,), y, f"{len(x)} {'test' if test else 'training'} images of {Path(data).name}"


def _tensors(state: Mapping[str, Any]) -> dict[str, Tensor]:
    from torch import Tensor

    return {name: t.detach() for name, t in state.items() if isinstance(t, Tensor)}
