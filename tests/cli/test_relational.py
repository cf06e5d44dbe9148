"""``weightspace relational``: what it writes and what it says of bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.relational.analysis.studies import study, write_rows
from weightspace.cli.main import main

KEYS = {"best", "complete", "sweet_spot", "correlations", "held_out_best", "reliability"}


def test_analyse_writes_every_number_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(tmp_path / "runs" / "a.parquet", study(30, 3, name="mlp"))
    write_rows(tmp_path / "runs" / "b.parquet", study(30, 3, name="cnn", seed=1))
    out, file = tmp_path / "out", tmp_path / "numbers.json"
    main(["relational", "analyse", str(tmp_path / "runs"), "--json", str(file), "--out", str(out)])
    found = json.loads(file.read_text())
    assert set(found) == {"mlp", "cnn"}
    assert all(set(own) >= KEYS for own in found.values())
    assert found["mlp"]["graphs"] == 30
    assert "mlp" in capsys.readouterr().out
    assert "cnn" in (out / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.parquet"], "missing.parquet: expected a Parquet file of runs"),
        (["missing.npz"], "missing.npz: expected the published arrays (.npz), found nothing"),
        (["runs.parquet", "--alpha", "2"], "alpha: expected a value from 0.0001 to 0.5, found 2.0"),
        (["runs.parquet", "--fewest", "1"], "fewest graphs a bin: expected a value from 2"),
    ],
)
def test_bad_input_ends_with_one_message(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "runs.parquet", study(8, 2))
    with pytest.raises(SystemExit) as caught:
        main(["relational", "analyse", *arguments])
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert message in " ".join(told.split())
