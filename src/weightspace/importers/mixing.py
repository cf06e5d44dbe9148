"""General linear symmetries of attention: query-key and value-output pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weightspace.importers.atoms import Atom, flat, leaves
from weightspace.importers.reading import at, plain, readings
from weightspace.importers.trace import Trace
from weightspace.importers.value import Value


@dataclass(eq=False, slots=True)
class Mixture:
    """An invertible matrix for the features of each head, and where it multiplies tensors.

    Args:
        leaf: the features.
        pair: ``"query-key"`` or ``"value-output"``.
        uses: (tensor, dimension, whether by the inverse transpose).
    """

    leaf: Atom
    pair: str
    uses: list[tuple[str, int, bool]]


def mixtures(trace: Trace) -> list[Mixture]:
    """The pairs of linear layers that attention joins with nothing in between.

    ``q . k = (M q) . (M^-T k)`` and ``W_O v = (W_O M^-1) (M v)`` for each head. Rotary
    positions and norms of queries and keys stand in between and end the first; one tensor
    for queries, keys and values is not taken apart here.
    """
    reads = _readers(trace)
    found: list[Mixture] = []
    for value in trace.values:
        if value.draw.kind == "attention":
            query, key, content = value.draw.operands[:3]
            found.extend(_pair("query-key", [_made(query, reads), _made(key, reads)]))
            found.extend(_pair("value-output", [_made(content, reads), _read(value, reads)]))
    reads_of = readings(trace)
    counts: dict[tuple[str, int], int] = {}
    for mixture in found:
        for tensor, dim, _ in mixture.uses:
            counts[tensor, dim] = counts.get((tensor, dim), 0) + 1
    return [
        mixture
        for mixture in found
        if all(counts[t, d] == 1 and len(reads_of[t]) == 1 for t, d, _ in mixture.uses)
    ]


# What only rearranges, copies or multiplies by a number.
_PASSES = frozenset(
    """view _unsafe_view reshape flatten unflatten permute transpose t squeeze unsqueeze expand
    repeat repeat_interleave slice select split split_with_sizes chunk unbind clone contiguous
    alias detach dropout _to_copy mul div neg""".split()  # noqa: SIM905
)

Readers = Mapping[Value, list[Value]]
End = tuple[Atom, list[tuple[str, int]]] | None


def _pair(pair: str, ends: list[End]) -> list[Mixture]:
    one, two = ends
    if one is None or two is None or one[0] is not two[0]:
        return []
    uses = [(*use, False) for use in one[1]] + [(*use, True) for use in two[1]]
    return [Mixture(one[0], pair, uses)]


def _readers(trace: Trace) -> Readers:
    readers: dict[Value, list[Value]] = {}
    for value in trace.values:
        for operand in dict.fromkeys(value.draw.operands):
            readers.setdefault(operand, []).append(value)
    for value in trace.outputs:
        readers.setdefault(value, []).append(value)
    return readers


def _passes(value: Value) -> bool:
    """Whether an operation only rearranges, copies or multiplies by a number."""
    if len(value.draw.operands) != 1:
        return False
    return value.draw.details.get("function", value.op) in _PASSES


def _made(value: Value, readers: Readers) -> End:
    """The layer that makes a value's features, where nothing else reads them."""
    dim = flat(value.dims[-1])
    if len(dim) != 1 or dim[0].bound is not None:
        return None
    leaf = dim[0]
    while _passes(value):
        if len(readers.get(value, ())) != 1:
            return None
        value = value.draw.operands[0]
    if value.draw.kind != "contract" or len(readers.get(value, ())) != 1:
        return None
    _, weight, *biases = value.draw.operands
    rows = [i for i, side in enumerate(value.draw.details["sides"]) if side == "target"]
    if not plain(weight) or len(rows) != 1 or not all(plain(b) and b.rank == 1 for b in biases):
        return None
    if any(_count(dim, leaf) != 1 for dim in (weight.dims[rows[0]], *(b.dims[0] for b in biases))):
        return None
    return leaf, [at(weight, rows[0]), *(at(bias, 0) for bias in biases)]


def _read(value: Value, readers: Readers) -> End:
    """The layer that alone reads a value's features."""
    dim = flat(value.dims[-1])
    if len(dim) != 1 or dim[0].bound is not None:
        return None
    leaf = dim[0]
    while True:
        following = readers.get(value, [])
        if len(following) != 1 or following[0] is value:
            return None
        value = following[0]
        if not _passes(value):
            break
    if value.draw.kind != "contract":
        return None
    weight = value.draw.operands[1]
    columns = [i for i, side in enumerate(value.draw.details["sides"]) if side == "source"]
    if not plain(weight) or len(columns) != 1 or _count(weight.dims[columns[0]], leaf) != 1:
        return None
    return leaf, [at(weight, columns[0])]


def _count(dim: tuple[Atom, ...], leaf: Atom) -> int:
    return sum(1 for found in leaves(dim) if found is leaf)
