"""Addresses of the Hugging Face hub, with a cache made by hand; nothing is fetched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from weightspace.cli.main import fetched
from weightspace.errors import FileError
from weightspace.importers import read_states
from weightspace.importers.files.hub import hub_address, local_path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of a machine that is offline."""
    pytest.importorskip("huggingface_hub")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


def repository(cache: Path, name: str, kind: str = "models") -> Path:
    """A repository in the cache, as the hub's client keeps it."""
    folder = cache / f"{kind}--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    return snapshot


def network(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({"0.weight": torch.ones(2, 3)}, path)


def test_a_file_of_a_repository(cache: Path) -> None:
    network(repository(cache, "org/net") / "runs" / "model.safetensors")
    for address in ("hf://org/net/runs/model.safetensors", "hf:/org/net/runs/model.safetensors"):
        assert read_states(Path(address) if "//" not in address else address).tensors[
            "0.weight"
        ].shape == (2, 3)
    there = fetched(["inspect", "hf://org/net/runs/model.safetensors", "--json", "a.json"])
    assert Path(there[1]).is_file()
    assert there[2:] == ["--json", "a.json"]


@pytest.mark.parametrize("address", ["hf://org/net", "org/net", f"hf://org/net@{COMMIT}"])
def test_the_one_checkpoint_of_a_repository(cache: Path, address: str) -> None:
    snapshot = repository(cache, "org/net")
    network(snapshot / "model.safetensors")
    (snapshot / "config.json").write_text("{}")
    assert local_path(address).name == "model.safetensors"


def test_several_checkpoints_need_a_name(cache: Path) -> None:
    snapshot = repository(cache, "org/net")
    network(snapshot / "a.safetensors")
    network(snapshot / "b.safetensors")
    with pytest.raises(FileError, match=r"hf://org/net/a\.safetensors"):
        local_path("hf://org/net")
    repository(cache, "org/empty")
    with pytest.raises(FileError, match="none in the repository"):
        local_path("hf://org/empty")


@pytest.mark.parametrize("address", ["hf://org/none", "hf://org/none/model.pt", "org/none"])
def test_offline_without_a_copy_says_so(cache: Path, address: str) -> None:
    with pytest.raises(FileError, match="no connection") as raised:
        local_path(address)
    assert "HF_HOME" in raised.value.hint


def test_a_file_or_folder_of_that_name_comes_first(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "org").mkdir()
    assert local_path("org/net") == Path("org/net")
    assert local_path("runs/model.pt") == Path("runs/model.pt")
    assert hub_address("../net") is None
    assert hub_address("a/b/c") is None


def test_what_is_no_address(cache: Path) -> None:
    with pytest.raises(FileError, match="another address"):
        local_path("hf://org")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(FileError, match=r"weightspace\[hub\]"):
        local_path("hf://org/net")
