"""The one family of exceptions: what was expected, what was found, what to do.

Every error a user can cause derives from :class:`WeightspaceError`, which is a
``ValueError``, so that ordinary code can catch it and the command line can print
it without a traceback.
"""

from __future__ import annotations


class WeightspaceError(ValueError):
    """Bad input, said in three parts.

    Args:
        subject: the file, tensor, module or option that is wrong.
        expected: what would have been right.
        found: what was there instead.
        hint: what to do about it; may be empty.

    >>> print(WeightspaceError("seq.0.weight", expected="shape (32, 2)", found="(32, 3)"))
    seq.0.weight: expected shape (32, 2), found (32, 3)
    """

    def __init__(self, subject: object, *, expected: str, found: str, hint: str = "") -> None:
        self.subject = str(subject)
        self.expected = expected
        self.found = found
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"{self.subject}: expected {self.expected}, found {self.found}"
        return f"{text}. {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.subject, self.expected, self.found, self.hint)


def _rebuild(
    kind: type[WeightspaceError], subject: str, expected: str, found: str, hint: str
) -> WeightspaceError:
    """Rebuild an error in another process (exceptions pickle by positional arguments)."""
    return kind(subject, expected=expected, found=found, hint=hint)


class SpecError(WeightspaceError):
    """A graph specification that contradicts itself."""


class StateError(WeightspaceError):
    """A state dict that does not belong to a specification."""


class SymmetryError(WeightspaceError):
    """A group element that does not belong to a specification, or changed the function."""


class ModelError(WeightspaceError):
    """A network that a metanetwork cannot read, or options that do not fit together."""


class DataError(WeightspaceError):
    """Images, labels or splits that cannot be used."""


class FileError(WeightspaceError):
    """A file that is missing, damaged, of an unknown layout or unsafe to read."""


class GraphError(WeightspaceError):
    """A relational graph that cannot be: disconnected, directed, or out of its limits."""


class TraceError(WeightspaceError):
    """A network that cannot be followed: the operation, where it stands, and its shapes."""


def require_between(name: str, value: float, low: float, high: float) -> None:
    """Check that an option lies in its range.

    Raises:
        ModelError: it does not, or is not a number.

    >>> require_between("epochs", 3, 1, 10)
    """
    if not low <= value <= high:
        raise ModelError(name, expected=f"a value from {low:g} to {high:g}", found=str(value))


LARGEST_SEED = 2**31 - 1
"""Seeds of every kind are accepted up to this."""
