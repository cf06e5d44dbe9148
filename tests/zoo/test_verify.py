from __future__ import annotations

import contextlib
import hashlib
import json
import math
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from tests.zoo.zoos import MLP, SIREN, contents, make_zoo, with_counter
from weightspace.errors import WeightspaceError
from weightspace.graph import chain_spec
from weightspace.zoo import VerifyReport, Zoo, verify

PARTS = [(SIREN, 4), (MLP, 3)]
SPLITS = {"train": range(6), "test": range(6, 9)}


@pytest.fixture
def zoo(tmp_path):
    parts = [(SIREN, 4), (with_counter(MLP), 3), (SIREN, 2)]
    return make_zoo(tmp_path / "zoo", parts, splits=SPLITS)[0].path


def files(report: VerifyReport) -> list[str]:
    return [problem.file for problem in report.problems]


def redo(folder, name: str, content: bytes) -> None:
    """Replace a file and record it in the manifest, as a faulty writer would."""
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "zoo.json").read_text())
    for entry in [manifest["metadata"], *manifest["shards"]]:
        if entry["file"] == name:
            entry |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (folder / "zoo.json").write_text(json.dumps(manifest))


def redo_table(folder, change) -> None:
    table = change(pq.ParquetFile(folder / "metadata.parquet").read(use_threads=False))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    redo(folder, "metadata.parquet", sink.getvalue().to_pybytes())


def with_column(table, name, values):
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def test_a_sound_zoo(zoo):
    before = contents(zoo)
    report = verify(str(zoo))
    assert report.ok
    assert report.problems == []
    assert (report.networks, report.shards) == (9, 3)
    assert str(report) == f"{zoo}: 9 networks in 3 shards, nothing wrong"
    assert json.loads(json.dumps(report.to_dict())) == {
        "path": str(zoo),
        "ok": True,
        "networks": 9,
        "shards": 3,
        "problems": [],
        "not_finite": [],
    }
    assert contents(zoo) == before


def test_several_faults_are_all_found(zoo):
    (zoo / "part-000000.safetensors").unlink()
    second = zoo / "part-000001.safetensors"
    second.write_bytes(second.read_bytes()[:-1])
    third = zoo / "part-000002.safetensors"
    content = bytearray(third.read_bytes())
    content[-1] ^= 1
    third.write_bytes(bytes(content))
    (zoo / "metadata.parquet").write_bytes(b"")
    report = verify(zoo)
    assert files(report) == [
        "part-000000.safetensors",
        "part-000001.safetensors",
        "part-000002.safetensors",
        "metadata.parquet",
    ]
    assert report.problems[0].found == "none"
    assert report.problems[1].expected.startswith(f"{second.stat().st_size + 1} bytes")
    assert report.problems[2].expected.startswith("SHA-256")
    assert not report.ok
    text = str(report)
    assert all(file in text for file in files(report))
    assert len(report.to_dict()["problems"]) == 4


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_weights_that_are_not_finite(tmp_path, value, dtype):
    if dtype == "float8_e4m3fn":
        value = math.nan  # this type has no infinity
    spec = with_counter(chain_spec([2, 4, 1], dtype=dtype))
    folder = make_zoo(tmp_path / "zoo", [(spec, 4), (spec, 5)])[0].path
    for part, rows in ((0, [1]), (1, [0, 4])):
        name = f"part-{part:06d}.safetensors"
        tensors = load((folder / name).read_bytes())
        for row in rows:
            tensors["0.weight"][row, 3, 1] = torch.tensor(value).to(getattr(torch, dtype))
        redo(folder, name, save(tensors))
    report = verify(folder)
    assert report.not_finite == [1, 4, 8]
    assert [problem.found for problem in report.problems] == [
        "NaN or infinity in 1",
        "NaN or infinity in 4, 8",
    ]


def test_large_tensors_are_read_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[verify.__module__], "_CHUNK", 50)
    folder = make_zoo(tmp_path / "zoo", [(SIREN, 7)])[0].path
    name = "part-000000.safetensors"
    tensors = load((folder / name).read_bytes())
    tensors["0.weight"][5, 0, 0] = math.nan
    tensors["1.bias"][6, 0] = math.nan
    redo(folder, name, save(tensors))
    assert verify(folder).not_finite == [5, 6]


def test_shards_of_other_shapes(zoo):
    name = "part-000000.safetensors"
    tensors = load((zoo / name).read_bytes())
    for change, subject in (
        ({**tensors, "0.weight": tensors["0.weight"].double()}, f"{name}, tensor '0.weight'"),
        ({**tensors, "0.weight": tensors["0.weight"][:, :2].clone()}, f"{name}, tensor '0.weight'"),
        ({**tensors, "more": tensors["0.bias"].clone()}, name),
        ({"0.bias": tensors["0.bias"]}, name),
    ):
        redo(zoo, name, save(change))
        assert files(verify(zoo)) == [subject]


@pytest.mark.parametrize(
    ("change", "subject", "found"),
    [
        (lambda t: t.slice(0, 8), "", "8"),
        (lambda t: t.drop_columns(["network"]), ", column 'network'", "does not have"),
        (lambda t: with_column(t, "network", [*range(8), 9]), ", column 'network'", "9"),
        (lambda t: with_column(t, "spec", [0] * 9), ", column 'spec'", "0"),
        (
            lambda t: with_column(t, "split", ["train"] * 9),
            ", column 'split'",
            "{'train': 9}",
        ),
        (
            lambda t: with_column(t, "split", [*["train"] * 3, *["test"] * 3, *["other"] * 3]),
            ", column 'split'",
            "{'train': 3, 'test': 3, 'other': 3}",
        ),
        (lambda t: t.drop_columns(["split"]), "split column", "'split'"),
        (
            lambda t: with_column(t, "source", ["a", "b", "c", "d", "e", "e", "e", "d", None]),
            ", column 'source'",
            "in several: e, d",
        ),
    ],
)
def test_faults_of_the_metadata(zoo, change, subject, found):
    redo_table(zoo, change)
    report = verify(zoo)
    assert len(report.problems) == 1
    assert subject in report.problems[0].file
    assert found in report.problems[0].found


def test_manifests_that_cannot_be_read(zoo, tmp_path):
    text = (zoo / "zoo.json").read_text()
    for damage in ("", "{}", text.replace('"specs"', '"spec"'), text.replace('"axes"', '"axis"')):
        (zoo / "zoo.json").write_text(damage)
        assert files(verify(zoo)) == ["zoo.json"]
    assert not verify(tmp_path / "nothing").ok


def test_an_unfinished_zoo_is_not_sound(zoo):
    (zoo / "zoo.json").rename(zoo / "plan.json")
    report = verify(zoo)
    assert [p.found for p in report.problems] == ["an unfinished one with 0 parts"]


def test_long_lists_are_cut(tmp_path):
    folder = make_zoo(tmp_path / "zoo", [(SIREN, 50)])[0].path
    name = "part-000000.safetensors"
    tensors = load((folder / name).read_bytes())
    tensors["0.bias"][:] = math.nan
    redo(folder, name, save(tensors))
    report = verify(folder)
    assert report.not_finite == list(range(50))
    assert report.problems[0].found.endswith("19 and 30 more")


@pytest.fixture(scope="module")
def shared_zoo(tmp_path_factory):
    return make_zoo(tmp_path_factory.mktemp("fuzz") / "zoo", PARTS)[0].path


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_changed_byte_anywhere_is_found_or_harmless(shared_zoo, data):
    """Shards and metadata have checksums; in the manifest, texts may change unseen."""
    path = data.draw(st.sampled_from(sorted(shared_zoo.iterdir())))
    sound = path.read_bytes()
    content = bytearray(sound)
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(content))
    try:
        report = verify(shared_zoo)
        if path.name != "zoo.json":
            assert not report.ok
            assert all(file.startswith(path.name) for file in files(report))
        with contextlib.suppress(WeightspaceError):
            Zoo.open(shared_zoo).groups(range(7))
    finally:
        path.write_bytes(sound)
