"""Fitting SIRENs to images, many at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weightspace.errors import DataError, ModelError
from weightspace.zoo.siren import PUBLISHED, SirenVariant, initial_states
from weightspace.zoo.siren_stack import SirenStack, StackShape

LEARNING_RATE = 3e-3
"""Tuned for 100 steps of a SIREN 2-32-32-1 on training images of MNIST and of digits."""


@dataclass(frozen=True)
class FittedInrs:
    """Fitted networks in the order of their images.

    Args:
        state: the stacked state, see :func:`weightspace.zoo.siren.siren_spec`.
        psnr: the peak signal-to-noise ratio of each network on its image, in dB.
        steps: how many updates each network took.
    """

    state: dict[str, Tensor]
    psnr: Float[Tensor, " networks"]
    steps: Int[Tensor, " networks"]


def fit_inrs(
    images: Float[Tensor, "networks height width channels"],
    *,
    seeds: Sequence[int],
    hidden: Sequence[int] = (32, 32),
    variant: SirenVariant = PUBLISHED,
    steps: int = 100,
    learning_rate: float = LEARNING_RATE,
    target_psnr: float | None = None,
    chunk: int = 32,
    progress: Callable[[int], None] | None = None,
) -> FittedInrs:
    """Fit one SIREN to each image by Adam on the mean squared error of all its pixels.

    The networks of a chunk share an optimiser (elementwise, so they stay independent) and the
    scratch memory of their hand-derived gradient. A network depends on its image and its seed;
    the chunk it is in changes rounding at most.

    Args:
        images: values in [0, 1].
        seeds: one for each network, the source of its initial values.
        hidden: the hidden layers' sizes.
        variant: initialisation, frequencies and offset.
        steps: the most updates a network gets.
        learning_rate: of Adam.
        target_psnr: a network that has reached this stops, while the others go on.
        chunk: how many networks share an optimiser.
        progress: called with the number of networks that a chunk has finished.

    Raises:
        DataError: the images are not finite values in [0, 1], or the seeds do not match them.
        ModelError: the options make no fit.

    >>> fitted = fit_inrs(torch.rand(2, 5, 5, 1), seeds=[1, 2], hidden=[8], steps=3)
    >>> fitted.state["seq.0.weight"].shape, fitted.steps
    (torch.Size([2, 8, 2]), tensor([3, 3]))
    """
    check_images("images", images)
    _check_options(len(images), seeds, steps, learning_rate, chunk)
    _, height, width, channels = images.shape
    shape = StackShape((2, *hidden, channels), variant, height, width)
    parts: list[FittedInrs] = []
    for start in range(0, len(images), chunk):
        part = slice(start, start + chunk)
        states = initial_states(shape.sizes, variant, seeds[part], dtype=images.dtype)
        on_device = {name: tensor.to(images.device) for name, tensor in states.items()}
        targets = images[part].permute(0, 3, 1, 2).flatten(2) - variant.offset
        fit = _ChunkFit(SirenStack(on_device, shape), targets, learning_rate, target_psnr)
        parts.append(fit.run(steps))
        if progress is not None:
            progress(len(targets))
    return FittedInrs(
        {name: torch.cat([part.state[name] for part in parts]) for name in parts[0].state},
        torch.cat([part.psnr for part in parts]),
        torch.cat([part.steps for part in parts]),
    )


def check_images(subject: str, images: Tensor) -> None:
    """Check that images can be fitted.

    Raises:
        DataError: naming what is wrong with them.
    """
    shaped = "a floating-point tensor [images, height, width, channels]"
    if images.ndim != 4 or not images.is_floating_point():
        raise DataError(
            subject,
            expected=shaped,
            found=f"{str(images.dtype).removeprefix('torch.')} of shape {tuple(images.shape)}",
            hint="Divide integers by 255, add a last dimension of 1 for grey images.",
        )
    if images.numel() == 0:
        raise DataError(
            subject, expected=f"{shaped} with no empty side", found=f"shape {tuple(images.shape)}"
        )
    low, high = (float(value) for value in images.aminmax())
    if not (low >= 0.0 and high <= 1.0):
        raise DataError(
            subject,
            expected="values in [0, 1]",
            found=f"values from {low:g} to {high:g}",
            hint="Scale the images; replace NaN.",
        )


def _check_options(
    images: int, seeds: Sequence[int], steps: int, learning_rate: float, chunk: int
) -> None:
    if len(seeds) != images:
        raise DataError("seeds", expected=f"one for each of {images} images", found=str(len(seeds)))
    for name, value in (("steps", steps), ("learning_rate", learning_rate), ("chunk", chunk)):
        if not value > 0:
            raise ModelError(name, expected="a positive number", found=str(value))


class _ChunkFit:
    """The optimiser loop of the networks of one chunk."""

    def __init__(
        self, stack: SirenStack, targets: Tensor, learning_rate: float, target_psnr: float | None
    ) -> None:
        self._stack = stack
        self._targets = targets
        self._optimiser = torch.optim.Adam([stack.flat], lr=learning_rate, fused=True)
        self._goal = -math.inf if target_psnr is None else 10 ** (-target_psnr / 20)
        self._places = torch.arange(stack.networks, device=targets.device)
        self._result = FittedInrs(
            stack.state(), targets.new_zeros(stack.networks), torch.zeros_like(self._places)
        )

    @torch.no_grad()
    def run(self, steps: int) -> FittedInrs:
        """Fit the networks."""
        for step in range(steps):
            errors = self._stack.gradient(self._targets)
            if self._goal > 0:
                reached = errors <= self._goal
                if bool(reached.any()):
                    self._finish(reached, errors, step)
                    if not len(self._places):
                        return self._result
            self._optimiser.step()
        errors = self._stack.errors(self._targets)
        self._store(torch.ones_like(errors, dtype=torch.bool), errors, steps)
        return self._result

    def _finish(self, reached: Tensor, errors: Tensor, step: int) -> None:
        """Keep the networks that reached the goal as they are and go on with the rest."""
        self._store(reached, errors, step)
        rest = (~reached).nonzero()[:, 0]
        self._places = self._places[rest]
        if not len(rest):
            return
        old, state = self._stack, self._optimiser.state[self._stack.flat]
        self._targets = self._targets[rest]
        self._stack = old.select(rest)
        moments = {
            name: value if value.ndim == 0 else old.rows(value, rest)
            for name, value in state.items()
        }
        options = self._optimiser.param_groups[0]
        self._optimiser = torch.optim.Adam([self._stack.flat], lr=options["lr"], fused=True)
        self._optimiser.state[self._stack.flat] = moments

    def _store(self, chosen: Tensor, errors: Tensor, steps: int) -> None:
        places = self._places[chosen]
        for name, tensor in self._stack.state().items():
            self._result.state[name][places] = tensor[chosen]
        self._result.psnr[places] = -20 * torch.log10(errors[chosen])
        self._result.steps[places] = steps
