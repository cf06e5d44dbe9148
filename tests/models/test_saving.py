"""Saving and loading, flat MLP, registry."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tests.graph.strategies import random_stacked
from weightspace.errors import DataError, FileError, ModelError
from weightspace.graph import NeuralGraph, chain_spec
from weightspace.models import (
    MODELS,
    FlatMLP,
    Predictor,
    Requirements,
    load_model,
    make_model,
    save_model,
)

SPEC = chain_spec([2, 6, 1], activations="tanh")
GRAPH = NeuralGraph.from_stacked(SPEC, random_stacked(SPEC, 8, 0))


@pytest.fixture(params=list(MODELS))
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, torch.Tensor]:
    torch.manual_seed(0)
    model = make_model(request.param, Requirements.of([SPEC]), outputs=3)
    model.fit_normalisation(GRAPH)
    path = tmp_path / "sub" / "model.safetensors"
    save_model(path, model.eval(), name=request.param, task={"classes": ["a", "b", "c"]})
    return path, model(GRAPH)


def test_round_trip(saved: tuple[Path, torch.Tensor]) -> None:
    path, before = saved
    loaded = load_model(path)
    assert torch.equal(loaded.model(GRAPH), before)
    assert loaded.task["classes"] == ["a", "b", "c"]
    assert not loaded.model.training
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_in_a_fresh_process(saved: tuple[Path, torch.Tensor], tmp_path: Path) -> None:
    path, before = saved
    torch.save(GRAPH.stacked_state(), tmp_path / "networks.pt")
    code = (
        "import sys, torch\n"
        "from weightspace.graph import NeuralGraph\n"
        "from weightspace.models import load_model\n"
        "model = load_model(sys.argv[1]).model\n"
        "stacked = torch.load(sys.argv[2], weights_only=True)\n"
        "spec = model.trunk.requirements.spec\n"
        "torch.save(model(NeuralGraph.from_stacked(spec, stacked)), sys.argv[3])"
    )
    out = tmp_path / "out.pt"
    subprocess.run(
        [sys.executable, "-c", code, str(path), str(tmp_path / "networks.pt"), str(out)],
        check=True,
    )
    torch.testing.assert_close(torch.load(out, weights_only=True), before.detach())


def test_damaged_files(saved: tuple[Path, torch.Tensor], tmp_path: Path) -> None:
    path, _ = saved
    data = path.read_bytes()
    for name, content in (("cut", data[: len(data) // 2]), ("empty", b""), ("text", b"hello")):
        broken = tmp_path / name
        broken.write_bytes(content)
        with pytest.raises(FileError, match=name):
            load_model(broken)
    other = tmp_path / "other.safetensors"
    save_file({"x": torch.ones(1)}, other)
    with pytest.raises(FileError, match="something else"):
        load_model(other)
    with pytest.raises(FileError, match="no such file"):
        load_model(tmp_path / "missing")
    tampered = tmp_path / "tampered"
    tampered.write_bytes(data.replace(b'\\"outputs\\": 3', b'\\"outputs\\": 4'))
    with pytest.raises(FileError, match="metanetwork"):
        load_model(tampered)


def test_flat_mlp_reads_all_values_and_one_architecture() -> None:
    torch.manual_seed(0)
    model = Predictor(FlatMLP(Requirements.of([SPEC]), width=4), outputs=2).eval()
    stacked = {name: tensor.requires_grad_() for name, tensor in GRAPH.stacked_state().items()}
    model(NeuralGraph.from_stacked(SPEC, stacked)).sum().backward()
    assert all(t.grad is not None and t.grad.abs().min() > 0 for t in stacked.values())
    with pytest.raises(ModelError, match="one architecture"):
        FlatMLP(Requirements.of([SPEC, chain_spec([2, 5, 1])]))


def test_registry_refuses_unknown_names_and_options() -> None:
    requirements = Requirements.of([SPEC])
    with pytest.raises(ModelError, match="one of"):
        make_model("gnn", requirements, outputs=2)
    with pytest.raises(ModelError, match="options of flat-mlp"):
        make_model("flat-mlp", requirements, outputs=2, options={"probes": 3})


@pytest.mark.parametrize("name", ["dws", "ng-t", "mine", "ng-gnn-linear"])
def test_another_models_name_is_refused_when_saving(name: str, tmp_path: Path) -> None:
    model = make_model("ng-gnn", Requirements.of([SPEC]), outputs=3, options={"width": 4})
    with pytest.raises(ModelError, match=r"to be saved: expected the name of a NGGNN"):
        save_model(tmp_path / "model.safetensors", model, name=name, task={})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("task", [{"a": torch.ones(1)}, {"a": float("nan")}, {"a": object()}])
def test_tasks_that_are_not_plain_are_refused(task: dict[str, Any], tmp_path: Path) -> None:
    model = make_model("ng-gnn", Requirements.of([SPEC]), outputs=3, options={"width": 4})
    with pytest.raises(DataError, match="task: expected plain values"):
        save_model(tmp_path / "model.safetensors", model, name="ng-gnn", task=task)
    assert not list(tmp_path.iterdir())


def _rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the description in a saved model's file."""
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    header = json.loads(metadata["weightspace.metanetwork"])
    change(header)
    save_file(tensors, path, metadata={"weightspace.metanetwork": json.dumps(header)})


@pytest.mark.parametrize(
    "field", ["inputs", "outputs", "hidden", "node_features", "channels", "neurons", "incoming",
              "log_degree", "window", "statistics"]
)  # fmt: skip
def test_requirements_of_another_kind_are_refused(field: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = make_model("ng-gnn", Requirements.of([SPEC]), outputs=3, options={"width": 4})
    for wrong in (-1, "x", None, {}, [[1, [2]]], [-1], float("nan"), True):
        save_model(path, model, name="ng-gnn", task={})
        _rewritten(path, lambda header, wrong=wrong: header["requirements"].update({field: wrong}))
        with pytest.raises(FileError, match=r"requirements, " + field):
            load_model(path)


def test_whole_numbers_in_place_of_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = make_model("ng-gnn", Requirements.of([SPEC]), outputs=3, options={"width": 4})
    save_model(str(path), model, name="ng-gnn", task={})  # a string is a path, too
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    tensors["last.bias"] = tensors["last.bias"].view(torch.int32)
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(FileError, match=r"torch\.int32 in last\.bias"):
        load_model(path)
