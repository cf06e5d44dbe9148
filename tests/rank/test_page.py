"""The page of rankings: its code runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "rank.md").read_text()


def test_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(code, "docs/rank.md", "exec"), {})
    assert "10 independent networks are too few" in capsys.readouterr().out
