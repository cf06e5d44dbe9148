"""``weightspace inspect``: what it writes and what it says of bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.data import shared_data
from weightspace.cli.main import main

KEYS = {
    "nodes", "edges", "parameters", "parameters_covered", "left_out", "axes",
    "max_relative_change", "seconds",
}  # fmt: skip


class Tokens(nn.Module):
    """Reads tokens and real numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(5, 8), nn.Linear(8, 2)
        self.unused = nn.Linear(1, 1)

    def forward(self, ids: Tensor, x: Tensor) -> Tensor:
        return self.last(self.table(ids) * x)


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))


def number() -> int:
    return 3


NAME = f"{__name__}:"


def inspected(tmp_path: Path, *arguments: object) -> dict[str, Any]:
    out = tmp_path / "inspect.json"
    main(["inspect", *map(str, arguments), "--json", str(out)])
    found: dict[str, Any] = json.loads(out.read_text())
    assert set(found) >= KEYS
    return found


def fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["inspect", *map(str, arguments)])
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert "error" in told
    return " ".join(told.split())


def test_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = inspected(tmp_path, f"{NAME}small", "--inputs", "4,3")
    assert found["nodes"] == 13
    assert found["edges"] == 40
    assert found["parameters"] == found["parameters_covered"] == 50
    assert found["left_out"] == []
    assert 0 <= found["max_relative_change"] <= 1e-4
    assert found["seconds"] > 0
    hidden = [axis for axis in found["axes"] if axis["permutes"]]
    assert [(axis["name"], axis["size"]) for axis in hidden] == [("0", 8)]
    assert "S_8" in hidden[0]["group"]
    told = capsys.readouterr().out
    for table in ("node sets", "blocks", "axes", "50 of 50"):
        assert table in told


def test_several_inputs_and_tensors_left_out(tmp_path: Path) -> None:
    found = inspected(tmp_path, f"{NAME}Tokens", "--inputs", "int:2,4; 2,4,8")
    assert found["parameters"] == found["parameters_covered"] + 2
    assert [item["name"] for item in found["left_out"]] == ["unused.weight", "unused.bias"]
    assert all(item["reason"] for item in found["left_out"])


def test_checkpoint_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.save(small().state_dict(), path)
    found = inspected(tmp_path, path)
    assert found["parameters"] == found["parameters_covered"] == 50
    assert found["max_relative_change"] is None
    assert "module" in found["not_checked"]


def test_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    found = inspected(tmp_path, shared_data("models/onnx/mnist2x10.onnx"))
    assert found["parameters"] == found["parameters_covered"] == 8070
    assert found["max_relative_change"] <= 1e-4
    path = shared_data("models/onnx/mnist2x10.onnx")
    assert inspected(tmp_path, path, "--inputs", "5,1,28,28")["nodes"] == found["nodes"]


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("no_such_package:net", ["--inputs", "1"], "ModuleNotFoundError"),
        (f"{NAME}nothing", ["--inputs", "1"], "AttributeError"),
        (f"{NAME}number", ["--inputs", "1"], "expected an nn.Module, found int"),
        (f"{NAME}KEYS", ["--inputs", "1"], "expected an nn.Module, found set"),
        (f"{NAME}small", [], "--inputs"),
        (f"{NAME}small", ["--inputs", "4,x"], "'4,x'"),
        (f"{NAME}small", ["--inputs", "4,0"], "'4,0'"),
        (f"{NAME}small", ["--inputs", "99999999,99999999"], "at most"),
        (f"{NAME}small", ["--inputs", "bool:1,3"], "'bool:1,3'"),
        (f"{NAME}small", ["--inputs", "4,5"], "tensors of (4, 5)"),
        ("missing.pt", [], "no such file"),
        ("missing.onnx", [], "no such file"),
    ],
)
def test_bad_input(
    name: str, options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in fails(capsys, name, *options)


@pytest.mark.parametrize("content", [b"", b"not a network", b"\x08\x07\x12"])
@pytest.mark.parametrize("ending", ["pt", "onnx"])
def test_damaged_files(
    content: bytes, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx")
    path = tmp_path / f"net.{ending}"
    path.write_bytes(content)
    assert str(path) in fails(capsys, path).replace(" ", "") or path.name in fails(capsys, path)
