from __future__ import annotations

import concurrent.futures
import errno
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.zoo.zoos import MLP, RECIPE, SIREN, contents, make_zoo, random_states, rows
from weightspace.errors import DataError, FileError, StateError
from weightspace.zoo import Zoo, ZooWriter


def begin(path, **options):
    return ZooWriter(path, **{"specs": [SIREN], "recipe": RECIPE, **options})


def write(writer, part, count=3):
    writer.write_part(part, random_states(SIREN, count, seed=part), rows(part * count, count))


# -- interruption ------------------------------------------------------------------------


def test_killed_at_any_moment_and_resumed_it_is_the_same_byte_for_byte(tmp_path):
    command = [sys.executable, "-m", "tests.zoo.killing", str(tmp_path)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    events, kills = map(int, re.findall(r"\d+", done.stdout))
    assert events >= 28  # a folder; opening, filling and renaming a plan, 3 x 2 and 2 files
    assert kills >= 5


def test_the_order_of_writing_does_not_matter(tmp_path):
    for name, order in (("a", (0, 1, 2)), ("b", (2, 0, 1))):
        writer = begin(tmp_path / name)
        for part in order:
            write(writer, part)
        writer.finish()
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_parts_of_several_processes(tmp_path):
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        list(pool.map(_write_from_another_process, [tmp_path / "a"] * 6, range(6)))
    found = begin(tmp_path / "a").finish()
    writer = begin(tmp_path / "b")
    for part in range(6):
        write(writer, part)
    writer.finish()
    assert len(found) == 18
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def _write_from_another_process(path, part):
    write(begin(path), part)


def test_an_unfinished_zoo_says_so(tmp_path):
    writer = begin(tmp_path)
    write(writer, 0)
    write(writer, 4)
    with pytest.raises(FileError, match=r"unfinished one with 2 parts.*goes on where it stopped"):
        Zoo.open(tmp_path)
    with pytest.raises(FileError, match=r"parts 0 to 4, found 3 missing: 1, 2, 3"):
        writer.finish()


def test_parts_cut_short_are_made_again(tmp_path):
    writer = begin(tmp_path)
    write(writer, 0)
    marker, shard = tmp_path / "part-000000.json", tmp_path / "part-000000.safetensors"
    whole = marker.read_bytes(), shard.read_bytes()
    for damage in (
        shard.unlink,
        marker.unlink,
        lambda: shard.write_bytes(whole[1][:-1]),
        lambda: marker.write_bytes(whole[0][:50]),
        lambda: marker.write_text("{}"),
    ):
        damage()
        assert not begin(tmp_path).has_part(0)
        write(writer, 0)
        assert begin(tmp_path).has_part(0)
        assert (marker.read_bytes(), shard.read_bytes()) == whole


def test_temporary_files_of_killed_writers_are_removed(tmp_path):
    writer = begin(tmp_path)
    write(writer, 0)
    (tmp_path / ".part-000001.safetensors.0123456789ab.tmp").write_bytes(b"half")
    writer.finish()
    assert sorted(contents(tmp_path)) == ["metadata.parquet", "part-000000.safetensors", "zoo.json"]


def test_a_folder_killed_before_the_plan_was_whole(tmp_path):
    (tmp_path / ".plan.json.0123456789ab.tmp").write_bytes(b"{")
    write(begin(tmp_path), 0)
    assert len(begin(tmp_path).finish()) == 3


def test_parts_known_in_advance_must_be_there(tmp_path):
    writer = begin(tmp_path, parts=3)
    with pytest.raises(DataError, match="from 0 to 2"):
        write(writer, 3)
    write(writer, 0)
    with pytest.raises(FileError, match="2 missing: 1, 2"):
        writer.finish()


def test_a_zoo_without_parts_is_none(tmp_path):
    with pytest.raises(FileError, match="at least one part"):
        begin(tmp_path).finish()


# -- continuing --------------------------------------------------------------------------


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipe": {**RECIPE, "steps": 200}}, r"recipe\.steps = 100 instead of 200"),
        ({"recipe": {**RECIPE, "sizes": [2, 5, 1]}}, r"recipe\.sizes\[1\] = 4 instead of 5"),
        ({"recipe": {}}, r"recipe\.name = \"random\" instead of null; .*"),
        ({"specs": [MLP]}, r"specs\[0\]\..* and \d+ more"),
        ({"specs": [SIREN, MLP]}, "specs = "),
    ],
)
def test_another_recipe_is_refused(tmp_path, finished, options, message):
    writer = begin(tmp_path)
    write(writer, 0)
    if finished:
        writer.finish()
    before = contents(tmp_path)
    with pytest.raises(FileError, match=message + ".*Choose another folder"):
        begin(tmp_path, **options)
    assert contents(tmp_path) == before


def test_tuples_in_a_recipe_are_the_lists_that_json_gives_back(tmp_path):
    begin(tmp_path, recipe={"sizes": (2, 4)})
    begin(tmp_path, recipe={"sizes": [2, 4]})


def test_the_first_provenance_stays(tmp_path):
    begin(tmp_path, provenance={"seed": 1})
    writer = begin(tmp_path, provenance={"seed": 2})
    write(writer, 0)
    assert writer.finish().provenance["seed"] == 1


def test_a_finished_zoo_stays_as_it_is(tmp_path):
    writer = begin(tmp_path)
    write(writer, 0)
    writer.finish(splits={"train": [0, 1], "test": [2]})
    before = contents(tmp_path)
    again = begin(tmp_path)
    assert again.has_part(0)
    write(again, 0)
    assert len(again.finish(splits={"train": [1, 0], "test": [2]})) == 3
    with pytest.raises(FileError, match="a finished one without part 1"):
        write(again, 1)
    with pytest.raises(FileError, match="split 'train' with 1 network,"):
        again.finish(splits={"train": [0]})
    assert contents(tmp_path) == before


def test_other_folders_are_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("...")
    with pytest.raises(FileError, match=r"thesis\.tex.*Choose another folder"):
        begin(tmp_path)
    with pytest.raises(FileError, match="a folder that can be made"):
        begin(tmp_path / "thesis.tex")
    assert contents(tmp_path) == {"thesis.tex": b"..."}


@pytest.mark.parametrize(
    "options",
    [
        {"specs": []},
        {"specs": [SIREN, SIREN]},
        {"recipe": {"model": torch.nn.Linear(1, 1)}},
        {"recipe": {"rate": float("nan")}},
        {"provenance": {"when": object()}},
    ],
)
def test_bad_arguments_leave_no_folder(tmp_path, options):
    with pytest.raises(DataError):
        begin(tmp_path / "zoo", **options)
    assert not (tmp_path / "zoo").exists()


# -- a full disk, and the keyboard --------------------------------------------------------


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    writer = begin(tmp_path)
    write(writer, 0)
    before = contents(tmp_path)

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for act in (lambda: write(writer, 1), writer.finish):
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(FileError, match=r"No space left.*Free some space and run the same"):
                act()
        assert contents(tmp_path) == before
    write(writer, 1)
    assert len(writer.finish()) == 6


def test_a_file_that_outgrows_the_limit_loses_nothing(tmp_path):
    writer = begin(tmp_path)
    write(writer, 0)
    before = contents(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        with pytest.raises(FileError, match="File too large"):
            write(writer, 1, count=1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents(tmp_path) == before


def test_a_folder_that_is_gone(tmp_path):
    writer = begin(tmp_path / "zoo")
    shutil.rmtree(tmp_path / "zoo")
    with pytest.raises(FileError, match="a folder that can be written, found no such file"):
        write(writer, 0)


def test_interrupting_by_hand_leaves_no_temporary_file(tmp_path, monkeypatch):
    writer = begin(tmp_path)
    before = contents(tmp_path)

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(writer, 0)
    assert contents(tmp_path) == before


# -- rows and splits ---------------------------------------------------------------------


def test_rows_of_every_kind(tmp_path):
    writer = begin(tmp_path)
    values = {
        "int": np.int64(2**62),
        "float": torch.tensor(0.1, dtype=torch.float64),
        "nan": float("nan"),
        "infinity": float("-inf"),
        "text": "ü\n",
        "flag": np.bool_(True),
        "list": (1.5, float("nan")),
        "array": np.arange(3),
        "list.dotted": 7,
    }
    writer.write_part(0, random_states(SIREN, 3), [values, {"late": 1}, {"int": None}])
    zoo = writer.finish()
    first = zoo.metadata.slice(0, 1).to_pylist()[0]
    assert (first["int"], first["float"], first["text"]) == (2**62, 0.1, "ü\n")
    assert (first["flag"], first["array"], first["late"]) == (True, [0, 1, 2], None)
    assert np.isnan(first["nan"])
    assert np.isnan(first["list"][1])
    assert first["infinity"] == float("-inf")
    assert zoo.metadata.column("int").to_pylist()[1:] == [None, None]
    assert np.isnan(zoo.column("late")[0])
    assert zoo.column("list.dotted")[0] == 7
    assert zoo.column("list")[0][0] == 1.5
    assert [name for name in zoo.metadata.column_names if name not in values] == [
        "network",
        "spec",
        "late",
    ]


@pytest.mark.parametrize(
    "row", [{"network": 1}, {"spec": 1}, {3: 1}, {"a": 2**63}, {"a": {}}, {"a": b""}, {"a": [{}]}]
)
def test_rows_that_no_table_holds(tmp_path, row):
    writer = begin(tmp_path)
    with pytest.raises(DataError, match="metadata column"):
        writer.write_part(0, random_states(SIREN, 1), [row])
    assert not writer.has_part(0)


def test_columns_that_mix_types(tmp_path):
    writer = begin(tmp_path)
    writer.write_part(0, random_states(SIREN, 1), [{"label": 1}])
    writer.write_part(1, random_states(SIREN, 1), [{"label": "one"}])
    with pytest.raises(DataError, match="column 'label': expected values of one type"):
        writer.finish()


def test_parts_that_do_not_fit(tmp_path):
    writer = begin(tmp_path)
    with pytest.raises(DataError, match="expected 3 rows, found 2"):
        writer.write_part(0, random_states(SIREN, 3), rows(0, 2))
    with pytest.raises(StateError, match=r"0\.weight"):
        writer.write_part(0, random_states(MLP, 3), rows(0, 3))
    for part, spec in ((-1, 0), (0, 1), (0, -1)):
        with pytest.raises(DataError, match="a number from 0 to"):
            writer.write_part(part, random_states(SIREN, 3), rows(0, 3), spec=spec)
    assert list(contents(tmp_path)) == ["plan.json"]


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"a": [0, 1], "b": [1]}, "network 1 in both"),
        ({"a": [6]}, "from 0 to 5"),
        ({"a": [-1]}, "from 0 to 5"),
    ],
)
def test_splits_that_cannot_be(tmp_path, splits, message):
    with pytest.raises(DataError, match=message):
        make_zoo(tmp_path / "zoo", [(SIREN, 6)], splits=splits)
    with pytest.raises(FileError, match="unfinished"):
        Zoo.open(tmp_path / "zoo")


def test_splits_in_a_column_of_the_rows(tmp_path):
    writer = begin(tmp_path)
    fold = [{"fold": name} for name in ("test", "train", None, "train")]
    writer.write_part(0, random_states(SIREN, 4), fold)
    for wrong in ({"split_column": "folds"}, {"split_column": "network"}):
        with pytest.raises(DataError, match="split column"):
            writer.finish(**wrong)
    with pytest.raises(DataError, match="found both"):
        writer.finish(split_column="fold", splits={})
    zoo = writer.finish(split_column="fold")
    assert zoo.splits == {"test": 1, "train": 2}
    assert zoo.split("train").tolist() == [1, 3]


def test_a_column_split_beside_given_splits(tmp_path):
    writer = begin(tmp_path)
    writer.write_part(0, random_states(SIREN, 1), [{"split": "train"}])
    with pytest.raises(DataError, match="split_column='split'"):
        writer.finish(splits={"train": [0]})
    assert writer.finish(split_column="split").splits == {"train": 1}
