"""Messages of errors: one sentence, no codes of the system, and the name that was meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weightspace.errors import FileError, WeightspaceError, reason_of, similar_name

SOURCE = Path(__file__).parent.parent / "src" / "weightspace"


def test_what_an_inner_error_said_stands_alone() -> None:
    inner = "expected a zip archive, found text. Copy it again."
    error = FileError("a.pt", expected="a network", found=inner, hint="Or leave it out.")
    assert str(error) == "a.pt: expected a zip archive, found text. Copy it again. Or leave it out."


def test_a_hint_follows_one_full_stop() -> None:
    error = WeightspaceError("x", expected="a", found="b. Do c.", hint="Do d.")
    assert str(error) == "x: expected a, found b. Do c. Do d."


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied", "x"), "permission denied"),
        (OSError("two\n lines"), "two lines"),
        (OSError(5, "I/O error"), "I/O error"),
        (ValueError("Bad  value"), "Bad value"),
        (RecursionError(), "RecursionError"),
    ],
)
def test_reasons_are_words(error: Exception, said: str) -> None:
    assert reason_of(error) == said


def test_similar_names_ignore_capitals() -> None:
    assert similar_name("ACCURACY", ["accuracy"]) == "Did you mean 'accuracy'?"
    assert not similar_name("", ["accuracy"])
    assert not similar_name("accuracy", [])


def test_no_message_quotes_an_error_of_the_system_with_its_code() -> None:
    quoted = re.compile(
        r"except \(?OSError[^\n]*as error[^\n]*:\n(?:(?!except|def |return)[^\n]*\n){0,9}?"
        r"[^\n]*found=str\(error\)"
    )
    parts = ("cli", "find", "importers", "rank", "train", "zoo")
    paths = [path for part in parts for path in (SOURCE / part).rglob("*.py")]
    found = [str(path) for path in paths if quoted.search(path.read_text())]
    assert found == []


def test_a_structure_that_is_not_clear_is_answered_for_commands_and_python() -> None:
    import torch

    from weightspace.importers import from_state

    state = {
        "layer1.0.conv1.weight": torch.zeros(4, 4, 3, 3),
        "x.attention.weight": torch.ones(4, 4),
    }
    with pytest.raises(WeightspaceError, match=r"--inputs SHAPE.*from_module"):
        from_state(state)
