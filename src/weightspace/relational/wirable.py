"""Which tensors of a module can be wired by a graph, and which stay dense, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from weightspace.relational.axis_shapes import AxisShapes, Dimension
from weightspace.relational.flops import FlopCount

INPUT = "reads the network's inputs"
OUTPUT = "gives the network's outputs"


@dataclass(frozen=True)
class Wirable:
    """A weight between neurons of a network.

    Args:
        layer: the path of the module.
        tensor: the weight's name in the module.
        target: what the rows are made of.
        source: what the columns are made of.
    """

    layer: str
    tensor: str
    target: Dimension
    source: Dimension

    @property
    def parameter(self) -> str:
        """The weight's name in the network."""
        return f"{self.layer}.{self.tensor}".strip(".")


def wirable(
    module: nn.Module,
    shapes: AxisShapes,
    counted: FlopCount,
    *,
    examples: int,
    keep: Collection[str] | None,
) -> tuple[list[Wirable], dict[str, str]]:
    """The weights to be wired, and the reason of each that stays dense.

    Args:
        module: the network.
        shapes: of its tensors.
        counted: what its layers are used for.
        examples: how many examples it was counted on.
        keep: the paths of modules that stay dense, with all they contain; if not given, the
            layers that read inputs or give outputs.
    """
    wired: list[Wirable] = []
    dense: dict[str, str] = {}
    for layer, part in module.named_modules():
        for tensor in _weights(part):
            name = f"{layer}.{tensor}".strip(".")
            if name not in shapes:
                dense[name] = "is shared with another layer or not used"
                continue
            target, source = shapes.dimensions(name)[:2]
            found = Wirable(layer, tensor, target, source)
            reason = _reason(part, found, shapes, keep) or _excites(part, layer, counted, examples)
            if reason:
                dense[name] = reason
            else:
                wired.append(found)
    return wired, dense


def kept_by(name: str, keep: Collection[str]) -> bool:
    """Whether a path is one of some, or within one."""
    return any(name == path or name.startswith(f"{path}.") for path in keep)


def unknown_layers(module: nn.Module, names: Collection[str]) -> list[str]:
    """The names that are no path of a module, and no tensor of one."""
    known = {path for path, _ in module.named_modules()} | {n for n, _ in module.named_parameters()}
    return sorted(set(names) - known)


def _weights(part: nn.Module) -> Iterator[str]:
    if isinstance(part, nn.Linear) or (
        isinstance(part, _ConvNd) and part.groups == 1 and not isinstance(part, _ConvTransposeNd)
    ):
        yield "weight"
    elif isinstance(part, nn.MultiheadAttention):
        names = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
        yield from (name for name in names if getattr(part, name, None) is not None)
    elif isinstance(part, (nn.RNN, nn.LSTM, nn.GRU)):
        yield from (name for name in part._flat_weights_names if name.startswith("weight_"))
    elif isinstance(part, nn.RNNCellBase):
        yield from ("weight_ih", "weight_hh")


def _reason(
    part: nn.Module, found: Wirable, shapes: AxisShapes, keep: Collection[str] | None
) -> str:
    roles: Mapping[str, str] = {axis.name: axis.role for axis in shapes.spec.axes}
    reads = {roles[axis] for stretch in found.source for axis in stretch.axes}
    gives = {roles[axis] for stretch in found.target for axis in stretch.axes}
    if not reads or not gives:
        return "its neurons are not told apart"
    if keep is not None:
        return "asked to be kept" if kept_by(found.parameter, keep) else ""
    if "input" in reads:
        return INPUT
    return OUTPUT if "output" in gives else ""


def _excites(part: nn.Module, layer: str, counted: FlopCount, examples: int) -> str:
    """A convolution of a single place is a small network of channel means."""
    if isinstance(part, _ConvNd) and counted.uses.get(layer) == examples:
        return "is evaluated at one place: squeeze and excitation"
    return ""
