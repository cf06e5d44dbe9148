"""The commands that bring networks together: align, merge, prune."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from weightspace.cli.main import main
from weightspace.graph import GroupElement, SymmetryGroup
from weightspace.importers import from_module, module_spec

NETWORKS = """
from torch import nn

def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 10)
    )

def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 6, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 10)
    )
"""
MODULE = ("--module", "aligned_networks:cnn", "--inputs", "2,1,8,8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two networks of each kind, and a permuted copy of each first one."""
    (tmp_path / "aligned_networks.py").write_text(NETWORKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    scope: dict[str, object] = {}
    exec(NETWORKS, scope)  # the same text that the command imports
    for kind in ("mlp", "cnn"):
        for seed in (0, 1):
            torch.manual_seed(seed)
            module: nn.Module = scope[kind]()  # type: ignore[operator]
            save_file(module.state_dict(), tmp_path / f"{kind}{seed}.safetensors")
            if seed == 0:
                spec = module_spec(module, torch.zeros(2, 1, 8, 8))
                sample = SymmetryGroup(spec).sample(torch.Generator().manual_seed(3))
                element = GroupElement(spec, sample.permutations)
                copy = element.act_state(module.state_dict())
                save_file({n: t.contiguous() for n, t in copy.items()}, f"{kind}copy.safetensors")
    return tmp_path


def run(*arguments: str) -> dict[str, object]:
    main([*arguments, "--json", "figures.json"])
    figures: dict[str, object] = json.loads(Path("figures.json").read_text())
    return figures


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "Traceback" not in message
    return message


@pytest.mark.usefixtures("folder")
class TestAlign:
    """The command ``align``."""

    def test_a_permuted_copy_comes_back(self) -> None:
        found = run("align", "cnn0.safetensors", "cnncopy.safetensors", *MODULE, "--data", "digits")
        assert found["matched_exactly"] is True
        assert found["max_relative_change"] < 1e-5
        assert abs(found["barrier"]) < 1e-5
        original, aligned = load_file("cnn0.safetensors"), load_file("aligned.safetensors")
        assert all(torch.equal(aligned[name], tensor) for name, tensor in original.items())

    def test_by_activations(self) -> None:
        found = run(
            *("align", "cnn0.safetensors", "cnncopy.safetensors", *MODULE),
            *("--method", "activations", "--data", "digits", "--out", "other.safetensors"),
        )
        assert found["matched_exactly"] is True
        assert Path("other.safetensors").is_file()

    def test_a_bare_checkpoint_is_recognised(self) -> None:
        found = run("align", "mlp0.safetensors", "mlpcopy.safetensors")
        assert found["matched_exactly"] is True
        assert found["max_relative_change"] is None
        assert found["loss_before"] is found["loss_after"] is found["barrier"] is None
        found = run(
            *("align", "mlp0.safetensors", "mlp1.safetensors"),
            *("--activation", "relu", "--data", "digits"),
        )
        assert found["matched_exactly"] is False
        assert found["max_relative_change"] < 1e-4
        assert found["distance"] < found["distance_before"]

    def test_bad_input(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "missing.pt" in refused(capsys, "align", "missing.pt", "mlp0.safetensors")
        other = refused(capsys, "align", "mlp0.safetensors", "cnn0.safetensors")
        assert "cnn0.safetensors" in other
        shapes = refused(
            capsys, "align", "mlp0.safetensors", "mlp1.safetensors", "--method", "activations"
        )
        assert "--module" in shapes


@pytest.mark.usefixtures("folder")
class TestMerge:
    """The command ``merge``."""

    def test_a_network_and_its_copy_make_the_network(self) -> None:
        found = run("merge", "cnn0.safetensors", "cnncopy.safetensors", *MODULE)
        assert found["matched_exactly"] is True
        original, merged = load_file("cnn0.safetensors"), load_file("merged.safetensors")
        assert all(torch.allclose(merged[n], t.to(merged[n])) for n, t in original.items())

    def test_statistics_are_estimated_again(self) -> None:
        found = run("merge", "cnn0.safetensors", "cnn1.safetensors", *MODULE, "--data", "digits")
        assert found["statistics_repaired"] is True
        assert found["loss_after"] is not None
        assert load_file("merged.safetensors")["1.running_mean"].abs().sum() > 0

    def test_a_merge_that_is_worse_than_its_networks_is_called_so(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        mlps = ("mlp0.safetensors", "mlp1.safetensors", "--no-align", "--activation", "relu")
        run("merge", *mlps, "--data", "digits", "--weights", "1", "0")
        assert "worse than each" not in capsys.readouterr().out
        run("merge", *mlps, "--data", "digits", "--weights", "9", "-8")
        assert "worse than each" in capsys.readouterr().out

    def test_every_method(self) -> None:
        mlps = ("mlp0.safetensors", "mlp1.safetensors")
        run("merge", *mlps, "--method", "slerp", "--no-align")
        run("merge", *mlps, "--weights", "0.9", "0.1", "--no-align")
        own, merged = load_file(mlps[0]), load_file("merged.safetensors")
        mean = 0.9 * own["1.weight"] + 0.1 * load_file(mlps[1])["1.weight"]
        assert torch.allclose(merged["1.weight"], mean)
        run("merge", mlps[1], "--method", "task-arithmetic", "--base", mlps[0], "--scale", "0")
        merged = load_file("merged.safetensors")
        assert torch.equal(merged["1.weight"], own["1.weight"])

    def test_bad_input(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "at least two" in refused(capsys, "merge", "mlp0.safetensors")
        missing = refused(capsys, "merge", "mlp0.safetensors", "--method", "task-arithmetic")
        assert "--base" in missing


def test_prune(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = load_file("cnn0.safetensors")
    state["3.weight"][2], state["3.bias"][2] = 0, 0
    save_file(state, "dead.safetensors")
    refusal = refused(capsys, "prune", "dead.safetensors", *MODULE, "--share", "1.3")
    assert "--share: expected a number in [0, 1), found 1.3" in refusal
    found = run("prune", "dead.safetensors", *MODULE, "--share", "0.5")
    assert found["neurons_removed_exactly"] == 1
    assert found["parameters"] < found["parameters_without_redundancy"]
    kept = json.loads((folder / "pruned.json").read_text())
    assert [len(step["3"]) for step in kept] == [5, 2]
    assert load_file("pruned.safetensors")["3.weight"].shape == (2, 4, 3, 3)


def test_aligned_modules_can_be_read_again(folder: Path) -> None:
    scope: dict[str, object] = {}
    exec((folder / "aligned_networks.py").read_text(), scope)
    run("align", "cnn0.safetensors", "cnn1.safetensors", *MODULE)
    module: nn.Module = scope["cnn"]()  # type: ignore[operator]
    module.load_state_dict(load_file("aligned.safetensors"))
    from_module(module.eval(), torch.zeros(2, 1, 8, 8))
