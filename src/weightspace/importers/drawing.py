"""Drawing a traced network: which tensor is which connection between which neurons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from weightspace.graph.activations import LAWS, NONE, Activation
from weightspace.graph.binding import Side
from weightspace.graph.spec import BlockKind
from weightspace.importers.atoms import Atom, leaves
from weightspace.importers.heads import gather_heads, tie_heads
from weightspace.importers.marking import core, mark
from weightspace.importers.nesting import alternatives
from weightspace.importers.regions import Region, regions
from weightspace.importers.sketch import Entry, Holding, Key, Place, Sketch
from weightspace.importers.trace import Trace
from weightspace.importers.value import Value

Entries = tuple[Entry, ...]

_NEUTRAL = frozenset(
    {
        "clone", "_to_copy", "to", "contiguous", "alias", "detach", "dropout", "native_dropout",
        "lift_fresh_copy", "type_as", "masked_fill", "where", "mul", "div", "neg", "add", "sub",
        "rsub", "clamp", "nan_to_num", "lift_fresh", "softmax"
    }
)  # fmt: skip
_NAMES = {"sin": "sine", "softmax": "none"}


def draw(trace: Trace) -> Sketch:
    """Draw every use of a parameter, then what no use holds."""
    tie_heads(trace)
    mark(trace)
    return _Artist(trace).run()


class _Artist:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.sketch = Sketch()
        self.entries: dict[Value, Entries] = {}
        self.regions = {name: regions(value.dims) for name, value in trace.tensors.items()}
        self.held: dict[str, set[Region]] = {name: set() for name in trace.tensors}
        self.called: dict[tuple[object, ...], Entries] = {}
        self.moved: dict[Place, Place] = {}
        self.reads = _reads(trace.values)

    def run(self) -> Sketch:
        for value in self.trace.values:
            self.entries[value] = self._draw(value)
        for value in self.trace.outputs:
            self._finish(value)
        self._hold_the_rest()
        return self.sketch

    # -- one value -----------------------------------------------------------------------

    def _draw(self, value: Value) -> Entries:
        if value.kind != "activation":
            return ()
        painters = {
            "input": self._input,
            "contract": self._contract,
            "norm": self._norm,
            "embedding": self._embedding,
            "recurrent": self._recurrent,
            "elementwise": self._elementwise,
            "attention": self._attention,
        }
        if value.draw.kind in painters:
            return painters[value.draw.kind](value)
        found = [entry for operand in value.draw.operands for entry in self._of(operand)]
        return self._relevant(value, found)

    def _of(self, value: Value) -> Entries:
        """A value's entries; parameters that serve as activations become places."""
        if value.kind == "parameter" and value.roots:
            return self._as_place(value)
        return self._now(self.entries.get(value, ()))

    def _now(self, entries: Entries) -> Entries:
        """Entries after places were drawn as one."""
        if not self.moved:
            return entries
        return tuple(
            Entry(self.moved.get(e.place, e.place), e.activation, e.scale) for e in entries
        )

    def _relevant(self, value: Value, entries: Iterable[Entry]) -> Entries:
        """The entries whose neurons a value still has, each once."""
        present = {leaf for dim in value.dims for leaf in leaves(dim)}
        return tuple(
            dict.fromkeys(e for e in entries if any(leaf in present for leaf in e.place.leaves))
        )

    def _attention(self, value: Value) -> Entries:
        """The dot product and the softmax have no parameters: the values' neurons pass."""
        query, key, content = (self._of(operand) for operand in value.draw.operands)
        self.moved.update(gather_heads(self.sketch, query, key, content))
        return self._relevant(value, self._of(value.draw.operands[2]))

    def _input(self, value: Value) -> Entries:
        result = []
        for key in keys(value):
            result.append(Entry(self.sketch.place(value.name, key, "input")))
        return tuple(result)

    def _as_place(self, value: Value) -> Entries:
        key = ("parameter", value.roots)
        if key not in self.called:
            made: dict[Key, Place] = {}
            for tensor in sorted(value.roots):
                for region in self._reached(value, tensor):
                    if _meets_itself(region):
                        continue
                    holding = _holding(tensor, region, _all_targets)
                    own = holding.on("target")
                    if own not in made:
                        made[own] = self.sketch.place(tensor, own)
                    self._give(made[own].holdings, holding)
            self.called[key] = tuple(Entry(place) for place in made.values())
        return self.called[key]

    # -- weighted sums -------------------------------------------------------------------

    def _contract(self, value: Value) -> Entries:
        x, weight, *rest = value.draw.operands
        sides = value.draw.details["sides"]
        made = self._weighted(x, weight, sides, value)
        for bias in rest:
            made += self._shift(bias, made, value)
        stay = [e for e in self._of(x) if not set(e.place.leaves) & _on(weight, sides, "source")]
        return self._relevant(value, [*stay, *made])

    def _weighted(
        self, x: Value, weight: Value, sides: Sequence[str], value: Value
    ) -> Entries:  # fmt: skip
        """Draw the links of one weight; a weight that is used again is drawn once."""
        key = ("weight", weight.roots, weight.kept, tuple(keys(value)))
        if key in self.called:
            return self._now(self.called[key])
        kind: BlockKind = "embedding" if value.draw.kind == "embedding" else "dense"
        sources = self._of(x)
        made: dict[Key, Place] = {}
        for tensor in sorted(weight.roots):
            for region in self._reached(weight, tensor):
                holding = self._placed(tensor, region, weight, sides, x, value)
                self._connect(holding, sources, made, kind, x)
        self.called[key] = tuple(Entry(place) for place in made.values())
        return self.called[key]

    def _connect(
        self, holding: Holding, sources: Entries, made: dict[Key, Place], kind: BlockKind, x: Value
    ) -> None:
        shared = holding.on("shared")
        target_key = core((*shared, *holding.on("target")))
        source_key = core((*shared, *holding.on("source")))
        name = _stem(holding.tensor)
        if target_key not in made:
            made[target_key] = self.sketch.place(name, target_key)
        target = made[target_key]
        source = self.sketch.source(sources, source_key, f"{x.path or name}.source")
        for link in reversed(self.sketch.links):
            if link.source is source and link.target is target and link.holdings:
                break
        else:
            own: BlockKind = kind
            if shared and kind == "dense":
                bare = not holding.on("target") and not holding.on("source")
                own = "diagonal" if bare else "grouped"
            link = self.sketch.link(holding.tensor, source, target, own, shared)
        self._give(link.holdings, holding)

    def _placed(  # noqa: PLR0917
        self, tensor: str, region: Region, weight: Value, sides: Sequence[str], x: Value,
        value: Value,
    ) -> Holding:  # fmt: skip
        """Decide the side of every part of a region of a weight."""
        sources, targets = _on(weight, sides, "source"), _on(weight, sides, "target")
        before = {leaf for dim in x.dims for leaf in leaves(dim)}
        after = {leaf for dim in value.dims for leaf in leaves(dim)}

        def side(leaf: Atom, dim: int) -> Side:
            found = _side(leaf, (tensor, dim), weight, sides)
            if found == "target" and leaf in before and leaf not in sources:
                return "shared"
            if found == "source" and leaf in after and leaf not in targets:
                return "shared"
            return found

        return _holding(tensor, region, side)

    def _embedding(self, value: Value) -> Entries:
        table, indices = value.draw.operands
        for tensor in sorted(table.roots):
            for region in self._reached(table, tensor):
                tokens = core(region[0].leaves)
                key = ("tokens", tensor, tokens)
                if tokens and key not in self.called:
                    place = self.sketch.place(f"{_stem(tensor)}.tokens", tokens, "input")
                    self.called[key] = (Entry(place),)
        own = tuple(
            entry
            for key, entries in self.called.items()
            if key[0] == "tokens" and key[1] in table.roots
            for entry in entries
        )
        ids = Value("tokens", (table.dims[0],), "activation", value.draw, path=value.path)
        self.entries[ids] = own
        del indices
        return self._weighted(ids, table, ("source", "target"), value)

    def _recurrent(self, value: Value) -> Entries:
        """Input and state weights of every cell; the state's go from a place to itself."""
        entries: Entries = self._of(value.draw.operands[0])
        previous: list[Entry] = []
        layer_source = None
        for tensors, source, out in value.draw.details["steps"]:
            if layer_source is not source:
                entries = tuple(previous) or entries
                previous, layer_source = [], source
            matrices = [t for t in tensors if t.rank == 2]
            vectors = [t for t in tensors if t.rank == 1]
            step = Value(value.name, (source,), "activation", value.draw, path=value.path)
            hidden = Value(value.name, (matrices[1].dims[0],), "activation", value.draw)
            self.entries[step] = entries
            made = self._weighted(step, matrices[0], ("target", "source"), hidden)
            for vector in vectors:
                made += self._shift(vector, made, hidden)
            ends = made
            if len(matrices) == 3:
                self.entries[hidden] = made
                end = Value(value.name, (out,), "activation", value.draw)
                ends = self._weighted(hidden, matrices[2], ("target", "source"), end)
            state = Value(value.name, (out,), "activation", value.draw)
            self.entries[state] = ends
            self._recur(matrices[1], state, made)
            previous.extend(ends)
        return self._relevant(value, previous)

    def _recur(self, weight: Value, state: Value, made: Entries) -> None:
        targets = {entry.place.leaves: entry.place for entry in made}
        for tensor in sorted(weight.roots):
            for region in self.regions[tensor]:
                holding = _holding(tensor, region, _row_or_column)
                self._connect(holding, self.entries[state], targets, "recurrent", state)

    # -- norms, gates, sums --------------------------------------------------------------

    def _norm(self, value: Value) -> Entries:
        x = value.draw.operands[0]
        entries = self._of(x)
        weight, shifts = value.draw.details["weight"], value.draw.details["shifts"]
        if weight is not None and weight.kind == "parameter":
            entries = self._scale(entries, weight, value)
        elif shifts:
            entries = self._open(entries, value)
        for shift in shifts:
            if shift.kind == "parameter":
                entries += self._shift(shift, entries, value)
        return self._relevant(value, entries)

    def _open(self, entries: Entries, value: Value) -> Entries:
        """New places after a value's, for features of their own."""
        made = []
        for key in keys(value):
            source = self.sketch.source(entries, key, f"{value.path or value.name}.source")
            place = self.sketch.place(value.path or value.name, key)
            self.sketch.identity(source, place)
            made.append(Entry(place))
        return tuple(made)

    def _scale(self, entries: Entries, weight: Value, value: Value) -> Entries:
        """Multiply by parameters: a diagonal block into a new place."""
        cached = ("scale", weight.roots, weight.kept, tuple(keys(value)))
        if cached in self.called:
            return self.called[cached]
        made: dict[Key, Place] = {}
        for tensor in sorted(weight.roots):
            for region in self._reached(weight, tensor):
                if _meets_itself(region):
                    continue
                holding = _holding(tensor, region, _all_shared)
                key = core(holding.on("shared"))
                wide = any(leaf.size > 1 for leaf in key)
                if not wide and not any(set(e.place.leaves) == set(key) for e in entries):
                    self._attach(holding, entries, value)
                    continue
                if key not in made:
                    made[key] = self.sketch.place(_stem(tensor), key)
                source = self.sketch.source(entries, key, f"{value.path or value.name}.source")
                link = self.sketch.link(tensor, source, made[key], "diagonal", key)
                self._give(link.holdings, holding)
        stay = [e for e in entries if not any(set(k) >= set(e.place.leaves) for k in made)]
        self.called[cached] = (*stay, *(Entry(place) for place in made.values()))
        return self.called[cached]

    def _shift(self, bias: Value, entries: Entries, value: Value) -> Entries:
        """Add parameters: features of the places that they are added to."""
        if bias.kind != "parameter":
            return ()
        more: list[Entry] = []
        for tensor in sorted(bias.roots):
            for region in self._reached(bias, tensor):
                if region not in self.held[tensor] and not _meets_itself(region):
                    holding = _holding(tensor, region, _all_targets)
                    more.extend(self._attach(holding, (*entries, *more), value))
        return tuple(more)

    def _attach(self, holding: Holding, entries: Entries, value: Value) -> Entries:
        """Give a place a feature; a place with these neurons is made if there is none."""
        key = core(holding.on("target", "shared"))
        exact = [e for e in entries if set(e.place.leaves) == set(key)]
        if exact and exact[-1].activation == NONE and exact[-1].place.role == "hidden":
            place = exact[-1].place
            self._give(place.holdings, _on_target(holding))
            return ()
        near = [e for e in entries if set(e.place.leaves) & set(key)]
        alone = all(leaf.size == 1 for leaf in key)
        if alone and not near and entries and entries[-1].place.role == "hidden":
            # One number for all neurons is a feature of each.
            self._give(entries[-1].place.holdings, _on_features(holding))
            return ()
        place = self.sketch.place(_stem(holding.tensor), key)
        for source in dict.fromkeys(self.sketch.read(entry) for entry in near[-4:]):
            self.sketch.identity(source, place)
        self._give(place.holdings, _on_target(holding))
        return (Entry(place),)

    def _elementwise(self, value: Value) -> Entries:
        function = value.draw.details["function"]
        operands = value.draw.operands
        neurons = [v for v in operands if v.kind == "activation" and self._of(v)]
        entries = self._combine(value, neurons, function)
        if any(v.kind == "activation" for v in operands):
            for operand in operands:
                if operand.kind == "parameter" and operand.roots:
                    if function in ("mul", "div"):
                        entries = self._scale(entries, operand, value)
                    else:
                        entries = self._moved(entries, self._shift(operand, entries, value))
        return self._relevant(value, entries)

    @staticmethod
    def _moved(entries: Entries, more: Entries) -> Entries:
        """A new place with added features stands for the one it follows."""
        new = {frozenset(entry.place.leaves) for entry in more}
        return (*(e for e in entries if frozenset(e.place.leaves) not in new), *more)

    def _combine(self, value: Value, neurons: list[Value], function: str) -> Entries:
        if not neurons:
            return ()
        if len(neurons) == 1:
            applied = [_apply(e, function, value) for e in self._of(neurons[0])]
            return tuple(applied)
        sets = [self._of(v) for v in neurons]
        places = [tuple(e.place for e in entries) for entries in sets]
        if all(own == places[0] for own in places):
            plain = all(e.activation == NONE for entries in sets for e in entries)
            after = NONE if plain and function in ("add", "sub") else Activation("unknown")
            return tuple(Entry(place, after) for place in places[0])
        return self._join(value, neurons, function)

    def _join(self, value: Value, neurons: list[Value], function: str) -> Entries:
        """A sum or product of different neurons: a place that both lead to."""
        entries = tuple(dict.fromkeys(e for v in neurons for e in self._of(v)))
        result: list[Entry] = []
        for key in keys(value):
            exact = [e for e in entries if set(e.place.leaves) == set(key)]
            if len(exact) < 2:
                continue
            if function == "add" and self._is_fresh(neurons[-1], exact[-1]):
                last = exact[-1].place
            elif function == "add" and self._is_fresh(neurons[0], exact[0]):
                exact = exact[::-1]
                last = exact[-1].place
            else:
                place = self.sketch.source(entries, key, f"{value.path or 'network'}.{function}")
                result.append(Entry(place))
                continue
            for source in dict.fromkeys(self.sketch.read(e) for e in exact[:-1]):
                self.sketch.identity(source, last)
            result.append(Entry(last))
        done = [set(entry.place.leaves) for entry in result]
        return (*(e for e in entries if set(e.place.leaves) not in done), *result)

    def _is_fresh(self, value: Value, entry: Entry) -> bool:
        """Whether nothing else reads a layer's output, so that a sum can be drawn into it."""
        if entry.activation != NONE or entry.place.read_plain or entry.place.role != "hidden":
            return False
        while self.reads.get(value, 0) == 1:
            if value.draw.kind in ("contract", "norm"):
                return True
            acts = [v for v in value.draw.operands if v.kind == "activation"]
            if len(acts) != 1 or value.draw.kind not in ("pass", "elementwise"):
                return False
            value = acts[0]
        return False

    # -- the ends ------------------------------------------------------------------------

    def _finish(self, value: Value) -> None:
        """Mark the places that outputs are read from."""
        entries = self._of(value)
        for key in keys(value):
            exact = [e for e in entries if set(e.place.leaves) == set(key)]
            if len(exact) > 1 or (exact and exact[0].place.role == "input"):
                exact = [Entry(self.sketch.source(entries, key, f"{value.name}.output"))]
            for entry in exact:
                self._output(entry)
        for entry in entries:
            if all(leaf.size == 1 for leaf in entry.place.leaves):
                self._output(entry)

    @staticmethod
    def _output(entry: Entry) -> None:
        place = entry.place
        if place.role != "hidden" or any(not leaf.pin for leaf in place.leaves if leaf.size > 1):
            return
        place.role = "output"
        if place.activation == NONE:
            place.activation = entry.activation
        for leaf in place.leaves:
            leaf.pin = leaf.pin or "outputs have meanings of their own"
            leaf.role = leaf.role or "output"

    def _hold_the_rest(self) -> None:
        """Regions that no link holds become features of places of their own."""
        for tensor, value in self.trace.tensors.items():
            if not self.reads.get(value):
                continue
            rest: dict[Key, Place] = {}
            for region in self.regions[tensor]:
                if region in self.held[tensor]:
                    continue
                square = _meets_itself(region)
                holding = _holding(tensor, region, _row_or_column if square else _all_targets)
                if square:
                    key = core(holding.on("source"))
                    source = self.sketch.place(f"{tensor}.rest", key)
                    self._connect(holding, (Entry(source),), rest, "dense", value)
                    continue
                key = core(holding.on("target"))
                if key not in rest:
                    rest[key] = self.sketch.place(f"{tensor}.rest", key)
                self._give(rest[key].holdings, holding)

    # -- regions of tensors --------------------------------------------------------------

    def _reached(self, value: Value, tensor: str) -> list[Region]:
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

    def _give(self, holdings: list[Holding], holding: Holding) -> None:
        self.held[holding.tensor].add(holding.region)
        if holding not in holdings:
            holdings.append(holding)


def keys(value: Value) -> list[Key]:
    """The neurons of a value: one product of leaves for each of its segments."""
    found: list[Key] = [()]
    for dim in value.dims:
        own = [tuple(leaf for leaf in box if leaf.neuron) for box in alternatives(dim)]
        found = list(dict.fromkeys(one + two for one in found for two in dict.fromkeys(own)))
    return [key for key in dict.fromkeys(core(key) for key in found) if key]


def _on(weight: Value, sides: Sequence[str], side: str) -> set[Atom]:
    dims = [dim for dim, own in zip(weight.dims, sides, strict=True) if own == side]
    return {leaf for dim in dims for leaf in leaves(dim)}


def _side(leaf: Atom, origin: tuple[str, int], weight: Value, sides: Sequence[str]) -> Side:
    """The side of a leaf in one dimension of a tensor that a weight is made of."""
    known = len(weight.origins) == weight.rank
    for own in (True, False):
        for i, dim in enumerate(weight.dims):
            if own and not (known and origin in weight.origins[i]):
                continue
            if leaf in set(leaves(dim)):
                return sides[i]  # type: ignore[return-value]
    return "feature"


def _meets_itself(region: Region) -> bool:
    """Whether a region has one set of neurons on two of its dimensions."""
    found = [leaf for stretch in region for leaf in stretch.leaves if leaf.size > 1]
    return any(not leaf.pin and found.count(leaf) > 1 for leaf in found)


def _all_targets(leaf: Atom, dim: int) -> Side:
    del leaf, dim
    return "target"


def _all_shared(leaf: Atom, dim: int) -> Side:
    del leaf, dim
    return "shared"


def _row_or_column(leaf: Atom, dim: int) -> Side:
    del leaf
    return "target" if dim == 0 else "source"


def _holding(tensor: str, region: Region, side: Callable[[Atom, int], Side]) -> Holding:
    """Mark a region's parts: neurons keep their side, places become features.

    What can be reordered must stand on a neuron's side, or the picture would lose it; what
    stands there twice is told apart by fixing it.
    """
    marks: list[tuple[Side, ...]] = []
    seen: set[tuple[Side, Atom]] = set()
    for dim, stretch in enumerate(region):
        row: list[Side] = []
        for part in stretch.parts:
            leaf = part.leaf
            if leaf is None:
                row.append("feature")
                continue
            own: Side = side(leaf, dim)
            if not leaf.neuron and leaf.pin:
                own = "feature"
            elif own == "feature" and leaf.size > 1 and not leaf.pin:
                leaf.neuron = True
                own = "target"
            if own != "feature" and (own, leaf) in seen:
                leaf.pin = leaf.pin or "it meets itself in one tensor"
                own = "feature"
            seen.add((own, leaf))
            row.append(own)
        marks.append(tuple(row))
    return _without_units(Holding(tensor, region, tuple(marks)))


def _without_units(holding: Holding) -> Holding:
    """Single elements are features, unless they are all the neurons that one end has."""
    ends = {
        "target": set(core(holding.on("target", "shared"))),
        "source": set(core(holding.on("source", "shared"))),
    }
    ends["shared"] = ends["target"] & ends["source"]
    marks: tuple[tuple[Side, ...], ...] = tuple(
        tuple(
            side if side == "feature" or part.leaf in ends[side] else "feature"
            for part, side in zip(stretch.parts, row, strict=True)
        )
        for stretch, row in zip(holding.region, holding.sides, strict=True)
    )
    return Holding(holding.tensor, holding.region, marks)


def _on_target(holding: Holding) -> Holding:
    sides: tuple[tuple[Side, ...], ...] = tuple(
        tuple("target" if side == "shared" else side for side in row) for row in holding.sides
    )
    return Holding(holding.tensor, holding.region, sides)


def _on_features(holding: Holding) -> Holding:
    feature: Side = "feature"
    sides = tuple(tuple(feature for _ in row) for row in holding.sides)
    return Holding(holding.tensor, holding.region, sides)


def _apply(entry: Entry, function: str, value: Value) -> Entry:
    """An entry after a function of each neuron."""
    numbers: Sequence[float] = value.draw.details.get("numbers", ())
    if function in _NEUTRAL:
        scale = entry.scale
        if function in ("mul", "div") and entry.activation == NONE and numbers:
            scale = scale * numbers[0] if function == "mul" else scale / (numbers[0] or 1.0)
        return Entry(entry.place, entry.activation, scale)
    name = _NAMES.get(function, function)
    if entry.activation != NONE or name not in LAWS:
        return Entry(entry.place, Activation("unknown"))
    return Entry(entry.place, _named(name, numbers, entry.scale))


def _named(name: str, numbers: Sequence[float], scale: float) -> Activation:
    if name == "sine":
        return Activation.of("sine", w0=float(scale))
    if name == "leaky_relu" and numbers:
        return Activation.of("leaky_relu", negative_slope=float(numbers[0]))
    return Activation(name)


def _stem(tensor: str) -> str:
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
