"""A program that reads one HDF5 file and writes its variables to standard output.

The HDF5 library loops without end or crashes on some damaged files, so it runs in a process
of its own, with limits on time and memory: ``python hdf5_child.py FILE BYTES SECONDS``.
What comes out is the length of a JSON header in eight bytes, the header, and the values of
all variables, one after another. It imports nothing but numpy and h5py, to start quickly.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

DEEPEST = 32
OPTIMISER = "optimizer_weights"


class RefusedError(Exception):
    """A file that is not read, as a pair (expected, found)."""


def main(path: str, budget: int, seconds: int) -> None:
    """Read a file and write the header and the values."""
    _limit(budget, seconds)
    try:
        with h5py.File(path, "r") as file:
            entries = list(_entries(file))
            total = sum(variable.size * variable.dtype.itemsize for _, _, variable in entries)
            if total > budget:
                raise RefusedError(f"variables of at most {budget} bytes", f"{total} declared")
            header: dict[str, Any] = {
                "variables": [
                    [group, name, variable.dtype.str, variable.shape]
                    for group, name, variable in entries
                ],
                "config": {key: _attribute(value) for key, value in file.attrs.items()},
            }
            _write(header)
            for _, _, variable in entries:
                sys.stdout.buffer.write(np.ascontiguousarray(variable[()]).data)
    except RefusedError as error:
        _write({"refused": list(error.args)})


def _limit(budget: int, seconds: int) -> None:
    """Limit this process's memory and processor time, where the system can."""
    try:
        import resource  # noqa: PLC0415 (not on every system)
    except ImportError:
        return
    memory = 2 * budget + (4 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def _write(header: dict[str, Any]) -> None:
    text = json.dumps(header).encode()
    sys.stdout.buffer.write(len(text).to_bytes(8, "little") + text)


def _entries(file: h5py.File) -> Iterator[tuple[str, str, h5py.Dataset]]:
    """Every variable as group, name and dataset; the optimiser's are a group of their own."""
    yield from (("", *item) for item in _variables(file.get("model_weights", file)))
    if OPTIMISER in file:
        yield from ((OPTIMISER, *item) for item in _variables(file[OPTIMISER]))


def _variables(root: h5py.Group) -> Iterator[tuple[str, h5py.Dataset]]:
    """Every variable in the order that the attributes tell, then the file's own."""
    done: set[str] = set()
    for group in _listed(root, "layer_names"):
        for member in _listed(group, "weight_names"):
            if member.name not in done:
                done.add(member.name)
                yield _text(member.name).removeprefix(_text(group.name)).lstrip("/"), member
    for name, member in _walk(root, "", 0):
        if member.name not in done and not name.startswith(f"{OPTIMISER}/"):
            yield name, member


def _listed(group: h5py.Group, attribute: str) -> Iterator[Any]:
    """The members that an attribute lists, in its order; long lists are cut into parts."""
    for part in (attribute, *(f"{attribute}{number}" for number in range(len(group.attrs)))):
        for name in group.attrs.get(part, ()):
            yield _member(group, _text(name))


def _walk(group: h5py.Group, path: str, depth: int) -> Iterator[tuple[str, h5py.Dataset]]:
    """Every dataset below a group."""
    if depth > DEEPEST:
        raise RefusedError(f"groups nested at most {DEEPEST} deep", "more")
    for key in group:
        name = f"{path}/{key}" if path else key
        member = _member(group, key)
        if isinstance(member, h5py.Group):
            yield from _walk(member, name, depth + 1)
        elif isinstance(member, h5py.Dataset):
            yield name, member


def _member(group: h5py.Group, name: str) -> Any:
    """A member of a group, which must be of this file and hold its own values."""
    node: Any = group
    for key in name.split("/"):
        link = node.get(key, getlink=True)
        if not isinstance(link, h5py.HardLink):
            raise RefusedError("variables within the file", f"{name}, a {type(link).__name__}")
        node = node[key]
    if isinstance(node, h5py.Dataset):
        if node.external or node.is_virtual:
            raise RefusedError("values within the file", f"{name}, whose values are elsewhere")
        if node.dtype.kind not in "fiubc":
            raise RefusedError("numbers", f"{name} of type {node.dtype}")
    return node


def _attribute(value: Any) -> object:
    """An attribute as a plain value; the model's configuration is JSON text."""
    if isinstance(value, bytes | str):
        text = _text(value)
        try:
            return json.loads(text) if text[:1] == "{" else text
        except (ValueError, RecursionError):
            return text
    return value.tolist() if isinstance(value, np.number | np.bool_) else str(value)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
