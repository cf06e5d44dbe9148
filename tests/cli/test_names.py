"""Names of files that would steer a terminal, are read as markup, or are no text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from weightspace.cli.main import main
from weightspace.cli.output import printable, show_table
from weightspace.find import Folder, Index

STEERING = "a\x1b[2J\u202e[/red]\u009b"


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two networks and a broken file, all badly named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    folder = tmp_path / "nets"
    folder.mkdir()
    for number in range(2):
        torch.manual_seed(number)
        state = {"0.weight": torch.randn(8, 4), "1.weight": torch.randn(2, 8)}
        (folder / f"{number}{STEERING.replace('/', '')}.safetensors").write_bytes(b"")
        save_file(state, folder / f"{number}{STEERING.replace('/', '')}.safetensors")
    (folder / "broken\x1b[2J.pt").write_bytes(b"PK\x03\x04")
    return folder


def test_commands_print_no_controls(nets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = str(sorted(nets.glob("0*"))[0])
    for command in (["embed", "nets"], ["search", query, "nets"], ["lineage", "nets"]):
        main([*command, "--activation", "relu"])
    with pytest.raises(SystemExit):
        main(["search", f"no\x1b[2J{query}", "nets"])
    out, err = capsys.readouterr()
    assert "\\x1b[2J" in out
    assert "\\x1b[2J" in err
    assert not set("\x1b\u202e\u009b") & set(out + err)


def test_titles_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    show_table("of [/red] [bold]x", ["[/a]"], [["[/b]"]])
    out = "".join(capsys.readouterr().out.split())
    assert all(text in out for text in ("of[/red][bold]x", "[/a]", "[/b]"))


def test_words_between_colons_are_no_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["inspect", ":boom:.pt"])
    assert ":boom:.pt" in capsys.readouterr().err


def test_ordinary_text_stays_as_it_is() -> None:
    assert printable("имя 網絡\n\tfile.pt") == "имя 網絡\n\tfile.pt"
    assert printable("\udcff") == "\\udcff"


def test_one_file_alone_leaves_the_index_of_its_folder(nets: Path) -> None:
    Index.of(Folder(nets))
    before = (nets / ".weightspace-index.parquet").read_bytes()
    (one, *_) = sorted(nets.glob("0*"))
    alone = Index.of(Folder(one))
    assert (len(alone), alone.changes.kept, alone.changes.removed) == (1, 1, 0)
    assert (nets / ".weightspace-index.parquet").read_bytes() == before
    own = Index.of(Folder(one), path=nets.parent / "own.parquet")
    assert own.path is not None
    assert own.path.is_file()
