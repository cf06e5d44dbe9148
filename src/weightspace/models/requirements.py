"""What a metanetwork is sized by."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from weightspace.errors import ModelError
from weightspace.graph import (
    GraphSpec,
    position_counts,
    spec_from_dict,
    spec_to_dict,
    statistics_keys,
)
from weightspace.nn.arranging import feature_layout
from weightspace.nn.plan import plan_of


@dataclass(frozen=True)
class Requirements:
    """What a metanetwork is sized by, and what a network must fit to be read.

    Args:
        spec: of all training networks, or None if they differ.
        statistics: the layers whose weights are normalised together, with their feature
            channels, see :func:`weightspace.graph.statistics_keys`.
        inputs: input neurons, each with a learned vector.
        outputs: output neurons, the same.
        hidden: the most hidden node sets, a learned vector each.
        node_features: the most feature channels of a node.
        window: the largest sizes of kernels; smaller ones are centred in it.
        channels: the most feature channels of an edge that are no kernel.
        log_degree: the mean of ``log(degree + 1)`` over all nodes of the training networks.
        neurons: the most neurons of a hidden node set.
        incoming: the most values of one neuron: its own features and those of the connections
            that enter it.

    >>> from weightspace.graph import chain_spec
    >>> Requirements.of([chain_spec([2, 32, 32, 1])]).hidden
    2
    """

    spec: GraphSpec | None
    statistics: tuple[tuple[str, int], ...]
    inputs: int
    outputs: int
    hidden: int
    node_features: int
    window: tuple[int, ...]
    channels: int
    log_degree: float
    neurons: int = 0
    incoming: int = 0

    @classmethod
    def of(cls, specs: Iterable[GraphSpec]) -> Requirements:
        """Derive the requirements of a training set's specs.

        Raises:
            ModelError: there are none, they differ in inputs or outputs, have no connections, or
                are no specs.
        """
        specs = _distinct(specs)
        counts = [position_counts(spec) for spec in specs]
        ends = {(count["input"], count["output"]) for count in counts}
        if len(ends) != 1:
            raise ModelError(
                "specs",
                expected="networks with the same inputs and outputs",
                found=f"{sorted(ends)} inputs and outputs",
            )
        if not all(spec.blocks for spec in specs):
            raise ModelError(
                "specs", expected="networks with connections", found="neurons that stand alone"
            )
        plans = [plan_of(spec) for spec in specs]
        logs = [
            (math.log(degree + 1), size)
            for plan in plans
            for degree, size in zip(plan.degrees, plan.sizes, strict=True)
        ]
        layouts = {feature_layout(spec, block) for spec in specs for block in spec.blocks}
        return cls(
            spec=specs[0] if len(specs) == 1 else None,
            statistics=tuple(statistics_keys(specs).items()),
            inputs=counts[0]["input"],
            outputs=counts[0]["output"],
            hidden=max(count["hidden"] for count in counts),
            node_features=max([n.features for s in specs for n in s.node_sets], default=0),
            window=_largest_window(layouts),
            channels=max([layout[1] for layout in layouts if layout[:1] == (-1,)], default=0),
            log_degree=sum(log * size for log, size in logs) / sum(size for _, size in logs),
            neurons=max(
                [s.nodes_in(n.name) for s in specs for n in s.of_role("hidden")], default=0
            ),
            incoming=max(max(incoming_values(spec)) for spec in specs),
        )

    @property
    def edge_features(self) -> int:
        """The feature channels of an edge in the common layout: kernels, then the rest."""
        return math.prod(self.window) + self.channels

    def edge_channels(self, layout: tuple[int, ...]) -> list[int]:
        """Where a block's feature channels stand in the common layout.

        Kofinas et al. 2024, section 3.2: kernels smaller than the largest are centred in it,
        and a linear layer's weight is a kernel of one value.

        Args:
            layout: see :func:`weightspace.nn.arranging.feature_layout`.
        """
        if layout[:1] == (-1,):
            start = math.prod(self.window)
            return list(range(start, start + layout[1]))
        sizes = (*[1] * (len(self.window) - len(layout)), *layout)
        places = [0]
        for most, size in zip(self.window, sizes, strict=True):
            start = (most - size) // 2
            places = [p * most + start + i for p in places for i in range(size)]
        return places

    def check(self, spec: GraphSpec) -> None:
        """Check that a network can be read.

        Raises:
            ModelError: naming the first thing that does not fit.
        """
        if spec == self.spec:
            return
        counts = position_counts(spec)
        for role, wanted in (("input", self.inputs), ("output", self.outputs)):
            found = counts[role]  # type: ignore[index]
            if found != wanted:
                raise ModelError(
                    "network",
                    expected=f"{wanted} {role} neurons",
                    found=str(found),
                    hint="The model was trained on networks of another shape.",
                )
        limits = [
            ("hidden layers", self.hidden, counts["hidden"]),
            ("node features", self.node_features, max(n.features for n in spec.node_sets)),
        ]
        for block in spec.blocks:
            layout = feature_layout(spec, block)
            if layout[:1] == (-1,):
                limits.append((f"features on {block.name}", self.channels, layout[1]))
            for most, size in zip_longest(reversed(self.window), reversed(layout), fillvalue=1):
                if layout[:1] != (-1,):
                    limits.append((f"kernel positions on {block.name}", most, size))
        for what, most, found in limits:
            if found > most:
                raise ModelError(
                    "network",
                    expected=f"at most {most} {what}",
                    found=str(found),
                    hint="The model was trained on smaller networks.",
                )

    @property
    def values(self) -> int:
        """Feature values of one network; 0 if the training networks differ in it."""
        return 0 if self.spec is None else _values(self.spec)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that :meth:`from_dict` reads."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**fields, "spec": None if self.spec is None else spec_to_dict(self.spec)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Requirements:
        """Undo :meth:`to_dict`.

        Raises:
            ModelError: a value is of another type, or out of its range.
        """
        _check_plain(values)
        spec = values["spec"]
        return cls(
            **{
                **values,
                "spec": None if spec is None else spec_from_dict(spec),
                "statistics": tuple((str(key), int(size)) for key, size in values["statistics"]),
                "window": tuple(int(size) for size in values["window"]),
            }
        )


def _check_plain(values: Mapping[str, Any]) -> None:
    """Check the numbers of requirements that come from a file."""

    def counts(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63

    whole = ("inputs", "outputs", "hidden", "node_features", "channels", "neurons", "incoming")
    right = {name: counts(values.get(name, 0)) for name in whole}
    log = values["log_degree"]
    right["log_degree"] = isinstance(log, float) and 0 <= log < math.inf
    window, statistics = values["window"], values["statistics"]
    right["window"] = isinstance(window, list | tuple) and all(map(counts, window))
    right["statistics"] = isinstance(statistics, list | tuple) and all(
        isinstance(item, list | tuple) and [type(v) for v in item] == [str, int] and item[1] > 0
        for item in statistics
    )
    for name, fits in right.items():
        if not fits:
            raise ModelError(
                f"requirements, {name}",
                expected="as Requirements.of gives them",
                found=repr(values[name]),
            )


def _distinct(specs: object) -> list[GraphSpec]:
    found: list[Any] = list(dict.fromkeys(specs)) if isinstance(specs, Iterable) else [specs]
    wrong = [type(spec).__name__ for spec in found if not isinstance(spec, GraphSpec)]
    if wrong or not isinstance(specs, Iterable):
        raise ModelError(
            "specs",
            expected="several GraphSpecs, such as [graph.spec]",
            found=f"a {wrong[0] if wrong else 'GraphSpec'}",
        )
    return found


def incoming_values(spec: GraphSpec) -> list[int]:
    """The values of each node set's neurons: own features and those of entering connections.

    >>> from weightspace.graph import chain_spec
    >>> incoming_values(chain_spec([2, 4, 1]))
    [0, 3, 5]
    """
    counts = {node_set.name: node_set.features for node_set in spec.node_sets}
    for block in spec.blocks:
        if block.pieces:
            counts[block.target] += spec.shape_of(block).sources * block.features
    return list(counts.values())


def _values(spec: GraphSpec) -> int:
    """How many feature values a network of a spec has."""
    nodes = sum(spec.nodes_in(n.name) * n.features for n in spec.node_sets)
    return nodes + sum(spec.shape_of(b).edges * b.features for b in spec.blocks if b.pieces)


def _largest_window(layouts: set[tuple[int, ...]]) -> tuple[int, ...]:
    kernels = [layout for layout in layouts if layout[:1] != (-1,)]
    columns = zip_longest(*(reversed(kernel) for kernel in kernels), fillvalue=1)
    return tuple(max(column) for column in columns)[::-1]
