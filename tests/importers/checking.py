"""What every imported network must satisfy."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from weightspace import from_module
from weightspace.graph import NeuralGraph

TOLERANCE = 1e-9


def stir(module: nn.Module, seed: int = 0) -> nn.Module:
    """Double precision and distinct random numbers, so that no wrong symmetry can hide."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double().eval()

    def noise(tensor: torch.Tensor) -> torch.Tensor:
        return torch.randn(tensor.shape, generator=generator, dtype=torch.float64)

    with torch.no_grad():
        for tensor in module.parameters():
            tensor.add_((0.05 if tensor.ndim > 1 else 0.2) * noise(tensor))
        for name, tensor in module.named_buffers():
            if name.endswith("running_mean"):
                tensor.add_(0.1 * noise(tensor))
            elif name.endswith("running_var"):
                tensor.mul_(1 + 0.5 * noise(tensor).abs())
    return module


def faithful(module: nn.Module, *inputs: Any, stirred: bool = False) -> NeuralGraph:
    """Import a network and check everything: group, accounting, round trip, module untouched."""
    module = module if stirred else stir(module)
    inputs = tuple(
        x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs
    )
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    graph = from_module(module, inputs)
    _accounted(module, graph)
    _unchanged(before, module.state_dict())
    _unchanged(before, graph.state_dict())
    _unmoved(module, inputs, graph)
    if graph.symmetry.log_order > 0:
        assert _half_acted_change(module, inputs, graph) > 1e-6, "the check cannot fail"
    return graph


def _unmoved(module: nn.Module, inputs: tuple[Any, ...], graph: NeuralGraph) -> None:
    """Every kind of group element that the graph has leaves the function unchanged."""
    spec = graph.spec
    kinds = {"permutation", *(rescaling.kind for rescaling in spec.rescalings)}
    kinds |= {"gl"} if spec.mixings else set()
    for kind in sorted(kinds):
        report = graph.symmetry.check(module, inputs, kinds=(kind,), samples=2)
        # inverting matrices costs two digits
        limit = 100 * TOLERANCE if kind == "gl" else TOLERANCE
        assert report.max_relative_change <= limit, f"{report}\n{spec}"


def _accounted(module: nn.Module, graph: NeuralGraph) -> None:
    held = [p.name for p in graph.spec.parameters]
    left = [item.parameter.name for item in graph.spec.left_out]
    assert sorted(held + left) == sorted(module.state_dict())
    assert all(item.reason for item in graph.spec.left_out)


def _unchanged(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> None:
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype
        assert torch.equal(tensor, after[name]), name


def _half_acted_change(module: nn.Module, inputs: tuple[Any, ...], graph: NeuralGraph) -> float:
    """The change when an element acts on one tensor only: the largest over a few tensors."""
    element = graph.symmetry.sample()
    state = graph.state_dict()
    twins = {item.parameter.name for item in graph.spec.left_out if item.same_as}
    moved = element.act_state(state)
    names = [n for n in state if n not in twins and not torch.equal(state[n], moved[n])]
    state = {name: tensor for name, tensor in state.items() if name not in twins}

    def run(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            result = torch.func.functional_call(module, tensors, inputs)
        found = torch.utils._pytree.tree_leaves(result)
        return torch.cat([x.flatten() for x in found if x.is_floating_point()])

    base = run(state)
    changes = [float((run({**state, name: moved[name]}) - base).abs().max()) for name in names[-4:]]
    return max(changes, default=math.inf)


def groups(graph: NeuralGraph) -> list[str]:
    """The permuting axes, such as ``["4", "8 in 4"]``, sorted."""
    spec = graph.spec
    return sorted(
        f"{axis.size}" if axis.within is None else f"{axis.size} in {spec.axis(axis.within).size}"
        for axis in spec.axes
        if axis.permutes
    )


def wreath(outer: int, inner: int) -> float:
    """The logarithm of the order of the wreath product of two symmetric groups."""
    return math.lgamma(outer + 1) + outer * math.lgamma(inner + 1)
