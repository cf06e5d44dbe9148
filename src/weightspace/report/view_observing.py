"""What a network does on inputs, for the page: activations, gradients, silent neurons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weightspace.graph import ChainRunner, GraphSpec, State
from weightspace.importers.exporting import Inputs
from weightspace.importers.flowing import Flow, FlowReader
from weightspace.report.view_encoding import Array

Axes = tuple[str, ...]
Run = Callable[[State], Tensor]
"""A network's outputs as a function of its tensors, on fixed inputs."""


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
    inputs: Inputs,
    *,
    labels: Tensor | None,
    described: str,
) -> Observation:
    """Run a module.

    Args:
        module: the network; its own tensors are not used.
        reader: of the same module, with these inputs.
        state: its tensors.
        inputs: what it is run on.
        labels: classes, for the cross-entropy; without them, or where the outputs are no logits
            of so many classes, the loss is half the mean of the squares of the outputs.
        described: the inputs in words.
    """
    positional, named = _arguments(inputs)

    def run(tensors: State) -> Tensor:
        return _output(torch.func.functional_call(module, dict(tensors), positional, named))

    return _observed(reader.spec, reader(state), run, state, labels, described)


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
    flows = [
        Flow(n.name, values[n.name], (None, *n.axes)) for n in spec.node_sets if n.role == "hidden"
    ]
    return _observed(spec, flows, lambda s: runner.run(s, inputs)[last], state, labels, described)


def _observed(  # noqa: PLR0917 (one step of two functions)
    spec: GraphSpec,
    flows: Iterable[Flow],
    run: Run,
    state: State,
    labels: Tensor | None,
    described: str,
) -> Observation:
    activations: dict[Axes, Mapping[str, Array]] = {}
    silent: dict[Axes, Tensor] = {}
    for flow in flows:
        axes = tuple(axis for axis in flow.axes if axis is not None)
        if not axes or len(set(axes)) < len(axes):
            continue
        places = [flow.axes.index(axis) for axis in axes]
        rows = flow.values.detach().float().movedim(places, list(range(len(axes))))
        rows = rows.flatten(len(axes))
        spread = rows.std(-1, unbiased=False)
        numbers = {"mean": rows.mean(-1), "spread": spread, "active": (rows != 0).float().mean(-1)}
        activations[axes] = {key: own.flatten().numpy() for key, own in numbers.items()}
        silent[axes] = (rows == 0).all(-1)
    loss, gradient = _gradient(spec, run, state, labels)
    return Observation(described, loss, activations, silent, gradient)


def _gradient(
    spec: GraphSpec, run: Run, state: State, labels: Tensor | None
) -> tuple[str, Mapping[str, Tensor]]:
    """The loss in words, and its gradient; both are empty if there is none."""
    trained = {
        p.name: state[p.name].detach().clone().requires_grad_()
        for p in spec.parameters
        if not p.buffer and state[p.name].is_floating_point()
    }
    twins = {item.parameter.name for item in spec.left_out if item.same_as is not None}
    rest = {name: t for name, t in state.items() if name not in trained and name not in twins}
    with torch.enable_grad():
        out = run({**rest, **trained})
        if not out.is_floating_point() or not out.requires_grad:
            return "", {}
        words, loss = _loss(out, labels)
        found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    return words, {
        name: torch.zeros_like(t) if own is None else own
        for (name, t), own in zip(trained.items(), found, strict=True)
    }


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


def _arguments(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Tensor):
        return (inputs,), {}
    return ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), {})
