"""Removing neurons from a module along its graph: a smaller module that works."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import GraphSpec, State
from weightspace.graph.layout import piece_grid
from weightspace.importers import module_spec
from weightspace.importers.exporting import Inputs
from weightspace.relational.axis_shapes import AxisShapes, Dimension
from weightspace.relational.resizing import resized

Kept = Mapping[str, Int[Tensor, " neurons"]]
"""The indices of the neurons of an axis that stay, in their order."""
Score = Callable[[GraphSpec, State, str], Float[Tensor, " neurons"]]
"""How much each neuron of an axis is worth."""


@dataclass(frozen=True, eq=False)
class Pruned:
    """A smaller network.

    Args:
        module: with fewer neurons.
        kept: of each axis that lost some.
        parameters: trained values before and after.
    """

    module: nn.Module
    kept: Kept
    parameters: tuple[int, int]


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
    shapes = AxisShapes(module_spec(module, example_inputs))
    for axis, indices in kept.items():
        _check(shapes, axis, indices)
    sizes = {axis: len(indices) for axis, indices in kept.items()}
    state = module.state_dict()
    smaller = {
        name: _cut(state[name], shapes.dimensions(name), kept) for name in shapes if name in state
    }
    made = resized(module, {name: shapes.shape(name, sizes) for name in shapes})
    for item in shapes.spec.left_out:
        source = item.same_as or item.parameter.name
        smaller[item.parameter.name] = smaller.get(source, state[item.parameter.name])
    try:
        made.load_state_dict(smaller)
        made.train(module.training)
        _run(made, example_inputs)
    except (RuntimeError, ValueError, AssertionError) as error:
        raise ModelError(
            f"module {type(module).__name__}",
            expected="a module whose sizes are those of its tensors",
            found=" ".join(str(error).split())[:200],
            hint="Sizes are written into its code: keep the axes that these belong to.",
        ) from error
    before, after = (sum(p.numel() for p in m.parameters()) for m in (module, made))
    return Pruned(made, dict(kept), (before, after))


def prune(
    module: nn.Module,
    example_inputs: Inputs,
    *,
    share: float,
    score: Score | None = None,
    skip: tuple[str, ...] = (),
) -> Pruned:
    """Remove the neurons of each axis that are worth least.

    Args:
        module: the network.
        example_inputs: as for :func:`weightspace.from_module`.
        share: of the neurons of each axis that leave; at least one stays.
        score: what a neuron is worth; :func:`weight_norms` if not given.
        skip: axes that stay as they are.

    Raises:
        ModelError: no axis can lose neurons, or the share is not in [0, 1).
    """
    if not 0 <= share < 1:
        raise ModelError("share", expected="a number in [0, 1)", found=str(share))
    spec = module_spec(module, example_inputs)
    state, shapes = module.state_dict(), AxisShapes(spec)
    free = [
        axis
        for axis in spec.axes
        if axis.permutes and axis.name not in (*shapes.stiff, *skip) and axis.within is None
    ]
    if not free:
        raise ModelError(
            f"module {type(module).__name__}",
            expected="an axis of hidden neurons that can lose some",
            found="none",
        )
    kept = {}
    for axis in free:
        worth = (score or weight_norms)(spec, state, axis.name)
        count = max(1, round((1 - share) * axis.size))
        kept[axis.name] = torch.topk(worth, count).indices.sort().values
    return keep_neurons(module, example_inputs, kept)


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
        if isinstance(inputs, Tensor):
            module(inputs)
        elif isinstance(inputs, Mapping):
            module(**inputs)
        else:
            module(*inputs)
    finally:
        module.train(training)
