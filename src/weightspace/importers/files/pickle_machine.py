"""A pickle machine that makes stand-ins instead of objects and calls nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from weightspace.errors import FileError
from weightspace.importers.files.pickle_names import (
    HINT,
    PLAIN_CALLS,
    REBUILDS,
    is_known,
    storage_type,
)

DEEPEST = 50
"""How deep tuples may be nested: hashing a deeper one could exhaust the C stack."""
SMALL = 16 << 20
"""A tensor of repeated values (stride 0) may span this many bytes beyond its storage."""


@dataclass(frozen=True, slots=True)
class Name:
    """Stands for an imported object."""

    path: str


@dataclass(frozen=True, slots=True)
class Row:
    """Stands for a tuple."""

    items: tuple[object, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class Storage:
    """Stands for the bytes that tensors lie in."""

    key: str
    dtype: torch.dtype
    nbytes: int


@dataclass(frozen=True, slots=True)
class Made:
    """Stands for what a call returned, or a list, dictionary or set."""

    by: str


class ForeignNameError(Exception):
    """A pickle asks for an import that is not on the list."""


class Machine:
    """The stack, the marks and the memo of the pickle machine, with stand-ins for objects."""

    def __init__(self, subject: object) -> None:
        self.subject = subject
        self.storages: dict[str, int] = {}
        self.stack: list[object] = []
        self.marks: list[int] = []
        self.memo: dict[int, object] = {}

    def refuse(self, found: str) -> FileError:
        """The error that says what the pickle would have done."""
        return FileError(
            self.subject,
            expected="a pickle of containers with tensors, numbers and strings",
            found=found,
            hint=HINT,
        )

    def push(self, value: object) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop(self, count: int) -> list[object]:
        """Take values off the stack, but none below the last mark."""
        floor = self.marks[-1] if self.marks else 0
        if len(self.stack) - count < floor:
            raise IndexError("the stack is too short")
        taken = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return taken

    def pop_mark(self) -> list[object]:
        """Take every value down to the last mark off the stack."""
        place = self.marks.pop()
        taken = self.stack[place:]
        del self.stack[place:]
        return taken

    def tuple_of(self, items: list[object]) -> None:
        """Make a tuple."""
        depth = 1 + max((item.depth for item in items if isinstance(item, Row)), default=0)
        if depth > DEEPEST:
            raise self.refuse(f"tuples nested more than {DEEPEST} deep")
        self.push(Row(tuple(items), depth))

    def name(self, argument: str) -> None:
        """Import an object, if it is one of those that torch.save needs."""
        path = argument.replace(" ", ".").replace("__builtin__.", "builtins.")
        if not is_known(path):
            raise ForeignNameError(path)
        self.push(Name(path))

    def call(self) -> None:
        """Call a function: note what it would return, after checking its arguments."""
        function, arguments = self.pop(2)
        if not isinstance(function, Name) or not isinstance(arguments, Row):
            raise self.refuse("a call of something that is not a known function")
        path, items = function.path, arguments.items
        if path in REBUILDS:
            self.check_rebuild(path, items)
        elif path == "_codecs.encode":
            if len(items) != 2 or items[1] not in ("latin1", "utf-8", "ascii"):
                raise self.refuse("text in an unusual encoding")
        elif path not in PLAIN_CALLS:
            raise self.refuse(f"a call of {path}")
        self.push(Made(path))

    def check_rebuild(self, path: str, items: tuple[object, ...]) -> None:
        """Check that a tensor lies within its storage."""
        storage, offset, size, stride = items[:4]
        if not isinstance(storage, Storage):
            raise self.refuse("a tensor without a storage")
        dtype = storage.dtype
        if path.endswith("_v3"):
            named = items[6]
            dtype = getattr(torch, named.path.removeprefix("torch."))  # type: ignore[attr-defined]
        width = dtype.itemsize
        sizes, strides = self.numbers(size), self.numbers(stride)
        (first,) = self.numbers(Row((offset,), 1))
        count = math.prod(sizes)
        last = first + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
        if count and (last + 1) * width > storage.nbytes:
            raise FileError(
                f"{self.subject}, a tensor of shape {tuple(sizes)}",
                expected=f"values within the {storage.nbytes} bytes of its storage",
                found=f"values up to byte {(last + 1) * width}",
                hint="The file is damaged or made to deceive.",
            )
        if count * width > max(storage.nbytes, SMALL):
            raise FileError(
                f"{self.subject}, a tensor of shape {tuple(sizes)}",
                expected=f"at most the {storage.nbytes} bytes of its storage",
                found=f"{count * width} bytes of repeated values",
                hint="Save it after tensor.contiguous().",
            )

    def numbers(self, row: object) -> list[int]:
        """The non-negative integers of a tuple."""
        if not isinstance(row, Row):
            raise TypeError("sizes that are not a tuple")
        found = [item for item in row.items if isinstance(item, int) and 0 <= item < 1 << 62]
        if len(found) != len(row.items):
            raise ValueError("sizes that are not numbers")
        return found

    def storage(self) -> None:
        """Note a storage: ``("storage", type, key, location, numel)``."""
        (identity,) = self.pop(1)
        if not isinstance(identity, Row) or len(identity.items) not in (5, 6):
            raise self.refuse("a reference to something that is not a storage")
        tag, kind, key, _, numel = identity.items[:5]
        if tag not in ("storage", b"storage") or not isinstance(kind, Name):
            raise self.refuse("a reference to something that is not a storage")
        dtype = storage_type(kind.path)
        if dtype is None:
            raise FileError(
                self.subject, expected="storages of an ordinary number type", found=kind.path
            )
        if not isinstance(key, str) or not isinstance(numel, int) or not 0 <= numel < 1 << 60:
            raise self.refuse("a storage of a strange size")
        nbytes = numel * dtype.itemsize
        if self.storages.setdefault(key, nbytes) != nbytes:
            raise self.refuse("one storage with two sizes")
        if len(identity.items) == 6 and identity.items[5] is not None:
            (_, offset, numel) = self.view(identity.items[5])
            nbytes = numel * dtype.itemsize
            if offset * dtype.itemsize + nbytes > self.storages[key]:
                raise self.refuse("a view beyond its storage")
        self.push(Storage(key, dtype, nbytes))

    def view(self, view: object) -> tuple[object, int, int]:
        """The key, offset and length of a view of a storage (legacy files)."""
        if not isinstance(view, Row) or len(view.items) != 3:
            raise TypeError("a view that is not a tuple of three")
        offset, numel = self.numbers(Row(view.items[1:], 1))
        return view.items[0], offset, numel

    def build(self) -> None:
        """Set an object's attributes; state dicts have some, other objects must not."""
        target, _ = self.pop(2)
        if target != Made("collections.OrderedDict"):
            raise self.refuse("attributes set on an object")
        self.push(target)


def _constant(machine: Machine, argument: object) -> None:
    machine.push(argument)


def _made(by: str) -> Callable[[Machine, object], None]:
    return lambda machine, _: machine.push(Made(by))


def _const(value: object) -> Callable[[Machine, object], None]:
    return lambda machine, _: machine.push(value)


def _tuple(count: int) -> Callable[[Machine, object], None]:
    return lambda machine, _: machine.tuple_of(machine.pop(count))


def _put(machine: Machine, argument: object) -> None:
    assert isinstance(argument, int)
    machine.memo[argument] = machine.stack[-1]


def _get(machine: Machine, argument: object) -> None:
    assert isinstance(argument, int)
    machine.push(machine.memo[argument])


def _fill(count: int) -> Callable[[Machine, object], None]:
    """Put values into a container, which stays on the stack; -1 takes them to the mark."""

    def step(machine: Machine, _: object) -> None:
        items = machine.pop_mark() if count < 0 else machine.pop(count)
        (container,) = machine.pop(1)
        if not isinstance(container, Made):
            raise machine.refuse("values put into something that is not a container")
        del items
        machine.push(container)

    return step


def _name(machine: Machine, argument: object) -> None:
    machine.name(str(argument))


STEPS: dict[str, Callable[[Machine, object], None]] = {
    **dict.fromkeys(
        ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINSTRING"),
        _constant,
    ),
    "PROTO": lambda machine, _: None,
    "STOP": lambda machine, _: None,
    "NONE": _const(None),
    "NEWTRUE": _const(True),
    "NEWFALSE": _const(False),
    "EMPTY_DICT": _made("dict"),
    "EMPTY_LIST": _made("list"),
    "EMPTY_SET": _made("set"),
    "EMPTY_TUPLE": _tuple(0),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "TUPLE": lambda machine, _: machine.tuple_of(machine.pop_mark()),
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "APPEND": _fill(1),
    "SETITEM": _fill(2),
    "APPENDS": _fill(-1),
    "SETITEMS": _fill(-1),
    "BINPUT": _put,
    "LONG_BINPUT": _put,
    "BINGET": _get,
    "LONG_BINGET": _get,
    "GLOBAL": _name,
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
    "BINPERSID": lambda machine, _: machine.storage(),
}
"""The instructions of protocol 2 that torch.save writes."""
