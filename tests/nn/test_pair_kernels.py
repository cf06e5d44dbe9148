"""The compiled update of pairs gives what the plain one gives."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from tests.nn.batches import close, uneven_batch
from weightspace.nn import arrange, fuse_kernels
from weightspace.nn.fusion import update_passes
from weightspace.nn.pair_kernels import UpdateKernels, update_kernels
from weightspace.nn.pair_layout import PairLayout
from weightspace.nn.pair_layouts import all_pairs, connected_pairs
from weightspace.nn.pair_update import PairUpdate
from weightspace.nn.plain_update import PlainUpdate
from weightspace.nn.update_passes import UpdateInputs, UpdateMaps

LAYOUTS = [all_pairs, connected_pairs]
NODES = 8
pytestmark = pytest.mark.usefixtures("fused")


def run(update: PairUpdate, layout: PairLayout, dtype: torch.dtype) -> list[Tensor]:
    """The result and all gradients; the same numbers and masks for every type."""
    update = copy.deepcopy(update).to(dtype)
    torch.manual_seed(1)
    nodes = torch.randn(layout.arrangement.node_count, NODES).to(dtype).requires_grad_()
    pairs = torch.randn(layout.pair_count, update.out.out_features).to(dtype).requires_grad_()
    grad = torch.randn(pairs.shape).to(dtype)
    result = update(layout, nodes, pairs)
    inputs = [nodes, pairs, *update.parameters()]
    return [result, *torch.autograd.grad(result, inputs, grad)]


def new_update(pairs: int = 32, hidden: int = 64, dropout: float = 0.0) -> PairUpdate:
    torch.manual_seed(0)
    update = PairUpdate(nodes=NODES, pairs=pairs, hidden=hidden, dropout=dropout)
    for parameter in update.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return update


def check(update: PairUpdate, layout: PairLayout) -> None:
    found, *grads = run(update, layout, torch.float32)
    wanted, *grads_wanted = run(update, layout, torch.float64)  # plain, for it is not float32
    assert close(found, wanted, 1e-5)
    assert all(close(*pair, 1e-4) for pair in zip(grads, grads_wanted, strict=True))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("layout_of", LAYOUTS)
@pytest.mark.parametrize("name", ["one", "many", "mixed"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_update(layout_of, name: str, dropout: float) -> None:  # type: ignore
    check(new_update(dropout=dropout), layout_of(arrange(uneven_batch(name))))


@pytest.mark.parametrize(("pairs", "hidden"), [(16, 32), (64, 16), (128, 128)])
def test_other_widths(pairs: int, hidden: int) -> None:
    check(new_update(pairs, hidden, 0.2), connected_pairs(arrange(uneven_batch("mixed"))))


def test_results_do_not_depend_on_timing(threads: int) -> None:
    update, layout = new_update(dropout=0.3), all_pairs(arrange(uneven_batch("many")))
    one, two = (run(update, layout, torch.float32) for _ in range(2))
    assert all(torch.equal(*pair) for pair in zip(one, two, strict=True))


def test_extreme_values_stay_finite() -> None:
    update, layout = new_update(), connected_pairs(arrange(uneven_batch("mixed")))
    pairs = 1e4 * torch.randn(layout.pair_count, 32, requires_grad=True)
    result = update(layout, torch.randn(layout.arrangement.node_count, NODES), pairs)
    assert torch.isfinite(result).all()
    assert torch.isfinite(torch.autograd.grad(result.square().sum(), pairs)[0]).all()


def test_strided_states_and_gradients() -> None:
    update, layout = new_update(), all_pairs(arrange(uneven_batch("mixed")))
    nodes = torch.randn(layout.arrangement.node_count, NODES)
    pairs = torch.randn(32, layout.pair_count).T.requires_grad_()
    result = update(layout, nodes, pairs)
    fuse_kernels(False)
    wanted = update(layout, nodes, pairs)
    grads = [torch.autograd.grad(each.sum(1)[0], pairs)[0] for each in (result, wanted)]
    assert torch.allclose(result, wanted, atol=1e-5)
    assert torch.allclose(*grads, atol=1e-5)


def given(pairs: int, hidden: int, dtype: torch.dtype) -> tuple[UpdateInputs, UpdateMaps]:
    inputs = UpdateInputs(torch.zeros(1, pairs), *torch.zeros(2, 1, hidden))
    weight = torch.zeros(hidden, 2 * pairs)
    maps = UpdateMaps(weight, *[torch.zeros(1, dtype=dtype)] * 10)
    return inputs, maps


def test_plain_passes_where_the_compiled_ones_do_not_fit() -> None:
    assert update_passes(*given(32, 64, torch.float32)) is update_kernels(32, 64)
    assert isinstance(update_passes(*given(32, 64, torch.float32)), UpdateKernels)
    for pairs, hidden, dtype in (
        (20, 64, torch.float32),
        (32, 5, torch.float32),
        (256, 64, torch.float32),
        (32, 64, torch.float64),
    ):
        assert isinstance(update_passes(*given(pairs, hidden, dtype)), PlainUpdate)
    fuse_kernels(False)
    assert isinstance(update_passes(*given(32, 64, torch.float32)), PlainUpdate)
    assert update_kernels(20, 64) is None
