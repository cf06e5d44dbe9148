"""The one family of exceptions: what was expected, what was found, what to do.

Every error a user can cause derives from :class:`WeightspaceError`, which is a
``ValueError``, so that ordinary code can catch it and the command line can print
it without a traceback.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class WeightspaceError(ValueError):
    """Bad input, said in three parts.

    Args:
        subject: the file, tensor, module or option that is wrong.
        expected: what would have been right.
        found: what was there instead. What an error within the subject said ("expected ...,
            found ...") is more exact than what was expected of the whole, and stands for it.
        hint: what to do about it; may be empty.

    >>> print(WeightspaceError("seq.0.weight", expected="shape (32, 2)", found="(32, 3)"))
    seq.0.weight: expected shape (32, 2), found (32, 3)
    >>> print(WeightspaceError("a.pt", expected="a network", found="expected a zip, found text"))
    a.pt: expected a zip, found text
    """

    def __init__(self, subject: object, *, expected: str, found: str, hint: str = "") -> None:
        self.subject = str(subject)
        self.expected = expected
        self.found = found
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        within = self.found.startswith("expected ")
        said = self.found if within else f"expected {self.expected}, found {self.found}"
        text = f"{self.subject}: {said}"
        return f"{text.removesuffix('.')}. {self.hint}" if self.hint else text

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


def reason_of(error: BaseException) -> str:
    """Why something failed, for ``found``: the words of the system or library, without codes.

    >>> reason_of(FileNotFoundError(2, "No such file or directory", "x.csv"))
    'no such file or directory'
    >>> reason_of(ValueError())
    'ValueError'
    """
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    words = " ".join(text.split()) or type(error).__name__
    if isinstance(error, OSError) and words[1:2].islower():
        words = words[0].lower() + words[1:]
    return words[:300]


def counted(number: int, thing: str) -> str:
    """A number of things.

    >>> counted(1, "network"), counted(1200, "class")
    ('1 network', '1,200 classes')
    """
    ending = "" if number == 1 else "es" if thing.endswith("s") else "s"
    return f"{number:,} {thing}{ending}"


def similar_name(name: str, known: Iterable[str]) -> str:
    """A hint for a name that is not known, if one that is known looks like it.

    >>> similar_name("acuracy", ["loss", "accuracy"])
    "Did you mean 'accuracy'?"
    >>> similar_name("x", ["loss", "accuracy"])
    ''
    """
    lowered = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), lowered, n=1, cutoff=0.7)
    return f"Did you mean {lowered[near[0]]!r}?" if near else ""


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
