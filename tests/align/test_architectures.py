"""Networks of unusual architectures are aligned, merged and pruned like any others."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from tests.align.architectures import KINDS, Attention, GroupedQueries, made
from tests.align.networks import trained
from tests.align.test_alignment import undone
from weightspace.align import (
    Average,
    align_weights,
    keep_neurons,
    merge_states,
    prune,
    remove_redundant,
)
from weightspace.errors import ModelError
from weightspace.graph import GraphSpec, SymmetryGroup
from weightspace.graph.layout import piece_grid
from weightspace.importers import module_spec

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")

UNCUT = {"grouped queries", "heads by number", "normed"}
"""Networks that have the size of an axis in their code."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_permuted_and_rescaled_copy_comes_back(kind: str) -> None:
    module, inputs = made(kind)
    spec, state = module_spec(module, inputs), module.state_dict()
    kinds = ("permutation", "sign", "scale")
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(1), kinds=kinds)
    found = align_weights(spec, state, element.act_state(state), kinds=("sign", "scale"))
    assert found.matched_exactly
    if kind != "twins":
        assert undone(found, element)
    merged = merge_states([state, found.aligned], Average())
    assert all(torch.allclose(merged[n], t, atol=1e-5, rtol=1e-4) for n, t in state.items())


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"buffer", "single"}))
def test_pruning_gives_a_module_that_works_and_names_what_stays(kind: str) -> None:
    module, inputs = made(kind)
    pruned = prune(module, inputs, share=0.5)
    assert pruned.parameters[1] < pruned.parameters[0]
    assert pruned.module(inputs).shape == module(inputs).shape
    module_spec(pruned.module, inputs)
    assert bool(pruned.fixed) == (kind in UNCUT)


@pytest.mark.parametrize("kind", KINDS)
def test_neurons_of_zeros_leave_with_the_function_unchanged(kind: str) -> None:
    module, inputs = made(kind)
    spec = module_spec(module, inputs)
    with torch.no_grad():
        for axis in spec.axes:
            if axis.permutes and axis.size > 2:
                zero(spec, module.state_dict(), axis.name)
        before = module(inputs)
        pruned = remove_redundant(module, inputs)
        after = pruned.module(inputs)
    assert torch.allclose(after, before, atol=1e-5)
    sizes = {axis.name: axis.size for axis in spec.axes}
    assert all(len(kept) == sizes[axis] - 1 for axis, kept in pruned.kept.items())


def zero(spec: GraphSpec, state: dict[str, Tensor], axis: str) -> None:
    """Silence the second neuron of an axis, whatever it hears and sends, in place."""
    for piece in spec.pieces:
        if not spec.parameter(piece.parameter).buffer:
            grid = piece_grid(piece, state[piece.parameter][None])[0]
            for place, factor in enumerate(piece.factors):
                if factor.axis == axis:
                    grid.movedim(place, 0)[1] = 0


def test_tied_tensors_stay_tied() -> None:
    module, inputs = made("tied")
    small = prune(module, inputs, share=0.5).module
    assert small.head.weight is small.embedding.weight
    assert small.head.weight.shape == (11, 4)


def test_neurons_that_a_fixed_mask_tells_apart_stay() -> None:
    module, inputs = made("buffer")
    with pytest.raises(ModelError, match="hidden neurons"):
        prune(module, inputs, share=0.5)


@pytest.mark.parametrize("make", [Attention, lambda: GroupedQueries(keys=4, free=True)])
def test_heads_leave_with_what_they_send(make) -> None:
    torch.manual_seed(0)
    module, inputs = make().eval(), torch.randn(2, 3, 5)
    spec = module_spec(module, inputs)
    heads = next(axis for axis in spec.axes if axis.permutes and axis.size == 4 and not axis.within)
    out = module.attention.out_proj if isinstance(module, Attention) else module.out
    with torch.no_grad():
        out.weight[:, 4:8] = 0
        before = module(inputs)
    kept = {heads.name: torch.tensor([0, 2, 3])}
    if isinstance(module, Attention):  # its stream has to be as wide as its heads
        with pytest.raises(ModelError, match="Sizes are written into its code"):
            keep_neurons(module, inputs, kept)
        (stream,) = (axis.name for axis in spec.axes if axis.permutes and axis.size == 16)
        with torch.no_grad():
            for linear, side in ((module.first, 0), (out, 0), (module.last, 1)):
                linear.weight.movedim(side, 0)[12:] = 0
            module.first.bias[12:] = out.bias[12:] = 0
            module.attention.in_proj_weight[:, 12:] = 0
            before = module(inputs)
        kept[stream] = torch.arange(12)
    small = keep_neurons(module, inputs, kept).module
    assert torch.allclose(small(inputs), before, atol=1e-5)


def test_a_module_that_reads_other_heads_than_it_had_is_refused() -> None:
    module, inputs = made("heads by number")
    spec = module_spec(module, inputs)
    (heads,) = (a.name for a in spec.axes if a.permutes and a.size == 4 and not a.within)
    with pytest.raises(ModelError, match="neurons"):
        keep_neurons(module, inputs, {heads: torch.tensor([0, 2])})


def test_encoders_keep_whole_heads() -> None:
    module, inputs = trained("transformer", 0)
    for share in (0.3, 0.5, 0.9):
        pruned = prune(module, inputs, share=share)
        attention = pruned.module[1].layers[0].self_attn
        assert pruned.fixed == {}
        assert attention.head_dim == 4
        assert attention.embed_dim == 4 * attention.num_heads == pruned.module[2].in_features


def test_copies_in_a_layer_that_cannot_shrink_are_left_as_they_are() -> None:
    module, inputs = made("normed")
    module = nn.Sequential(*[copy.deepcopy(module[i]) for i in (0, 2)], nn.Unflatten(1, (8, 1)),
                           nn.Flatten(), nn.Linear(8, 2))  # fmt: skip
    with torch.no_grad():
        module[0].weight[3], module[0].bias[3] = module[0].weight[1], module[0].bias[1]
        before = module(inputs)
        pruned = remove_redundant(module, inputs)
        assert torch.allclose(pruned.module(inputs), before, atol=1e-6)
    assert pruned.kept == {}
    assert len(pruned.fixed) == 1
