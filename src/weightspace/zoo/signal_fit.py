"""Fitting SIRENs to signals of any kind, many at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weightspace.errors import DataError, ModelError
from weightspace.zoo.domains import Domain
from weightspace.zoo.siren import PUBLISHED, SirenVariant, initial_states
from weightspace.zoo.siren_stack import SirenStack, StackShape

LEARNING_RATE = 3e-3
"""Tuned for 100 steps of a SIREN 2-32-32-1 on training images of MNIST and of digits."""


class Samples(NamedTuple):
    """Signals at points.

    Args:
        domain: the points.
        values: what each network is to say there.
    """

    domain: Domain
    values: Float[Tensor, "networks points channels"]


@dataclass(frozen=True)
class FittedSignals:
    """Fitted networks in the order of their signals.

    Args:
        state: the stacked state, see :func:`weightspace.zoo.siren.siren_spec`.
        error: the root of each network's mean squared error at all points.
        steps: how many updates each network took.
    """

    state: dict[str, Tensor]
    error: Float[Tensor, " networks"]
    steps: Int[Tensor, " networks"]

    @property
    def psnr(self) -> Float[Tensor, " networks"]:
        """The ratio of a signal from 0 to 1 to each network's error, in dB."""
        return -20 * torch.log10(self.error)


def fit_signals(
    samples: Sequence[Samples],
    *,
    seeds: Sequence[int],
    hidden: Sequence[int] = (32, 32),
    variant: SirenVariant = PUBLISHED,
    steps: int = 100,
    learning_rate: float = LEARNING_RATE,
    final_rate: float = 1.0,
    target_error: float = 0.0,
    chunk: int = 32,
    progress: Callable[[int], None] | None = None,
) -> FittedSignals:
    """Fit one SIREN to each signal by Adam on the mean squared error.

    The networks of a chunk share an optimiser (elementwise, so they stay independent) and the
    scratch memory of their hand-derived gradient. A network depends on its signal and its seed;
    the chunk it is in changes rounding at most. Of several samples of the same signals, steps
    take one after the other.

    Args:
        samples: the signals at some points; or at several sets of as many points each.
        seeds: one for each network, the source of its initial values.
        hidden: the hidden layers' sizes.
        variant: initialisation, frequencies and offset.
        steps: the most updates a network gets.
        learning_rate: of Adam.
        final_rate: to which share of itself the learning rate falls, on half a cosine.
        target_error: a network that has come this close stops, while the others go on.
        chunk: how many networks share an optimiser.
        progress: called with the number of networks that a chunk has finished.

    Raises:
        DataError: the samples do not belong together, or the seeds do not match them.
        ModelError: the options make no fit.

    >>> from weightspace.zoo.domains import PointSet
    >>> line = torch.linspace(-1, 1, 50)[None, :, None]
    >>> fitted = fit_signals([Samples(PointSet(line), line.square())], seeds=[1], hidden=[8])
    >>> fitted.state["seq.0.weight"].shape, fitted.error.shape
    (torch.Size([1, 8, 1]), torch.Size([1]))
    """
    _check_samples(samples, seeds, target_error)
    _check_options(steps, learning_rate, final_rate, chunk)
    domain, values = samples[0]
    shape = StackShape((domain.inputs, *hidden, values.shape[2]), variant, domain.count)
    rates = [_rate(learning_rate, final_rate, step / steps) for step in range(steps)]
    parts: list[FittedSignals] = []
    for start in range(0, len(seeds), chunk):
        part = slice(start, start + chunk)
        states = initial_states(shape.sizes, variant, seeds[part], dtype=values.dtype)
        on_device = {name: tensor.to(values.device) for name, tensor in states.items()}
        stack = SirenStack(on_device, shape, [sample.domain.select(part) for sample in samples])
        targets = [_targets(sample.values[part], variant) for sample in samples]
        parts.append(_ChunkFit(stack, targets, rates, target_error).run())
        if progress is not None:
            progress(stack.networks)
    return FittedSignals(
        {name: torch.cat([part.state[name] for part in parts]) for name in parts[0].state},
        torch.cat([part.error for part in parts]),
        torch.cat([part.steps for part in parts]),
    )


def _targets(values: Tensor, variant: SirenVariant) -> Float[Tensor, "networks channels points"]:
    return values.transpose(1, 2).contiguous() - variant.offset


def _rate(learning_rate: float, final_rate: float, done: float) -> float:
    """The learning rate after a share of the steps."""
    if final_rate == 1.0:
        return learning_rate
    return learning_rate * (final_rate + (1 - final_rate) * (1 + math.cos(math.pi * done)) / 2)


class _ChunkFit:
    """The optimiser loop of the networks of one chunk."""

    def __init__(
        self,
        stack: SirenStack,
        targets: list[Tensor],
        rates: Sequence[float],
        target_error: float,
    ) -> None:
        self._stack = stack
        self._targets = targets
        self._rates = rates
        self._goal = target_error
        self._optimiser = torch.optim.Adam([stack.flat], lr=rates[0], fused=True)
        self._places = torch.arange(stack.networks, device=targets[0].device)
        self._result = FittedSignals(
            stack.state(), targets[0].new_zeros(stack.networks), torch.zeros_like(self._places)
        )

    @torch.no_grad()
    def run(self) -> FittedSignals:
        """Fit the networks."""
        for step, rate in enumerate(self._rates):
            domain = step % len(self._targets)
            errors = self._stack.gradient(self._targets[domain], domain)
            if self._goal > 0:
                reached = errors <= self._goal
                if bool(reached.any()):
                    self._finish(reached, errors, step)
                    if not len(self._places):
                        return self._result
            self._optimiser.param_groups[0]["lr"] = rate
            self._optimiser.step()
        errors = self._errors()
        self._store(torch.ones_like(errors, dtype=torch.bool), errors, len(self._rates))
        return self._result

    def _errors(self) -> Tensor:
        """The root of each network's mean squared error at the points of all samples."""
        errors = [self._stack.errors(some, domain) for domain, some in enumerate(self._targets)]
        return errors[0] if len(errors) == 1 else torch.stack(errors).square().mean(0).sqrt()

    def _finish(self, reached: Tensor, errors: Tensor, step: int) -> None:
        """Keep the networks that reached the goal as they are and go on with the rest."""
        self._store(reached, errors, step)
        rest = (~reached).nonzero()[:, 0]
        self._places = self._places[rest]
        if not len(rest):
            return
        old, state = self._stack, self._optimiser.state[self._stack.flat]
        self._targets = [targets[rest] for targets in self._targets]
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
        self._result.error[places] = errors[chosen]
        self._result.steps[places] = steps


def _check_samples(samples: Sequence[Samples], seeds: Sequence[int], target_error: float) -> None:
    if not samples or not seeds:
        raise DataError("samples", expected="at least one signal", found="none")
    if target_error > 0 and len(samples) > 1:
        raise ModelError(
            "target_error",
            expected="none with several samples, whose errors differ",
            found=str(target_error),
        )
    first = samples[0]
    for domain, values in samples:
        wanted = (len(seeds), domain.count, first.values.shape[-1])
        if tuple(values.shape) != wanted or values.dtype != first.values.dtype:
            raise DataError(
                "values",
                expected=f"shape {wanted}: one signal a seed, one value a point, in one type",
                found=f"{str(values.dtype).removeprefix('torch.')}, shape {tuple(values.shape)}",
            )
        if (domain.inputs, domain.count) != (first.domain.inputs, first.domain.count):
            raise DataError(
                "samples",
                expected=f"{first.domain.count} points of {first.domain.inputs} coordinates each",
                found=f"{domain.count} of {domain.inputs}",
            )
        if not bool(values.isfinite().all()):
            raise DataError("values", expected="finite values", found="NaN or infinity")


def _check_options(steps: int, learning_rate: float, final_rate: float, chunk: int) -> None:
    for name, value in (("steps", steps), ("learning_rate", learning_rate), ("chunk", chunk)):
        if not value > 0:
            raise ModelError(name, expected="a positive number", found=str(value))
    if not 0 <= final_rate <= 1:
        raise ModelError("final_rate", expected="a share from 0 to 1", found=str(final_rate))
