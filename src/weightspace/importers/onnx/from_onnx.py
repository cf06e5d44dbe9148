"""Any ONNX file as a neural graph."""

from __future__ import annotations

import os
from dataclasses import replace

from weightspace.graph.neural_graph import NeuralGraph
from weightspace.importers.files.guard import reading
from weightspace.importers.from_module import from_module
from weightspace.importers.onnx.building import build
from weightspace.importers.onnx.checking import check_outputs
from weightspace.importers.onnx.example_inputs import Shapes, example_inputs
from weightspace.importers.onnx.network import OnnxNetwork
from weightspace.importers.onnx.reading import read_model


def from_onnx(
    path: str | os.PathLike[str], *, input_shapes: Shapes | None = None, check: bool = True
) -> NeuralGraph:
    """Read an ONNX file as a neural graph, by the same axis rules as any module.

    Initializers and the constants that are weights keep their names.

    Args:
        path: the file; external data beside it is read too.
        input_shapes: of the inputs, by name or in order, where the file leaves sizes open.
        check: whether to run the network and compare its outputs with onnxruntime's, or with
            those of onnx's reference evaluator.

    Raises:
        FileError: the file cannot be read.
        TraceError: an operation is not supported, or the outputs differ.
    """
    return graph_of(onnx_module(path, input_shapes=input_shapes, check=check))


def onnx_module(
    path: str | os.PathLike[str], *, input_shapes: Shapes | None = None, check: bool = True
) -> OnnxNetwork:
    """Read an ONNX file as a torch module that computes the same.

    ``module.example_inputs`` are inputs that it takes, so that
    ``graph.symmetry.check(module, module.example_inputs)`` runs it.

    Args:
        path: as for :func:`from_onnx`.
        input_shapes: likewise.
        check: likewise.
    """
    subject = os.fspath(path)
    model = read_model(path)
    # Damaged files can parse and still hold nonsense, such as names that are no text.
    with reading(subject, "an ONNX model"):
        network = build(model, example_inputs(model, input_shapes, subject), subject)
    if check:
        check_outputs(network, model, subject)
    return network


def graph_of(network: OnnxNetwork) -> NeuralGraph:
    """The neural graph of a module that was read from an ONNX file."""
    graph = from_module(network, network.example_inputs)
    left_out = tuple(
        replace(item, reason="an option of an operation, not a weight")
        if item.parameter.name in network.settings
        else item
        for item in graph.spec.left_out
    )
    return replace(graph, spec=replace(graph.spec, left_out=left_out))
