"""Every layout that people keep networks in, on generated folders."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.zoo.importing import folders
from weightspace.errors import DataError, FileError
from weightspace.graph import Activation
from weightspace.zoo import Zoo, verify
from weightspace.zoo.importing import (
    LAYOUTS,
    ImportOptions,
    ImportReport,
    Layout,
    import_zoo,
)
from weightspace.zoo.importing.blueprints import BareBlueprint
from weightspace.zoo.importing.found import FoundNetwork, Unit
from weightspace.zoo.importing.listing import Listing, list_files


def take_in(folder: Path, **options: object) -> tuple[Zoo, ImportReport]:
    zoo, report = import_zoo(folder, folder.parent / "zoo", options=ImportOptions(**options))
    assert verify(zoo.path).ok, verify(zoo.path)
    assert not list(folder.parent.glob(".*import"))
    return zoo, report


def test_dwsnets(tmp_path: Path) -> None:
    states = folders.dwsnets(tmp_path / "in")
    zoo, report = take_in(tmp_path / "in")
    assert report.layout == "dwsnets"
    assert report.problems == []
    assert dict(zoo.splits) == {"train": 3, "val": 1, "test": 2}
    for number, file in enumerate(zoo.column("file")):
        image = int(file.split("_")[4].split("/")[0])
        assert zoo.column("label")[number] == image % 3
        assert zoo.column("image")[number] == image
        for name, tensor in zoo.states([number]).items():
            assert torch.equal(tensor[0], states[file][name])
    hidden = [n for n in zoo.spec.node_sets if n.role == "hidden"]
    assert {n.activation for n in hidden} == {Activation.of("sine", w0=30.0)}
    assert report.ignored == {".json": 1, ".pth": 1}  # splits and statistics


def test_labels_within_the_state_dict(tmp_path: Path) -> None:
    state = folders.mlp_state((1, 4, 1))
    folders.save(tmp_path / "in/x_1_7/checkpoints/a.pth", {**state, "label": 5})
    state = folders.mlp_state((1, 4, 1), seed=1)
    folders.save(tmp_path / "in/x_1_8/checkpoints/a.pth", {**state, "coef": torch.tensor([1, 2.5])})
    zoo, report = take_in(tmp_path / "in")
    assert report.problems == []
    assert zoo.column("label").tolist() == [5, 1]
    assert zoo.metadata.column("coef").to_pylist() == [None, [1.0, 2.5]]


def test_nfn_siren_folders(tmp_path: Path) -> None:
    for number, label in ((3, 1), (12, 7)):
        path = tmp_path / f"in/randinit_train_{label}s/net{number}.pth"
        folders.save(path, folders.mlp_state(seed=number))
    zoo, _ = take_in(tmp_path / "in")
    assert zoo.column("label").tolist() == [1, 7]
    assert zoo.column("image").tolist() == [3, 12]


def test_small_cnn_zoo(tmp_path: Path) -> None:
    weights = folders.small_cnn_zoo(tmp_path / "in")
    zoo, report = take_in(tmp_path / "in")
    assert report.layout == "small-cnn-zoo"
    assert len(zoo) == 9
    assert len(zoo.specs) == 2  # tanh and relu
    rows = zoo.column("row")
    assert sorted(rows) == list(range(9))
    for number, row in enumerate(rows):
        state = zoo.states([number])
        bias = state["sequential/conv2d/bias:0"][0]
        kernel = state["sequential/conv2d/kernel:0"][0]
        assert torch.equal(bias, torch.from_numpy(weights[row, :4]))
        assert torch.equal(kernel.flatten(), torch.from_numpy(weights[row, 4:40]))
        assert zoo.column("source")[number] == f"/readahead/{row // 3}"
    assert zoo.column("step").tolist() == [0, 1, 86] * 3
    assert zoo.column("laststep").dtype == bool
    names = [n.activation.name for n in zoo.specs[0].node_sets if n.role == "hidden"]
    assert set(names) == {"tanh"}
    graph = zoo.graph([0])
    assert graph.edges["sequential/conv2d_1/kernel:0"].shape == (1, 1, 4, 4, 9)


def test_small_cnn_zoo_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = folders.small_cnn_zoo(tmp_path / "in", models=5)
    monkeypatch.setattr("weightspace.zoo.importing.small_cnn_zoo.ROWS", 4)
    zoo, _ = take_in(tmp_path / "in", activation="relu")
    assert zoo.column("row").tolist() == list(range(15))
    stored = zoo.states(range(15))["sequential/dense/bias:0"]
    place = weights.shape[1] - 50
    assert torch.equal(stored, torch.from_numpy(weights[:, place : place + 10]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "layout.csv").write_text("varname,start,end\na,0,1\n"), "shape"),
        (lambda f: (f / "layout.csv").write_text("varname,start,end,shape\na,0,9,(3)\n"), "range"),
        (
            lambda f: (f / "layout.csv").write_text(
                'varname,start,end,shape\na,0,1,"__import__(0)"\n'
            ),
            "shape",
        ),
        (lambda f: (f / "weights.npy").write_bytes(b"\x93NUMPY"), "numpy"),
        (lambda f: np.save(f / "weights.npy", np.array([[object()]]), allow_pickle=True), "numpy"),
        (lambda f: np.save(f / "weights.npy", np.zeros((2, 500), np.float32)), "lines"),
    ],
)
def test_damaged_small_cnn_zoo(tmp_path: Path, change: object, message: str) -> None:
    folders.small_cnn_zoo(tmp_path / "in")
    change(tmp_path / "in")
    with pytest.raises(FileError, match=message):
        take_in(tmp_path / "in")


def test_ray_trials(tmp_path: Path) -> None:
    folders.ray_trials(tmp_path / "in")
    zoo, report = take_in(tmp_path / "in")
    assert report.layout == "ray"
    assert report.problems == []
    assert len(zoo) == 9
    assert zoo.column("epoch").tolist() == [0, 1, 2] * 3
    assert np.allclose(zoo.column("test_acc"), [t + 0.1 * e for t in range(3) for e in range(3)])
    assert zoo.column("config.seed").tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert len(set(zoo.column("source"))) == 3
    assert not {"hostname", "pid", "done"} & set(zoo.metadata.column_names)
    assert {n.activation.name for n in zoo.spec.node_sets if n.role == "hidden"} == {"tanh"}
    state = zoo.states([4])
    expected = folders.cnn_state(seed=11)
    assert all(torch.equal(state[name][0], tensor) for name, tensor in expected.items())


def test_damaged_results_of_a_trial(tmp_path: Path) -> None:
    folders.ray_trials(tmp_path / "in")
    first, second, third = sorted((tmp_path / "in").iterdir())
    with (first / "result.json").open("a") as file:
        file.write('{"test_acc": 0.5, "train')  # killed while writing
    (second / "result.json").unlink()
    (third / "params.json").write_text("{")
    zoo, report = take_in(tmp_path / "in")
    assert len(zoo) == 9
    text = str(report)
    assert "result.json, line 4 is damaged: 3 files" in text
    assert "result.json is missing: no measures: 3 files" in text
    assert "params.json could not be read" in text
    assert np.isnan(zoo.column("test_acc")).sum() == 3


@pytest.mark.parametrize("layout", ["auto", "wild-park"])
def test_wild_park(tmp_path: Path, layout: str) -> None:
    folders.wild_park(tmp_path / "in")
    zoo, report = take_in(tmp_path / "in", layout=layout)
    assert report.layout == "wild-park"
    assert report.problems == []
    assert len(zoo.specs) == 2
    assert dict(zoo.splits) == {"train": 2, "test": 2}
    assert zoo.column("epoch").tolist() == [1, 5, 1, 5]
    assert np.allclose(zoo.column("test/acc"), [0.01, 0.05, 0.11, 0.15])
    assert np.allclose(zoo.column("score"), zoo.column("test/acc"))
    assert zoo.metadata.column("config.residual").to_pylist()[0] == [-1, -1, 0]
    assert "hostname" not in zoo.metadata.column_names
    # The residual connection ties the channels of the first and the third layer.
    tied = {n.axes for n in zoo.specs[0].node_sets if n.name in ("layers.0", "layers.2")}
    assert len(tied) == 1
    assert [n.activation.name for n in zoo.specs[1].node_sets][1:3] == ["leaky_relu", "sigmoid"]
    state = zoo.states([1])
    assert torch.equal(state["fc.bias"][0], folders.park_state(folders.PARK[0], seed=5)["fc.bias"])


def test_wild_park_with_json_beside(tmp_path: Path) -> None:
    for run, config in enumerate(folders.PARK):
        base = tmp_path / f"in/run_{run}"
        for epoch in (2, 10):
            state = folders.park_state(config, seed=epoch + run)
            folders.save(base / f"epoch_{epoch}.pt", state)
        (base / "config.json").write_text(json.dumps({"lr": 0.1, "model": config}))
        measures = [{"epoch": epoch, "acc": epoch / 100} for epoch in (2, 10)]
        (base / "metrics.json").write_text(json.dumps(measures))
    zoo, report = take_in(tmp_path / "in")
    assert report.layout == "wild-park"
    assert zoo.column("epoch").tolist() == [2, 10, 2, 10]
    assert zoo.column("acc").tolist() == [0.02, 0.1, 0.02, 0.1]
    assert len(set(zoo.column("source"))) == 2


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("where", ["config", "beside"])
def test_nothing_beside_a_configuration_is_executed(tmp_path: Path, where: str) -> None:
    folders.wild_park(tmp_path / "in")
    path = tmp_path / "in/cifar10_zooV2/trainable_0/checkpoint_000001/checkpoint.pt"
    evil = Evil(tmp_path / "executed")
    with folders.omega_classes() as make:
        config = make({**folders.PARK[0], **({"evil": evil} if where == "config" else {})})
        tree = {"model": folders.park_state(folders.PARK[0]), "config": config}
        torch.save({**tree, **({"evil": evil} if where == "beside" else {})}, path)
    zoo, report = take_in(tmp_path / "in")
    assert report.layout == "wild-park"  # the first file alone does not decide
    assert not (tmp_path / "executed").exists()
    assert len(zoo) == 3
    (problem,) = report.problems
    assert "refused before anything in it ran" in problem["reason"]
    assert "weights_only" not in problem["reason"]


def test_a_configuration_that_does_not_fit_its_weights(tmp_path: Path) -> None:
    good, bad = dict(folders.PARK[0]), {**folders.PARK[0], "channels": [3, 4, 8, 9]}
    for name, config in (("a", good), ("b", bad), ("c", {**good, "residual": [-1, -1, 7]})):
        path = tmp_path / f"in/{name}/checkpoint_000001/checkpoint.pt"
        folders.save(path, {"model": folders.park_state(good), "config": config})
    zoo, report = take_in(tmp_path / "in")
    assert len(zoo) == 1
    reasons = {p["file"][0]: p["reason"] for p in report.problems}
    assert "its config describes" in reasons["b"]
    assert "residual connections" in reasons["c"]


def test_sb3_agents(tmp_path: Path) -> None:
    folders.sb3_agents(tmp_path / "in")
    zoo, report = take_in(tmp_path / "in", activation="tanh")
    assert report.layout == "sb3"
    assert zoo.column("algo").tolist() == ["dqn", "ppo"]
    assert zoo.column("env").tolist() == ["CartPole-v1"] * 2
    assert zoo.column("eval_mean_last").tolist() == [450.0, 450.0]
    assert zoo.column("eval_mean_best").tolist() == [500.0, 500.0]
    assert zoo.column("config.gamma").tolist() == [0.99, 0.99]


def test_layouts_are_told_apart(tmp_path: Path) -> None:
    makers = {
        "dwsnets": folders.dwsnets,
        "small-cnn-zoo": folders.small_cnn_zoo,
        "ray": folders.ray_trials,
        "wild-park": folders.wild_park,
        "sb3": folders.sb3_agents,
    }
    for name, make in makers.items():
        make(tmp_path / name)
        files = LAYOUTS[name](tmp_path / name).files()
        fitting = [n for n, kind in LAYOUTS.items() if kind.fits(tmp_path / name, files)]
        assert fitting[0] == name, fitting


def test_unknown_layout_and_activation(tmp_path: Path) -> None:
    folders.save(tmp_path / "in/a.pt", folders.mlp_state())
    with pytest.raises(DataError, match="auto, small-cnn-zoo"):
        take_in(tmp_path / "in", layout="mine")
    with pytest.raises(ValueError, match="mystery"):
        take_in(tmp_path / "in", activation="mystery")


def test_a_layout_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(Layout):
        name = "mine"
        summary = "files named .weights"

        @classmethod
        def fits(cls, folder: Path, files: list[str]) -> bool:
            return False

        def listing(self, files: list[str]) -> Listing:
            return list_files(files, lambda file: file.endswith(".weights"))

        def read(self, unit: Unit) -> Iterator[FoundNetwork]:
            state = torch.load(self.folder / unit.file, weights_only=True)
            yield FoundNetwork("", state, BareBlueprint(state, "relu"), {"mine": 1})

    monkeypatch.setitem(LAYOUTS, "mine", Mine)
    folders.save(tmp_path / "in/a.weights", folders.mlp_state())
    folders.save(tmp_path / "in/b.pt", folders.mlp_state(seed=1))
    zoo, report = take_in(tmp_path / "in", layout="mine")
    assert zoo.column("mine").tolist() == [1]
    assert report.ignored == {".pt": 1}
