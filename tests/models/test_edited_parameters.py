"""What editors may change: every trained value once, and no buffer."""

from __future__ import annotations

import copy
import functools
import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.networks import Plain
from tests.nn.test_arrangement import Residual
from weightspace import from_module
from weightspace.errors import ModelError
from weightspace.graph import NeuralGraph, SymmetryGroup, chain_spec
from weightspace.graph.tying import trained_changes
from weightspace.models import MODELS, Requirements, make_editor

SMALL = {"width": 8, "layers": 2, "dropout": 0.0, "frequencies": 4, "heads": 2, "head": 8,
         "pair_width": 4, "size": 8, "node_hidden": 8, "pair_hidden": 8}  # fmt: skip
INVARIANT = {
    "scale-gmn": ("permutation", "sign", "scale"),
    "flat-mlp": (),
    "flat-mlp-augmented": (),
    "flat-mlp-aligned": (),
    "inr2vec": (),
    "neuron-transformer": (),
}


class Language(nn.Module):
    """Token vectors that are also the rows of the output map, and one slope for all neurons."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.hidden = nn.Embedding(7, 4), nn.Linear(4, 4)
        self.slope = nn.PReLU()
        self.out = nn.Linear(4, 7)
        self.out.weight = self.tokens.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.slope(self.hidden(self.tokens(x))))


class Twins(nn.Module):
    """Two layers of one weight, with biases of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.one, self.two = nn.Linear(2, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.last = nn.Linear(4, 3)
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.two(self.one(self.first(x).relu()).relu()).relu())


CASES = {
    "tied embedding": (Language, lambda: torch.randint(0, 7, (2, 5))),
    "second name": (Twins, lambda: torch.randn(2, 2)),
    "batch norm, residual": (Plain, lambda: torch.randn(1, 2, 4, 4)),
    "attention, groups": (Residual, lambda: torch.randn(1, 3, 6, 6)),
}


@functools.cache
def _networks(case: str) -> tuple[nn.Module, Tensor, NeuralGraph]:
    make, example = CASES[case]
    torch.manual_seed(0)
    module, inputs = make().eval(), example()
    graph = from_module(module, inputs)
    stacked = {}
    for name, tensor in graph.stacked_state().items():
        wide = tensor.expand(2, *tensor.shape[1:])
        noise = torch.randn(wide.shape, dtype=torch.float64)
        stacked[name] = wide.double() + noise if tensor.is_floating_point() else wide.clone()
        if name.endswith("var"):
            stacked[name] = stacked[name].abs() + 0.5
    for item in graph.spec.left_out:
        if item.same_as is not None:
            stacked[item.parameter.name] = stacked[item.same_as]
    return module, inputs, NeuralGraph.from_stacked(graph.spec, stacked)


def _options(name: str) -> dict[str, int | float]:
    known = inspect.signature(MODELS[name].family.__init__).parameters
    return {key: value for key, value in SMALL.items() if key in known}  # type: ignore[misc]


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("name", [n for n in MODELS if "prob" not in n and n != "stat-nn"])
def test_edits_are_networks(name: str, case: str) -> None:
    module, inputs, graph = _networks(case)
    torch.manual_seed(0)
    try:
        editor = make_editor(name, Requirements.of([graph.spec]), options=_options(name))
    except ModelError:
        return  # blocks that the model does not read: the page of models has the table
    editor.double().eval().fit_normalisation(graph)
    with torch.no_grad():
        for scale in editor.scales:
            scale.fill_(0.5)
        edited = editor(graph)
        after, before = edited.stacked_state(), graph.stacked_state()
        buffers = {p.name for p in graph.spec.parameters if p.buffer}
        left = {i.parameter.name for i in graph.spec.left_out if i.same_as is None}
        for key, tensor in after.items():
            assert torch.equal(tensor, before[key]) == (key in buffers | left), key
        for item in graph.spec.left_out:
            if item.same_as is not None:
                assert torch.equal(after[item.parameter.name], after[item.same_as])
        again = NeuralGraph.from_stacked(graph.spec, after)  # the graph is that of its networks
        for one, two in ((edited.nodes, again.nodes), (edited.edges, again.edges)):
            for key, features in one.items():
                torch.testing.assert_close(features, two[key], rtol=1e-12, atol=1e-12)
        changed = copy.deepcopy(module).double()
        changed.load_state_dict(edited.state_dict(1), strict=True)
        kept = changed.state_dict()
        for key, tensor in edited.state_dict(1).items():
            assert torch.equal(kept[key], tensor), key  # no second name has written another value
        output = changed(inputs.double() if inputs.is_floating_point() else inputs)
        assert output.isfinite().all()
        kinds = INVARIANT.get(name, ("permutation",))
        for seed in range(1 if kinds else 0):
            element = SymmetryGroup(graph.spec).sample(
                torch.Generator().manual_seed(seed), kinds=kinds
            )
            moved = editor(element.act_graph(graph)).stacked_state()
            for key, tensor in element.act_stacked(after).items():
                torch.testing.assert_close(moved[key], tensor, rtol=1e-8, atol=1e-8)


def test_tied_values_change_by_the_mean_of_their_changes() -> None:
    _, _, graph = _networks("tied embedding")
    spec = graph.spec
    uses = [b for b in spec.blocks if b.pieces[0].parameter == "tokens.weight"]
    assert len(uses) == 2
    torch.manual_seed(0)
    nodes = {n.name: torch.randn_like(graph.nodes[n.name]) for n in spec.node_sets}
    edges = {b.name: torch.randn_like(graph.edges[b.name]) for b in spec.blocks if b.pieces}
    _, settled = trained_changes(spec, nodes, edges)
    one, two = (edges[b.name].squeeze(1).squeeze(-1) for b in uses)
    mean = (one.transpose(1, 2) + two) / 2  # [batch, tokens, channels]
    found = settled[uses[1].name].squeeze(1).squeeze(-1)
    torch.testing.assert_close(found, mean)
    torch.testing.assert_close(settled[uses[0].name].squeeze(1).squeeze(-1).transpose(1, 2), mean)


def test_one_value_for_all_neurons_changes_by_the_mean() -> None:
    _, _, graph = _networks("tied embedding")
    spec = graph.spec
    (holder,) = [n for n in spec.node_sets if any(p.parameter == "slope.weight" for p in n.pieces)]
    nodes = {holder.name: torch.randn_like(graph.nodes[holder.name])}
    settled, _ = trained_changes(spec, nodes, {})
    place = [p.parameter for p in holder.pieces].index("slope.weight")
    own, mean = nodes[holder.name][..., place], settled[holder.name][..., place]
    torch.testing.assert_close(mean, own.mean(dim=1, keepdim=True).expand_as(own))


def test_other_changes_are_given_back_as_they_are() -> None:
    spec = chain_spec([2, 3, 1])
    nodes = {n.name: torch.randn(2, n.features and spec.nodes_in(n.name), n.features)
             for n in spec.node_sets}  # fmt: skip
    edges = {b.name: torch.randn(2, 1, 3, 2, 1) for b in spec.blocks}
    settled = trained_changes(spec, nodes, edges)
    assert all(settled[0][name] is tensor for name, tensor in nodes.items())
    assert all(settled[1][name] is tensor for name, tensor in edges.items())


def test_second_names_follow_a_change_of_features() -> None:
    _, _, graph = _networks("second name")
    edges = {name: F.relu(tensor) for name, tensor in graph.edges.items()}
    state = graph.with_features(edges=edges).state_dict(0)
    assert torch.equal(state["two.weight"], state["one.weight"])
    assert state["two.weight"].min() >= 0


def test_gradients_reach_a_tied_change() -> None:
    _, _, graph = _networks("tied embedding")
    spec = graph.spec
    edges = {b.name: torch.randn_like(graph.edges[b.name]).requires_grad_() for b in spec.blocks}
    _, settled = trained_changes(spec, {}, edges)
    total = torch.stack([t.square().sum() for t in settled.values()]).sum()
    grads = torch.autograd.grad(total, list(edges.values()))
    assert all(grad.abs().max() > 0 for grad in grads)
