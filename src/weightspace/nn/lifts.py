"""Fixed elementwise lifts of weights: what a message that is linear in them can see of an edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from weightspace.errors import ModelError
from weightspace.nn.first_derivative import first_derivative


@dataclass(frozen=True)
class Lift:
    """An elementwise function of normalised weights.

    Args:
        fill: writes the values of weights into room for them, which may be the weights' own.
        slope: the derivative at weights.
    """

    fill: Callable[[Tensor, Tensor], object]
    slope: Callable[[Tensor], Tensor]


def _fill_squash(x: Tensor, room: Tensor) -> None:
    over = x.abs().add_(1) if room is x else torch.abs(x, out=room).add_(1)
    torch.div(x, over, out=room)


LIFTS: dict[str, Lift] = {
    "weight": Lift(lambda x, room: None if room is x else room.copy_(x), torch.ones_like),
    "size": Lift(lambda x, room: torch.abs(x, out=room), torch.sign),
    "squash": Lift(_fill_squash, lambda x: (1 + x.abs()).pow(-2)),
}
"""The lifts by name: ``x``, ``|x|`` and ``x / (1 + |x|)``, a sign that is smooth at zero."""


@dataclass(frozen=True)
class Lifting:
    """Several lifts of every feature channel, side by side.

    Args:
        names: keys of :data:`LIFTS`.

    Raises:
        ModelError: there are none, or one has no such name.

    >>> Lifting.of("weight size")(torch.tensor([[-2.0]]))
    tensor([[-2.,  2.]])
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        unknown = set(self.names) - set(LIFTS)
        if unknown or not self.names or len(set(self.names)) < len(self.names):
            raise ModelError(
                "lifts",
                expected=f"some of {', '.join(LIFTS)}, each once",
                found=repr(" ".join(self.names)),
            )

    @classmethod
    def of(cls, names: str) -> Lifting:
        """From names with spaces between."""
        return cls(tuple(names.split()))

    @property
    def count(self) -> int:
        """How many lifts there are."""
        return len(self.names)

    def __call__(self, x: Float[Tensor, "... f"]) -> Float[Tensor, "... lifted"]:
        """Lift values: all lifts of the first channel, then all of the second."""
        lifted: Tensor = _Lifted.apply(x, self)  # type: ignore[no-untyped-call]
        return lifted

    def fill(self, rooms: Float[Tensor, "lifts l t s"]) -> None:
        """Write all lifts of one channel into their rooms, of which the first holds it."""
        x, *others = rooms.unbind()
        for name, room in zip(self.names[1:], others, strict=True):
            LIFTS[name].fill(x, room)
        LIFTS[self.names[0]].fill(x, x)

    def pull(self, x: Float[Tensor, "..."], grads: Float[Tensor, "lifts ..."]) -> Tensor:
        """The gradient of one channel from that of its lifts."""
        total = torch.zeros_like(x)
        for name, grad in zip(self.names, grads, strict=True):
            total.addcmul_(grad, LIFTS[name].slope(x))
        return total


class _Lifted(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, lifting: Lifting) -> Tensor:
        ctx.save_for_backward(x)
        ctx.lifting = lifting
        rooms = x.new_empty(lifting.count, *x.shape)
        rooms[0] = x
        lifting.fill(rooms)
        return rooms.movedim(0, -1).flatten(-2)

    @staticmethod
    @first_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        grads = grad.reshape(*x.shape, -1).movedim(-1, 0)
        return ctx.lifting.pull(x, grads), None
