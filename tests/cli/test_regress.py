"""Training on numbers and ranking new networks, as the command does it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.train.zoos import measured_zoo
from weightspace.cli.main import main
from weightspace.zoo import Zoo


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return measured_zoo(tmp_path_factory.mktemp("plain") / "z", mixed=False)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return measured_zoo(tmp_path_factory.mktemp("mixed") / "z")


def train(zoo: Zoo, out: Path, *more: str) -> dict[str, float]:
    small = ["--model", "stat-nn", "--epochs", "2", "--batch-size", "16"]
    main(["train", str(zoo.path), *small, "--out", str(out), *more])
    return dict(json.loads((out / "results.json").read_text()))


def fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    assert stopped.value.code == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("task", ["regress", "regress-share"])
def test_train_and_rank(plain: Zoo, tmp_path: Path, task: str) -> None:
    results = train(plain, tmp_path / "t", "--task", task, "--target", "size")
    assert {"test_tau", "test_spearman", "test_r2", "test_mse"} <= set(results)
    files = []
    for row in (1, 5, 9):
        state = {name: tensor[0] for name, tensor in plain.states([row]).items()}
        files.append(tmp_path / f"{row}.safetensors")
        save_file(state, files[-1])
    renamed = {f"net.layers.{name}": tensor for name, tensor in state.items()}
    save_file(renamed, tmp_path / "same.safetensors")
    torch.save({**state, "0.weight": torch.ones(3, 2)}, tmp_path / "other.pt")
    model, out = tmp_path / "t" / "model.safetensors", tmp_path / "p.csv"
    with pytest.raises(SystemExit):
        main(
            [
                *("predict", str(model), *map(str, files)),
                *(str(tmp_path / "other.pt"), str(tmp_path / "same.safetensors")),
                *("--out", str(out), "--json", str(tmp_path / "p.json")),
            ]
        )
    data = json.loads((tmp_path / "p.json").read_text())
    assert data["target"] == "size"
    assert "other.pt" in data["failures"][0]
    rows = {Path(row["file"]).stem: row for row in data["predictions"]}
    assert rows["same"]["value"] == pytest.approx(rows["9"]["value"])
    assert [row["rank"] for row in data["predictions"]] == [1, 2, 3, 4]
    values = [row["value"] for row in data["predictions"]]
    assert values == sorted(values, reverse=True)
    with out.open() as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == ["rank", "file", "size"]
    assert [float(row["size"]) for row in table] == values


def test_a_mixed_zoo_ranks_the_networks_of_a_zoo(
    mixed: Zoo, plain: Zoo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = train(mixed, tmp_path / "t", "--task", "regress", "--target", "partly")
    assert results["left_out_networks"] == 25
    model = tmp_path / "t" / "model.safetensors"
    written = ["--out", str(tmp_path / "p.csv"), "--json", str(tmp_path / "p.json")]
    message = fails(capsys, "predict", model, mixed.path, *written)
    data = json.loads((tmp_path / "p.json").read_text())
    assert len(data["predictions"]) == len(mixed) - 1
    assert f"#{len(mixed) - 1}" in message  # the one whose weights are not numbers
    state = {name: tensor[0] for name, tensor in plain.states([0]).items()}
    save_file(state, tmp_path / "n.safetensors")
    main(["predict", str(model), str(tmp_path / "n.safetensors"), *written])


def test_columns_that_cannot_be_learned(
    mixed: Zoo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train_it = ("train", mixed.path, "--out", tmp_path / "t", "--model", "stat-nn")
    assert "--task regress" in fails(capsys, *train_it, "--target", "size")
    assert "--task classify" in fails(capsys, *train_it, "--task", "regress", "--target", "name")
    assert "nothing to learn" in fails(
        capsys, *train_it, "--task", "regress", "--target", "constant"
    )
    assert "size" in fails(capsys, *train_it, "--target", "colour")


def test_a_model_of_another_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from weightspace.graph import chain_spec
    from weightspace.models import Requirements, make_editor, make_model, save_model

    needs = Requirements.of([chain_spec([2, 4, 1])])
    path = tmp_path / "model.safetensors"
    save_model(path, make_editor("dws", needs), name="dws", task={"kind": "editing"})
    assert "predicts" in fails(capsys, "predict", path, tmp_path / "x.pt")
    save_model(path, make_model("dws", needs, outputs=1), name="dws", task={"kind": "regression"})
    assert "regression" in fails(capsys, "predict", path, tmp_path / "x.pt")
