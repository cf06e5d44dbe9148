"""An import that is killed again and again ends like one that was not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_killed_imports(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.zoo.importing.killing", str(tmp_path)]
    root = Path(__file__).parents[3]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    assert int(result.stdout.split()[0]) >= 5, result.stdout
