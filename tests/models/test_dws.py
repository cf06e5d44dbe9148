"""DWSNet and NFN-HNP: the battery, an oracle of single entries, modules, refusals."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.graph.strategies import chains
from tests.models.networks import Grouped, networks_of, plain_networks
from weightspace.errors import ModelError
from weightspace.graph import GraphSpec, MixedGraph, SymmetryGroup, chain_spec
from weightspace.models import (
    NFNHNP,
    DWSNet,
    Editor,
    Predictor,
    Requirements,
    Trunk,
    load_model,
    make_model,
    save_model,
)
from weightspace.nn import DWSLayer
from weightspace.nn.space_state import Channels
from weightspace.nn.weight_space import WeightSpace
from weightspace.testing import TrunkBattery
from weightspace.testing.networks import sample_graph


class TestMaximum(TrunkBattery):
    mixes = False

    def make(self, requirements: Requirements) -> Trunk:
        return DWSNet(requirements, width=4, layers=2)


class TestSum(TrunkBattery):
    mixes = False

    def make(self, requirements: Requirements) -> Trunk:
        return DWSNet(requirements, width=4, layers=3, aggregate="sum")


class TestAttention(TrunkBattery):
    mixes = False

    def make(self, requirements: Requirements) -> Trunk:
        return DWSNet(requirements, width=4, layers=2, aggregate="attention")


class TestHNP(TrunkBattery):
    mixes = False

    def make(self, requirements: Requirements) -> Trunk:
        return NFNHNP(requirements, width=4, layers=2, frequencies=3, sigma=0.5, head=6)


def entrywise(layer: DWSLayer, inputs: Channels, tensors: list[Tensor]) -> list[Tensor]:
    """The layer entry by entry: ``y_t = bias + sum over s and K of W_K x_s / count``.

    ``K`` runs over the axes that entries ``s`` and ``t`` have in common and agree on; all
    other axes of the source are pooled by their mean. No axis may be tied to itself.
    """
    space, outputs = inputs.space, layer.outputs
    sizes = dict(space.sizes)

    def place(channels: Channels, tensor: int, kept: tuple[str, ...]) -> slice:
        """Where the channels of a tensor lie among all that lie on the kept axes."""
        order: list[tuple[int, ...]] = []
        if len(kept) == 2:
            pair = next(p for p in space.pairs if set(p) == set(kept))
            order = [(i,) for i, _ in space.matrices(pair)]
        elif len(kept) == 1:
            order = [(i,) for i in space.vectors(kept[0])]
            for pair in space.pairs:
                if kept[0] in pair:
                    order += [(i,) for i, _ in space.matrices(pair)]
        else:
            order = [(i,) for i in space.scalars]
            order += [(i,) for axis in space.axes for i in space.vectors(axis)]
            order += [(i,) for pair in space.pairs for i, _ in space.matrices(pair)]
        start = sum(channels.of(i) for (i,) in itertools.takewhile(lambda x: x[0] != tensor, order))
        return slice(start, start + channels.of(tensor))

    def weight(kept: tuple[str, ...]) -> Tensor:
        if len(kept) == 2:
            return layer.entries[[set(p) for p in space.pairs].index(set(kept))]
        return layer.axes[space.axes.index(kept[0])].weight if kept else layer.none.weight

    results = []
    for t, target in enumerate(space.tensors):
        batch = len(tensors[0])
        shape = [sizes[axis] for axis in target.axes]
        result = tensors[0].new_zeros(batch, *shape, outputs.of(t))
        for at in itertools.product(*map(range, shape)):
            value = layer.none.bias[place(outputs, t, ())].expand(batch, -1).clone()
            for s, source in enumerate(space.tensors):
                common = [axis for axis in source.axes if axis in target.axes]
                for size in range(len(common) + 1):
                    for kept in itertools.combinations(common, size):
                        block = weight(kept)[place(outputs, t, kept), place(inputs, s, kept)]
                        ranges = [
                            [at[target.axes.index(axis)]] if axis in kept else range(sizes[axis])
                            for axis in source.axes
                        ]
                        found = [tensors[s][(slice(None), *x)] for x in itertools.product(*ranges)]
                        value = value + sum(found) / len(found) @ block.T
            result[(slice(None), *at)] = value.relu()
        results.append(result)
    return results


@settings(max_examples=8, deadline=None)
@given(chains(max_width=3, max_hidden=2), st.integers(0, 99))
def test_against_the_oracle(spec: GraphSpec, seed: int) -> None:
    torch.manual_seed(seed)
    space = WeightSpace.of(spec)
    inputs, outputs = Channels.features(space), Channels.equal(space, 2)
    layer = DWSLayer(inputs, outputs, aggregate="sum").double()
    nn.init.normal_(layer.none.bias)
    tensors = space.read([sample_graph(spec, 2, seed=seed)])
    found = outputs.lower(layer(inputs.lift(tensors)))
    for one, two in zip(found, entrywise(layer, inputs, tensors), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize(
    "make",
    [
        lambda needs: DWSNet(needs, width=3, layers=2),
        lambda needs: DWSNet(needs, width=4, layers=2, aggregate="attention"),
        lambda needs: NFNHNP(needs, width=3, layers=2, frequencies=3, head=6),
    ],
)
def test_convolutions_norms_and_tied_axes(make) -> None:  # type: ignore[no-untyped-def]
    graph = plain_networks()
    spec, element = graph.spec, None
    trunk = make(Requirements.of([spec]))
    predict, edit = (
        Predictor(trunk, outputs=2).double().eval(),
        Editor(trunk).double().eval(),
    )
    assert any(layer for layer in trunk.layers[0].tied)
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(0))
    moved = element.act_graph(graph)
    torch.testing.assert_close(predict(graph), predict(moved), atol=1e-10, rtol=1e-10)
    one, two = element.act_graph(edit(graph)), edit(moved)
    for block in spec.blocks:
        torch.testing.assert_close(one.edges[block.name], two.edges[block.name], atol=1e-10, rtol=0)
        changed = not torch.equal(one.edges[block.name], moved.edges[block.name])
        assert changed == bool(block.pieces), block.name


def test_parts_of_one_spec_in_any_order() -> None:
    graph = plain_networks()
    model = Predictor(DWSNet(Requirements.of([graph.spec]), width=4), outputs=2).double()
    mixed = MixedGraph((graph[[0]], graph[[1, 2]]), (2, 0, 1))
    torch.testing.assert_close(model(mixed), model(graph[[2, 0, 1]]))
    edited = Editor(model.trunk).double()
    for one, two in zip(edited(mixed).parts, (graph[[0]], graph[[1, 2]]), strict=True):
        again = edited(two)
        for name, tensor in one.edges.items():
            torch.testing.assert_close(tensor, again.edges[name])


def test_what_it_cannot_read_is_named() -> None:
    with pytest.raises(ModelError, match=r"grouped.*nfn-np"):
        DWSNet(Requirements.of([networks_of(Grouped(), torch.randn(1, 2, 4, 4)).spec]))
    chain, other = chain_spec([2, 4, 1]), chain_spec([2, 5, 1])
    with pytest.raises(ModelError, match="one architecture"):
        DWSNet(Requirements.of([chain, other]))
    with pytest.raises(ModelError, match="architecture"):
        DWSNet(Requirements.of([chain])).check(other)
    with pytest.raises(ModelError, match="weights a layer"):
        NFNHNP(Requirements.of([chain_spec([3072, 8, 10])]), width=512)
    with pytest.raises(ModelError, match="sum, max or attention"):
        make_model("dws", Requirements.of([chain]), outputs=1, options={"aggregate": "min"})


def test_a_permutation_outside_the_group_changes_the_output() -> None:
    graph = sample_graph(chain_spec([2, 6, 6, 1]), 1)
    model = Predictor(DWSNet(Requirements.of([graph.spec])), outputs=2).double()
    edges = {**graph.edges, "1.weight": graph.edges["1.weight"].flip(3)}
    assert (model(graph) - model(graph.with_features(edges=edges))).abs().max() > 1e-6


@pytest.mark.parametrize("name", ["dws", "nfn-hnp", "nfn-np", "nft"])
def test_saved_and_read(name: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    graph = sample_graph(chain_spec([2, 4, 3, 1]), 3, dtype=torch.float32)
    model = make_model(name, Requirements.of([graph.spec]), outputs=2, options={"width": 8}).eval()
    save_model(tmp_path / "model.safetensors", model, name=name, task={})
    again = load_model(tmp_path / "model.safetensors").model
    torch.testing.assert_close(model(graph), again(graph))


def test_published_sizes() -> None:
    needs = Requirements.of([chain_spec([2, 32, 32, 1], activations="sine")])
    # published: 321k with sums and maxima; its set layers have further maps of the same terms
    assert 250_000 < make_model("dws", needs, outputs=10).parameter_count < 330_000
    options = {"aggregate": "attention"}
    # published: 553k
    found = make_model("dws", needs, outputs=10, options=options).parameter_count
    assert 450_000 < found < 560_000
