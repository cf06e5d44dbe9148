from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_benchmark_runs(tmp_path):
    figures = tmp_path / "figures.json"
    command = [sys.executable, "benchmarks/zoo.py", "--networks", "512", "--part", "100"]
    command += ["--reference-networks", "64", "--json", str(figures)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text())
    assert found["open_seconds"] < 1
    assert found["networks_per_second"] > 0
    assert found["ratio"] > 0
    assert 50 < found["reader_mb"] < 600
    assert "cores" in found["machine"]
