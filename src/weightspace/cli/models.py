"""The command ``weightspace models``, and options of models as they are typed."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from weightspace.cli.output import show_table, write_json
from weightspace.errors import ModelError


def models(*, json: Path | None = None) -> None:
    """List the metanetworks by name, with what each is.

    Args:
        json: also write the list to this file.
    """
    from weightspace.models import MODELS

    rows = [{"name": name, "summary": entry.summary} for name, entry in MODELS.items()]
    show_table("metanetworks", ["name", "what it is"], [[*row.values()] for row in rows])
    if json is not None:
        write_json(json, rows)


def parse_options(texts: Sequence[str]) -> dict[str, int | float | bool | str]:
    """Read a model's options from ``NAME=VALUE`` texts.

    Raises:
        ModelError: a text has another form.

    >>> parse_options(["width=64", "dropout=0.1", "bidirectional=False", "aggregate=sum"])
    {'width': 64, 'dropout': 0.1, 'bidirectional': False, 'aggregate': 'sum'}
    """
    options: dict[str, int | float | bool | str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise ModelError("--option", expected="NAME=VALUE, such as width=64", found=repr(text))
        try:
            read = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            read = value
        options[name] = read if isinstance(read, (int, float, bool)) else value
    return options
