"""Which operations read each tensor of the state dict."""

from __future__ import annotations

from collections.abc import Mapping

from weightspace.importers.trace import Trace
from weightspace.importers.value import Value

Readings = Mapping[str, list[Value | None]]
"""For each tensor the values computed from it; None where it is an output itself."""

# What leaves a tensor the same up to a fixed number.
_MOVES = frozenset(
    """permute permute_copy transpose swapaxes t numpy_T mT unsqueeze squeeze clone contiguous
    alias detach lift_fresh lift_fresh_copy _to_copy mul div neg""".split()  # noqa: SIM905
)


def plain(value: Value) -> bool:
    """Whether a value is a tensor of the state dict, moved and multiplied by a number at most."""
    return (
        value.kind == "parameter"
        and len(value.exact) == value.rank
        and all(e is not None and e[2] == 0 for e in value.exact)
        and not value.kept
        and len(value.roots) == 1
        and _moved(value)
    )


def _moved(value: Value) -> bool:
    while value.draw.kind != "parameter":
        function = value.draw.details.get("function", value.op)
        if function not in _MOVES or len(value.draw.operands) != 1:
            return False
        value = value.draw.operands[0]
    return True


def at(value: Value, dim: int) -> tuple[str, int]:
    """The tensor and the dimension of it that a value's dimension is."""
    exact = value.exact[dim]
    assert exact is not None
    return exact[0], exact[1]


def readings(trace: Trace) -> Readings:
    """Every reading of every tensor: a change of the tensor reaches all of them.

    A tensor that is only moved (transposed) is read by whoever reads the moved one.
    """
    readers: dict[Value, list[Value | None]] = {}
    for value in trace.values:
        for operand in value.draw.operands:
            readers.setdefault(operand, []).append(value)
    for value in trace.outputs:
        readers.setdefault(value, []).append(None)
    return {name: _final(value, readers) for name, value in trace.tensors.items()}


def _final(value: Value, readers: Mapping[Value, list[Value | None]]) -> list[Value | None]:
    found: list[Value | None] = []
    for reader in readers.get(value, ()):
        if reader is not None and plain(reader):
            found.extend(_final(reader, readers))
        else:
            found.append(reader)
    return found
