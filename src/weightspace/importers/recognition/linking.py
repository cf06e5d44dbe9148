"""Linking groups of layers into sequences, where names and shapes leave no doubt.

A bare checkpoint does not say what follows what. Groups are linked only by customs that
leave one reading: numbers that count on (``c1, c3, c5, f6, f7``), convolutions before linear
layers, single layers called input or head, and the agents of Stable-Baselines3. Groups that
stay apart become sequences of their own, whose input and output neurons are fixed: that is a
symmetry of any network they may be part of.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from torch import Tensor

from weightspace.importers.recognition.agents import link_agents
from weightspace.importers.recognition.fitting import MisfitError, fit
from weightspace.importers.recognition.groups import Group

HEADS = {
    "head", "out", "output", "outputs", "output_layer", "out_layer", "final", "final_layer",
    "last", "last_layer", "readout", "classifier", "fc_out", "linear_out", "logits", "fc", "linear",
}  # fmt: skip
"""Names of a single layer that comes last."""
STEMS = {"input", "input_layer", "in_layer", "first", "first_layer", "fc_in", "linear_in", "stem"}
"""Names of a single layer that comes first."""


def link_groups(groups: Sequence[Group], tensors: Mapping[str, Tensor]) -> list[Group]:
    """Link groups into longer ones; those without a sure place stay as they are."""
    return _link(link_agents(groups, tensors), tensors, 0)


def _link(groups: list[Group], tensors: Mapping[str, Tensor], depth: int) -> list[Group]:
    """Link all groups into one, or those that share a further component of their names."""
    if len(groups) < 2:
        return groups
    if not any(group.misfit for group in groups):
        for custom in (_by_counting_on, _by_kind_and_role):
            order = custom(groups)
            joined = _join(order, tensors) if order else None
            if joined:
                return [joined]
    if depth >= max(len(group.key) for group in groups):
        return groups
    scopes: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        scopes.setdefault(group.key[: depth + 1], []).append(group)
    return [one for scope in scopes.values() for one in _link(scope, tensors, depth + 1)]


def _join(order: Sequence[Group], tensors: Mapping[str, Tensor]) -> Group | None:
    """Groups one after another, if their shapes fit."""
    layers = [layer for group in order for layer in group.layers]
    numbers = tuple(number for group in order for number in group.numbers)
    try:
        fitted = fit(layers, tensors)
    except MisfitError:
        return None
    return Group(_shared_key([group.key for group in order]), fitted, numbers)


def _shared_key(keys: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    same = itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*keys, strict=False))
    return tuple(parts[0] for parts in same)


def _by_counting_on(groups: Sequence[Group]) -> list[Group] | None:
    """Groups whose numbers go on where the last ones' ended."""
    spans = [[n for n in group.numbers if n is not None] for group in groups]
    if any(len(span) < len(group.numbers) for span, group in zip(spans, groups, strict=True)):
        return None
    order = sorted(range(len(groups)), key=lambda place: spans[place])
    for before, after in itertools.pairwise(order):
        if spans[before][-1] >= spans[after][0]:
            return None
    return [groups[place] for place in order]


def _by_kind_and_role(groups: Sequence[Group]) -> list[Group] | None:
    """Convolutions, then linear layers, of which single ones may be called input or head."""
    convolutions = [group for group in groups if group.kinds == {"conv"}]
    linear = [group for group in groups if group.kinds == {"linear"}]
    if len(convolutions) > 1 or len(convolutions) + len(linear) < len(groups):
        return None
    if len(linear) > 1:
        stems = [group for group in linear if _is_single(group, STEMS)]
        heads = [group for group in linear if _is_single(group, HEADS)]
        middle = [group for group in linear if group not in stems and group not in heads]
        if len(stems) > 1 or len(heads) > 1 or len(middle) > 1 or (stems and convolutions):
            return None
        linear = [*stems, *middle, *heads]
    return [*convolutions, *linear]


def _is_single(group: Group, names: set[str]) -> bool:
    return len(group.matrices) == 1 and bool(group.key) and group.key[-1].lower() in names
