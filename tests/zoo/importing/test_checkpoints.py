"""Folders of checkpoints of any format, with labels, duplicates and damaged files."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tests.data import shared_data
from tests.importers.checkpoint_files import STATE, WRITERS
from tests.importers.real_networks import NeRF
from tests.zoo.importing import folders
from tests.zoo.zoos import MLP, contents, make_zoo
from weightspace.cli.main import main
from weightspace.errors import DataError, FileError
from weightspace.importers import from_module, module_spec
from weightspace.zoo import Zoo, verify
from weightspace.zoo.importing import (
    ImportOptions,
    ImportReport,
    blueprints,
    import_zoo,
    states,
)


def take_in(folder: Path, **options: object) -> tuple[Zoo, ImportReport]:
    zoo, report = import_zoo(folder, folder.parent / "zoo", options=ImportOptions(**options))
    assert verify(zoo.path).ok, verify(zoo.path)
    return zoo, report


def some_networks(folder: Path, count: int = 4) -> None:
    for number in range(count):
        folders.save(folder / f"run_{number}/model.pt", folders.mlp_state(seed=number))


def test_every_format(tmp_path: Path) -> None:
    for number, (name, write) in enumerate(WRITERS.items()):
        (tmp_path / f"in/{number}").mkdir(parents=True)
        write(tmp_path / f"in/{number}" / name)
    zoo, report = take_in(tmp_path / "in", duplicates="mark")
    assert report.problems == []
    assert len(zoo) == len(WRITERS)
    assert report.ignored == {".safetensors": 2}  # the shards that the index names
    for tensors in (zoo.states([number]) for number in range(len(zoo))):
        assert all(torch.equal(tensors[name][0], STATE[name]) for name in STATE)
    assert len(report.duplicates) == len(WRITERS) - 1
    assert zoo.column("duplicate_of")[0] is None
    assert set(zoo.column("duplicate_of")[1:]) == {zoo.column("file")[0]}


def test_duplicates_are_kept_once(tmp_path: Path) -> None:
    some_networks(tmp_path / "in")
    folders.save(tmp_path / "in/run_1/copy.pt", folders.mlp_state(seed=1))
    zoo, report = take_in(tmp_path / "in")
    assert len(zoo) == 4
    assert report.duplicates == [{"network": "run_1/model.pt", "same_as": "run_1/copy.pt"}]
    assert "left out: 1" in str(report)


def test_duplicates_with_other_labels_are_said(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 1), ("c", 0)):
        folders.save(tmp_path / f"in/{name}.pt", folders.mlp_state(seed=seed))
    (tmp_path / "labels.csv").write_text("name,acc\na,0.1\nb,0.2\nc,0.3\n")
    _, report = take_in(tmp_path / "in", labels=tmp_path / "labels.csv")
    assert any("have other labels" in note for note in report.notes)


def test_mixed_architectures(tmp_path: Path) -> None:
    for number in range(6):
        sizes = (2, 3 + number % 2, 1)
        folders.save(tmp_path / f"in/{number}.pt", folders.mlp_state(sizes, seed=number))
    zoo, _ = take_in(tmp_path / "in")
    assert len(zoo.specs) == 2
    assert zoo.column("file").tolist() == [f"{n}.pt" for n in (0, 2, 4, 1, 3, 5)]
    with pytest.raises(DataError, match="networks of one spec, found 2 specs"):
        zoo.spec  # noqa: B018


def test_epochs_share_a_source(tmp_path: Path) -> None:
    for run in "ab":
        for epoch in (9, 10):
            path = tmp_path / f"in/{run}/model_epoch_{epoch}.pt"
            folders.save(path, folders.mlp_state(seed=epoch + 100 * ord(run)))
    zoo, _ = take_in(tmp_path / "in")
    assert zoo.column("epoch").tolist() == [9, 10, 9, 10]
    assert zoo.column("source").tolist() == ["a/model"] * 2 + ["b/model"] * 2


@pytest.mark.parametrize("key", ["run_{}/model.pt", "./run_{}/model", "run_{}"])
@pytest.mark.parametrize("kind", ["csv", "json", "json-list"])
def test_labels(tmp_path: Path, key: str, kind: str) -> None:
    some_networks(tmp_path / "in")
    rows = {key.format(n): {"acc": n / 10, "optimiser": "adam" if n else ""} for n in range(4)}
    path = tmp_path / ("labels.csv" if kind == "csv" else "labels.json")
    if kind == "csv":
        lines = [f"{name},{row['acc']},{row['optimiser']}\n" for name, row in rows.items()]
        path.write_text("File,acc,optimiser\n" + "".join(lines))
    elif kind == "json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text(json.dumps([{"path": name, **row} for name, row in rows.items()]))
    zoo, report = take_in(tmp_path / "in", labels=path)
    assert zoo.column("acc").tolist() == [0.0, 0.1, 0.2, 0.3]
    assert zoo.column("optimiser").tolist()[1:] == ["adam"] * 3
    assert report.notes == []


def test_names_like_numbers(tmp_path: Path) -> None:
    for number in (7, 8):
        folders.save(tmp_path / f"in/00{number}.pt", folders.mlp_state(seed=number))
    (tmp_path / "labels.csv").write_text("id,year\n007,2020_1\n008,2021_1\n")
    zoo, _ = take_in(tmp_path / "in", labels=tmp_path / "labels.csv")
    assert zoo.column("year").tolist() == ["2020_1", "2021_1"]


@pytest.mark.parametrize("root", ["", "elsewhere/deep/"])
@pytest.mark.parametrize("deeper", ["", "data/"])
def test_paths_of_another_machine(tmp_path: Path, root: str, deeper: str) -> None:
    names = [f"zoo/run_{n}/last/model.pt" for n in range(3)]
    for number, name in enumerate(names):
        folders.save(tmp_path / "in" / deeper / name, folders.mlp_state(seed=number))
    rows = {f"{root}{name}": {"acc": number} for number, name in enumerate(names[:2])}
    (tmp_path / "labels.json").write_text(json.dumps(rows))
    zoo, report = take_in(tmp_path / "in", labels=tmp_path / "labels.json")
    assert zoo.metadata.column("acc").to_pylist() == [0, 1, None]
    assert "1 of 3 networks have none" in str(report)


def test_ends_that_several_rows_have_fit_nothing(tmp_path: Path) -> None:
    folders.save(tmp_path / "in/last/model.pt", folders.mlp_state(seed=0))
    folders.save(tmp_path / "in/run_0/last/model.pt", folders.mlp_state(seed=1))
    rows = {f"run_{n}/last/model.pt": {"acc": n} for n in range(3)}
    (tmp_path / "labels.json").write_text(json.dumps(rows))
    zoo, _ = take_in(tmp_path / "in", labels=tmp_path / "labels.json")
    assert zoo.metadata.column("acc").to_pylist() == [None, 0]


def test_name_that_is_no_text(tmp_path: Path) -> None:
    folders.save(tmp_path / "in/a.pt", folders.mlp_state())
    try:
        (tmp_path / "in" / os.fsdecode(b"b\xff.pt")).write_bytes(b"x")
    except OSError:
        pytest.skip("the file system has no such names")
    zoo, report = take_in(tmp_path / "in")
    assert len(zoo) == 1
    assert report.problems[0]["file"] == "b\\udcff.pt"


def test_labels_missing_and_extra(tmp_path: Path) -> None:
    some_networks(tmp_path / "in")
    labels = tmp_path / "labels.csv"
    labels.write_text("file,acc,sha256\nrun_0/model.pt,1,x\nrun_9/model.pt,2,y\n")
    zoo, report = take_in(tmp_path / "in", labels=labels)
    assert len(zoo) == 4
    assert zoo.metadata.column("acc").to_pylist() == [1, None, None, None]
    assert zoo.column("sha256_label")[0] == "x"  # the import has a column of that name itself
    assert "3 of 4 networks have none" in str(report)
    assert "1 rows of" in str(report)
    assert "run_9/model.pt" in str(report)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,acc\nmodel.pt,1\n", "a name that means one network, found 4"),
        ("file,acc\nmodel,1\n", "run_0/model.pt, run_1/model.pt"),
        ("file,acc\nrun_0,1\nrun_0,2\n", "one row for each name"),
        ("file,acc\nother,1\n", "which fit none"),
        ("file,acc\n", "a header alone"),
        ("", "header"),
        ("file,acc\nrun_0,1,2\n", "line 2: expected 2 cells"),
        ("file,acc,acc\nrun_0,1,2\n", "'acc' twice"),
    ],
)
def test_labels_that_do_not_fit(tmp_path: Path, text: str, message: str) -> None:
    some_networks(tmp_path / "in")
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises((DataError, FileError), match=message):
        take_in(tmp_path / "in", labels=tmp_path / "labels.csv")
    assert not (tmp_path / "zoo").exists()


@pytest.mark.parametrize(
    "text",
    [
        '{"train": ["run_0/model.pt"], "test": ["x/run_1/model.pt"]}',
        '{"train": {"path": ["run_0"]}, "test": {"path": ["run_1"]}}',
    ],
)
def test_splits(tmp_path: Path, text: str) -> None:
    some_networks(tmp_path / "in")
    (tmp_path / "splits.json").write_text(text)
    zoo, report = take_in(tmp_path / "in", splits=tmp_path / "splits.json")
    assert zoo.split("train").tolist() == [0]
    assert zoo.split("test").tolist() == [1]
    assert "in no split: 2 networks" in str(report)


def test_splits_in_a_table(tmp_path: Path) -> None:
    some_networks(tmp_path / "in")
    (tmp_path / "splits.csv").write_text("path,split\nrun_3/model.pt,test\nrun_1,train\n")
    zoo, _ = take_in(tmp_path / "in", splits=tmp_path / "splits.csv")
    assert (zoo.split("train").tolist(), zoo.split("test").tolist()) == ([1], [3])
    (tmp_path / "other.csv").write_text("path,label\nrun_3/model.pt,test\n")
    with pytest.raises(FileError, match="a table with a column 'split'"):
        take_in(tmp_path / "in", splits=tmp_path / "other.csv")


def test_network_in_two_splits(tmp_path: Path) -> None:
    some_networks(tmp_path / "in")
    (tmp_path / "s.json").write_text('{"train": ["run_0"], "test": ["run_0"]}')
    with pytest.raises(DataError, match="one split for each network"):
        take_in(tmp_path / "in", splits=tmp_path / "s.json")


def test_one_source_in_two_splits_is_said(tmp_path: Path) -> None:
    for epoch in (1, 2):
        folders.save(tmp_path / f"in/a_epoch_{epoch}.pt", folders.mlp_state(seed=epoch))
    (tmp_path / "s.json").write_text('{"train": ["a_epoch_1.pt"], "test": ["a_epoch_2.pt"]}')
    options = ImportOptions(splits=tmp_path / "s.json")
    _, report = import_zoo(tmp_path / "in", tmp_path / "zoo", options=options)
    assert "1 sources have networks in several splits" in str(report)


# -- files that cannot be read -------------------------------------------------------------


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def damaged(folder: Path, mark: Path) -> dict[str, str]:
    """Files that must be skipped; returns what is said of each."""
    folder.mkdir(parents=True, exist_ok=True)
    folders.save(folder / "good.pt", folders.mlp_state())
    whole = (folder / "good.pt").read_bytes()
    (folder / "cut.pt").write_bytes(whole[: len(whole) // 2])
    flipped = bytearray(whole)
    flipped[whole.index(b"data/1") + 80] ^= 0xFF
    (folder / "flipped.pt").write_bytes(flipped)
    (folder / "empty.pt").write_bytes(b"")
    (folder / "text.pth").write_text("not a network")
    torch.save({"w": Evil(mark)}, folder / "evil.pt")
    (folder / "evil_plain.pt").write_bytes(pickle.dumps(Evil(mark)))
    buffer = folder / "evil.npz"
    np.savez(buffer, weight=np.array([Evil(mark)], dtype=object))
    (folder / "page.safetensors").write_text("<html>")
    (folder / "lfs.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")
    (folder / "gone.pt").symlink_to(folder / "nowhere")
    torch.save({"layer1.0.conv.weight": torch.zeros(2, 2, 3, 3)}, folder / "residual.pt")
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("policy.pth", bytes(200 << 20))
    return {
        "cut.pt": "", "flipped.pt": "checksum", "empty.pt": "empty file", "text.pth": "",
        "evil.pt": "refused before anything", "evil_plain.pt": "not opened",
        "evil.npz": "objects", "page.safetensors": "web page", "lfs.onnx": "LFS",
        "gone.pt": "no such file", "residual.pt": "could not be placed", "bomb.zip": "bomb",
    }  # fmt: skip


def test_damaged_files_are_skipped_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = damaged(tmp_path / "in", tmp_path / "executed")
    out = tmp_path / "report.json"
    main(
        ["zoo", "import", str(tmp_path / "in"), "--out", str(tmp_path / "zoo"), "--json", str(out)]
    )
    assert not (tmp_path / "executed").exists()
    report = json.loads(out.read_text())
    reasons = {p["file"]: p["reason"] for p in report["problems"]}
    assert reasons.keys() == wanted.keys()
    for file, part in wanted.items():
        assert part in reasons[file], (file, reasons[file])
    zoo = Zoo.open(tmp_path / "zoo")
    assert zoo.column("file").tolist() == ["good.pt"]
    assert zoo.provenance["import"]["problems"] == report["problems"]
    assert f"could not be read: {len(wanted)}" in capsys.readouterr().out


def test_nothing_readable(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.pt").write_bytes(b"")
    with pytest.raises(FileError, match=r"none among 1 files; a\.pt: expected a checkpoint"):
        take_in(tmp_path / "in")


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such folder"):
        take_in(tmp_path / "none")
    (tmp_path / "in").mkdir()
    with pytest.raises(FileError, match="an empty folder"):
        take_in(tmp_path / "in")
    (tmp_path / "in/readme.txt").write_text("hello")
    with pytest.raises(FileError, match=r"only other files: 1 \.txt"):
        take_in(tmp_path / "in")
    with pytest.raises(FileError, match="Give the folder"):
        take_in(tmp_path / "in/readme.txt")
    make_zoo(tmp_path / "made", [(MLP, 2)])
    with pytest.raises(FileError, match="a weightspace zoo already"):
        take_in(tmp_path / "made")
    with pytest.raises(FileError, match="outside of"):
        import_zoo(tmp_path / "in", tmp_path / "in/zoo")


def test_not_finite_weights_are_marked(tmp_path: Path) -> None:
    state = folders.mlp_state()
    folders.save(tmp_path / "in/a.pt", state)
    state["seq.0.bias"][0] = float("nan")
    folders.save(tmp_path / "in/b.pt", state)
    zoo, report = import_zoo(tmp_path / "in", tmp_path / "zoo")
    assert zoo.column("diverged").tolist() == [False, True]
    assert report.diverged == 1


def test_networks_that_only_a_module_tells(tmp_path: Path) -> None:
    module = Residual()
    for number in range(3):
        torch.manual_seed(number)
        folders.save(tmp_path / f"in/{number}.pt", Residual().state_dict())
    with pytest.raises(FileError, match="none among 3 files"):
        take_in(tmp_path / "in")
    spec = module_spec(module, torch.zeros(1, 3))
    zoo, _ = take_in(tmp_path / "in", specs=(spec,))
    assert len(zoo) == 3
    assert zoo.spec == from_module(module, torch.zeros(1, 3)).spec


def test_a_module_on_the_command_line(tmp_path: Path) -> None:
    folders.save(tmp_path / "in/a.pt", Residual().state_dict())
    name = f"{Residual.__module__}:Residual"
    command = ["zoo", "import", str(tmp_path / "in"), "--out", str(tmp_path / "zoo")]
    main([*command, "--module", name, "--inputs", "1,3"])
    assert len(Zoo.open(tmp_path / "zoo")) == 1


class Residual(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 4)
        self.block = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        return x + torch.relu(self.block(x))


# -- going on --------------------------------------------------------------------------------


def test_finished_import_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some_networks(tmp_path / "in")
    (tmp_path / "in/bad.pt").write_bytes(b"")
    _, report = take_in(tmp_path / "in")
    before = contents(tmp_path / "zoo")
    monkeypatch.setattr("weightspace.zoo.importing.importing.run_tasks", None)
    again = take_in(tmp_path / "in")[1]
    assert again == report
    assert contents(tmp_path / "zoo") == before
    folders.save(tmp_path / "in/new.pt", folders.mlp_state(seed=9))
    with pytest.raises(FileError, match="made otherwise"):
        take_in(tmp_path / "in")


def test_file_changed_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some_networks(tmp_path / "in")
    from weightspace.zoo.importing import importing

    real = importing.Journal.read

    def read(journal: object, count: int) -> object:
        folders.save(tmp_path / "in/run_2/model.pt", folders.mlp_state(seed=99))
        return real(journal, count)

    monkeypatch.setattr(importing.Journal, "read", read)
    with pytest.raises(FileError, match=r"run_2/model\.pt: expected the weights that were there"):
        take_in(tmp_path / "in")
    monkeypatch.undo()
    (tmp_path / "zoo").rename(tmp_path / "old")
    assert len(take_in(tmp_path / "in")[0]) == 4


@pytest.mark.slow
def test_order_and_workers_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weightspace.zoo.importing.importing.BLOCK", 2)
    some_networks(tmp_path / "in", 5)
    import_zoo(tmp_path / "in", tmp_path / "one")
    import_zoo(tmp_path / "in", tmp_path / "two", options=ImportOptions(workers=2))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_an_architecture_is_recognised_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    real = blueprints.from_state
    monkeypatch.setattr(blueprints, "from_state", lambda *a, **k: made.append(a) or real(*a, **k))
    for number in range(20):
        sizes = (2, 17 + number % 2, 1)
        folders.save(tmp_path / f"in/{number}.pt", folders.mlp_state(sizes, seed=number))
    bad = {"layer1.0.conv.weight": torch.zeros(3, 3, 3, 3)}
    for number in range(20):
        folders.save(tmp_path / f"in/bad_{number}.pt", bad)
    _, report = take_in(tmp_path / "in")
    assert len(report.problems) == 20
    assert len(made) == 3


def test_a_file_with_many_networks_is_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weightspace.zoo.importing.parts.PART_NETWORKS", 2)
    tensors = {
        f"agent_{n}/{name}": tensor
        for n in range(9)
        for name, tensor in folders.mlp_state((2, 3 + n % 3, 1), seed=n).items()
    }
    (tmp_path / "in").mkdir()
    save_file(tensors, tmp_path / "in/agents.safetensors")
    calls = []
    real = states.read_states
    monkeypatch.setattr(states, "read_states", lambda path: calls.append(path) or real(path))
    zoo, _ = take_in(tmp_path / "in")
    assert len(zoo) == 9
    assert len(calls) == 2
    for number, key in enumerate(zoo.column("key")):
        found = zoo.states([number])["seq.0.bias"][0]
        assert torch.equal(found, tensors[f"{key}/seq.0.bias"])


def test_parts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weightspace.zoo.importing.parts.PART_NETWORKS", 2)
    some_networks(tmp_path / "in", 5)
    zoo, _ = take_in(tmp_path / "in")
    assert len(list(zoo.path.glob("part-*.safetensors"))) == 3
    for number in range(5):
        state = folders.mlp_state(seed=number)
        found = zoo.states([number])
        assert all(torch.equal(found[name][0], tensor) for name, tensor in state.items())


# -- real networks ---------------------------------------------------------------------------


def test_real_acasxu(tmp_path: Path) -> None:
    zoo, report = import_zoo(shared_data("zoos/acasxu_onnx"), tmp_path / "zoo")
    assert len(zoo) == 18
    assert len(zoo.specs) == 1
    assert report.problems == []
    assert verify(zoo.path).ok


def test_real_agents_in_one_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for kind in ("safetensors", "json"):
        source = shared_data(f"zoos/sb3_actor_critics.{kind}")
        (tmp_path / ("in" if kind == "safetensors" else ".") / source.name).symlink_to(source)
    zoo, report = take_in(tmp_path / "in", labels=tmp_path / "sb3_actor_critics.json")
    assert (len(zoo), report.problems) == (49, [])
    assert set(zoo.column("algo")) == {"a2c", "ppo", "trpo"}
    hidden = {n.activation.name for s in zoo.specs for n in s.node_sets if n.role == "hidden"}
    assert hidden == {"tanh"}  # the labels name it


def test_real_stacked_archive(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = shared_data("zoos/bipedal_walker_mlps.npz")
    (tmp_path / "in/a.npz").symlink_to(source)
    zoo, _ = take_in(tmp_path / "in", activation="tanh")
    with np.load(source) as archive:
        assert zoo.column("key").tolist() == archive["names"].tolist()
        assert np.array_equal(zoo.column("score"), archive["score"])
        assert np.array_equal(zoo.states(range(27))["w1"], archive["w1"])


def test_real_nerfs(tmp_path: Path) -> None:
    source = shared_data("zoos/nerf_7scenes.safetensors")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.safetensors").symlink_to(source)
    specs = []
    with safe_open(source, framework="pt") as file:
        for scene in ("chair", "fern"):  # they read different encodings of the points
            prefix = f"{scene}/fine/"
            names = [n for n in file.keys() if n.startswith(prefix)]  # noqa: SIM118
            state = {n.removeprefix(prefix): file.get_tensor(n) for n in names}
            module = NeRF(state)
            specs.append(module_spec(module, torch.zeros(1, module.points + module.views)))
    zoo, report = take_in(tmp_path / "in", specs=tuple(specs))
    assert report.problems == []
    assert sorted(zoo.column("key")) == [
        f"{s}/fine" for s in ("chair", "drums", "fern", "hotdog", "lego", "materials", "ship")
    ]
    assert len(zoo.specs) == 2


@pytest.mark.slow
def test_real_models(tmp_path: Path) -> None:
    zoo, report = import_zoo(
        shared_data("models"), tmp_path / "zoo", options=ImportOptions(layout="checkpoints")
    )
    assert len(zoo) + len(report.problems) + len(report.duplicates) == 22
    assert len(zoo) >= 14
    assert all("expected" in p["reason"] for p in report.problems)
