"""Which neurons a network reads together: then none of them stands for itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import nn

from weightspace.graph.spec import GraphSpec
from weightspace.importers import rules
from weightspace.importers.assembly import axis_names
from weightspace.importers.atoms import Atom, Dim, leaves
from weightspace.importers.drawing import draw
from weightspace.importers.exporting import Inputs, export
from weightspace.importers.trace import trace
from weightspace.importers.value import Value

# Of two neurons' values, each alone in its place: zeros give zero.
_PAIRWISE = frozenset({"add", "sub", "rsub", "mul", "maximum", "minimum", "prelu"})
_OWN = frozenset({"input", "embedding", "recurrent"})
_TOGETHER = frozenset({"softmax", "glu", "where", "masked_fill"})


def spec_couplings(spec: GraphSpec) -> frozenset[str]:
    """The axes whose neurons a spec shows to be read together.

    Layer norms and group norms, which have a scale and no running statistics, and the features
    of attention heads, whose queries and keys meet in one product. A norm or a softmax without
    parameters leaves no trace in a spec: :func:`module_couplings` sees it.

    >>> from weightspace.graph import chain_spec
    >>> spec_couplings(chain_spec([2, 3, 1]))
    frozenset()
    """
    parents = {axis.within for axis in spec.axes}
    found: set[str] = set()
    for block in spec.blocks:
        target = spec.node_set(block.target)
        if block.kind == "attention":
            found |= set(target.axes) - parents
        elif block.kind == "diagonal" and not _alone(spec, block.target, block.pieces):
            found |= set(block.shared)
    return frozenset(found)


def module_couplings(module: nn.Module, example_inputs: Inputs) -> frozenset[str]:
    """The axes whose neurons a module's operations read together.

    Norms over neurons, softmaxes, sums and products over neurons that no weight takes part in,
    and functions of several neurons that are not known. An axis that is not among them is read
    by weights alone.

    Args:
        module: the network.
        example_inputs: as for :func:`weightspace.from_module`; names are those of its axes.

    Raises:
        TraceError: the module cannot be followed.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 8), nn.Softmax(-1), nn.Linear(8, 1))
    >>> sorted(module_couplings(net, torch.zeros(1, 2)))
    ['0']
    """
    assert rules.__all__
    traced = trace(export(module, example_inputs))
    names = axis_names(draw(traced))
    found = {
        leaf for value in traced.values if value.kind == "activation" for leaf in _coupled(value)
    }
    return frozenset(names[leaf] for leaf in found if leaf in names)


def _alone(spec: GraphSpec, target: str, pieces: Iterable[object]) -> bool:
    """Whether a diagonal block multiplies each neuron by itself: batch norms, depthwise kernels."""
    own = spec.node_set(target).pieces
    statistics = any(spec.parameter(piece.parameter).buffer for piece in own)
    return statistics or any(getattr(piece, "features", 1) > 1 for piece in pieces)


def _coupled(value: Value) -> Iterator[Atom]:
    operands = value.draw.operands
    kind = value.draw.kind
    if kind == "norm":
        # with running statistics, every channel is shifted and scaled by numbers of its own
        if len(value.draw.details["shifts"]) < 2:
            yield from _all(operands[:1])
    elif kind == "elementwise":
        function = value.draw.details["function"]
        moving = [v for v in operands if v.kind == "activation"]
        alone = len(operands) == 1 and function not in _TOGETHER
        scaled = function == "div" and len(moving) == 1 and moving[0] is operands[0]
        # a constant that is added is in no spec, and makes something of nothing
        steady = function != "mul" and any(v.kind == "constant" for v in operands)
        if not (alone or scaled or (function in _PAIRWISE and not steady)):
            yield from _all(operands)
    elif not (kind == "contract" and operands[1].kind == "parameter") and kind not in _OWN:
        present = set(_leaves(value.dims))
        yield from (leaf for leaf in _all(operands) if leaf not in present)


def _all(values: Iterable[Value]) -> Iterator[Atom]:
    for value in values:
        if value.kind == "activation":
            yield from _leaves(value.dims)


def _leaves(dims: Iterable[Dim]) -> Iterator[Atom]:
    for dim in dims:
        yield from leaves(dim)
