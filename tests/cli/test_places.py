"""Places that cannot be written are found before a command works, not after."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weightspace.cli.main import main
from weightspace.cli.places import check_places
from weightspace.errors import WeightspaceError


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What is said of arguments that are refused."""
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_the_place_is_refused_before_the_input_is_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for option in ("--json", "--out"):
        said = refused(capsys, "align", "no-a.pt", "no-b.pt", option, file / "within" / "x")
        assert f"{option} {file}/within/x: expected a place that can be written" in said
        assert "Errno" not in said


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser can write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(WeightspaceError, match="permission denied"):
        check_places(["view", "a.pt", f"--out={tmp_path}/new/view.html"])


@pytest.mark.parametrize("command", ["align", "predict", "view"])
def test_a_folder_where_a_file_belongs(command: str, tmp_path: Path) -> None:
    with pytest.raises(WeightspaceError, match="expected a file to write, found a folder"):
        check_places([command, "--out", str(tmp_path)])
    with pytest.raises(WeightspaceError, match="expected a file to write, found a folder"):
        check_places([command, f"--json={tmp_path}"])


def test_a_file_where_a_folder_belongs(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("")
    with pytest.raises(WeightspaceError, match="expected a folder to write, found a file"):
        check_places(["train", "zoo", "--out", str(file)])


@pytest.mark.parametrize(
    "arguments",
    [
        ["align", "a", "b", "--out", "x/y.json", "--json", "x/../x/y.json"],
        ["prune", "a.pt", "--out", "x/small.safetensors", "--json", "x/small.json"],
        ["prune", "a.pt", "--json", "pruned.json"],
        ["embed", "folder", "--out", "v.npy", "--json", "v.names.json"],
    ],
)
def test_figures_do_not_overwrite_results(arguments: list[str]) -> None:
    with pytest.raises(WeightspaceError, match="a file of its own"):
        check_places(arguments)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    check_places(["train", "zoo", "--out", str(tmp_path / "new"), "--json", f"{tmp_path}/a/b.json"])
    check_places(["prune", "a.pt", "--out", f"{tmp_path}/a.safetensors", "--json", f"{tmp_path}/b"])
    check_places(["train", "--out"])
    assert list(tmp_path.iterdir()) == []
