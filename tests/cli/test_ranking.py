"""Ranking on the command line: from a zoo without splits to predictions with intervals."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.data import shared_data
from weightspace.cli.main import main
from weightspace.graph import chain_spec
from weightspace.zoo import Zoo, ZooWriter

SPEC = chain_spec([2, 6, 1], activations="tanh")


def sized_zoo(folder: Path, networks: int = 60, *, splits: bool = False) -> Zoo:
    """Networks whose ``size`` is how large their weights are; two checkpoints a source."""
    generator = torch.Generator().manual_seed(0)
    size = torch.rand(networks // 2, generator=generator).repeat_interleave(2)
    stacked = {
        p.name: torch.randn(networks, *p.shape, generator=generator)
        * (0.2 + size).reshape(-1, *[1] * len(p.shape))
        for p in SPEC.parameters
    }
    rows: list[dict[str, Any]] = [
        {
            "size": value,
            "source": f"run {i // 2}",
            "name": f"n{i}",
            "constant": 1.5,
            "few": value if i < 4 else None,
        }
        for i, value in enumerate(size.tolist())
    ]
    writer = ZooWriter(folder, specs=[SPEC], recipe={"name": "sized"})
    writer.write_part(0, stacked, rows)
    half = {"train": list(range(networks // 2)), "test": list(range(networks // 2, networks))}
    return writer.finish(splits=half if splits else {})


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return sized_zoo(tmp_path_factory.mktemp("sized") / "z")


@pytest.fixture(scope="module")
def trained(zoo: Zoo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "t"
    main(["train", str(zoo.path), *regress("size", "--model", "ridge", "--out", out)])
    return out


def regress(target: str, *more: object) -> list[str]:
    return ["--task", "regress", "--target", target, *map(str, more)]


def fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    assert stopped.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def test_training_says_how_good_and_how_sure(trained: Path) -> None:
    results = json.loads((trained / "results.json").read_text())
    assert results["cv_tau"] > 0.5
    assert results["sources"] == 30
    assert results["networks"] == 60
    assert not results["trust"]["trusted"]
    assert "30 independent networks" in results["trust"]["reasons"][0]


def test_predictions_have_intervals_and_strangers_are_not_guessed(
    zoo: Zoo, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    for row in (0, 10, 20):
        state = {name: tensor[0].clone() for name, tensor in zoo.states([row]).items()}
        save_file(state, folder / f"{row}.safetensors")
    torch.save({name: 1000 * tensor for name, tensor in state.items()}, folder / "huge.pt")
    torch.save({"0.weight": torch.zeros(9, 5), "0.bias": torch.zeros(9)}, folder / "other.pt")
    torch.save({name: tensor * torch.nan for name, tensor in state.items()}, folder / "nan.pt")
    (folder / "broken.pt").write_bytes(b"nothing")
    (folder / "notes.txt").write_text("no network")
    model, out = trained / "model.safetensors", tmp_path / "p.csv"
    command = ("predict", model, folder, "--activation", "tanh", "--out", out)
    message = fails(capsys, *command, "--json", tmp_path / "p.json")
    assert "broken.pt" in message
    assert "nan.pt" in message
    data = json.loads((tmp_path / "p.json").read_text())
    rows = {Path(row["file"]).name: row for row in data["predictions"]}
    assert set(rows) == {
        "0.safetensors", "10.safetensors", "20.safetensors", "huge.pt", "other.pt",
    }  # fmt: skip
    truth = zoo.column("size")
    for row in (0, 10, 20):
        said = rows[f"{row}.safetensors"]
        assert not said["unlike"]
        assert said["low"] <= truth[row] <= said["high"]
    for name in ("huge.pt", "other.pt"):
        assert rows[name]["unlike"]
        assert rows[name]["value"] is rows[name]["rank"] is None
        assert rows[name]["differs_in"]
    assert [row["rank"] for row in data["predictions"]] == [1, 2, 3, None, None]
    assert len(data["failures"]) == 2
    with out.open() as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == ["rank", "file", "size", "low", "high", "unlike"]
    assert [row["unlike"] for row in table] == ["no"] * 3 + ["yes"] * 2


def test_a_whole_zoo_is_ranked(
    zoo: Zoo, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "p.json"
    model = str(trained / "model.safetensors")
    written = ["--out", str(tmp_path / "p.csv"), "--json", str(out)]
    main(["predict", model, str(zoo.path), *written, "--coverage", "0.5"])
    data = json.loads(out.read_text())
    assert data["coverage"] == 0.5
    assert len(data["predictions"]) == 60
    values = [row["value"] for row in data["predictions"] if not row["unlike"]]
    assert values == sorted(values, reverse=True)
    assert len(values) > 50
    assert "coverage" in fails(capsys, "predict", model, zoo.path, "--coverage", "7")
    assert "files" in fails(capsys, "predict", model)


def test_the_test_split_is_set_aside(tmp_path: Path) -> None:
    zoo = sized_zoo(tmp_path / "z", splits=True)
    main(["train", str(zoo.path), *regress("size", "--model", "ridge", "--out", tmp_path / "t")])
    results = json.loads((tmp_path / "t" / "results.json").read_text())
    assert results["networks"] == results["test_networks"] == 30
    assert results["test_tau"] > 0.5
    assert results["test_coverage"] > 0.6


def test_columns_that_cannot_be_ranked(
    zoo: Zoo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ("train", zoo.path, "--out", tmp_path / "t")
    assert "--task classify" in fails(capsys, *train, *regress("name"))
    assert "nothing to learn" in fails(capsys, *train, *regress("constant"))
    assert "at least 6" in fails(capsys, *train, *regress("few"))
    assert "size" in fails(capsys, *train, *regress("colour"))
    assert "by" in fails(capsys, *train, *regress("size", "--by", "by"))
    assert "coverage" in fails(capsys, *train, *regress("size", "--coverage", "1"))
    assert "seed" in fails(capsys, *train, *regress("size", "--seed", "-1"))


def test_models_by_name_train_on_zoos_without_splits(zoo: Zoo, tmp_path: Path) -> None:
    small = ("--model", "stat-nn", "--epochs", "1", "--logger", "csv", "--out", tmp_path / "t")
    main(["train", str(zoo.path), *regress("size", *small)])
    results = json.loads((tmp_path / "t" / "results.json").read_text())
    assert results["train_networks"] + results["val_networks"] + results["test_networks"] == 60
    assert results["train_networks"] % 2 == 0  # both checkpoints of a source
    assert not (tmp_path / "t" / "tensorboard").exists()


def test_a_ranking_of_another_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such file" in fails(capsys, "predict", tmp_path / "m.safetensors", "x.pt")


def test_27_walkers_are_too_few_to_trust(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f").mkdir()
    shutil.copy(shared_data("zoos/bipedal_walker_mlps.npz"), tmp_path / "f" / "walkers.npz")
    main(["zoo", "import", str(tmp_path / "f"), "--out", str(tmp_path / "z")])
    ranked = regress("score", "--model", "ridge", "--out", tmp_path / "t")
    main(["train", str(tmp_path / "z"), *ranked])
    assert "do not trust this ranking" in capsys.readouterr().out
    results = json.loads((tmp_path / "t" / "results.json").read_text())
    assert results["networks"] == 27
    assert "27 independent networks are too few" in results["trust"]["reasons"][0]


def test_shares_stay_between_none_and_all(tmp_path: Path) -> None:
    zoo = sized_zoo(tmp_path / "z")
    out = tmp_path / "t"
    main(["train", str(zoo.path), "--task", "regress-share", "--target", "size",
          "--model", "ridge", "--out", str(out)])  # fmt: skip
    written = ["--out", str(tmp_path / "p.csv"), "--json", str(tmp_path / "p.json")]
    main(["predict", str(out / "model.safetensors"), str(zoo.path), *written, "--coverage", "0.95"])
    rows = json.loads((tmp_path / "p.json").read_text())["predictions"]
    ends = [row[end] for row in rows for end in ("low", "value", "high") if not row["unlike"]]
    assert min(ends) == 0
    assert max(ends) == 1


def test_names_that_are_mistyped_are_refused_at_once(
    zoo: Zoo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ("--out", tmp_path / "t")
    said = fails(capsys, "train", zoo.path, *regress("size", "--model", "rigde", *out))
    assert "auto, ridge, trees, ng-gnn" in said
    assert "Did you mean 'ridge'?" in said
    assert "has no splits" not in said
    said = fails(capsys, "train", zoo.path, "--target", "size", "--model", "trees", *out)
    assert "--task regress" in said
    assert "Did you mean 'size'?" in fails(capsys, "train", zoo.path, *regress("sise", *out))
    assert "--target COLUMN" in fails(capsys, "train", zoo.path, "--task", "regress", *out)
    assert not (tmp_path / "t").exists()


def test_an_activation_that_makes_all_unlike_is_asked_about(
    zoo: Zoo, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "huge.pt"
    torch.save({name: 1000 * tensor[0] for name, tensor in zoo.states([0]).items()}, file)
    command = ["predict", str(trained / "model.safetensors"), str(file)]
    main([*command, "--activation", "relu", "--out", str(tmp_path / "p.csv")])
    assert "--activation relu: is it what" in " ".join(capsys.readouterr().out.split())
