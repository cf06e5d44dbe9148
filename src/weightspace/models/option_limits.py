"""Which values the options of metanetworks may have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from weightspace.errors import ModelError
from weightspace.models.trunk import Option

MOST = 2**16
"""The largest whole number that an option may be: a map of that width fills 16 gigabytes."""

_SWITCHES = {"positions", "bidirectional", "canonical"}
_WORDS = {"aggregate", "lifts"}
_FROM_ZERO = {"probes", "supernodes", "values", "answers"}
_POSITIVE = {"sigma", "scale"}


def checked_options(
    options: Mapping[str, Any], *, divides: tuple[str, str] | None = None, **least: int
) -> dict[str, Option]:
    """Check options by their names, and give them back.

    ``dropout`` is a rate below 1; ``sigma`` and ``scale`` are positive; switches are true or
    false; what else there is counts something and is a whole number, from 1 or, where none is
    meant by it, from 0.

    Args:
        options: by name.
        divides: names of two whole numbers, of which the first must divide the second.
        least: whole numbers of these names start elsewhere.

    Raises:
        ModelError: naming the first option that is of another type or out of its range.

    >>> checked_options({"width": 8, "heads": 2}, divides=("heads", "width"))
    {'width': 8, 'heads': 2}
    >>> checked_options({"dropout": -0.5})
    Traceback (most recent call last):
    ...
    weightspace.errors.ModelError: option dropout: expected a rate of 0 or more, below 1, found -0.5
    """
    for name, value in options.items():
        expected = _wrong(name, value, least.get(name, 0 if name in _FROM_ZERO else 1))
        if expected:
            raise ModelError(f"option {name}", expected=expected, found=repr(value))
    if divides is not None and options[divides[1]] % options[divides[0]]:
        part, whole = divides
        raise ModelError(
            f"option {part}",
            expected=f"a number that divides the {whole} {options[whole]}",
            found=repr(options[part]),
        )
    return dict(options)


def _wrong(name: str, value: object, least: int) -> str:
    """What would have been right, or nothing."""
    if name in _SWITCHES:
        return "" if isinstance(value, bool) else "True or False"
    if name in _WORDS:
        return "" if isinstance(value, str) else "a string"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if name == "dropout":
        fits = number and 0 <= value < 1  # type: ignore[operator]
        return "" if fits else "a rate of 0 or more, below 1"
    if name in _POSITIVE:
        fits = number and value > 0 and math.isfinite(value)  # type: ignore[operator, arg-type]
        return "" if fits else "a positive number"
    fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST
    return "" if fits else f"a whole number from {least} to {MOST}"
