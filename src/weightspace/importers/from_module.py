"""Any PyTorch module as a neural graph."""

from __future__ import annotations

from torch import nn

from weightspace.graph.neural_graph import NeuralGraph
from weightspace.graph.spec import GraphSpec
from weightspace.importers import rules
from weightspace.importers.assembly import assemble
from weightspace.importers.drawing import draw
from weightspace.importers.exporting import Exported, Inputs, export
from weightspace.importers.trace import trace


def from_module(module: nn.Module, example_inputs: Inputs) -> NeuralGraph:
    """Read any module as a neural graph, with its symmetry group derived from its operations.

    The module is exported in evaluation mode and every dimension of every tensor is followed
    through it; what moves together becomes one axis (Kofinas et al. 2024, section 2, for any
    architecture). The module is left as it was; the graph has its own copy of the numbers.

    Args:
        module: the network.
        example_inputs: a tensor, a tuple of positional arguments, or a dictionary of keyword
            arguments. Their shapes are taken as fixed; where sizes depend on numbers (how many
            boxes are kept), what is decided for these inputs is taken as fixed, too.

    Raises:
        TraceError: the module cannot be exported, or has an operation without a rule.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> graph = from_module(net, torch.zeros(1, 2))
    >>> [axis.name for axis in graph.spec.axes if axis.permutes]
    ['0']
    """
    exported = export(module, example_inputs)
    spec = spec_of(exported, module)
    stacked = {name: t.detach()[None] for name, t in exported.state.items()}
    # Only what still is the module's memory is copied: large networks are copied once.
    own = {t.untyped_storage().data_ptr() for t in stacked.values()}
    return NeuralGraph.from_stacked(spec, stacked).map(
        lambda t: t.clone() if t.untyped_storage().data_ptr() in own else t
    )


def module_spec(module: nn.Module, example_inputs: Inputs) -> GraphSpec:
    """Describe a module without reading its numbers."""
    return spec_of(export(module, example_inputs), module)


def spec_of(exported: Exported, module: nn.Module) -> GraphSpec:
    """Trace, draw and write down an exported module."""
    assert rules.__all__
    traced = trace(exported)
    sketch = draw(traced)
    buffers = {name for name, _ in module.named_buffers(remove_duplicate=False)}
    return assemble(exported, traced, sketch, buffers)
