from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.find.networks import chain, moved, pruned, rounded, tuned
from weightspace.errors import DataError, FileError
from weightspace.find import Folder, Index, Network, read_one, search, trace_lineage
from weightspace.find.index import NAME
from weightspace.find.neighbours import ExactNeighbours, GraphNeighbours


def put(path: Path, network: Network) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".safetensors":
        save_file({n: t.contiguous() for n, t in network.state.items()}, path)
    else:
        torch.save(dict(network.state), path)


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """A network, what was made of it, a stranger, and files that are no networks."""
    folder = tmp_path / "nets"
    base = chain()
    put(folder / "base.pt", base)
    put(folder / "same.safetensors", base)
    put(folder / "deep" / "moved.pt", moved(base, ("permutation", "scale")))
    put(folder / "tuned.pt", tuned(base, 0.2))
    put(folder / "tuned2.pt", tuned(base, 0.4, seed=8))
    put(folder / "again.pt", tuned(tuned(base, 0.2), 0.2, seed=9))
    put(folder / "int8.pt", rounded(base))
    put(folder / "pruned.pt", pruned(base))
    put(folder / "stranger.pt", chain(4))
    put(folder / "other.pt", chain(sizes=(5, 9, 2)))
    (folder / "notes.txt").write_text("no network")
    (folder / "broken.pt").write_bytes((folder / "base.pt").read_bytes()[:500])
    (folder / "empty.safetensors").write_bytes(b"")
    with (folder / "code.pt").open("wb") as file:
        pickle.dump(Path("x"), file)
    np.savez(folder / "images.npz", x=np.zeros((4, 8, 8)), y=np.arange(4))
    put(folder / "diverged.pt", Network.of({"0.weight": torch.full((3, 3), np.nan)}, None))
    return folder


BROKEN = {"broken.pt", "empty.safetensors", "code.pt", "images.npz", "diverged.pt"}


def test_good_files_are_read_and_bad_ones_told(family: Path) -> None:
    index = Index.of(Folder(family))
    assert len(index) == 10
    assert {problem.file for problem in index.problems} == BROKEN
    for problem in index.problems:
        assert "expected" in problem.reason
        assert "found" in problem.reason
    assert index.changes.added == 15


def test_only_changes_are_read_again(family: Path) -> None:
    before = Index.of(Folder(family))
    read: list[str] = []

    def track(units):  # type: ignore[no-untyped-def]
        for unit in units:
            read.append(unit.file)
            yield unit

    put(family / "tuned.pt", tuned(chain(), 0.3))
    os.utime(family / "tuned.pt", ns=(1, 1))
    (family / "again.pt").unlink()
    put(family / "new.pt", chain(7))
    after = Index.of(Folder(family), track=track)
    assert sorted(read) == ["new.pt", "tuned.pt"]
    changes = after.changes
    assert (changes.added, changes.changed, changes.removed, changes.kept) == (1, 1, 1, 13)
    assert {p.file for p in after.problems} == BROKEN
    old = {entry.name: entry for entry in before.entries}
    for entry in after.entries:
        if entry.name not in read:
            assert entry.sha256 == old[entry.name].sha256
            assert entry.number == old[entry.name].number
            same = old[entry.name].features
            assert np.array_equal(entry.features.descriptor, same.descriptor)
            assert np.array_equal(entry.features.sketch, same.sketch)
        else:
            assert entry.number not in {e.number for e in before.entries}
    read.clear()
    Index.of(Folder(family), track=track)
    assert read == []


def test_a_damaged_index_is_made_anew(family: Path, caplog: pytest.LogCaptureFixture) -> None:
    Index.of(Folder(family))
    content = (family / NAME).read_bytes()
    (family / NAME).write_bytes(content[: len(content) // 2])
    assert len(Index.of(Folder(family))) == 10
    assert "made anew" in caplog.text
    assert Index.of(Folder(family)).changes.kept == 15


def test_other_options_make_it_anew(family: Path) -> None:
    Index.of(Folder(family))
    assert Index.of(Folder(family, activation="relu")).changes.kept == 0


def test_where_no_index_can_be_written(family: Path, caplog: pytest.LogCaptureFixture) -> None:
    index = Index.of(Folder(family), path=family / "missing" / "index.parquet")
    assert len(index) == 10
    assert index.path is None
    assert "not kept" in caplog.text


def test_a_file_that_changes_under_way(family: Path) -> None:
    index = Index.of(Folder(family))
    put(family / "tuned.pt", chain(11))
    entry = next(e for e in index.entries if e.name == "tuned.pt")
    with pytest.raises(FileError, match="Run the command again"):
        index.network(entry)


def test_the_nearest_come_first(family: Path) -> None:
    index = Index.of(Folder(family))
    found = search(read_one(Folder(family / "deep" / "moved.pt")), index, top=10)
    kinds = [(item.entry.name, item.kinship.kind) for item in found]
    assert kinds[0] == ("deep/moved.pt", "copy")
    assert set(kinds[1:3]) == {("base.pt", "permuted copy"), ("same.safetensors", "permuted copy")}
    assert dict(kinds) == {
        **dict(kinds[:3]),
        "int8.pt": "quantised",
        "tuned.pt": "fine-tune",
        "again.pt": "fine-tune",
        "tuned2.pt": "fine-tune",
        "pruned.pt": "pruned",
        "stranger.pt": "unrelated",
        "other.pt": "unlike",
    }
    assert {name for name, _ in kinds[-2:]} == {"stranger.pt", "other.pt"}
    assert len(search(read_one(Folder(family / "base.pt")), index, top=2)) == 2


def test_who_came_from_whom(family: Path) -> None:
    lineage = trace_lineage(Index.of(Folder(family)))
    parents = {
        step.entry.name: None if step.parent is None else step.parent.name for step in lineage.steps
    }
    copies = {"base.pt", "same.safetensors", "deep/moved.pt"}
    assert len(parents) == 10
    assert sum(parents[name] is None for name in copies) == 1
    assert all(parents[name] in {None, *copies} for name in copies)
    for name in ("tuned.pt", "tuned2.pt", "int8.pt", "pruned.pt"):
        assert parents[name] in copies
    assert parents["again.pt"] == "tuned.pt"
    assert parents["stranger.pt"] is None
    assert parents["other.pt"] is None
    reasons = {step.entry.name: step.reason for step in lineage.steps}
    assert reasons["int8.pt"] == reasons["pruned.pt"] == "proved"
    assert lineage.size(lineage.roots[0].entry) == 8
    assert [s["name"] for s in lineage.to_dict()["networks"]] == [
        step.entry.name for step in lineage.steps
    ]


def test_folders_and_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such folder"):
        Folder(tmp_path / "none")
    with pytest.raises(DataError, match="layout"):
        Folder(tmp_path, layout="nope")
    (tmp_path / "zoo.json").write_text("{}")
    with pytest.raises(FileError, match="zoo already"):
        Folder(tmp_path)


def test_a_network_of_a_file_with_several(tmp_path: Path) -> None:
    path = tmp_path / "several.safetensors"
    states = {"a": chain(1).state, "b": chain(2).state}
    save_file({f"{k}/{n}": t for k, s in states.items() for n, t in s.items()}, path)
    assert torch.equal(read_one(Folder(path), "b").state["0.weight"], states["b"]["0.weight"])
    with pytest.raises(FileError, match="2 networks: a, b"):
        read_one(Folder(path))
    assert [entry.name for entry in Index.of(Folder(tmp_path)).entries] == [
        "several.safetensors:a",
        "several.safetensors:b",
    ]


def test_the_graph_of_neighbours_finds_what_exact_search_does(tmp_path: Path) -> None:
    pytest.importorskip("usearch")
    path = tmp_path / "index.usearch"
    draw = np.random.default_rng(0)
    vectors, numbers = draw.normal(size=(200, 16)).astype(np.float32), np.arange(200) + 7
    for kept in (slice(0, 150), slice(30, 200)):  # the second time from disk, with changes
        own = vectors[kept], numbers[kept]
        graph = GraphNeighbours(path, own[1], own[0])
        exact = ExactNeighbours(own[1], own[0])
        for query in vectors[40:50]:
            found, wanted = graph.nearest(query, 5), exact.nearest(query, 5)
            assert np.array_equal(found[0], wanted[0])
            assert np.allclose(found[1], wanted[1], atol=1e-3)
    path.write_bytes(path.read_bytes()[:-50])
    again = GraphNeighbours(path, numbers, vectors)
    assert again.nearest(vectors[3], 1)[0].tolist() == [10]
