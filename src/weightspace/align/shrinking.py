"""Making a module of some of its neurons, and finding which axes can lose any."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from weightspace.errors import ModelError, WeightspaceError
from weightspace.graph import State
from weightspace.importers import module_spec
from weightspace.importers.exporting import Inputs, arguments_of
from weightspace.relational.axis_shapes import AxisShapes, Dimension, Sizes
from weightspace.relational.resizing import resized

Kept = Mapping[str, Int[Tensor, " neurons"]]
"""The indices of the neurons of an axis that stay, in their order."""


@dataclass(eq=False)
class Possible:
    """Which axes of a choice can lose neurons.

    Args:
        kept: of those that can, all together.
        fixed: for the others the reason.
        module: the smaller one; none if no axis can.
    """

    kept: dict[str, Tensor] = field(default_factory=dict)
    fixed: dict[str, str] = field(default_factory=dict)
    module: nn.Module | None = None


class Shrinker:
    """Makes smaller copies of a module.

    Args:
        module: the network; it is left as it was.
        example_inputs: as for :func:`weightspace.from_module`.

    Raises:
        TraceError: the module cannot be followed.
    """

    def __init__(self, module: nn.Module, example_inputs: Inputs) -> None:
        self.module, self._inputs = module, example_inputs
        self.spec = module_spec(module, example_inputs)
        self.shapes = AxisShapes(self.spec)
        #: For the neurons of a stream, the heads and features that attention makes of them.
        self.attended = _attended(module, self.shapes)

    def make(self, kept: Kept, state: State | None = None) -> nn.Module:
        """A module of some neurons of each axis.

        The result is followed like the module: every tensor must be made of the same axes, with
        fewer neurons. So code that divides a width by a number of its own is an error, not a
        module that reads the features of one head as those of another.

        Args:
            kept: for some axes.
            state: the tensors that are cut, the module's if not given.

        Raises:
            ModelError: the module has sizes written into its code.
        """
        sizes = {axis: len(indices) for axis, indices in kept.items()}
        whole = state or self.module.state_dict()
        smaller = {
            name: _cut(whole[name], self.shapes.dimensions(name), kept)
            for name in self.shapes
            if name in whole
        }
        wanted = {name: self.shapes.shape(name, sizes) for name in self.shapes}
        for item in self.spec.left_out:
            name = item.parameter.name
            if name in whole:
                smaller[name] = smaller.get(item.same_as or name, whole[name])
                wanted[name] = tuple(smaller[name].shape)
        made = resized(self.module, wanted, groups=_groups(self.module, self.shapes, sizes))
        try:
            made.load_state_dict(smaller)
            made.train(self.module.training)
            _run(made, self._inputs)
            self._require_axes(made, sizes)
        except Exception as error:  # the module's code can raise anything
            raise ModelError(
                f"module {type(self.module).__name__}",
                expected="a module whose sizes are those of its tensors",
                found=" ".join(str(error).split())[:200],
                hint="Sizes are written into its code: keep the axes that these belong to.",
            ) from error
        return made

    def possible(self, kept: Kept) -> Possible:
        """Find the axes that can lose neurons, all of a choice if they can.

        Attention's heads and the stream they belong to are tried together.
        """
        found = Possible()
        waiting = [[{axis: kept[axis] for axis in unit} for unit in self._units(kept)]]
        while waiting:
            units = waiting.pop()
            chosen = {axis: indices for unit in units for axis, indices in unit.items()}
            if not chosen:
                continue
            try:
                made = self.make({**found.kept, **chosen})
            except ModelError as error:
                if len(units) == 1:
                    found.fixed.update(dict.fromkeys(chosen, error.found))
                    continue
                half = len(units) // 2
                waiting += [units[half:], units[:half]]
            else:
                found.kept.update(chosen)
                found.module = made
        return found

    def _units(self, kept: Kept) -> list[set[str]]:
        """The axes, those together that can only leave together."""
        units = [{axis} for axis in kept]
        for stream, ties in self.attended.items():
            tied = {axis for axis in (stream, *(a for tie in ties for a in tie)) if axis in kept}
            together = [unit for unit in units if unit & tied]
            if together:
                units = [u for u in units if not u & tied] + [set().union(*together)]
        return units

    def _require_axes(self, made: nn.Module, sizes: Sizes) -> None:
        found = AxisShapes(module_spec(made, self._inputs))
        for name in self.shapes:
            wanted = _layout(self.shapes.dimensions(name), sizes)
            own = _layout(found.dimensions(name), {}) if name in found else []
            if own != wanted:
                raise WeightspaceError(name, expected=f"neurons {wanted}", found=str(own))


def _attended(module: nn.Module, shapes: AxisShapes) -> dict[str, list[tuple[str, str]]]:
    """Attention modules want a stream as wide as all heads together: its heads and features."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path, part in module.named_modules():
        if not isinstance(part, nn.MultiheadAttention):
            continue
        out, rows = _named(path, "out_proj.weight"), _named(path, _rows_of(part))
        if out not in shapes or rows not in shapes:
            continue
        heads = shapes.dimensions(rows)[0][0].axes
        ends = (*shapes.dimensions(rows)[1], *shapes.dimensions(out)[0])
        streams = dict.fromkeys(axis for stretch in ends for axis in stretch.axes)
        if len(heads) == 2:
            for stream in streams:
                found.setdefault(stream, []).append((heads[0], heads[1]))
    return found


def _groups(module: nn.Module, shapes: AxisShapes, sizes: Sizes) -> dict[str, int]:
    """How many groups or heads each module then has that divides its neurons into some."""
    found = {}
    for path, part in module.named_modules():
        if isinstance(part, nn.MultiheadAttention):
            name, number, first = _rows_of(part), part.num_heads, True
        elif isinstance(part, _ConvNd | nn.GroupNorm):
            number = part.groups if isinstance(part, _ConvNd) else part.num_groups
            name, first = "weight", False
        else:
            continue
        full = _named(path, name)
        if number > 1 and full in shapes:
            stretches = shapes.dimensions(full)[0][: 1 if first else None]
            counted = _counted(stretches, number, sizes)
            if counted is not None:
                found[path] = counted
    return found


def _counted(stretches: Dimension, number: int, sizes: Sizes) -> int | None:
    """How many groups neurons are divided into, if those are products of their outer axes."""
    width = sum(stretch.length({}) for stretch in stretches) // number
    total = 0
    for stretch in stretches:
        before, after = stretch.grid({}), stretch.grid(sizes)
        inner = [k for k in range(len(before) + 1) if math.prod(before[k:]) == width]
        if not inner:
            return None
        total += math.prod(after[: inner[-1]])
    return total


def _rows_of(part: nn.MultiheadAttention) -> str:
    return "in_proj_weight" if part.in_proj_weight is not None else "q_proj_weight"


def _named(path: str, name: str) -> str:
    return f"{path}.{name}".strip(".")


def _layout(dimensions: Sequence[Dimension], sizes: Sizes) -> list[list[tuple[int, ...]]]:
    """The sizes that dimensions are products of; those of one neuron leave no trace."""
    found = []
    for dimension in dimensions:
        grids = [tuple(n for n in stretch.grid(sizes) if n > 1) for stretch in dimension]
        found.append([grid for grid in grids if grid])
    return found


def _cut(tensor: Tensor, dimensions: tuple[Dimension, ...], kept: Kept) -> Tensor:
    """The entries of a tensor that belong to neurons that stay."""
    for place, dimension in enumerate(dimensions):
        index = _indices(dimension, kept)
        if len(index) != tensor.shape[place]:
            tensor = tensor.index_select(place, index.to(tensor.device))
    return tensor


def _indices(dimension: Dimension, kept: Kept) -> Int[Tensor, " entries"]:
    """The indices of a dimension that stay."""
    found, start = [], 0
    for stretch in dimension:
        sizes = [size for _, size in stretch.factors]
        own = [
            kept[axis].numpy() if axis is not None and axis in kept else np.arange(size)
            for axis, size in stretch.factors
        ]
        places = np.arange(int(np.prod(sizes, dtype=np.int64))).reshape(sizes)
        found.append(start + places[np.ix_(*own)].ravel() if own else start + places.ravel())
        start += places.size
    return torch.from_numpy(np.concatenate(found))


@torch.no_grad()
def _run(module: nn.Module, inputs: Inputs) -> None:
    """Run a module once in evaluation mode."""
    training = module.training
    module.eval()
    try:
        args, kwargs = arguments_of(inputs)
        module(*args, **kwargs)
    finally:
        module.train(training)
