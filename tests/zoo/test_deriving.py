"""Zoos of zoos: merging, dividing, and writing them in other forms."""

from __future__ import annotations

import csv
import json
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from safetensors import safe_open

from tests.zoo.zoos import MLP, RECIPE, SIREN, contents, make_zoo, random_states, with_counter
from weightspace.cli.main import main
from weightspace.errors import DataError, FileError
from weightspace.zoo import Zoo, ZooWriter, crossing_groups, verify
from weightspace.zoo.exporting import FORMATS, export_zoo
from weightspace.zoo.importing import ImportOptions, import_zoo
from weightspace.zoo.merging import merge_zoos
from weightspace.zoo.splitting import split_zoo

SHARES = {"train": 0.6, "val": 0.2, "test": 0.2}


def same_networks(left: Zoo, right: Zoo) -> bool:
    return len(left) == len(right) and all(
        left.spec_indices([n]) == right.spec_indices([n])
        and all(torch.equal(t, right.states([n])[name]) for name, t in left.states([n]).items())
        for n in range(len(left))
    )


# -- dividing --------------------------------------------------------------------------------


def test_split(tmp_path: Path) -> None:
    zoo, _ = make_zoo(tmp_path / "zoo", [(SIREN, 20), (MLP, 13), (SIREN, 7)])
    before = contents(tmp_path / "zoo")
    made = split_zoo(zoo, tmp_path / "split", shares=SHARES, seed=3)
    assert contents(tmp_path / "zoo") == before
    assert verify(made.path).ok, verify(made.path)
    assert same_networks(zoo, made)
    assert sum(made.splits.values()) == 40
    assert abs(made.splits["train"] - 24) <= 3
    names = [None] * 40
    for name in made.splits:
        for network in made.split(name):
            names[network] = name
    assert crossing_groups(list(zoo.column("source")), names) == []
    again = split_zoo(zoo, tmp_path / "again", shares=SHARES, seed=3)
    assert np.array_equal(again.split("val"), made.split("val"))
    other = split_zoo(zoo, tmp_path / "other", shares=SHARES, seed=4)
    assert not np.array_equal(other.split("val"), made.split("val"))
    shard = next((tmp_path / "split").glob("part-*.safetensors"))
    assert shard.stat().st_nlink > 1  # the same bytes, not a copy


def test_split_of_a_divided_zoo(tmp_path: Path) -> None:
    zoo, _ = make_zoo(tmp_path / "zoo", [(MLP, 9)], splits={"train": range(9)})
    made = split_zoo(zoo, tmp_path / "split", shares={"a": 0.5, "b": 0.5})
    assert set(made.splits) == {"a", "b"}
    assert made.metadata.column_names.count("split") == 1


def test_equal_weights_stay_together(tmp_path: Path) -> None:
    writer = ZooWriter(tmp_path / "zoo", specs=[MLP], recipe=RECIPE)
    rows = [{"source": f"s{n}", "sha256": f"d{min(n, 2 * (n % 2) + 20)}"} for n in range(40)]
    writer.write_part(0, random_states(MLP, 40), rows)
    made = split_zoo(writer.finish(), tmp_path / "split", shares=SHARES, seed=0)
    splits = made.metadata.column("split").to_pylist()
    by_digest = defaultdict(set)
    for row, split in zip(rows, splits, strict=True):
        by_digest[row["sha256"]].add(split)
    assert all(len(found) == 1 for found in by_digest.values())


def test_balanced_split(tmp_path: Path) -> None:
    writer = ZooWriter(tmp_path / "zoo", specs=[MLP], recipe=RECIPE)
    rows = [{"kind": "ab"[n < 30]} for n in range(40)]
    writer.write_part(0, random_states(MLP, 40), rows)
    zoo = writer.finish()
    made = split_zoo(zoo, tmp_path / "split", shares={"x": 0.5, "y": 0.5}, balance="kind")
    assert [rows[n]["kind"] for n in made.split("x")].count("a") == 5


def test_splits_that_cannot_be(tmp_path: Path) -> None:
    zoo, _ = make_zoo(tmp_path / "zoo", [(MLP, 9)])
    for options, message in (
        ({"by": "nothing"}, "a name that the zoo does not have"),
        ({"by": "psnr"}, "expected"),
        ({"shares": {"train": 0.5}}, "sum to 1"),
        ({"shares": {"a": 0.98, "b": 0.02}}, "too few"),
        ({"balance": "label"}, "one value for all networks of a source"),
    ):
        with pytest.raises(DataError, match=message):
            split_zoo(zoo, tmp_path / "split", **{"shares": SHARES, **options})
    assert not (tmp_path / "split").exists()


# -- merging ---------------------------------------------------------------------------------


def test_merge(tmp_path: Path) -> None:
    a, _ = make_zoo(tmp_path / "a", [(SIREN, 4), (MLP, 3)], splits={"train": range(7)})
    writer = ZooWriter(tmp_path / "b", specs=[with_counter(MLP), MLP], recipe=RECIPE)
    states = random_states(MLP, 2, seed=8)
    writer.write_part(0, random_states(writer.specs[0], 2), [{"label": 0.5, "own": "x"}] * 2)
    writer.write_part(1, states, [{"label": 7, "fold": "test"}] * 2, spec=1)
    b = writer.finish(split_column="fold")
    before = contents(tmp_path / "a"), contents(tmp_path / "b")
    zoo, notes = merge_zoos([a, b], tmp_path / "both")
    assert (contents(tmp_path / "a"), contents(tmp_path / "b")) == before
    assert verify(zoo.path).ok, verify(zoo.path)
    assert len(zoo) == 11
    assert zoo.specs == (SIREN, MLP, with_counter(MLP))
    assert zoo.spec_indices(range(11)).tolist() == [0] * 4 + [1] * 3 + [2] * 2 + [1] * 2
    assert zoo.column("zoo").tolist() == ["a"] * 7 + ["b"] * 4
    assert dict(zoo.splits) == {"train": 7, "test": 2}
    assert torch.equal(zoo.states([9, 10])["0.weight"], states["0.weight"])
    assert zoo.metadata.column("own").to_pylist() == [None] * 7 + ["x"] * 2 + [None] * 2
    assert zoo.column("label").dtype == np.float64
    assert notes == []
    again, _ = merge_zoos([a, b], tmp_path / "both")
    assert len(again) == 11


def test_what_merging_says(tmp_path: Path) -> None:
    a, _ = make_zoo(tmp_path / "a", [(MLP, 6)], splits={"train": range(6)})
    b, _ = make_zoo(tmp_path / "b", [(MLP, 6)], splits={"test": range(6)})
    c, _ = make_zoo(tmp_path / "c", [(SIREN, 3)])
    notes = "\n".join(merge_zoos([a, b, c], tmp_path / "all")[1])
    assert "the same in several zoos" in notes
    assert "in none: c" in notes
    assert "2 sources have networks in several splits" in notes
    with pytest.raises(DataError, match="two different zoos"):
        merge_zoos([a, Zoo.open(tmp_path / "b/../a")], tmp_path / "x")
    with pytest.raises(FileError, match="another zoo"):
        merge_zoos([a, c], tmp_path / "all")


def test_interrupted_merge_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = make_zoo(tmp_path / "a", [(MLP, 3), (MLP, 3)])
    b, _ = make_zoo(tmp_path / "b", [(SIREN, 3)])
    calm = merge_zoos([a, b], tmp_path / "calm")[0]
    for calls in range(1, 4):
        count = 0

        def stop(source: Path, target: Path) -> None:
            nonlocal count
            count += 1
            if count == calls:  # noqa: B023
                raise KeyboardInterrupt
            Path(target).symlink_to(source)

        monkeypatch.setattr(os, "link", stop)
        with pytest.raises(KeyboardInterrupt):
            merge_zoos([a, b], tmp_path / f"{calls}")
        monkeypatch.undo()
        with pytest.raises(FileError, match="unfinished"):
            Zoo.open(tmp_path / f"{calls}")
        merge_zoos([a, b], tmp_path / f"{calls}")
        assert contents(tmp_path / f"{calls}") == contents(calm.path)


def test_copies_where_links_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = make_zoo(tmp_path / "a", [(MLP, 3)])
    linked = split_zoo(a, tmp_path / "linked", shares={"x": 1.0})

    def refuse(*_: object) -> None:
        raise OSError("another file system")

    monkeypatch.setattr(os, "link", refuse)
    copied = split_zoo(a, tmp_path / "copied", shares={"x": 1.0})
    assert contents(copied.path) == contents(linked.path)


# -- exporting -------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["safetensors", "npz", "torch"])
def test_export_and_import(tmp_path: Path, format: str) -> None:
    zoo, _ = make_zoo(tmp_path / "zoo", [(MLP, 70), (SIREN, 5)], splits={"train": range(75)})
    export_zoo(zoo, tmp_path / "out", format=format)
    assert not list((tmp_path / "out").glob(".*"))
    options = ImportOptions(labels=tmp_path / "out/labels.csv")
    back, report = import_zoo(tmp_path / "out", tmp_path / "back", options=options)
    assert report.problems == []
    assert same_networks(zoo, back)
    assert np.array_equal(zoo.column("psnr"), back.column("psnr"), equal_nan=True)
    assert back.split("train").tolist() == list(range(75))


def test_export_as_tables(tmp_path: Path) -> None:
    zoo, states = make_zoo(tmp_path / "zoo", [(MLP, 3), (SIREN, 2)])
    export_zoo(zoo, tmp_path / "out", format="csv")
    with (tmp_path / "out/weights-spec0-000000.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["network"] for row in rows] == ["0", "1", "2"]
    assert np.float32(rows[1]["0.weight[4,2]"]) == states[0]["0.weight"][1, 4, 2].numpy()
    with (tmp_path / "out/metadata.csv").open() as file:
        assert [row["label"] for row in csv.DictReader(file)] == list("01234")


def test_export_for_the_hub(tmp_path: Path) -> None:
    zoo, _ = make_zoo(
        tmp_path / "zoo", [(MLP, 5), (SIREN, 4)], splits={"train": range(5), "val": [6, 7]}
    )
    export_zoo(zoo, tmp_path / "out", format="hf")
    card = (tmp_path / "out/README.md").read_text()
    front = yaml.safe_load(card.split("---")[1])
    files = {f["split"]: f["path"] for f in front["configs"][0]["data_files"]}
    assert files.keys() == {"train", "validation", "rest"}
    assert front["size_categories"] == ["n<1K"]
    seen = 0
    for path in files.values():
        for row in pq.read_table(tmp_path / "out" / path).to_pylist():
            with safe_open(tmp_path / "out" / row["shard"], framework="pt") as file:
                found = {name: file.get_slice(name)[row["shard_row"]] for name in file.keys()}  # noqa: SIM118
            state = zoo.states([row["network"]])
            assert all(torch.equal(found[name], tensor[0]) for name, tensor in state.items())
            seen += 1
    assert seen == len(zoo)
    assert same_networks(Zoo.open(tmp_path / "out"), zoo)


def test_exports_that_cannot_be(tmp_path: Path) -> None:
    zoo, _ = make_zoo(tmp_path / "zoo", [(with_counter(MLP, "bfloat16"), 2)])
    with pytest.raises(FileError, match="Export as safetensors"):
        export_zoo(zoo, tmp_path / "npz", format="npz")
    with pytest.raises(DataError, match="safetensors, npz, torch, csv, hf"):
        export_zoo(zoo, tmp_path / "x", format="pickle")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/a").write_text("")
    with pytest.raises(FileError, match="an empty folder"):
        export_zoo(zoo, tmp_path / "full", format="torch")


@pytest.mark.parametrize("format", FORMATS)
def test_interrupted_export_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.setattr("weightspace.zoo.exporting.format.NETWORKS", 2)
    zoo, _ = make_zoo(tmp_path / "zoo", [(MLP, 3), (SIREN, 2)])
    export_zoo(zoo, tmp_path / "calm", format=format)

    def read(folder: Path) -> dict[str, bytes]:
        return {
            str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()
        }

    kind = FORMATS[format]
    write = kind.write

    def stop(self: object, zoo: Zoo, folder: Path, step: int) -> int:
        if step == 1:
            raise KeyboardInterrupt
        return write(self, zoo, folder, step)

    monkeypatch.setattr(kind, "write", stop)
    with pytest.raises(KeyboardInterrupt):
        export_zoo(zoo, tmp_path / "out", format=format)
    monkeypatch.setattr(kind, "write", write)
    export_zoo(zoo, tmp_path / "out", format=format)
    assert read(tmp_path / "out") == read(tmp_path / "calm")


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_zoo(tmp_path / "a", [(MLP, 6)])
    make_zoo(tmp_path / "b", [(SIREN, 6)])
    out = str(tmp_path / "report.json")
    main(["zoo", "merge", str(tmp_path / "a"), str(tmp_path / "b"), "--out", f"{tmp_path}/m"])
    main(
        ["zoo", "split", f"{tmp_path}/m", "--out", f"{tmp_path}/s", "--shares", "train=.5",
         "test=.5", "--by", "source", "--seed", "1", "--json", out]
    )  # fmt: skip
    assert json.loads(Path(out).read_text())["splits"] == {"train": 6, "test": 6}
    main(["zoo", "export", f"{tmp_path}/s", f"{tmp_path}/e", "--format", "torch"])
    assert len(list((tmp_path / "e/networks").iterdir())) == 12
    capsys.readouterr()
    for shares in (["train"], ["train=x"], ["train=2"], ["a=.5", "a=.5"]):
        with pytest.raises(SystemExit) as stop:
            main(["zoo", "split", f"{tmp_path}/m", "--out", f"{tmp_path}/t", "--shares", *shares])
        assert stop.value.code == 2
        assert "--shares: expected splits with shares" in capsys.readouterr().err
