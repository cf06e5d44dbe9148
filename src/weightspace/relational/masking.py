"""Wiring tensors of modules that have no wired class of their own: attention, recurrence."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.nn.utils import parametrize

_MASKS = "wired_masks"


class WiringMask(nn.Module):
    """A parametrization that keeps only the connected weights of a tensor.

    Args:
        mask: which weights there are; dimensions are added behind for kernels.
        like: the tensor that is wired.

    >>> WiringMask(torch.eye(2).bool(), torch.ones(2, 2))(torch.ones(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    mask: Tensor

    def __init__(self, mask: Bool[Tensor, "out in"], like: Tensor) -> None:
        super().__init__()
        self.connections = int(mask.sum()) * (like.numel() // mask.numel())
        shaped = mask.view(*mask.shape, *[1] * (like.dim() - mask.dim()))
        self.register_buffer("mask", shaped.to(like), persistent=False)

    def forward(self, weight: Tensor) -> Tensor:
        """The connected weights, and zeros."""
        return weight * self.mask

    def right_inverse(self, weight: Tensor) -> Tensor:
        """A tensor that gives these weights: so the stored one is zero elsewhere, too."""
        return weight * self.mask


def wire_tensor(
    module: nn.Module, name: str, mask: Bool[Tensor, "out in"], *, rescale: bool = True
) -> None:
    """Keep only the connected weights of a module's tensor, from now on.

    Args:
        module: that has the tensor.
        name: of the tensor.
        mask: which weights there are.
        rescale: whether weights are scaled by the square root of how many fewer inputs a
            neuron has, so that the variance of its sum stays what the module's own
            initialisation gave it.
    """
    weight: Tensor = getattr(module, name)
    if rescale:
        scale_by_fan_in(weight, mask)
    if isinstance(module, nn.RNNBase):
        _wire_recurrent(module, name, mask)
    else:
        parametrize.register_parametrization(module, name, WiringMask(mask, weight))


@torch.no_grad()
def scale_by_fan_in(weight: Tensor, mask: Tensor) -> None:
    """Scale each row of a weight for the inputs that the mask leaves it."""
    heard = mask.sum(1).clamp(min=1)
    scale = (mask.shape[1] / heard).sqrt().to(weight)
    weight.mul_(scale.view(-1, *[1] * (weight.dim() - 1)))


def masked_connections(module: nn.Module, name: str) -> int | None:
    """How many weights the wiring of a tensor keeps, None if it has none."""
    if isinstance(module, nn.RNNBase):
        mask = getattr(module, f"{name}_mask", None)
        return None if mask is None else int(mask.sum())
    if not parametrize.is_parametrized(module, name):
        return None
    steps: Any = module.parametrizations[name]  # type: ignore[index]
    return next((step.connections for step in steps if isinstance(step, WiringMask)), None)


# -- recurrence --------------------------------------------------------------------------


class _WiredRecurrence(nn.RNNBase):
    """A recurrent network that multiplies its weights by masks.

    Recurrent modules hand a list of their own weights to one fused operation, which
    parametrizations do not reach; so the list is replaced for the time of the call.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        names: list[str] = self._flat_weights_names
        own = self._flat_weights
        masks = [getattr(self, f"{name}_mask", None) for name in names]
        self._flat_weights = [
            weight if weight is None or mask is None else weight * mask
            for weight, mask in zip(own, masks, strict=True)
        ]
        try:
            return super().forward(*args, **kwargs)
        finally:
            self._flat_weights = own


class WiredRNN(_WiredRecurrence, nn.RNN):
    """A plain recurrent network with wired matrices."""


class WiredLSTM(_WiredRecurrence, nn.LSTM):
    """A long short-term memory with wired matrices."""


class WiredGRU(_WiredRecurrence, nn.GRU):
    """Gated recurrent units with wired matrices."""


_WIRED: dict[type[nn.Module], type[nn.Module]] = {
    nn.RNN: WiredRNN,
    nn.LSTM: WiredLSTM,
    nn.GRU: WiredGRU,
}


def _wire_recurrent(module: nn.RNNBase, name: str, mask: Tensor) -> None:
    weight: Tensor = getattr(module, name)
    wired: Any = _WIRED.get(type(module), type(module))
    module.__class__ = wired
    module.register_buffer(f"{name}_mask", mask.to(weight), persistent=False)
    with torch.no_grad():
        weight.mul_(mask.to(weight))
