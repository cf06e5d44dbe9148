"""The README's promises: its commands exist and its code runs as it stands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from weightspace.cli.main import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_two_commands_are_targets() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"^make (\w+)", README, re.MULTILINE)
    assert {"demo", "test"} <= set(named)
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_code_runs_as_it_stands(code: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stderr


def test_commands_and_their_options_exist(capsys: pytest.CaptureFixture[str]) -> None:
    commands = re.findall(r"`weightspace ([^`]+)`", README)
    assert len(commands) >= 6
    for command in commands:
        words = [word for word in shlex.split(command) if word[0].islower()]
        options = [word for word in shlex.split(command) if word.startswith("--")]
        depth = 2 if words[0] in {"zoo", "relational"} else 1
        with pytest.raises(SystemExit):
            main([*words[:depth], "--help"])
        shown = capsys.readouterr().out
        for option in options:
            assert option in shown, f"{option} of {command}"


def test_files_it_links_to_exist() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target
