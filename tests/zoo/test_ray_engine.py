"""Making zoos on Ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from weightspace.errors import ModelError
from weightspace.zoo.ray_engine import RayEngine

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_local_cluster_makes_the_same_files_though_workers_die(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    # In a process of its own: Ray leaves threads and settings behind.
    command = [sys.executable, "-m", "tests.zoo.ray_making", str(tmp_path)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "same" in ended.stdout


def test_without_ray_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModelError, match=r"no package ray.*pip install 'weightspace\[ray\]'"):
        RayEngine()
