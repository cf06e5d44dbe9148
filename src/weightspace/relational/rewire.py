"""Any module wired by graphs, as wide as its budget allows."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from weightspace.errors import GraphError, ModelError, StateError
from weightspace.importers import module_spec
from weightspace.relational.axis_shapes import AxisShapes, Dimension, Nodes, Sizes
from weightspace.relational.execution import AUTO, Choice
from weightspace.relational.flops import FlopCount, Inputs, count_flops
from weightspace.relational.graph import RelationalGraph
from weightspace.relational.layers import (
    RelationalConv1d,
    RelationalConv2d,
    RelationalConv3d,
    RelationalLinear,
)
from weightspace.relational.masking import wire_tensor
from weightspace.relational.matching import Budget, match_widths
from weightspace.relational.node_sizes import node_sizes
from weightspace.relational.ordering import clustered_order
from weightspace.relational.resizing import resized
from weightspace.relational.widening import Widening, widening
from weightspace.relational.wirable import Wirable, kept_by, unknown_layers, wirable
from weightspace.relational.wiring import Wiring

Graphs = RelationalGraph | Mapping[str, RelationalGraph]
Initialisation = Literal["fan_in", "published", "keep"]


@dataclass(frozen=True)
class RewiringReport:
    """What became of a network's weights and widths.

    Args:
        wired: the density of each wired weight, by its name in the network it was made from.
        dense: why each other weight of a layer stayed dense.
        widths: of each axis whose size changed, before and after.
        budget: the multiply-adds asked for and got.
    """

    wired: Mapping[str, float]
    dense: Mapping[str, str]
    widths: Mapping[str, tuple[int, int]]
    budget: Budget

    def __str__(self) -> str:
        lines = [str(self.budget)]
        lines += [f"{axis}: {old} -> {new} neurons" for axis, (old, new) in self.widths.items()]
        lines += [f"{name}: wired, density {share:.3f}" for name, share in self.wired.items()]
        lines += [f"{name}: dense, {reason}" for name, reason in self.dense.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class Rewired:
    """A wired network and how it came about.

    Args:
        module: the network.
        report: on its weights, widths and costs.
    """

    module: nn.Module
    report: RewiringReport


def rewire(
    module: nn.Module,
    graph: Graphs,
    *,
    inputs: Inputs,
    keep: Collection[str] | None = None,
    match_flops: bool = True,
    budget: int | None = None,
    init: Initialisation = "fan_in",
    reorder: bool = True,
    plan: Choice = AUTO,
) -> Rewired:
    """Wire a module by a graph at the same number of multiply-adds.

    You et al., Graph Structure of Neural Networks (2020), for any module: the module is
    traced, so that every dimension of every tensor is known as a product of neuron axes.
    Linear layers, convolutions, the projections of attention and the matrices of recurrent
    modules become rounds of message exchange on the graph; depthwise and grouped convolutions
    and squeeze-excite layers stay as they are. Then the axes that wired layers write to are
    widened together, and with them whatever else lies on them: norms, residuals, depthwise
    convolutions. The module itself is left as it was.

    Args:
        module: the network.
        graph: for all layers, or one for each layer by its path; layers without one stay
            dense. A graph for a module holds for the layers within it.
        inputs: example arguments, a batch of one for a count per example.
        keep: the paths of modules that stay dense; if not given, the layers that read inputs
            or give outputs.
        match_flops: whether the network is widened until it costs what the module does.
        budget: the multiply-adds to match instead of the module's.
        init: of wired layers: by the number of inputs that neurons have, as published, or,
            without matching, the module's own numbers, kept.
        reorder: whether nodes are arranged so that layers are fast; the network is the same
            but for the order of its channels. Only with one graph for all.
        plan: how wired layers are computed; measured if not given.

    Raises:
        GraphError: nothing can be wired, a graph has more nodes than a layer has neurons, a
            path is unknown, or the budget cannot be met.
        ModelError: the module has sizes written into its code, so that it cannot be widened.
        TraceError: the module cannot be followed.

    >>> from weightspace.relational import ring
    >>> net = nn.Sequential(
    ...     nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
    ... )
    >>> rewired = rewire(net, ring(8), inputs=torch.zeros(1, 4))
    >>> rewired.report.widths, rewired.report.budget.difference
    ({'2': (32, 78)}, 4)
    """
    if init == "keep" and match_flops:
        raise GraphError(
            "init",
            expected="match_flops=False to keep a module's own numbers",
            found="'keep' with match_flops=True",
            hint="A network of other widths needs numbers of its own.",
        )
    job = _Rewiring(module, graph, inputs, keep, reorder)
    asked = job.counted.total if budget is None else budget
    widths, found = job.matched(asked) if match_flops or budget is not None else job.as_is(asked)
    sizes = job.widening.settled(widths)
    made = job.built(sizes, init, plan)
    _check_runs(made, inputs)
    changed = {
        axis: (old, sizes[axis]) for axis, old in job.widening.sizes.items() if sizes[axis] != old
    }
    densities = {w.parameter: job.density(w, sizes) for w in job.wired}
    return Rewired(made, RewiringReport(densities, job.dense, changed, found))


@dataclass
class _Rewiring:
    """One module and its graphs; finds widths, then builds."""

    module: nn.Module
    graph: Graphs
    inputs: Inputs
    keep: Collection[str] | None
    reorder: bool
    wired: list[Wirable] = field(init=False)
    dense: dict[str, str] = field(init=False)
    widening: Widening = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = AxisShapes(module_spec(self.module, self.inputs))
        self.counted: FlopCount = count_flops(self.module, self.inputs)
        self._check_names()
        wired, self.dense = wirable(
            self.module, self.shapes, self.counted, examples=_examples(self.inputs), keep=self.keep
        )
        self.wired = [w for w in wired if self.graph_of(w) is not None]
        self.dense |= {w.parameter: "has no graph" for w in wired if self.graph_of(w) is None}
        if not self.wired:
            raise GraphError(
                "module",
                expected="a layer between hidden neurons",
                found="; ".join(f"{n}: {why}" for n, why in self.dense.items()) or "no layers",
                hint="keep=[] also wires layers that read inputs or give outputs.",
            )
        self.widening = widening(self.module, self.shapes, self.wired)
        self._check_nodes()

    def graph_of(self, weight: Wirable) -> RelationalGraph | None:
        """The graph of a weight: the one whose path fits best."""
        if isinstance(self.graph, RelationalGraph):
            return self.graph
        fitting = [path for path in self.graph if kept_by(weight.parameter, [path])]
        return self.graph[max(fitting, key=len)] if fitting else None

    # -- widths --------------------------------------------------------------------------

    def as_is(self, asked: int) -> tuple[tuple[int, ...], Budget]:
        """The widths of the module itself."""
        got = self.count(self.widening.widths)
        return self.widening.widths, Budget(asked, got, got)

    def matched(self, asked: int) -> tuple[tuple[int, ...], Budget]:
        """The widths that cost what is asked."""
        if not self.widening.free:
            raise GraphError(
                "budget",
                expected=f"{asked:,} multiply-adds",
                found=f"{self.count(()):,}, and no axis that can be widened",
                hint="Pass match_flops=False to wire the layers as wide as they are.",
            )
        lowest = max(graph.n for w in self.wired if (graph := self.graph_of(w)) is not None)
        return match_widths(self.count, self.widening.widths, asked, lowest=lowest)

    def count(self, widths: tuple[int, ...]) -> int:
        """The multiply-adds of the wired network of some widths."""
        sizes = self.widening.settled(widths)
        return sum(times * self._used(layer, sizes) for layer, times in self.counted.uses.items())

    def _used(self, layer: str, sizes: Sizes) -> int:
        """The weights that one use of a layer takes."""
        name = layer if layer in self.shapes else f"{layer}.weight".strip(".")
        if name not in self.shapes:
            return self.counted.layers[layer] // self.counted.uses[layer]
        shape = self.shapes.shape(name, sizes)
        wired = self._wired.get(name)
        if wired is None:
            used = int(np.prod(shape))
        else:
            used = self.connections(wired, sizes) * int(np.prod(shape[2:]))
        # The rows of three projections, each counted for itself.
        return used // 3 if name.endswith("in_proj_weight") else used

    @cached_property
    def _wired(self) -> dict[str, Wirable]:
        return {w.parameter: w for w in self.wired}

    # -- nodes ---------------------------------------------------------------------------

    def nodes(self, weight: Wirable, dimension: Dimension, sizes: Sizes) -> Nodes:
        """The node of each index of a dimension."""
        graph = self.graph_of(weight)
        assert graph is not None
        order = self.order(graph)
        parts = []
        for stretch in dimension:
            neurons = stretch.neurons(sizes)
            own = node_sizes(int(neurons.max()) + 1, graph.n, subject=f"layer {weight.layer}")
            parts.append(np.repeat(order, [own[node] for node in order])[neurons])
        return np.concatenate(parts)

    def order(self, graph: RelationalGraph) -> Nodes:
        """The order in which the nodes' channels stand."""
        if not self.reorder or not isinstance(self.graph, RelationalGraph):
            return np.arange(graph.n)
        if self._order is None:
            self._order = np.array(clustered_order(graph, 4))
        return self._order

    _order: Nodes | None = None

    def connections(self, weight: Wirable, sizes: Sizes) -> int:
        """The number of connected pairs of a weight's rows and columns."""
        joined, rows, columns = self.sides(weight, sizes)
        n = len(joined)
        counts = np.bincount(rows, minlength=n), np.bincount(columns, minlength=n)
        return int(counts[0] @ joined.astype(np.int64) @ counts[1])

    def density(self, weight: Wirable, sizes: Sizes) -> float:
        """The share of connected pairs."""
        _, rows, columns = self.sides(weight, sizes)
        return self.connections(weight, sizes) / (len(rows) * len(columns))

    def sides(self, weight: Wirable, sizes: Sizes) -> tuple[Any, Nodes, Nodes]:
        """Who is joined, and the nodes of the rows and of the columns."""
        graph = self.graph_of(weight)
        assert graph is not None
        joined = graph.adjacency | np.eye(graph.n, dtype=bool)
        rows = self.nodes(weight, weight.target, sizes)
        return joined, rows, self.nodes(weight, weight.source, sizes)

    # -- building ------------------------------------------------------------------------

    def built(self, sizes: Sizes, init: Initialisation, plan: Choice) -> nn.Module:
        """The wired network."""
        if init == "keep":
            made = copy.deepcopy(self.module)
        else:
            names = list(self.shapes)
            made = resized(self.module, {n: self.shapes.shape(n, sizes) for n in names})
        for weight in self.wired:
            made = self._wire(made, weight, sizes, init, plan)
        return made

    def _wire(
        self, root: nn.Module, weight: Wirable, sizes: Sizes, init: Initialisation, plan: Choice
    ) -> nn.Module:
        part = root.get_submodule(weight.layer)
        joined, rows, columns = self.sides(weight, sizes)
        wiring = self._wiring(weight, rows, columns)
        if wiring is None or type(part) not in _CLASSES:
            mask = torch.from_numpy(joined[np.ix_(rows, columns)]).to(part_device(part))
            wire_tensor(part, weight.tensor, mask, rescale=init != "keep")
            return root
        layer = _layer(part, wiring, plan, "fan_in" if init == "keep" else init)
        if init == "keep":
            layer.load_state_dict(part.state_dict())
        return _replaced(root, part, layer)

    def _wiring(self, weight: Wirable, rows: Nodes, columns: Nodes) -> Wiring | None:
        """The wiring of a layer, if the channels of each node stand side by side."""
        graph = self.graph_of(weight)
        assert graph is not None
        order = self.order(graph)
        sizes = []
        for nodes in (columns, rows):
            counts = np.bincount(nodes, minlength=graph.n)[order]
            if not np.array_equal(np.repeat(order, counts), nodes):
                return None
            sizes.append(tuple(int(count) for count in counts))
        return Wiring(graph.permuted(order), sizes[0], sizes[1])

    # -- checks --------------------------------------------------------------------------

    def _check_names(self) -> None:
        named = [] if isinstance(self.graph, RelationalGraph) else list(self.graph)
        unknown = unknown_layers(self.module, [*named, *(self.keep or ())])
        if unknown:
            raise GraphError(
                "layers",
                expected="paths of modules within the network",
                found=", ".join(unknown),
                hint="named_modules lists them.",
            )

    def _check_nodes(self) -> None:
        """Every node needs a neuron on both sides of every wired layer."""
        for weight in self.wired:
            for dimension in (weight.target, weight.source):
                self.nodes(weight, dimension, self.widening.sizes)


_CLASSES: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: RelationalLinear,
    nn.Conv1d: RelationalConv1d,
    nn.Conv2d: RelationalConv2d,
    nn.Conv3d: RelationalConv3d,
}


def _layer(part: nn.Module, wiring: Wiring, plan: Choice, init: Any) -> nn.Module:
    """The wired counterpart of a layer, in its mode, on its device and of its type."""
    weight = part.weight
    assert isinstance(weight, Tensor)
    options: dict[str, Any] = {
        "bias": part.bias is not None, "plan": plan, "init": init,
        "device": weight.device, "dtype": weight.dtype,
    }  # fmt: skip
    if isinstance(part, _ConvNd):
        options |= {
            "kernel_size": part.kernel_size, "stride": part.stride, "padding": part.padding,
            "dilation": part.dilation, "padding_mode": part.padding_mode,
        }  # fmt: skip
    kind: Any = _CLASSES[type(part)]
    layer: nn.Module = kind(wiring.width_in, wiring.width_out, wiring, **options)
    return layer.train(part.training)


def _replaced(root: nn.Module, old: nn.Module, new: nn.Module) -> nn.Module:
    """The network with a module exchanged wherever it stands."""
    if root is old:
        return new
    for part in list(root.modules()):
        for name, child in part._modules.items():
            if child is old:
                part._modules[name] = new
    return root


def part_device(part: nn.Module) -> torch.device:
    """Where a module's parameters are."""
    return next(part.parameters()).device


def _examples(inputs: Inputs) -> int:
    """How many examples the inputs are: the first dimension of the first tensor."""
    if isinstance(inputs, Tensor):
        return len(inputs)
    values = inputs.values() if isinstance(inputs, Mapping) else inputs
    return next((len(v) for v in values if isinstance(v, Tensor) and v.dim()), 1)


def _check_runs(module: nn.Module, inputs: Inputs) -> None:
    try:
        count_flops(module, inputs)
    except (ModelError, StateError) as error:
        raise ModelError(
            type(module).__name__,
            expected="a module whose code takes its sizes from its tensors",
            found=error.found,
            hint="Pass match_flops=False to wire it as wide as it is, or keep=[...] to leave "
            "the layers dense whose sizes are written into the code.",
        ) from error
