"""Which axes of a network can change their sizes, and which must do so together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import nn

from weightspace.relational.axis_shapes import AxisShapes, Sizes
from weightspace.relational.wirable import Wirable


@dataclass(frozen=True)
class Widening:
    """The free sizes of a network.

    Args:
        free: the axes that may be sized, in the order of the layers.
        sizes: of all axes, as they are.
        same: axes that have the size of another one.
        heads: for an axis, the number of heads that must divide it, and the axes of the
            features of each head.
    """

    free: tuple[str, ...]
    sizes: Mapping[str, int]
    same: Mapping[str, str]
    heads: Mapping[str, tuple[int, tuple[str, ...]]]

    @property
    def widths(self) -> tuple[int, ...]:
        """The sizes of the free axes."""
        return tuple(self.sizes[axis] for axis in self.free)

    def settled(self, widths: Iterable[int]) -> dict[str, int]:
        """The sizes of all axes for sizes of the free ones."""
        sizes = dict(self.sizes) | dict(zip(self.free, widths, strict=True))
        for axis, (heads, features) in self.heads.items():
            if axis in self.free:
                own = max(1, round(sizes[axis] / heads))
                sizes[axis] = own * heads
                sizes.update(dict.fromkeys(features, own))
        sizes.update({axis: sizes[other] for axis, other in self.same.items()})
        return sizes


def widening(module: nn.Module, shapes: AxisShapes, wired: list[Wirable]) -> Widening:
    """Find the axes that wired layers write to and that may have any size.

    Of neurons on a product of axes, as in groups of channels, the last axis is sized. An
    axis that only dense layers write to, such as a stem's outputs, keeps its size, and so
    does one that a tensor holds only a part of.

    Args:
        module: the network.
        shapes: of its tensors.
        wired: its wired weights.
    """
    sizes: Sizes = {axis.name: axis.size for axis in shapes.spec.axes}
    heads = _heads(module, shapes)
    heads |= {axis: tie for axis, tie in _attended(shapes).items() if axis not in heads}
    bound = {feature for _, features in heads.values() for feature in features}
    same = _same(module, shapes)
    written = [stretch.axes[-1] for w in wired for stretch in w.target if stretch.axes]
    free = tuple(
        axis
        for axis in dict.fromkeys(same.get(axis, axis) for axis in written)
        if axis not in shapes.stiff and axis not in bound
    )
    return Widening(free, sizes, same, heads)


def _heads(module: nn.Module, shapes: AxisShapes) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Attention modules want as many features as they have heads times features of a head."""
    found: dict[str, tuple[int, tuple[str, ...]]] = {}
    for path, part in module.named_modules():
        if not isinstance(part, nn.MultiheadAttention):
            continue
        names = ["in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"]
        held = [f"{path}.{n}".strip(".") for n in names]
        features = {
            stretch.axes[-1]
            for name in held
            if name in shapes
            for stretch in shapes.dimensions(name)[0]
            if stretch.axes
        }
        out = shapes.dimensions(f"{path}.out_proj.weight".strip("."))[0]
        for axis in {axis for stretch in out for axis in stretch.axes}:
            known = found.get(axis, (1, ()))
            found[axis] = (max(known[0], part.num_heads), (*known[1], *sorted(features)))
    return found


def _attended(shapes: AxisShapes) -> dict[str, tuple[int, tuple[str, ...]]]:
    """The same of attention written out: its code divides a width by the number of heads.

    Such a projection is a matrix from a width to heads times features, as many as the width.
    """
    sizes = {axis.name: axis.size for axis in shapes.spec.axes}
    within = {axis.name: axis.within for axis in shapes.spec.axes}
    found: dict[str, tuple[int, tuple[str, ...]]] = {}
    for name in shapes:
        dimensions = shapes.dimensions(name)
        if len(dimensions) != 2 or len(dimensions[1]) != 1 or len(dimensions[1][0].axes) != 1:
            continue
        axis = dimensions[1][0].axes[0]
        for stretch in dimensions[0]:
            if len(stretch.axes) != 2 or within[stretch.axes[1]] != stretch.axes[0]:
                continue
            heads, feature = stretch.axes
            if sizes[axis] == sizes[heads] * sizes[feature]:
                known = found.get(axis, (1, ()))[1]
                found[axis] = (sizes[heads], tuple(dict.fromkeys((*known, feature))))
    return found


def _same(module: nn.Module, shapes: AxisShapes) -> dict[str, str]:
    """The layers of one recurrent module have one size."""
    same: dict[str, str] = {}
    for path, part in module.named_modules():
        if not isinstance(part, nn.RNNBase):
            continue
        names = [f"{path}.{n}".strip(".") for n in part._flat_weights_names if "weight_hh" in n]
        axes = [
            stretch.axes[-1]
            for name in names
            if name in shapes
            for stretch in shapes.dimensions(name)[0]
            if stretch.axes
        ]
        same.update(dict.fromkeys(axes[1:], axes[0]))
    return same
