"""Small ONNX graphs made in tests, and what every imported one must satisfy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from weightspace.graph import NeuralGraph
from weightspace.importers.onnx import OnnxNetwork, graph_of, onnx_module

Arrays = Mapping[str, np.ndarray[Any, Any]]

_numbers = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray[Any, Any]:
    return (0.5 * _numbers.standard_normal(shape)).astype(np.float32)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """A node whose inputs and outputs are listed with spaces; ``-`` leaves one out."""
    from onnx import helper

    names = [["" if n == "-" else n for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(kind, names[0], names[1], name=f"the {kind}", **attributes)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[Any]],
    tensors: Arrays,
    outputs: Sequence[str] = ("y",),
    *,
    opset: int = 17,
    integers: Sequence[str] = (),
) -> Any:
    from onnx import TensorProto, helper, numpy_helper

    seen: set[str] = set()
    for place, one in enumerate(nodes):
        # onnxruntime wants every node's name once.
        one.name = f"{one.name} {place}" if one.name in seen else one.name
        seen.add(one.name)
    graph = helper.make_graph(
        list(nodes),
        "test",
        [
            helper.make_tensor_value_info(
                name, TensorProto.INT64 if name in integers else TensorProto.FLOAT, list(shape)
            )
            for name, shape in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    return made


def saved(made: Any, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def same_outputs(network: OnnxNetwork, path: Path, tolerance: float = 1e-4) -> None:
    """The reference evaluator of onnx is the oracle."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    feeds = {
        name: tensor.numpy()
        for name, tensor in zip(network.input_names, network.example_inputs, strict=True)
    }
    with np.errstate(all="ignore"):
        wanted = ReferenceEvaluator(onnx.load(path)).run(list(network.output_names), feeds)
    for want, have in zip(wanted, network.run(*network.example_inputs), strict=True):
        assert tuple(have.shape) == np.shape(want)
        scale = float(np.abs(np.asarray(want, dtype=np.float64)).max(initial=0)) or 1.0
        gap = np.abs(np.asarray(want, dtype=np.float64) - have.double().numpy()).max(initial=0)
        assert gap <= tolerance * scale, f"{gap} of {scale}"


def imports(
    path: Path, *, runtime: bool = False, **options: Any
) -> tuple[OnnxNetwork, NeuralGraph]:
    """Import a file and check outputs, accounting, group and the way back.

    With ``runtime`` onnxruntime is the oracle, for what the reference evaluator cannot run.
    """
    if runtime:
        pytest.importorskip("onnxruntime")
    network = onnx_module(path, check=runtime, **options)
    if not runtime:
        same_outputs(network, path)
    graph = graph_of(network)
    state, back = network.state_dict(), graph.state_dict()
    assert state.keys() == back.keys()
    assert all(torch.equal(tensor, back[name]) for name, tensor in state.items())
    held = [p.name for p in graph.spec.parameters] + [
        item.parameter.name for item in graph.spec.left_out
    ]
    assert sorted(held) == sorted(state)
    assert all(item.reason for item in graph.spec.left_out)
    if any(x.is_floating_point() for x in network.run(*network.example_inputs)):
        for kinds in (("permutation",), ("permutation", "sign", "scale")):
            graph.symmetry.check(network, network.example_inputs, kinds=kinds).require(1e-4)
    return network, graph
