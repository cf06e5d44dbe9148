"""The picture of a network: places of neurons and the links between them."""

from __future__ import annotations

from dataclasses import dataclass, field

from weightspace.graph.activations import NONE, Activation
from weightspace.graph.binding import Side
from weightspace.graph.spec import BlockKind
from weightspace.importers.atoms import Atom
from weightspace.importers.regions import Region

Key = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Holding:
    """A region of a parameter tensor, with the side of each of its parts.

    Args:
        tensor: the parameter's name.
        region: one stretch for each of its dimensions.
        sides: for each part of each stretch, where it goes in the features.
    """

    tensor: str
    region: Region
    sides: tuple[tuple[Side, ...], ...]

    def on(self, *sides: Side) -> Key:
        """The leaves on some sides, in memory order, each once."""
        found = [
            part.leaf
            for stretch, marks in zip(self.region, self.sides, strict=True)
            for part, side in zip(stretch.parts, marks, strict=True)
            if side in sides and part.leaf is not None
        ]
        return tuple(dict.fromkeys(found))


@dataclass(eq=False, slots=True)
class Place:
    """Neurons of one place in the network: a node set in the making."""

    name: str
    leaves: Key
    role: str = "hidden"
    activation: Activation = NONE
    read_plain: bool = False
    holdings: list[Holding] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Link:
    """Connections between two places: a block in the making."""

    name: str
    source: Place
    target: Place
    kind: BlockKind
    shared: Key
    holdings: list[Holding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a value's neurons come from.

    Args:
        place: the place.
        activation: the function applied since, not yet written on the place.
        scale: the number multiplied by since, for the frequency of sines.
    """

    place: Place
    activation: Activation = NONE
    scale: float = 1.0


@dataclass(slots=True)
class Sketch:
    """All places and links, in the order of computation."""

    places: list[Place] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    names: set[tuple[str, str]] = field(default_factory=set)
    joined: dict[tuple[object, ...], Place] = field(default_factory=dict)

    def place(self, name: str, leaves: Key, role: str = "hidden") -> Place:
        """Add a place, under a name that is free."""
        place = Place(self._free("place", name or "network"), leaves, role)
        self.places.append(place)
        return place

    def link(self, name: str, source: Place, target: Place, kind: BlockKind, shared: Key) -> Link:
        """Add a link, under a name that is free."""
        link = Link(self._free("link", name), source, target, kind, shared)
        self.links.append(link)
        return link

    def identity(self, source: Place, target: Place) -> None:
        """Connect what two places share, with the one feature 1."""
        shared = tuple(leaf for leaf in target.leaves if leaf in source.leaves)
        self.link(f"{source.name} -> {target.name}", source, target, "identity", shared)

    def read(self, entry: Entry) -> Place:
        """The place whose neurons, with its activation, are an entry's."""
        place, wanted = entry.place, entry.activation
        if wanted == place.activation:
            place.read_plain = place.read_plain or wanted == NONE
            return place
        if place.activation == NONE and not place.read_plain and place.role == "hidden":
            place.activation = wanted
            return place
        key = (place, wanted)
        if key not in self.joined:
            after = self.place(f"{place.name}.{wanted.name}", place.leaves)
            after.activation = wanted
            self.identity(place, after)
            self.joined[key] = after
        return self.joined[key]

    def source(self, entries: tuple[Entry, ...], leaves: Key, name: str) -> Place:
        """The place that holds exactly some leaves of a value, made if there is none."""
        exact = [entry for entry in entries if set(entry.place.leaves) == set(leaves)]
        if len(exact) == 1:
            return self.read(exact[0])
        near = exact or [e for e in entries if set(e.place.leaves) & set(leaves)][-4:]
        key = (tuple((e.place, e.activation) for e in near), frozenset(leaves), not near and name)
        if key not in self.joined:
            sources = list(dict.fromkeys(self.read(entry) for entry in near))
            place = self.place(name, leaves)
            for source in sources:
                self.identity(source, place)
            self.joined[key] = place
        return self.joined[key]

    def rename(self, old: str, new: str) -> str:
        """Give a place another name, or as near to it as is free."""
        self.names.discard(("place", old))
        return self._free("place", new)

    def _free(self, what: str, name: str) -> str:
        free, count = name, 1
        while (what, free) in self.names:
            count += 1
            free = f"{name} ({count})"
        self.names.add((what, free))
        return free
