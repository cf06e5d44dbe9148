"""The state of a drawing: places, links, and which of them hold what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from weightspace.importers.atoms import leaves
from weightspace.importers.drawing.holding import all_targets, holding_of, meets_itself
from weightspace.importers.marking import core
from weightspace.importers.nesting import alternatives
from weightspace.importers.regions import Region, regions
from weightspace.importers.sketch import Entry, Holding, Key, Place, Sketch
from weightspace.importers.trace import Trace
from weightspace.importers.value import Value

Entries = tuple[Entry, ...]


class Canvas:
    """What is drawn so far, and where the neurons of every value are in it.

    Args:
        trace: the traced network, its neurons marked.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.sketch = Sketch()
        self.entries: dict[Value, Entries] = {}
        self.regions = {name: regions(value.dims) for name, value in trace.tensors.items()}
        self.held: dict[str, set[Region]] = {name: set() for name in trace.tensors}
        self.called: dict[tuple[object, ...], Entries] = {}
        self.moved: dict[Place, Place] = {}
        self.reads = _reads(trace.values)

    def of(self, value: Value) -> Entries:
        """A value's entries; parameters that serve as activations become places."""
        if value.kind == "parameter" and value.roots:
            return self._as_place(value)
        return self.now(self.entries.get(value, ()))

    def now(self, entries: Entries) -> Entries:
        """Entries after places were drawn as one."""
        if not self.moved:
            return entries
        return tuple(
            Entry(self.moved.get(e.place, e.place), e.activation, e.scale) for e in entries
        )

    def relevant(self, value: Value, entries: Iterable[Entry]) -> Entries:
        """The entries whose neurons a value still has, each once.

        A single neuron whose dimension was squeezed away is still there, if no others are.
        """
        entries = tuple(dict.fromkeys(entries))
        present = {leaf for dim in value.dims for leaf in leaves(dim)}
        having = tuple(e for e in entries if any(leaf in present for leaf in e.place.leaves))
        return having or tuple(e for e in entries if all(a.size == 1 for a in e.place.leaves))

    def reached(self, value: Value, tensor: str) -> list[Region]:
        """The regions of a tensor that slices have left in a value made of it."""
        own = {leaf for dim in value.dims for leaf in leaves(dim)}
        gone = {leaf for dim in value.dropped for leaf in leaves(dim)} - own
        result = []
        for region in self.regions[tensor]:
            if any(leaf in gone for stretch in region for leaf in stretch.leaves):
                continue
            if all(
                start <= region[dim].start and region[dim].start + region[dim].length <= stop
                for name, dim, start, stop in value.kept
                if name == tensor
            ):
                result.append(region)
        return result

    def give(self, holdings: list[Holding], holding: Holding) -> None:
        """Let a place or a link hold a region."""
        self.held[holding.tensor].add(holding.region)
        if holding not in holdings:
            holdings.append(holding)

    def _as_place(self, value: Value) -> Entries:
        key = ("parameter", value.roots)
        if key not in self.called:
            made: dict[Key, Place] = {}
            for tensor in sorted(value.roots):
                for region in self.reached(value, tensor):
                    if meets_itself(region):
                        continue
                    holding = holding_of(tensor, region, all_targets)
                    own = holding.on("target")
                    if own not in made:
                        made[own] = self.sketch.place(tensor, own)
                    self.give(made[own].holdings, holding)
            self.called[key] = tuple(Entry(place) for place in made.values())
        return self.called[key]


def keys(value: Value) -> list[Key]:
    """The neurons of a value: one product of leaves for each of its segments."""
    found: list[Key] = [()]
    for dim in value.dims:
        own = [tuple(leaf for leaf in box if leaf.neuron) for box in alternatives(dim)]
        found = list(dict.fromkeys(one + two for one in found for two in dict.fromkeys(own)))
    return [key for key in dict.fromkeys(core(key) for key in found) if key]


def stem(tensor: str) -> str:
    """The module path of a tensor's name."""
    head, _, tail = tensor.rpartition(".")
    return head if head and tail in ("weight", "bias") else tensor


def _reads(values: Sequence[Value]) -> Mapping[Value, int]:
    """How many operations read each value."""
    counts: dict[Value, int] = {}
    for value in values:
        for operand in dict.fromkeys(value.draw.operands):
            counts[operand] = counts.get(operand, 0) + 1
        for step in value.draw.details.get("steps", ()):
            for tensor in step[0]:
                counts[tensor] = counts.get(tensor, 0) + 1
    return counts
