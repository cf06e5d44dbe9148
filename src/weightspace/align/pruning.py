"""Removing neurons from a module along its graph: a smaller module that works."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.align.shrinking import Kept, Shrinker
from weightspace.errors import ModelError
from weightspace.graph import GraphSpec, State
from weightspace.graph.layout import piece_grid
from weightspace.importers.exporting import Inputs
from weightspace.relational.axis_shapes import AxisShapes

Score = Callable[[GraphSpec, State, str], Float[Tensor, " neurons"]]
"""How much each neuron of an axis is worth."""


@dataclass(frozen=True, eq=False)
class Pruned:
    """A smaller network.

    Args:
        module: with fewer neurons.
        kept: of each axis that lost some.
        parameters: trained values before and after.
        fixed: axes that were to lose neurons and could not, with the reason: mostly that the
            module's code has their size written into it.
    """

    module: nn.Module
    kept: Kept
    parameters: tuple[int, int]
    fixed: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, before: nn.Module, after: nn.Module, kept: Kept, fixed: Mapping[str, str]
    ) -> Pruned:
        """Count the trained values of both."""
        numbers = [sum(p.numel() for p in module.parameters()) for module in (before, after)]
        return cls(after, dict(kept), (numbers[0], numbers[1]), dict(fixed))


def keep_neurons(module: nn.Module, example_inputs: Inputs, kept: Kept) -> Pruned:
    """Make a module of some neurons of each axis; everything else keeps its numbers.

    Along residual streams the same channels leave every layer, with their norms; heads leave
    with all their features. The module itself is left as it was.

    Args:
        module: the network.
        example_inputs: as for :func:`weightspace.from_module`.
        kept: for some axes of the module's spec.

    Raises:
        ModelError: an axis cannot lose neurons, none would stay, or the module has sizes written
            into its code.
        TraceError: the module cannot be followed.

    >>> net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> small = keep_neurons(net, torch.zeros(1, 2), {"0": torch.tensor([0, 2])}).module
    >>> small[0].weight.shape, bool((small[2].weight == net[2].weight[:, [0, 2]]).all())
    (torch.Size([2, 2]), True)
    """
    shrinker = Shrinker(module, example_inputs)
    for axis, indices in kept.items():
        _check(shrinker.shapes, axis, indices)
    return Pruned.of(module, shrinker.make(kept), kept, {})


def prune(
    module: nn.Module,
    example_inputs: Inputs,
    *,
    share: float,
    score: Score | None = None,
    skip: tuple[str, ...] = (),
) -> Pruned:
    """Remove the neurons of each axis that are worth least.

    Axes whose size is written into the module's code stay as they are; the result names them.

    Args:
        module: the network.
        example_inputs: as for :func:`weightspace.from_module`.
        share: of the neurons of each axis that leave; at least one stays.
        score: what a neuron is worth; :func:`weight_norms` if not given.
        skip: axes that stay as they are.

    Raises:
        ModelError: no axis can lose neurons, or the share is not in [0, 1).
        TraceError: the module cannot be followed.
    """
    if not 0 <= share < 1:
        raise ModelError("share", expected="a number in [0, 1)", found=str(share))
    shrinker = Shrinker(module, example_inputs)
    state = module.state_dict()
    kept = {}
    for axis, count in _counts(shrinker, share, skip).items():
        worth = (score or weight_norms)(shrinker.spec, state, axis)
        kept[axis] = torch.topk(worth, count).indices.sort().values
    found = shrinker.possible(kept)
    if found.module is None:
        raise ModelError(
            f"module {type(module).__name__}",
            expected="an axis of hidden neurons that can lose some",
            found="; ".join(f"{axis}: {why}" for axis, why in found.fixed.items()) or "none",
        )
    return Pruned.of(module, found.module, found.kept, found.fixed)


def _counts(shrinker: Shrinker, share: float, skip: tuple[str, ...]) -> dict[str, int]:
    """How many neurons of each axis stay; streams are as wide as their heads together."""
    shapes, sizes = shrinker.shapes, {axis.name: axis.size for axis in shrinker.spec.axes}
    counts = {
        axis.name: max(1, round((1 - share) * axis.size))
        for axis in shrinker.spec.axes
        if axis.permutes and axis.name not in (*shapes.stiff, *skip) and axis.within is None
    }
    # Streams that stay come first: their heads stay, too.
    for stream, ties in sorted(shrinker.attended.items(), key=lambda item: item[0] in counts):
        widths = {counts.get(heads, sizes[heads]) * sizes[feature] for heads, feature in ties}
        if stream in counts and len(widths) == 1:
            counts[stream] = widths.pop()
        else:  # the stream stays, and so do its heads
            for axis in (stream, *(heads for heads, _ in ties)):
                counts.pop(axis, None)
    return counts


def weight_norms(spec: GraphSpec, state: State, axis: str) -> Float[Tensor, " neurons"]:
    """The norm of all weights that touch a neuron times that of those it sends.

    Both together are unchanged when a neuron's scale is (Li et al. 2017 take the first alone).

    Args:
        spec: of the network.
        state: its tensors.
        axis: the neurons.
    """
    sums = {"target": torch.zeros(()), "source": torch.zeros(())}
    for piece in spec.pieces:
        if spec.parameter(piece.parameter).buffer:
            continue
        grid = piece_grid(piece, state[piece.parameter][None])[0]
        for place, factor in enumerate(piece.factors):
            if factor.axis == axis:
                own = grid.movedim(place, 0).reshape(factor.size, -1).double().square().sum(1)
                side = "source" if factor.side == "source" else "target"
                sums[side] = sums[side] + own
    return (sums["target"] * sums["source"]).sqrt() if sums["source"].ndim else sums["target"]


def _check(shapes: AxisShapes, axis: str, indices: Tensor) -> None:
    names = {own.name: own for own in shapes.spec.axes}
    if axis not in names or axis in shapes.stiff:
        free = [name for name in names if name not in shapes.stiff]
        raise ModelError(
            f"axis {axis!r}",
            expected=f"an axis that can lose neurons: {', '.join(free) or 'there is none'}",
            found="none of this name" if axis not in names else names[axis].reason or "a fixed one",
        )
    size = names[axis].size
    ordered = bool((indices[1:] > indices[:-1]).all())
    good = len(indices) > 0 and ordered and int(indices[0]) >= 0
    if not good or int(indices[-1]) >= size:
        raise ModelError(
            f"axis {axis!r}",
            expected=f"some of the indices below {size}, each once and in order",
            found=str(indices.tolist())[:100],
        )
