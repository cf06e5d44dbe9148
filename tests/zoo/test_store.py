from __future__ import annotations

import json
import multiprocessing
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.zoo.zoos import MLP, RECIPE, SIREN, make_zoo, with_counter
from weightspace.errors import DataError, FileError
from weightspace.graph import NeuralGraph, chain_spec
from weightspace.zoo import Zoo, ZooWriter


@pytest.fixture(scope="module")
def siren_zoo(tmp_path_factory):
    splits = {"train": range(20), "test": range(20, 24)}
    parts = [(SIREN, 10), (SIREN, 1), (SIREN, 0), (SIREN, 13)]
    return make_zoo(tmp_path_factory.mktemp("siren") / "zoo", parts, splits=splits)


@pytest.fixture(scope="module")
def mixed_zoo(tmp_path_factory):
    parts = [(SIREN, 4), (MLP, 3), (with_counter(MLP), 2), (SIREN, 5)]
    return make_zoo(tmp_path_factory.mktemp("mixed") / "zoo", parts)


def joined(states, indices):
    names = states[0]
    return {name: torch.cat([s[name] for s in states])[list(indices)] for name in names}


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert bits(found[name]).equal(bits(tensor))


@settings(deadline=None)
@given(st.lists(st.integers(0, 23), max_size=60))
def test_any_selection_is_bit_exact_in_the_order_asked_for(siren_zoo, indices):
    zoo, states = siren_zoo
    assert_same(zoo.states(indices), joined(states, indices))


@pytest.mark.parametrize(
    "indices",
    [
        range(3, 15),
        slice(5, None, 2),
        np.array([11, 10, 9], dtype=np.uint8),
        torch.tensor([23, 0]),
        (),
    ],
)
def test_every_kind_of_index(siren_zoo, indices):
    zoo, states = siren_zoo
    plain = range(24)[indices] if isinstance(indices, slice) else [int(i) for i in indices]
    assert_same(zoo.states(indices), joined(states, plain))


@pytest.mark.parametrize("indices", [[24], [-1], [0.5], [True, False], [[1, 2]], 3])
def test_other_indices_are_refused(siren_zoo, indices):
    with pytest.raises(DataError, match="expected"):
        siren_zoo[0].states(indices)


def test_what_a_zoo_says_of_itself(siren_zoo):
    zoo, _ = siren_zoo
    assert len(zoo) == 24
    assert zoo.specs == (SIREN,)
    assert zoo.spec == SIREN
    assert zoo.recipe == RECIPE
    assert set(zoo.provenance) == {"weightspace", "torch"}
    assert zoo.splits == {"train": 20, "test": 4}
    assert repr(zoo) == "Zoo(24 networks, 1 spec, splits train 20, test 4)"


def test_a_graph_is_that_of_the_states(siren_zoo):
    zoo, states = siren_zoo
    graph = zoo.graph([22, 3])
    assert isinstance(graph, NeuralGraph)
    assert_same(graph.stacked_state(), joined(states, [22, 3]))


def test_mixed_specs_are_read_in_groups(mixed_zoo):
    zoo, states = mixed_zoo
    indices = [13, 5, 0, 7, 8, 4, 13]
    found = zoo.groups(indices)
    assert [spec for spec, _, _ in found] == [SIREN, MLP, with_counter(MLP)]
    assert [positions.tolist() for _, positions, _ in found] == [[0, 2, 6], [1, 5], [3, 4]]
    assert_same(found[0][2], joined([states[0], states[3]], [8, 0, 8]))
    assert_same(found[1][2], joined([states[1]], [1, 0]))
    assert_same(found[2][2], joined([states[2]], [0, 1]))
    assert zoo.groups([]) == []
    assert zoo.spec_indices(slice(None)).tolist() == [0] * 4 + [1] * 3 + [2] * 2 + [0] * 5


def test_mixed_specs_are_not_stacked(mixed_zoo):
    zoo, _ = mixed_zoo
    for misuse in (lambda: zoo.states([0, 5]), lambda: zoo.graph([0, 5]), lambda: zoo.spec):
        with pytest.raises(DataError, match=r"one spec.*Zoo\.groups"):
            misuse()
    with pytest.raises(DataError, match="no networks"):
        zoo.states([])
    assert zoo.states([4, 5])["0.bias"].shape == (2, 5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "float8_e4m3fn"])
@pytest.mark.parametrize("counter", ["int64", "uint8", "bool"])
def test_every_type_comes_back(tmp_path, dtype, counter):
    spec = with_counter(chain_spec([2, 3, 1], dtype=dtype), counter)
    zoo, states = make_zoo(tmp_path / "zoo", [(spec, 3), (spec, 2)])
    assert_same(zoo.states([4, 0, 0, 2]), joined(states, [4, 0, 0, 2]))


def test_bits_that_are_not_numbers_come_back(tmp_path):
    spec = chain_spec([1, 1])
    pattern = torch.tensor([0x7FC00001, -1, -(2**31), 1, 0x7F800000], dtype=torch.int32)
    states = {"0.weight": pattern.view(torch.float32).reshape(5, 1, 1), "0.bias": torch.zeros(5, 1)}
    writer = ZooWriter(tmp_path / "zoo", specs=[spec], recipe={})
    writer.write_part(0, states, [{}] * 5)
    found = writer.finish().states(range(5))["0.weight"]
    assert found.view(torch.int32).flatten().equal(pattern)


# -- metadata ----------------------------------------------------------------------------


def test_metadata_and_splits(siren_zoo):
    zoo, _ = siren_zoo
    assert zoo.metadata.column_names == ["network", "spec", "label", "psnr", "source", "split"]
    assert zoo.column("label").tolist() == [i % 10 for i in range(24)]
    assert np.isnan(zoo.column("psnr")).tolist() == [i % 7 == 0 for i in range(24)]
    assert zoo.column("source")[4] == "image 1"
    assert zoo.split("train").tolist() == list(range(20))
    assert zoo.split("test").tolist() == [20, 21, 22, 23]


def test_missing_names_are_told(siren_zoo):
    zoo, _ = siren_zoo
    with pytest.raises(DataError, match=r"column 'accuracy'.*label, psnr, source"):
        zoo.column("accuracy")
    with pytest.raises(DataError, match=r"split 'val'.*train, test"):
        zoo.split("val")


def test_splits_without_any(mixed_zoo):
    with pytest.raises(DataError, match="one of none"):
        mixed_zoo[0].split("train")


# -- opening -----------------------------------------------------------------------------


def test_opening_reads_the_manifest_alone(tmp_path):
    zoo, _ = make_zoo(tmp_path / "zoo", [(SIREN, 4)])
    for path in zoo.path.iterdir():
        if path.name != "zoo.json":
            path.unlink()
    opened = Zoo.open(str(zoo.path))
    assert len(opened) == 4
    assert opened.spec == SIREN
    with pytest.raises(FileError, match=r"part-000000\.safetensors: expected a file"):
        opened.states([0])
    with pytest.raises(FileError, match=r"metadata\.parquet: expected a file"):
        opened.column("label")


def test_a_zoo_goes_to_other_processes(siren_zoo):
    zoo, states = siren_zoo
    assert_same(pickle.loads(pickle.dumps(zoo)).states([3]), joined(states, [3]))  # noqa: S301
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(_read_in_another_process, (zoo,))
    assert found == joined(states, [7, 2])["1.weight"].tolist()


def _read_in_another_process(zoo: Zoo) -> list[object]:
    return list(zoo.states([7, 2])["1.weight"].tolist())


def test_folders_that_are_no_zoos(tmp_path):
    with pytest.raises(FileError, match=r"zoo\.json, found a folder without it"):
        Zoo.open(tmp_path)
    with pytest.raises(FileError, match="no such folder"):
        Zoo.open(tmp_path / "nothing")


MANIFEST_FAULTS = {
    "text": lambda data: "not json",
    "list": lambda data: [],
    "other format": lambda data: {**data, "format": "something"},
    "newer version": lambda data: {**data, "version": 2},
    "no shards": lambda data: {k: v for k, v in data.items() if k != "shards"},
    "shards of another kind": lambda data: {**data, "shards": {"a": 1}},
    "wrong count": lambda data: {**data, "networks": 5},
    "negative count": lambda data: {**data, "shards": [{**data["shards"][0], "networks": -1}]},
    "no such spec": lambda data: {**data, "shards": [{**data["shards"][0], "spec": 1}]},
    "outside": lambda data: {**data, "shards": [{**data["shards"][0], "file": "../x"}]},
    "absolute": lambda data: {**data, "metadata": {**data["metadata"], "file": "/etc/passwd"}},
}


@pytest.mark.parametrize("fault", MANIFEST_FAULTS)
def test_damaged_manifests_are_refused(tmp_path, fault):
    zoo, _ = make_zoo(tmp_path / "zoo", [(SIREN, 4)])
    manifest = zoo.path / "zoo.json"
    data = MANIFEST_FAULTS[fault](json.loads(manifest.read_text()))
    manifest.write_text(data if isinstance(data, str) else json.dumps(data))
    with pytest.raises(FileError, match=r"zoo\.json: expected"):
        Zoo.open(zoo.path)


@pytest.mark.parametrize(
    "change",
    [
        {"axes": 3},
        {"axes": []},
        {"parameters": [{"name": "0.weight", "shape": [4, "x"]}]},
        {"parameters": [{"name": "0.weight", "shape": [4, 2], "dtype": "load"}]},
    ],
)
def test_damaged_specs_are_refused_when_they_are_read(tmp_path, change):
    zoo, _ = make_zoo(tmp_path / "zoo", [(SIREN, 4)])
    manifest = zoo.path / "zoo.json"
    data = json.loads(manifest.read_text())
    data["specs"][0] |= change
    manifest.write_text(json.dumps(data))
    with pytest.raises(FileError, match=r"zoo\.json: expected specs"):
        Zoo.open(zoo.path).states([0])


# -- damaged files -----------------------------------------------------------------------


@pytest.fixture
def shard(tmp_path) -> Path:
    zoo, _ = make_zoo(tmp_path / "zoo", [(SIREN, 4), (SIREN, 4)])
    return zoo.path / "part-000001.safetensors"


def test_a_cut_shard_is_an_error_also_while_it_is_open(shard):
    zoo = Zoo.open(shard.parent)
    zoo.states([6])
    shard.write_bytes(shard.read_bytes()[:-20])
    for reader in (zoo, Zoo.open(shard.parent)):
        with pytest.raises(FileError, match=r"part-000001\.safetensors: expected \d+ bytes"):
            reader.states([0, 6])
        assert len(reader.states([0])["0.bias"]) == 1


def test_a_shard_of_other_networks_is_an_error(shard):
    other = shard.with_name("part-000000.safetensors")
    zoo, _ = make_zoo(shard.parent.parent / "other", [(chain_spec([2, 4, 1]), 5)])
    manifest = shard.parent / "zoo.json"
    data = json.loads(manifest.read_text())
    content = (zoo.path / other.name).read_bytes()
    other.write_bytes(content)
    data["shards"][0]["bytes"] = len(content)
    manifest.write_text(json.dumps(data))
    with pytest.raises(FileError, match=r"tensor '0\.weight'.*\(4, 4, 2\), found .*\(5, 4, 2\)"):
        Zoo.open(shard.parent).states([0])


def test_damaged_metadata_is_an_error(shard):
    table = shard.with_name("metadata.parquet")
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(bytes(content))
    with pytest.raises(FileError, match=r"metadata\.parquet: expected the SHA-256"):
        Zoo.open(shard.parent).column("label")
