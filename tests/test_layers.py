"""The layers of the package: imports point downward only, and importing stays fast."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import weightspace

ROOT = Path(weightspace.__file__).parent
LAYERS = [
    "errors",
    "graph",
    "importers",
    "nn",
    "models",
    "testing",
    "relational",
    "zoo",
    "align",
    "find",
    "tasks",
    "train",
    "rank",
    "report",
    "experiments",
    "cli",
]


def layer_of(module: str) -> int | None:
    """The place of a module among the layers, None for the package itself."""
    parts = module.split(".")
    if parts[0] != "weightspace" or len(parts) == 1:
        return None
    assert parts[1] in LAYERS or not (ROOT / parts[1]).exists(), f"{module} is in no layer"
    return LAYERS.index(parts[1]) if parts[1] in LAYERS else None


def imports(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.append(node.module or "")
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_downward(path: Path) -> None:
    own = ".".join(("weightspace", *path.relative_to(ROOT).with_suffix("").parts))
    here = layer_of(own)
    if here is None:
        return
    for name in imports(path):
        there = layer_of(name)
        assert there is None or there <= here, f"{own} imports {name}, a layer above it"


def test_importing_the_package_imports_little() -> None:
    code = (
        "import sys, weightspace\n"
        "heavy = {'torch', 'lightning', 'sklearn', 'pyarrow', 'matplotlib', 'torchmetrics'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
