"""One network of a list: import it, check its symmetry, bring it back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import weightspace
from weightspace.errors import TraceError
from weightspace.graph.graph_symmetry import GraphSymmetry, largest_change

Built = tuple[nn.Module, Any]


def try_network(build: Callable[[], Built]) -> dict[str, Any]:
    """Run the whole way on one network and say how far it came.

    Stages: ``build`` (the list's own code gives a network that runs), ``export``
    (``torch.export`` accepts it), ``import``, ``check``, ``ok``.
    """
    row: dict[str, Any] = {"stage": "build"}
    started = time.process_time()
    try:
        module, inputs = build()
        row["class"] = type(module).__name__
        row["inputs"] = describe(inputs)
        row["parameters"] = sum(p.numel() for p in module.parameters())
        row["stage"] = "export"
        graph = weightspace.from_module(module, inputs)
        row["stage"] = "check"
        row.update(measure(module, inputs, graph))
        good = row["max_relative_change"] <= 1e-4 and row["round_trip"] and row["accounted"]
        row["stage"] = "ok" if good else "check"
    except TraceError as error:
        if row["stage"] == "export" and not str(error.subject).startswith("module "):
            row["stage"] = "import"
        row["error"] = str(error)[:400]
    except Exception as error:
        if row["stage"] == "export":
            row["stage"] = "import"
        row["error"] = f"{type(error).__name__}: {error}"[:400]
    if row["stage"] in ("import", "check") and not accepted(module, inputs):
        # The importer exports some networks that torch.export alone refuses.
        row["stage"] = "export"
    row["seconds"] = round(time.process_time() - started, 2)
    return row


def accepted(module: nn.Module, inputs: Any) -> bool:
    """Whether ``torch.export`` alone exports a network."""
    args, kwargs = ((), dict(inputs)) if isinstance(inputs, dict) else (tuple(inputs), {})
    try:
        with torch.no_grad():
            torch.export.export(module.float().eval(), args, kwargs, strict=False)
    except Exception:
        return False
    return True


def measure(module: nn.Module, inputs: Any, graph: Any) -> dict[str, Any]:
    """The numbers of one imported network."""
    spec = graph.spec
    state = {k: v for k, v in module.state_dict().items() if isinstance(v, torch.Tensor)}
    back = graph.state_dict()
    same = set(state) == set(back) and all(_same(state[k], back[k]) for k in state)
    names = {p.name for p in spec.parameters} | {i.parameter.name for i in spec.left_out}
    check = graph.symmetry.check(module, inputs, samples=2)
    if not check.max_relative_change <= 1e-4:
        # Deep networks with sharp attention amplify rounding: double precision decides.
        row = {"single_precision_change": check.max_relative_change}
        inputs = _double(inputs)
        check = weightspace.from_module(module.double(), inputs).symmetry.check(
            module, inputs, samples=2
        )
        row["rounding_change"] = rounding_change(module, inputs)
    else:
        row = {}
    covered = sum(p.numel for p in spec.parameters if not p.buffer)
    total = sum(p.numel() for p in module.parameters())
    hidden = [axis for axis in spec.axes if axis.role == "hidden"]
    return row | {
        "max_relative_change": check.max_relative_change,
        "round_trip": same,
        "accounted": names == set(state),
        "covered": covered / max(total, 1),
        "left_out": sorted({i.reason for i in spec.left_out}),
        "nodes": spec.node_count,
        "edges": spec.edge_count,
        "axes": len(spec.axes),
        "permutable": sum(axis.permutes for axis in hidden),
        "fixed_hidden": sum(not axis.permutes for axis in hidden),
        "log_order": round(graph.symmetry.log_order, 1),
    }


def rounding_change(module: nn.Module, inputs: Any) -> float:
    """The change of the outputs when every parameter is off by one part in 10^12.

    Networks that sort or pick the best of equal scores are not continuous: rounding alone
    changes their outputs, and a check by running them says nothing.
    """
    runner = GraphSymmetry(weightspace.from_module(module, inputs))
    state = runner.graph.state_dict()
    generator = torch.Generator().manual_seed(2)
    noisy = {
        name: t * (1 + 1e-12 * torch.randn(t.shape, generator=generator, dtype=t.dtype))
        if t.is_floating_point()
        else t
        for name, t in state.items()
    }
    with torch.no_grad():
        before = runner.run(module, state, inputs)
        return largest_change(before, runner.run(module, noisy, inputs))


def stir(module: nn.Module, seed: int = 0) -> nn.Module:
    """Give every tensor distinct random values, so that a wrong symmetry cannot hide.

    Fresh networks have zero biases, unit scales and equal embeddings, which any permutation
    leaves alone.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in module.parameters():
            if tensor.is_floating_point():
                scale = 0.02 if tensor.ndim > 1 else 0.1
                noise = torch.randn(tensor.shape, generator=generator)
                tensor.add_((scale * noise).to(tensor.dtype))
        for name, tensor in module.named_buffers():
            if tensor.is_floating_point() and "running_mean" in name:
                tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
            if tensor.is_floating_point() and "running_var" in name:
                tensor.mul_(1 + 0.3 * torch.rand(tensor.shape, generator=generator))
    return module.eval()


def describe(inputs: Any) -> str:
    """The shapes of the inputs."""
    named = pytree.tree_flatten_with_path(inputs)[0]
    return ", ".join(
        f"{'.'.join(str(getattr(key, 'key', getattr(key, 'idx', key))) for key in path)}"
        f"{tuple(value.shape)}"
        for path, value in named
        if isinstance(value, torch.Tensor)
    )


def _same(one: torch.Tensor, two: torch.Tensor) -> bool:
    return one.dtype == two.dtype and bool(
        torch.equal(one, two)
        or ((one.isnan() == two.isnan()).all() and torch.equal(one.nan_to_num(), two.nan_to_num()))
    )


def _double(inputs: Any) -> Any:
    def convert(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.double()
        return value

    return pytree.tree_map(convert, inputs)
