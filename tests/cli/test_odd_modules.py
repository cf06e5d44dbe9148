"""Align and merge modules with tied weights, several inputs and outputs, or a fixed batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from weightspace.cli.main import main
from weightspace.cli.modules import example_tensors, import_module
from weightspace.graph import SymmetryGroup
from weightspace.importers import module_spec

NETWORKS = '''
import torch
from torch import nn


class Tied(nn.Module):
    """The embedding is the last layer, too."""

    def __init__(self):
        super().__init__()
        self.embedding, self.hidden = nn.Embedding(11, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.hidden(self.embedding(tokens)).tanh())


class Several(nn.Module):
    """Two inputs, and outputs in a dictionary."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(3, 8), nn.Linear(4, 8)
        self.head, self.score = nn.Linear(8, 2), nn.Linear(8, 1)

    def forward(self, one, other):
        hidden = (self.one(one) + self.other(other)).relu()
        return {"head": self.head(hidden), "score": self.score(hidden).squeeze(-1)}


class Fixed(nn.Module):
    """Takes two inputs at a time and no others."""

    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.randn(2, 8))
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, inputs):
        return self.last((self.first(inputs) + self.position).view(2, 8).relu())


def multiplied():
    """A depthwise convolution with two channels of each."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 12, 3, groups=6), nn.BatchNorm2d(12),
        nn.ReLU(), nn.Conv2d(12, 2, 1), nn.Flatten()
    )
'''
KINDS = {
    "Tied": "int:2,5",
    "Several": "2,3;2,4",
    "Fixed": "2,3",
    "multiplied": "1,1,6,6",
}


@pytest.fixture(params=KINDS)
def options(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """A network's file, that of a permuted copy, and the options that name its module."""
    (tmp_path / "odd_networks.py").write_text(NETWORKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    torch.manual_seed(0)
    module = import_module(f"odd_networks:{request.param}")
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.normal_(part.weight)
            nn.init.normal_(part.bias)
    inputs = KINDS[request.param]
    spec = module_spec(module, example_tensors(inputs))
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(1))
    torch.save(module.state_dict(), "a.pt")
    torch.save(element.act_state(module.state_dict()), "b.pt")
    return ["a.pt", "b.pt", "--module", f"odd_networks:{request.param}", "--inputs", inputs]


def test_a_permuted_copy_comes_back_and_merges(options: list[str]) -> None:
    for command in ("align", "merge"):
        main([command, *options, "--out", f"{command}.safetensors", "--json", "figures.json"])
        figures = json.loads(Path("figures.json").read_text())
        assert figures["matched_exactly"] is True
        assert figures["max_relative_change"] < 1e-5
        made = load_file(f"{command}.safetensors")
        state = torch.load("a.pt", weights_only=True)
        assert set(made) == set(state)
        assert all(torch.allclose(made[name], tensor) for name, tensor in state.items())


def test_losses_need_an_output_for_each_class(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["align", *options, "--data", "digits"])
    message = " ".join(capsys.readouterr().err.split())
    assert end.value.code == 2
    assert "Traceback" not in message
    assert "--data" in message or "--module" in message


def test_eight_bit_weights_are_computed_with_in_single_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    small = {name: tensor.to(torch.float8_e4m3fn) for name, tensor in net.state_dict().items()}
    torch.save(small, "small.pt")
    torch.save(net.state_dict(), "net.pt")
    main(["view", "small.pt", "--out", "view.html"])
    main(["align", "small.pt", "small.pt", "--activation", "relu", "--json", "figures.json"])
    assert json.loads(Path("figures.json").read_text())["matched_exactly"] is True
    main(["merge", "small.pt", "net.pt", "--activation", "relu"])
    assert load_file("merged.safetensors")["0.weight"].dtype == torch.float32
