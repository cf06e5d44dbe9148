"""Products of a wired layer in groups of nodes over the union of their neighbourhoods."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.nn.first_derivative import first_derivative
from weightspace.relational.grouping import Part, Side, make_side
from weightspace.relational.wiring import Wiring

_KEPT_SHAPES = 4
_ALL_ROWS = 2**31 - 1
_SCATTER_PAYS = 0.35
_TRANSPOSE_PAYS = 3.0  # how often columns must be gathered for a transpose to be cheaper


class GroupedLinear:
    """Computes a wired layer in groups of nodes, forward and backward.

    The channels of a group are one matrix product with the channels of the union of its
    nodes' neighbourhoods. The graph is undirected, so the gradient of the inputs is the same
    kind of product as the outputs: a group of input channels reads the output channels of its
    neighbourhood. Hence no sum is ever scattered, and what is gathered for the gradient of
    the inputs serves that of the weights, too.

    Args:
        wiring: of the layer.
        group: how many nodes a group has.
        order: of the nodes, so that consecutive ones share what they read; as they stand if
            not given.
        shortest: runs of so many channels side by side are read where they stand, shorter
            ones are gathered.
        rows: how many inputs are multiplied at once, so that they fit the processor's cache;
            all if not given.

    >>> from weightspace.relational import ring
    >>> plan = GroupedLinear(Wiring.between(ring(8), 8, 8), 2)
    >>> x, weight = torch.ones(3, 8), torch.ones(8, 8)
    >>> plan(x, weight)[0]
    tensor([3., 3., 3., 3., 3., 3., 3., 3.])
    """

    def __init__(
        self,
        wiring: Wiring,
        group: int,
        *,
        order: Sequence[int] | None = None,
        shortest: int | None = None,
        rows: int | None = None,
    ) -> None:
        self.rows = _ALL_ROWS if rows is None else rows
        self.outputs = make_side(wiring, "out", group, order=order, shortest=shortest)
        self.inputs = make_side(wiring, "in", group, order=order, shortest=shortest)
        self._bound = _Bound()

    def __call__(
        self, x: Float[Tensor, "batch in"], weight: Float[Tensor, "out in"]
    ) -> Float[Tensor, "batch out"]:
        """Multiply by the weights of the wiring; what stands elsewhere is not read."""
        y: Tensor = _GroupedProduct.apply(x, weight, self)  # type: ignore[no-untyped-call]
        return y

    def bound(self, like: Tensor) -> tuple[_BoundSide, _BoundSide]:
        """The two sides with memory to work in for inputs of one shape and type."""
        return self._bound.get(self, like)


class _GroupedProduct(torch.autograd.Function):
    """``x (weight * mask)^T``; every product is of one group with what it reads."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, plan: GroupedLinear) -> Tensor:
        x = x if x.stride(-1) == 1 else x.contiguous()
        ctx.save_for_backward(x, weight)
        ctx.plan = plan
        y = x.new_empty(len(x), len(weight))
        ready: _BoundSide | None = None
        for few, given in zip(torch.split(x, plan.rows), torch.split(y, plan.rows), strict=True):
            outputs, _ = plan.bound(few)
            if outputs is not ready:
                outputs.pack(weight)
                ready = outputs
            owned = torch.split(given, outputs.side.sizes, dim=1)
            for read, part, packed, _ in outputs.steps(few):
                _multiply(read, packed, owned[part.group], adds=part.adds)
        return plan.outputs.restored(y)

    @staticmethod
    @first_derivative
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        plan: GroupedLinear = ctx.plan
        dy = dy if dy.stride(-1) == 1 else dy.contiguous()
        wants_x, wants_weight, _ = ctx.needs_input_grad
        dx = torch.empty_like(x) if wants_x else None
        x = plan.inputs.arranged(x) if wants_weight else x
        used: list[_BoundSide] = []
        for start in range(0, len(x), plan.rows):
            rows = slice(start, start + plan.rows)
            _, inputs = plan.bound(x[rows])
            begins = inputs not in used
            if begins:
                used.append(inputs)
                inputs.pack(weight)
            into = None if dx is None else dx[rows]
            inputs.descend(dy[rows], x[rows] if wants_weight else None, into, begins=begins)
        dw = _sum([inputs.unpacked(weight) for inputs in used]) if wants_weight else None
        return None if dx is None else plan.inputs.restored(dx), dw, None


def _multiply(read: Tensor, packed: Tensor, target: Tensor, *, adds: bool) -> None:
    if adds:
        target.addmm_(read, packed)
    else:
        torch.mm(read, packed, out=target)


class _BoundSide:
    """One side with indices on a device and memory that every call uses again.

    Fresh memory costs more than many of these products: the system hands it out page by page.
    """

    def __init__(self, side: Side, like: Tensor, gathered: Tensor) -> None:
        batch, device = len(like), like.device
        self.side = side
        shapes = [(part.length, side.sizes[part.group]) for part in side.parts]
        self.packed = like.new_empty(side.products)
        self.weights = _matrices(self.packed, shapes)
        self.changed = like.new_zeros(side.products + 1)
        self.changes = _matrices(self.changed[:-1], shapes)
        self.taken = side.taken.to(device)
        self.given = side.given.to(device)
        # A few numbers are sooner put into zeros than all are looked up.
        few = side.products < _SCATTER_PAYS * len(side.given)
        self.scattered = self.taken.long() if few else None
        self.mask = side.mask.to(device=device, dtype=like.dtype)
        self.places = [
            p.place if isinstance(p.place, slice) else p.place.to(device) for p in side.parts
        ]
        self.transposes = side.gathered > _TRANSPOSE_PAYS * side.read_width and not like.is_cuda
        self.rows = gathered[: side.read_width * batch].view(side.read_width, batch)
        spare = gathered[side.read_width * batch :]
        self.buffers = [
            spare[: p.length * batch].view(
                (p.length, batch) if self.transposes else (batch, p.length)
            )
            for p in side.parts
        ]

    def pack(self, weight: Tensor) -> None:
        """Bring the weights of all parts together."""
        torch.index_select(weight.reshape(-1), 0, self.taken, out=self.packed)
        self.packed.mul_(self.mask)

    def descend(self, dy: Tensor, x: Tensor | None, dx: Tensor | None, *, begins: bool) -> None:
        """The gradient of some rows of inputs, and their share of the weights' change.

        Args:
            dy: the gradient of the outputs.
            x: the inputs in the order of the groups, if the weights' change is wanted.
            dx: where the gradient of the inputs goes, if it is wanted.
            begins: whether these rows begin the weights' change; others add to it.
        """
        targets = None if dx is None else torch.split(dx, self.side.sizes, dim=1)
        own = None if x is None else torch.split(x, self.side.sizes, dim=1)
        for read, part, packed, change in self.steps(dy):
            if targets is not None:
                _multiply(read, packed, targets[part.group], adds=part.adds)
            if own is not None:
                _multiply(read.t(), own[part.group], change, adds=not begins)

    def unpacked(self, weight: Tensor) -> Tensor:
        """The changes of the weights where they belong, zero where there is no connection."""
        if self.scattered is None:
            return self.changed.index_select(0, self.given).view(weight.shape)
        result = torch.zeros_like(weight, memory_format=torch.contiguous_format)
        numbers = self.changed[:-1].mul_(self.mask)
        result.view(-1).index_copy_(0, self.scattered, numbers)
        return result

    def steps(self, matrix: Tensor) -> Iterator[tuple[Tensor, Part, Tensor, Tensor]]:
        """What each part reads, one at a time: all share their memory."""
        if self.transposes:
            self.rows.copy_(matrix.t())
        for place, buffer, part, weight, change in zip(
            self.places, self.buffers, self.side.parts, self.weights, self.changes, strict=True
        ):
            if isinstance(place, slice):
                read = matrix[:, place]
            elif self.transposes:
                read = torch.index_select(self.rows, 0, place, out=buffer).t()
            else:
                read = torch.index_select(matrix, 1, place, out=buffer)
            yield read, part, weight, change


class _Bound(threading.local):
    """The working memory of one plan in one thread; copies and pickles start without."""

    def __init__(self) -> None:
        self.kept: OrderedDict[Any, tuple[_BoundSide, _BoundSide]] = OrderedDict()

    def get(self, plan: GroupedLinear, like: Tensor) -> tuple[_BoundSide, _BoundSide]:
        """What was bound before for this shape, type and device, or else is bound now."""
        key = len(like), like.dtype, like.device
        found = self.kept.get(key)
        if found is None:
            found = self.kept[key] = _bind(plan, like)
            if len(self.kept) > _KEPT_SHAPES:
                self.kept.popitem(last=False)
        return found

    def __deepcopy__(self, memo: object) -> _Bound:
        return _Bound()

    def __reduce__(self) -> tuple[type[_Bound], tuple[()]]:
        return _Bound, ()


def _bind(plan: GroupedLinear, like: Tensor) -> tuple[_BoundSide, _BoundSide]:
    sides = (plan.outputs, plan.inputs)
    with torch.inference_mode(mode=False):
        most = max(side.read_width + max(part.length for part in side.parts) for side in sides)
        gathered = like.new_empty(most * len(like))
        return _BoundSide(sides[0], like, gathered), _BoundSide(sides[1], like, gathered)


def _sum(changes: list[Tensor]) -> Tensor:
    """Their sum; a last batch of fewer rows has a change of its own."""
    total = changes[0]
    for change in changes[1:]:
        total += change
    return total


def _matrices(flat: Tensor, shapes: list[tuple[int, int]]) -> list[Tensor]:
    pieces = torch.split(flat, [rows * columns for rows, columns in shapes])
    return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]
