"""Every family of ONNX operations against onnx's reference evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("onnx")

from weightspace.importers.onnx import onnx_module

from .onnx_graphs import Arrays, imports, model, node, same_outputs, saved, weights

X = {"x": (2, 6, 8, 8)}
PLAIN = [
    "Relu", "Sigmoid", "Tanh", "Elu", "Selu", "Softplus", "HardSigmoid", "HardSwish", "Mish",
    "Abs", "LeakyRelu", "Celu", "ThresholdedRelu", "Exp", "Neg", "Erf", "Softsign", "Sign",
    "Floor", "Ceil", "Round", "Cos", "Identity", "Softmax", "LogSoftmax", "GlobalAveragePool",
    "GlobalMaxPool", "Transpose", "Flatten",
]  # fmt: skip
REDUCED = ["Mean", "Sum", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Prod"]


def runs(
    tmp_path: Path, nodes: list[Any], tensors: Arrays | None = None, *, inputs: Any = None,
    outputs: Any = ("y",), **options: Any,
) -> None:  # fmt: skip
    made = model(nodes, inputs or X, tensors or {}, outputs, **options)
    path = saved(made, tmp_path)
    same_outputs(onnx_module(path, check=False), path)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


def floats(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [(kind, {}) for kind in PLAIN]
    + [("Elu", {"alpha": 0.3}), ("LeakyRelu", {"alpha": 0.3}), ("Selu", {"alpha": 1.0}),
       ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}), ("Softmax", {"axis": 1}),
       ("Flatten", {"axis": 2}), ("Transpose", {"perm": [0, 2, 3, 1]}), ("Flatten", {"axis": 0}),
       ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
       ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
       ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
       ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 2]}),
       ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
       ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
       ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
       ("DepthToSpace", {"blocksize": 1}), ("SpaceToDepth", {"blocksize": 2})],
)  # fmt: skip
def test_one_tensor(kind: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    opset = 18 if kind == "Mish" else 17
    runs(tmp_path, [node(kind, "x", "y", **attributes)], opset=opset)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str, tmp_path: Path) -> None:
    runs(tmp_path, [node("Gelu", "x", "y", approximate=approximate)], opset=20)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_old_softmax_flattens(axis: int, tmp_path: Path) -> None:
    """The reference evaluator applies the new meaning, so the oracle is written out."""
    made = model([node("Softmax", "x", "y", axis=axis)], X, {}, opset=11)
    network = onnx_module(saved(made, tmp_path), check=False)
    (x,) = network.example_inputs
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1).exp()
    assert torch.allclose(network.run(x)[0], (rows / rows.sum(1, keepdim=True)).reshape(x.shape))


def test_local_response(tmp_path: Path) -> None:
    """Of the two runtimes only onnxruntime runs it as the standard says."""
    pytest.importorskip("onnxruntime")
    made = model([node("LRN", "x", "y", size=3, alpha=0.5)], X, {})
    onnx_module(saved(made, tmp_path))


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Pow"])
@pytest.mark.parametrize("shape", [(6, 1, 1), (8,), (2, 6, 8, 8), (1,)])
def test_two_tensors(kind: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    other = np.abs(weights(*shape)) + 1
    runs(tmp_path, [node("Abs", "x", "a"), node(kind, "a w", "y")], {"w": other})


@pytest.mark.parametrize("number", [2.0, 0.5])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Pow"])
@pytest.mark.parametrize("order", ["a c", "c a"])
def test_numbers(kind: str, number: float, order: str, tmp_path: Path) -> None:
    nodes = [node("Constant", "", "c", value_float=number), node("Exp", "x", "a")]
    runs(tmp_path, [*nodes, node(kind, order, "y")])


@pytest.mark.parametrize(
    ("attributes", "shape"),
    [
        ({}, (4, 6, 3, 3)),
        ({"strides": [2, 1], "pads": [1, 2, 0, 1]}, (4, 6, 3, 3)),
        ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (4, 6, 4, 4)),
        ({"auto_pad": "SAME_LOWER", "strides": [2, 2]}, (4, 6, 4, 4)),
        ({"auto_pad": "VALID"}, (4, 6, 3, 3)),
        ({"group": 3, "dilations": [2, 1], "pads": [2, 1, 2, 1]}, (9, 2, 3, 3)),
        ({"group": 6}, (6, 1, 3, 3)),
    ],
)
def test_conv(attributes: dict[str, Any], shape: tuple[int, ...], tmp_path: Path) -> None:
    first = [node("Conv", "x v", "h0", pads=[1, 1, 1, 1]), node("Relu", "h0", "h")]
    last = [node("Conv", "h w b", "z", **attributes), node("Conv", "z u", "y")]
    tensors = {"v": weights(6, 6, 3, 3), "w": weights(*shape), "b": weights(shape[0]),
               "u": weights(3, shape[0], 1, 1)}  # fmt: skip
    path = saved(model([*first, *last], X, tensors), tmp_path)
    __, graph = imports(path)
    assert graph.symmetry.log_order > 1


@pytest.mark.parametrize("spatial", [1, 3])
def test_conv_of_other_dimensions(spatial: int, tmp_path: Path) -> None:
    tensors = {"w": weights(4, 3, *[2] * spatial), "u": weights(2, 4, *[1] * spatial)}
    nodes = [node("Conv", "x w", "h"), node("Conv", "h u", "y")]
    path = saved(model(nodes, {"x": (1, 3, *[5] * spatial)}, tensors), tmp_path)
    assert imports(path)[1].spec.axis("w").permutes


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
        {"strides": [2, 2], "pads": [1, 0, 0, 1]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"group": 2},
    ],
)
def test_conv_transpose(attributes: dict[str, Any], tmp_path: Path) -> None:
    groups = attributes.get("group", 1)
    tensors = {"w": weights(6, 4 // groups, 3, 3), "b": weights(4), "v": weights(6, 6, 1, 1),
               "u": weights(2, 4, 1, 1)}  # fmt: skip
    nodes = [node("Conv", "x v", "h"), node("ConvTranspose", "h w b", "z", **attributes),
             node("Conv", "z u", "y")]  # fmt: skip
    # The reference evaluator does not run groups.
    imports(saved(model(nodes, X, tensors), tmp_path), runtime=groups > 1)


NORMS: list[tuple[str, dict[str, Any], list[tuple[int, ...]], int]] = [
    ("BatchNormalization", {"epsilon": 1e-3}, [(4,)] * 4, 15),
    ("InstanceNormalization", {}, [(4,)] * 2, 17),
    ("GroupNormalization", {"num_groups": 2}, [(4,)] * 2, 21),
    ("LayerNormalization", {"axis": 1}, [(4, 6, 6)] * 2, 17),
    ("LayerNormalization", {"axis": -1}, [(6,)], 17),
    ("PRelu", {}, [(4, 1, 1)], 17),
    ("PRelu", {}, [(1,)], 17),
    ("PRelu", {}, [(6,)], 17),
]


@pytest.mark.parametrize(("kind", "attributes", "shapes", "opset"), NORMS)
def test_layers_with_parameters(
    kind: str, attributes: dict[str, Any], shapes: list[tuple[int, ...]], opset: int,
    tmp_path: Path,
) -> None:  # fmt: skip
    own = {f"p{i}": np.abs(weights(*shape)) + 0.1 for i, shape in enumerate(shapes)}
    tensors = {"w": weights(4, 6, 3, 3), "u": weights(2, 4, 1, 1), **own}
    nodes = [node("Conv", "x w", "h"), node(kind, f"h {' '.join(own)}", "n", **attributes),
             node("Conv", "n u", "y")]  # fmt: skip
    __, graph = imports(saved(model(nodes, X, tensors, opset=opset), tmp_path))
    own_axes = [a.permutes for a in graph.spec.axes if a.name.startswith("w")]
    assert own_axes == ([True, True] if kind == "GroupNormalization" else [True])
    if kind == "BatchNormalization":
        assert [p.name for p in graph.spec.parameters if p.buffer] == ["p2", "p3"]


SHAPES: list[tuple[str, list[Any], dict[str, np.ndarray[Any, Any]], int]] = [
    ("reshape", [node("Reshape", "x s", "y")], {"s": ints(0, -1, 4)}, 17),
    ("squeeze", [node("Unsqueeze", "x s", "a"), node("Squeeze", "a s", "y")],
     {"s": ints(1, 4)}, 17),
    ("old squeeze", [node("Unsqueeze", "x", "a", axes=[0, 2]),
                     node("Squeeze", "a", "y", axes=[0])], {}, 11),
    ("split", [node("Split", "x s", "a b", axis=1), node("Concat", "b a", "y", axis=1)],
     {"s": ints(4, 2)}, 17),
    ("old split", [node("Split", "x", "a b", axis=1), node("Sub", "a b", "y")], {}, 11),
    ("split in numbers", [node("Split", "x", "a b", axis=1, num_outputs=2),
                          node("Sub", "a b", "y")], {}, 18),
    ("slice", [node("Slice", "x b e a s", "y")],
     {"b": ints(1, -2, 0), "e": ints(5, -1000, 9), "a": ints(1, 2, 3), "s": ints(2, -1, 3)}, 17),
    ("old slice", [node("Slice", "x", "y", starts=[1, -3], ends=[3, 1000], axes=[1, 3])], {}, 9),
    ("pad", [node("Pad", "x p v", "y")], {"p": ints(0, 1, 2, 0, 0, 0, 1, 3), "v": floats(2)}, 17),
    ("reflect", [node("Pad", "x p", "y", mode="reflect")], {"p": ints(0, 0, 2, 1, 0, 0, 1, 3)}, 17),
    ("edge", [node("Pad", "x p", "y", mode="edge")], {"p": ints(0, 0, 2, 1, 0, 0, 1, 3)}, 17),
    ("old pad", [node("Pad", "x", "y", pads=[0, 0, 1, 1, 0, 0, 2, 2], value=1.5)], {}, 10),
    ("gather one", [node("Gather", "x i", "y", axis=2)], {"i": np.array(-3)}, 17),
    ("gather some", [node("Gather", "x i", "y", axis=1)], {"i": np.array([[0, 3], [-1, 2]])}, 17),
    ("gather range", [node("Gather", "x i", "y", axis=1)], {"i": ints(2, 3, 4)}, 17),
    ("expand", [node("ReduceMean", "x", "m", axes=[1]), node("Expand", "m s", "y")],
     {"s": ints(3, 1, 1)}, 13),
    ("tile", [node("Tile", "x s", "y")], {"s": ints(1, 2, 1, 3)}, 17),
    ("where", [node("Greater", "x w", "c"), node("Where", "c x w", "y")], {"w": weights(8)}, 17),
    ("equal", [node("Equal", "x x", "c"), node("Cast", "c", "y", to=1)], {}, 17),
    ("clip", [node("Clip", "x a b", "y")], {"a": np.float32(-0.5), "b": np.float32(0.3)}, 17),
    ("clip above", [node("Clip", "x - b", "y")], {"b": np.float32(0.3)}, 17),
    ("old clip", [node("Clip", "x", "y", min=-0.5, max=1.0)], {}, 9),
    ("cast", [node("Cast", "x", "a", to=7), node("Cast", "a", "y", to=1)], {}, 17),
    ("dropout", [node("Dropout", "x", "y")], {}, 17),
    ("constant of shape", [node("Shape", "x", "s"), node("ConstantOfShape", "s", "c"),
                           node("Sub", "c x", "y")], {}, 17),
    ("crd", [node("Concat", "x x", "a", axis=1), node("DepthToSpace", "a", "y", blocksize=2,
                                                      mode="CRD")], {}, 17),
    ("dcr", [node("Concat", "x x", "a", axis=1), node("DepthToSpace", "a", "y", blocksize=2)], {},
     17),
    ("top", [node("TopK", "x k", "y i", axis=1)], {"k": ints(2)}, 17),
    ("sums", [node("CumSum", "x a", "y")], {"a": np.array(1)}, 17),
    ("triangle", [node("Trilu", "x", "y", upper=0)], {}, 17),
    ("index of the largest", [node("ArgMax", "x", "i", axis=1), node("Cast", "i", "y", to=1)], {},
     17),
]  # fmt: skip


@pytest.mark.parametrize(("name", "nodes", "tensors", "opset"), SHAPES, ids=[s[0] for s in SHAPES])
def test_shapes(name: str, nodes: list[Any], tensors: Arrays, opset: int, tmp_path: Path) -> None:
    tensors = {key: np.asarray(value) for key, value in tensors.items()}
    runs(tmp_path, nodes, tensors, opset=opset)


@pytest.mark.parametrize("kind", REDUCED)
@pytest.mark.parametrize("keep", [0, 1])
def test_reductions(kind: str, keep: int, tmp_path: Path) -> None:
    runs(tmp_path, [node(f"Reduce{kind}", "x", "y", axes=[1, -1], keepdims=keep)], opset=11)
    runs(tmp_path, [node(f"Reduce{kind}", "x a", "y", keepdims=keep)], {"a": ints(2)}, opset=18)


def test_exporters_shape_arithmetic_is_folded(tmp_path: Path) -> None:
    """What torch writes for ``x.view(x.size(0), -1)`` and for a scaled interpolation."""
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s zero", "n", axis=0),
        node("Unsqueeze", "n", "n1", axes=[0]), node("Constant", "", "m", value_ints=[-1]),
        node("Concat", "n1 m", "shape", axis=0), node("Reshape", "x shape", "flat"),
        node("MatMul", "flat w", "h"), node("Add", "h b", "h1"), node("Relu", "h1", "h2"),
        node("Gemm", "h2 v", "y", transB=1),
    ]  # fmt: skip
    tensors = {"zero": np.array(0), "w": weights(384, 5), "b": weights(5), "v": weights(3, 5)}
    __, graph = imports(saved(model(nodes, X, tensors, opset=12), tmp_path))
    assert [a.name for a in graph.spec.axes if a.permutes] == ["w"]
    assert [r.kind for r in graph.spec.rescalings] == ["scale"], "a product and a bias are a layer"


def test_sizes_computed_with_real_numbers(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "s"), node("Cast", "s", "f", to=1), node("Mul", "f twice", "g"),
        node("Cast", "g", "sizes", to=7), node("Conv", "x w", "h"), node("Relu", "h", "r"),
        node("Resize", "r - - sizes", "z", mode="nearest"), node("Conv", "z u", "y"),
    ]  # fmt: skip
    tensors = {"twice": floats(1, 1, 2, 2), "w": weights(6, 6, 1, 1), "u": weights(2, 6, 1, 1)}
    network, graph = imports(saved(model(nodes, X, tensors), tmp_path))
    (left,) = graph.spec.left_out
    assert left.parameter.name == "twice"
    assert left.reason == "an option of an operation, not a weight"
    assert network.run(*network.example_inputs)[0].shape == (2, 2, 16, 16)


RESIZES: list[tuple[dict[str, Any], list[float]]] = [
    ({"mode": "nearest"}, [1, 1, 2, 2]),
    ({"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
     [1, 1, 3, 1.5]),
    ({"mode": "nearest", "coordinate_transformation_mode": "align_corners"}, [1, 1, 2, 2]),
    ({"mode": "nearest", "nearest_mode": "ceil"}, [1, 1, 0.5, 1.7]),
    ({"mode": "linear"}, [1, 1, 2, 2]),
    ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, [1, 1, 2, 3]),
    ({"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}, [1, 1, 1.5, 1.5]),
    ({"mode": "cubic"}, [1, 1, 2, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("attributes", "scales"), RESIZES)
def test_resize(attributes: dict[str, Any], scales: list[float], tmp_path: Path) -> None:
    runs(tmp_path, [node("Resize", "x - s", "y", **attributes)], {"s": floats(*scales)})


def test_old_upsample(tmp_path: Path) -> None:
    nodes = [node("Upsample", "x s", "y", mode="nearest")]
    path = saved(model(nodes, X, {"s": floats(1, 1, 2, 2)}, opset=9), tmp_path)
    y = onnx_module(path, check=False)
    (x,) = y.example_inputs
    assert torch.equal(y.run(x)[0], x.repeat_interleave(2, 2).repeat_interleave(2, 3))


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("biased", [True, False])
def test_recurrent(kind: str, direction: str, biased: bool, tmp_path: Path) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    ways = 2 if direction == "bidirectional" else 1
    tensors = {"w": weights(ways, gates * 5, 3), "r": weights(ways, gates * 5, 5),
               "u": weights(ways * 5, 2), "s": ints(3, 2, -1)}  # fmt: skip
    tensors |= {"b": weights(ways, gates * 10)} if biased else {}
    nodes = [node(kind, f"x w r {'b' if biased else ''}", "h0 last", hidden_size=5,
                  direction=direction), node("Transpose", "h0", "h1", perm=[0, 2, 1, 3]),
             node("Reshape", "h1 s", "h"), node("MatMul", "h u", "y")]  # fmt: skip
    made = model(nodes, {"x": (3, 2, 3)}, tensors, ["y"])
    # The reference evaluator does not run backwards.
    __, graph = imports(saved(made, tmp_path), runtime=direction != "forward")
    # One tensor holds both directions: their neurons are permuted together.
    assert graph.symmetry.log_order == pytest.approx(np.log(120))


def test_gru_that_resets_after_the_product(tmp_path: Path) -> None:
    tensors = {"w": weights(1, 15, 3), "r": weights(1, 15, 5), "b": weights(1, 30)}
    nodes = [node("GRU", "x w r b", "h y", hidden_size=5, linear_before_reset=1)]
    runs(tmp_path, nodes, tensors, inputs={"x": (3, 2, 3)})


def test_embedding_and_einsum(tmp_path: Path) -> None:
    tensors = {"table": weights(9, 6), "w": weights(6, 3)}
    nodes = [node("Gather", "table ids", "e"), node("Einsum", "e w", "y", equation="btf,fo->bto")]
    made = model(nodes, {"ids": (2, 4)}, tensors, integers=["ids"])
    __, graph = imports(saved(made, tmp_path))
    assert [a.size for a in graph.spec.axes if a.permutes] == [6]


@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize("flips", [(0, 0), (0, 1), (1, 0)])
@pytest.mark.parametrize("added", [(4,), (1, 4), (3, 4), (1,), None])
def test_gemm(
    alpha: float, flips: tuple[int, int], added: tuple[int, ...] | None, tmp_path: Path
) -> None:
    tensors = {"w": weights(*((4, 5) if flips[1] else (5, 4)))}
    tensors |= {} if added is None else {"c": weights(*added)}
    nodes = [node("Gemm", "x w c" if added else "x w", "y", alpha=alpha, beta=2 * alpha,
                  transA=flips[0], transB=flips[1])]  # fmt: skip
    runs(tmp_path, nodes, tensors, inputs={"x": (5, 3) if flips[0] else (3, 5)})
