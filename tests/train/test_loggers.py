"""Loggers by name; those of other packages are replaced by what records the calls."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from weightspace.errors import DataError
from weightspace.train import loggers
from weightspace.train.loggers import make_loggers


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_package_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loggers, "find_spec", lambda _: None)
    with pytest.raises(DataError, match=rf"weightspace\[{name}\]"):
        make_loggers(tmp_path, name)


def test_an_unknown_logger(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="csv, tensorboard, wandb, mlflow"):
        make_loggers(tmp_path, "comet")


def test_csv_is_always_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [type(one).__name__ for one in make_loggers(tmp_path, "csv")] == ["CSVLogger"]
    monkeypatch.setattr(loggers, "find_spec", lambda _: None)
    assert [type(one).__name__ for one in make_loggers(tmp_path)] == ["CSVLogger"]


@pytest.mark.parametrize(("name", "kind"), [("wandb", "WandbLogger"), ("mlflow", "MLFlowLogger")])
def test_others_are_lightnings(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []

    def make(*place: Any, **options: Any) -> str:
        made.append(options)
        return kind

    monkeypatch.setattr(loggers, kind, make)
    monkeypatch.setattr(loggers, "find_spec", lambda _: sys)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    found = make_loggers(tmp_path / "run", name)
    assert found[1:] == [kind]
    told = made[0]
    assert "run" in (told.get("name"), told.get("run_name"))
    assert str(tmp_path / "run") in str(told.get("save_dir", told.get("tracking_uri")))
