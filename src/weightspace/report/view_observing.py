"""What a network does on inputs, for the page: activations, gradients, silent neurons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weightspace.graph import ChainRunner, GraphSpec, State
from weightspace.importers.exporting import Inputs, arguments_of
from weightspace.importers.flowing import Flow, FlowReader
from weightspace.report.view_encoding import Array

Axes = tuple[str, ...]
Run = Callable[[State], Tensor]
"""A network's outputs as a function of its tensors, on fixed inputs."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs, and their classes if they are known."""

    inputs: Inputs
    labels: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Observation:
    """What was seen.

    Args:
        inputs: in words, what the network was run on.
        loss: in words, what the gradient is of; empty if there is none.
        activations: for products of axes, each neuron's mean, standard deviation and share of
            values that are not zero, at the last place of these axes that was kept.
        silent: for the same, which neurons gave zero and nothing else.
        gradient: of the loss, for each trained tensor.
    """

    inputs: str
    loss: str = ""
    activations: Mapping[Axes, Mapping[str, Array]] = field(default_factory=dict)
    silent: Mapping[Axes, Tensor] = field(default_factory=dict)
    gradient: Mapping[str, Tensor] = field(default_factory=dict)


def observe_module(
    module: nn.Module,
    reader: FlowReader,
    state: State,
    batches: Sequence[Batch],
    *,
    described: str,
) -> Observation:
    """Run a module.

    Args:
        module: the network; its own tensors are not used.
        reader: of the same module.
        state: its tensors.
        batches: what it is run on, each of the reader's shapes; with labels the gradient is that
            of the cross-entropy, without them, or where the outputs are no logits of so many
            classes, of half the mean of the squares of the outputs.
        described: the inputs in words.
    """

    def run(tensors: State, inputs: Inputs) -> Tensor:
        positional, named = arguments_of(inputs)
        return _output(torch.func.functional_call(module, dict(tensors), positional, named))

    tally, slopes = _Tally(), _Slopes(reader.spec, state)
    for batch in batches:
        tally.add(reader(state, batch.inputs))
        slopes.add(lambda tensors, own=batch: run(tensors, own.inputs), batch.labels)  # type: ignore[misc]
    return tally.observation(described, slopes)


def observe_chain(
    spec: GraphSpec, state: State, inputs: Tensor, *, labels: Tensor | None, described: str
) -> Observation:
    """Run a chain of linear layers straight from its spec.

    Args:
        spec: a chain with known activations.
        state: its tensors.
        inputs: ``[samples, inputs]``.
        labels: as in :func:`observe_module`.
        described: the inputs in words.

    Raises:
        SpecError: it is no chain, or an activation is unknown.
    """
    runner, last = ChainRunner(spec), spec.node_sets[-1].name
    with torch.no_grad():
        values = runner.run(state, inputs)
    tally, slopes = _Tally(), _Slopes(spec, state)
    hidden = [n for n in spec.node_sets if n.role == "hidden"]
    tally.add([Flow(n.name, values[n.name], (None, *n.axes)) for n in hidden])
    slopes.add(lambda tensors: runner.run(tensors, inputs)[last], labels)
    return tally.observation(described, slopes)


@dataclass
class _Sums:
    """Of the values of each neuron: how many, their sum, that of their squares, how many not 0."""

    count: int
    total: Tensor
    squares: Tensor
    active: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> _Sums:
        """Sums of values ``[neurons, samples]``."""
        return cls(rows.shape[1], rows.sum(1), rows.square().sum(1), (rows != 0).sum(1))

    def add(self, other: _Sums) -> None:
        """Add those of more samples."""
        self.count += other.count
        for name in ("total", "squares", "active"):
            getattr(self, name).add_(getattr(other, name))

    def numbers(self) -> dict[str, Array]:
        """Mean, standard deviation, share of values that are not zero."""
        mean = self.total / self.count
        spread = (self.squares / self.count - mean.square()).clamp_min(0).sqrt()
        share = self.active.double() / self.count
        return {"mean": mean.numpy(), "spread": spread.numpy(), "active": share.numpy()}


class _Tally:
    """Sums over batches, for each product of axes at the last place that was kept."""

    def __init__(self) -> None:
        self._sums: dict[Axes, _Sums] = {}
        self._shapes: dict[Axes, tuple[int, ...]] = {}

    def add(self, flows: Iterable[Flow]) -> None:
        """Add the values of one batch."""
        last = {tuple(axis for axis in flow.axes if axis is not None): flow for flow in flows}
        for axes, flow in last.items():
            if not axes or len(set(axes)) < len(axes):
                continue
            places = [flow.axes.index(axis) for axis in axes]
            grid = flow.values.detach().double().movedim(places, list(range(len(axes))))
            self._shapes[axes] = shape = tuple(grid.shape[: len(axes)])
            sums = _Sums.of(grid.reshape(math.prod(shape), -1))
            if axes in self._sums:
                self._sums[axes].add(sums)
            else:
                self._sums[axes] = sums

    def observation(self, described: str, slopes: _Slopes) -> Observation:
        """What was seen in all batches."""
        return Observation(
            described,
            slopes.loss,
            {axes: own.numbers() for axes, own in self._sums.items()},
            {
                axes: (own.active == 0).reshape(self._shapes[axes])
                for axes, own in self._sums.items()
            },
            slopes.mean(),
        )


class _Slopes:
    """The mean of gradients over batches.

    Args:
        spec: of the network.
        state: its tensors.
    """

    def __init__(self, spec: GraphSpec, state: State) -> None:
        names = [p.name for p in spec.parameters if not p.buffer]
        twins = {item.parameter.name for item in spec.left_out if item.same_as is not None}
        self._trained = {
            name: state[name].detach().clone().requires_grad_()
            for name in names
            if state[name].is_floating_point()
        }
        self._rest = {n: t for n, t in state.items() if n not in self._trained and n not in twins}
        self._sums: dict[str, Tensor] = {}
        self._batches = 0
        self.loss = ""

    def add(self, run: Run, labels: Tensor | None) -> None:
        """Add the gradient of one batch, if there is one."""
        with torch.enable_grad():
            out = run({**self._rest, **self._trained})
            if not out.is_floating_point() or not out.requires_grad:
                return
            self.loss, loss = _loss(out, labels)
            found = torch.autograd.grad(loss, list(self._trained.values()), allow_unused=True)
        self._batches += 1
        for (name, tensor), own in zip(self._trained.items(), found, strict=True):
            slope = torch.zeros_like(tensor) if own is None else own
            self._sums[name] = self._sums[name] + slope if name in self._sums else slope

    def mean(self) -> dict[str, Tensor]:
        """The mean gradient of each trained tensor."""
        return {name: total.detach() / self._batches for name, total in self._sums.items()}


def _loss(out: Tensor, labels: Tensor | None) -> tuple[str, Tensor]:
    """The cross-entropy where outputs are logits of the classes, else half the mean square."""
    classes = labels is not None and out.ndim == 2 and int(labels.max()) < out.shape[1]
    if labels is not None and classes:
        return "the cross-entropy", F.cross_entropy(out, labels)
    return "half the mean square of the outputs", 0.5 * out.square().mean()


def _output(result: Any) -> Tensor:
    """The first tensor of what a module gives."""
    while not isinstance(result, Tensor):
        values = result.values() if isinstance(result, Mapping) else result
        result = next(iter(values))
    return result
