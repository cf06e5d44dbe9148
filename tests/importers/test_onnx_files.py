"""ONNX files: trained networks, external data, control flow, and files that are wrong."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper

from tests.data import shared_data
from weightspace import from_onnx
from weightspace.errors import FileError, TraceError, WeightspaceError
from weightspace.importers.onnx import onnx_module

from .onnx_graphs import imports, model, node, same_outputs, saved, weights

X = {"x": (2, 3)}
MODELS = {
    "KJ_TinyTaxiNet": "8 8 8", "cifar_base_kw": "8 16 100", "cnn_max_mninst2": "8 4 32",
    "mnist2x10": "10 10", "mnist2x5_sigmoid": "5 5", "mnist_cntk_cnn": "8 16",
    "robust_model_sigmoid_linear": "64 32", "tanh_test": "4 256 256 4",
    "self-attention-mnist-pgd-medium-sim": "",
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_trained_networks(name: str) -> None:
    network, graph = imports(shared_data(f"models/onnx/{name}.onnx"))
    permuted = [axis.size for axis in graph.spec.axes if axis.permutes]
    if MODELS[name]:
        assert permuted == [int(n) for n in MODELS[name].split()]
    assert not graph.spec.left_out
    held = sum(parameter.numel for parameter in graph.spec.parameters)
    assert held == sum(tensor.numel() for tensor in network.parameters())


@pytest.mark.parametrize("number", ["1_1", "1_9", "2_5"])
def test_a_zoo(number: str) -> None:
    path = shared_data(f"zoos/acasxu_onnx/ACASXU_experimental_v2a_{number}.onnx")
    __, graph = imports(path)
    assert [axis.size for axis in graph.spec.axes if axis.permutes] == [50] * 6
    assert [rescaling.kind for rescaling in graph.spec.rescalings] == ["scale"] * 6
    assert sum(parameter.numel for parameter in graph.spec.parameters) == 13310


def perceptron(**names: str) -> Any:
    """Two layers, whose first weight can be called anything."""
    w = names.get("w", "w")
    nodes = [node("MatMul", f"x {w}", "h"), node("Tanh", "h", "a"), node("MatMul", "a v", "y")]
    return model(nodes, X, {w: weights(3, 5), "v": weights(5, 2)})


@pytest.mark.parametrize("name", ["net.0.weight", "a/b:0", "1", "v.x", "forward", ".", "steps", ""])
def test_names_are_kept_or_mapped_back(name: str, tmp_path: Path) -> None:
    if not name:
        name = "x.."
    network, graph = imports(saved(perceptron(w=name), tmp_path))
    assert set(network.onnx_names.values()) == {name, "v"}
    assert set(network.onnx_names) == {p.name for p in graph.spec.parameters}
    if name in ("net.0.weight", "a/b:0", "1"):
        assert name in graph.state_dict()


def test_weights_in_constant_nodes(tmp_path: Path) -> None:
    value = numpy_helper.from_array(weights(3, 5))
    nodes = [node("Constant", "", "w", value=value), node("MatMul", "x w", "h"),
             node("Relu", "h", "a"), node("MatMul", "a v", "y")]  # fmt: skip
    __, graph = imports(saved(model(nodes, X, {"v": weights(5, 2)}), tmp_path))
    assert {p.name for p in graph.spec.parameters} == {"v", "w"}


def test_input_shapes(tmp_path: Path) -> None:
    made = perceptron()
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    path = saved(made, tmp_path)
    assert onnx_module(path).example_inputs[0].shape == (1, 3)
    for shapes in ({"x": (7, 3)}, [(7, 3)]):
        assert onnx_module(path, input_shapes=shapes).example_inputs[0].shape == (7, 3)
    for wrong in ({"z": (7, 3)}, [(7, 4)], [(7, 3), (7, 3)], [(7, 3, 1)], [(10**9, 3)]):
        with pytest.raises(FileError):
            from_onnx(path, input_shapes=wrong)


def test_dtypes_and_buffers_come_back(tmp_path: Path) -> None:
    made = perceptron()
    for tensor in made.graph.initializer:
        tensor.CopyFrom(
            numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)
        )
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    __, graph = imports(saved(made, tmp_path))
    assert all(tensor.dtype == torch.float64 for tensor in graph.state_dict().values())


# -- external data -----------------------------------------------------------------------


def outside(folder: Path, **entries: str) -> Path:
    """A model whose first weight lies in another file."""
    made = perceptron()
    tensor = made.graph.initializer[0]
    data = numpy_helper.to_array(tensor).tobytes()
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "8", "length": "60", **entries}.items():
        tensor.external_data.add(key=key, value=value)
    (folder / "w.bin").write_bytes(b"12345678" + data)
    return saved(made, folder)


def test_external_data(tmp_path: Path) -> None:
    path = outside(tmp_path)
    network, graph = imports(path)
    wanted = np.frombuffer((tmp_path / "w.bin").read_bytes()[8:], dtype=np.float32)
    assert np.array_equal(graph.state_dict()["w"].numpy().reshape(-1), wanted)
    assert network.onnx_names["w"] == "w"


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "../secret.bin"},
        {"location": "/etc/hostname"},
        {"location": "link.bin"},
        {"location": "missing.bin"},
        {"location": ""},
        {"location": "."},
        {"location": "w.bin\0"},
        {"offset": "9"},
        {"offset": "-8"},
        {"offset": "9" * 30},
        {"length": "59"},
        {"length": "x"},
    ],
)
def test_external_data_that_is_wrong(entries: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(100))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(FileError, match="tensor 'w'"):
        from_onnx(outside(folder, **entries))


# -- control flow and unknown operations -------------------------------------------------


def branching(*, known: bool) -> Any:
    branches = {}
    for name, kind in (("then_branch", "Relu"), ("else_branch", "Tanh")):
        graph = helper.make_graph(
            [node("MatMul", f"x w_{name}", f"h_{name}"), node(kind, f"h_{name}", f"y_{name}")],
            name, [], [helper.make_empty_tensor_value_info(f"y_{name}")],
            [numpy_helper.from_array(weights(3, 5), f"w_{name}")],
        )  # fmt: skip
        branches[name] = graph
    shape = [node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Equal", "n three", "c")]
    data = [node("ReduceSum", "x", "t", keepdims=0), node("Greater", "t limit", "c")]
    nodes = [*(shape if known else data), node("If", "c", "z", **branches),
             node("MatMul", "z v", "y")]  # fmt: skip
    tensors = {"one": np.array(1), "three": np.array(3), "limit": np.float32(0.5),
               "v": weights(5, 2)}  # fmt: skip
    return model(nodes, X, {k: np.asarray(v) for k, v in tensors.items()})


def test_a_branch_that_shapes_decide_is_taken(tmp_path: Path) -> None:
    __, graph = imports(saved(branching(known=True), tmp_path))
    assert {p.name for p in graph.spec.parameters} == {"w_then_branch", "v"}
    assert {i.parameter.name for i in graph.spec.left_out} == {"w_else_branch", "limit"}


def test_a_branch_that_data_decide_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"If of node 'the If'.*w_else_branch, w_then_branch"):
        from_onnx(saved(branching(known=False), tmp_path))


@pytest.mark.parametrize("domain", ["", "com.example"])
def test_unknown_operations_are_named(domain: str, tmp_path: Path) -> None:
    made = perceptron()
    made.graph.node[1].op_type, made.graph.node[1].domain = "Frobnicate", domain
    with pytest.raises(TraceError) as caught:
        from_onnx(saved(made, tmp_path))
    for part in ("Frobnicate", "the Tanh", "(2, 5)"):
        assert part in str(caught.value)


def test_a_wrong_translation_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weightspace.importers.onnx.operation import OPERATORS

    monkeypatch.setitem(OPERATORS, "Tanh", lambda op: torch.sigmoid)
    with pytest.raises(TraceError, match="output 'y'"):
        from_onnx(saved(perceptron(), tmp_path))


# -- files that are wrong ----------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"PK\x03\x04" + bytes(90), b"\x89HDF\r\n\x1a\n", b"\x80\x04cos\nsystem\n.",
     b"<html></html>", b"{}", bytes(1000), b"version https://git-lfs.github.com/spec/v1\n",
     b"\x08\x07", b"\x08\x07\x3a\xff\xff\xff\xff\x0f"],
)  # fmt: skip
def test_other_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(FileError, match="an ONNX model"):
        from_onnx(path)


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.onnx"):
        with pytest.raises(FileError, match="an ONNX model"):
            from_onnx(path)


def test_the_name_does_not_matter(tmp_path: Path) -> None:
    path = saved(perceptron(), tmp_path).rename(tmp_path / "model.bin")
    assert from_onnx(path).spec.parameter_count == 25


@pytest.mark.parametrize("sizes", [[10**9, 10**9], [2**62, 4], [-3, 5], [3, 6], [3]])
def test_declared_sizes_are_not_believed(sizes: list[int], tmp_path: Path) -> None:
    made = perceptron()
    made.graph.initializer[0].dims[:] = sizes
    with pytest.raises(WeightspaceError):
        from_onnx(saved(made, tmp_path))
    del made.graph.initializer[0].dims[:]
    made.graph.initializer[0].ClearField("raw_data")
    made.graph.initializer[0].dims.extend(sizes)
    with pytest.raises(WeightspaceError):
        from_onnx(saved(made, tmp_path))


@pytest.mark.parametrize("sizes", [[10**6, 3], [10**18, 10**18]])
def test_huge_inputs_and_results_are_refused(sizes: list[int], tmp_path: Path) -> None:
    made = perceptron()
    for place, size in enumerate(sizes):
        made.graph.input[0].type.tensor_type.shape.dim[place].dim_value = size
    if sizes[0] > 10**6:
        with pytest.raises(FileError, match="ordinary size"):
            from_onnx(saved(made, tmp_path))
    big = np.array([10**7, 10**7])
    for nodes in ([node("ConstantOfShape", "s", "c"), node("Add", "x c", "y")],
                  [node("Expand", "x s", "y")], [node("Tile", "x s", "y")]):  # fmt: skip
        with pytest.raises(TraceError):
            from_onnx(saved(model(nodes, {"x": (1, 1)}, {"s": big}), tmp_path))


def test_values_that_nothing_computes(tmp_path: Path) -> None:
    made = perceptron()
    made.graph.node[1].input[0] = "nowhere"
    with pytest.raises(FileError, match="'nowhere'"):
        from_onnx(saved(made, tmp_path))


def test_truncated_and_damaged_files_never_crash(tmp_path: Path) -> None:
    """Every cut, and random bytes changed: a clear error or a network, nothing else."""
    content = saved(perceptron(), tmp_path).read_bytes()
    draw = random.Random(0)
    path = tmp_path / "damaged.onnx"
    outcomes = []
    for turn in range(120):
        changed = bytearray(content)
        if turn % 3 == 0:
            del changed[draw.randrange(len(changed)) :]
        else:
            for _ in range(draw.randrange(1, 4)):
                changed[draw.randrange(len(changed))] = draw.randrange(256)
        path.write_bytes(changed)
        try:
            onnx_module(path, check=False)
            outcomes.append("read")
        except WeightspaceError:
            outcomes.append("refused")
    assert outcomes.count("refused") > 20


def test_the_same_function_at_another_batch_size(tmp_path: Path) -> None:
    path = saved(perceptron(), tmp_path)
    network = onnx_module(path, check=False)
    same_outputs(network, path)
    x = torch.randn(7, 3)
    assert torch.allclose(network.run(x)[0][:2], network.run(x[:2])[0])
