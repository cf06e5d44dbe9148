"""Grouping layers whose names count them: ``seq.0, seq.2`` or ``fc1, fc2``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from weightspace.importers.recognition.fitting import MisfitError, fit
from weightspace.importers.recognition.layers import Layer
from weightspace.importers.recognition.tensor_names import (
    is_index,
    natural_key,
    stem_and_number,
)


@dataclass(frozen=True)
class Group:
    """Layers in an order that their names tell.

    Args:
        key: what their names share, as components.
        layers: in order.
        numbers: the number of each layer, None if it has none.
        misfit: why they do not fit together; empty if they do.
    """

    key: tuple[str, ...]
    layers: tuple[Layer, ...]
    numbers: tuple[int | None, ...]
    misfit: str = ""

    @property
    def matrices(self) -> tuple[Layer, ...]:
        """The layers that are no norms."""
        return tuple(layer for layer in self.layers if layer.kind != "norm")

    @property
    def kinds(self) -> set[str]:
        """The kinds of its layers but norms."""
        return {layer.kind for layer in self.matrices}

    def fitted(self, tensors: Mapping[str, Tensor]) -> Group:
        """The same group with its layers fitted together, or with the reason why not."""
        if self.misfit:
            return self
        try:
            return Group(self.key, fit(self.layers, tensors), self.numbers)
        except MisfitError as error:
            return Group(self.key, self.layers, self.numbers, str(error))


def group_layers(layers: Sequence[Layer]) -> list[Group]:
    """Group layers by what their names share, in natural order, and put norms in their places."""
    counted = [layer for layer in layers if any(is_index(part) for part in layer.path)]
    named = [layer for layer in layers if layer not in counted]
    groups = [*_by_index(counted, 0), *_by_number(named)]
    hosts = [group for group in groups if group.matrices]
    for norms in (group for group in groups if not group.matrices):
        hosts = _host(hosts, norms)
    return hosts


def _by_index(layers: Sequence[Layer], start: int) -> list[Group]:
    """Group by the components before the first one (from ``start`` on) that is a number."""
    members: dict[tuple[str, ...], list[Layer]] = {}
    for layer in layers:
        members.setdefault(layer.path[: _index(layer, start)], []).append(layer)
    groups = []
    for key, group in members.items():
        place = len(key)
        crowded = {n for n in {la.path[place] for la in group} if _matrices_at(group, place, n) > 1}
        nested = all(any(is_index(p) for p in la.path[place + 1 :]) for la in group)
        if crowded and nested:
            for number in sorted({la.path[place] for la in group}, key=int):
                groups += _by_index([la for la in group if la.path[place] == number], place + 1)
            continue
        ordered = sorted(group, key=lambda la: _order(la, place))
        numbers = tuple(int(la.path[place]) for la in ordered)
        misfit = f"several layers stand at {'.'.join((*key, min(crowded)))}" if crowded else ""
        misfit = misfit or _doubtful_norms(ordered, numbers)
        groups.append(Group(key, tuple(ordered), numbers, misfit))
    return groups


def _index(layer: Layer, start: int) -> int:
    return next(i for i, part in enumerate(layer.path) if i >= start and is_index(part))


def _matrices_at(layers: Sequence[Layer], place: int, number: str) -> int:
    return sum(la.kind != "norm" for la in layers if la.path[place] == number)


def _order(layer: Layer, place: int) -> tuple[int, bool, object]:
    """By number; at one number norms come after the layer they stand with."""
    return int(layer.path[place]), layer.kind == "norm", natural_key(layer.path[place + 1 :])


def _by_number(layers: Sequence[Layer]) -> list[Group]:
    """Group by the last component without the number at its end."""
    members: dict[tuple[str, ...], list[tuple[int | None, Layer]]] = {}
    for layer in layers:
        stem, number = stem_and_number(layer.path[-1]) if layer.path else ("", None)
        members.setdefault((*layer.path[:-1], stem), []).append((number, layer))
    groups = []
    for key, pairs in members.items():
        ordered = sorted(pairs, key=lambda pair: -1 if pair[0] is None else pair[0])
        groups.append(
            Group(key, tuple(layer for _, layer in ordered), tuple(number for number, _ in ordered))
        )
    return groups


def _host(groups: list[Group], norms: Group) -> list[Group]:
    """Put norms that count like the layers of one group (``bn1`` and ``conv1``) after them."""
    parent = norms.key[:-1]
    fitting = [
        group
        for group in groups
        if group.key[:-1] == parent
        and set(norms.numbers) <= set(group.numbers)
        and len(set(group.numbers)) == len(group.numbers)
        and _sizes(norms).items() <= _sizes(group).items()
    ]
    if len(fitting) != 1:
        return [*groups, Group(norms.key, norms.layers, norms.numbers, "norms of unclear place")]
    (host,) = fitting
    pairs = [
        *zip(host.numbers, host.layers, strict=True),
        *zip(norms.numbers, norms.layers, strict=True),
    ]
    pairs.sort(key=lambda pair: (-1 if pair[0] is None else pair[0], pair[1].kind == "norm"))
    layers, numbers = [layer for _, layer in pairs], tuple(number for number, _ in pairs)
    joined = Group(
        host.key, tuple(layers), numbers, host.misfit or _doubtful_norms(layers, numbers)
    )
    return [joined if group is host else group for group in groups]


def _sizes(group: Group) -> dict[int | None, int]:
    """How many outputs the layer of each number has."""
    return {n: layer.outputs for n, layer in zip(group.numbers, group.layers, strict=True)}


def _doubtful_norms(layers: Sequence[Layer], numbers: Sequence[int | None]) -> str:
    """Whether norms that share a number with a layer could as well stand before it.

    One norm that has the size of its layer's outputs and not of its inputs settles it.
    """
    places: dict[int | None, Layer] = {
        n: la for n, la in zip(numbers, layers, strict=True) if la.kind != "norm"
    }
    sharing = [
        (la, places[n])
        for n, la in zip(numbers, layers, strict=True)
        if la.kind == "norm" and n in places
    ]
    if sharing and not any(norm.outputs != layer.inputs for norm, layer in sharing):
        return f"{sharing[0][0].name} may stand before or after {sharing[0][1].name}"
    return ""
