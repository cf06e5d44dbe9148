"""The compiled attention gives what the plain one gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.nn.batches import close, uneven_batch
from weightspace.models import Requirements, make_model
from weightspace.nn import arrange, fuse_kernels
from weightspace.nn.attention_kernels import AttentionKernels, attention_kernels
from weightspace.nn.attention_passes import AttentionInputs
from weightspace.nn.fusion import attention_passes
from weightspace.nn.pair_layout import PairLayout
from weightspace.nn.pair_layouts import all_pairs, connected_pairs
from weightspace.nn.plain_attention import PlainAttention
from weightspace.nn.relational_attention import NodeProjections, PairMaps, relational_attention

LAYOUTS = [all_pairs, connected_pairs]
pytestmark = pytest.mark.usefixtures("fused")


def run(
    layout: PairLayout, dtype: torch.dtype, *, width: int = 32, size: int = 128, heads: int = 8
) -> list[Tensor]:
    """The results and all gradients; the same numbers for every type."""
    torch.manual_seed(0)
    nodes = layout.arrangement.node_count
    senders = len(layout.senders(torch.zeros(nodes, 1)))
    shapes = [(layout.pair_count, width), *[(size, width)] * 3, (size,), (nodes, size)]
    shapes += [(senders, size)] * 2
    tensors = [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]
    pairs, query, key, factor, bias, *ends = tensors
    results = relational_attention(
        layout,
        pairs,
        PairMaps(query / 4, key / 4, factor, bias),
        NodeProjections(*ends),
        heads=heads,
    )
    grads = [torch.randn(each.shape).to(dtype) for each in results]
    return [*results, *torch.autograd.grad(results, tensors, grads)]


def check(layout: PairLayout, **sizes: int) -> None:
    found = run(layout, torch.float32, **sizes)
    wanted = run(layout, torch.float64, **sizes)  # plain, for it is not float32
    assert all(close(*pair, 1e-5) for pair in zip(found[:2], wanted[:2], strict=True))
    assert all(close(*pair, 1e-4) for pair in zip(found[2:], wanted[2:], strict=True))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("layout_of", LAYOUTS)
@pytest.mark.parametrize("name", ["one", "many", "mixed"])
def test_attention(layout_of, name: str) -> None:  # type: ignore
    check(layout_of(arrange(uneven_batch(name))))


@pytest.mark.parametrize(("width", "size", "heads"), [(16, 16, 1), (64, 64, 2), (16, 128, 4)])
def test_other_widths(width: int, size: int, heads: int) -> None:
    layout = connected_pairs(arrange(uneven_batch("mixed")))
    check(layout, width=width, size=size, heads=heads)


def test_results_do_not_depend_on_timing(threads: int) -> None:
    layout = all_pairs(arrange(uneven_batch("many")))
    one, two = (run(layout, torch.float32) for _ in range(2))
    assert all(torch.equal(*pair) for pair in zip(one, two, strict=True))


def test_plain_passes_where_the_compiled_ones_do_not_fit() -> None:
    def passes(width: int, size: int, heads: int, dtype: torch.dtype = torch.float32) -> object:
        pairs, bias = torch.zeros(1, width), torch.zeros(size, dtype=dtype)
        return attention_passes(AttentionInputs(pairs, pairs, bias, *[pairs] * 3), heads)

    assert passes(32, 128, 8) is attention_kernels(32, 128, 8)
    assert isinstance(passes(32, 128, 8), AttentionKernels)
    for sizes in ((20, 128, 8), (32, 96, 6), (32, 128, 16), (32, 128, 8, torch.float64)):
        assert isinstance(passes(*sizes), PlainAttention)  # type: ignore[arg-type]
    fuse_kernels(False)
    assert isinstance(passes(32, 128, 8), PlainAttention)


@pytest.mark.parametrize("name", ["ng-t", "ng-t-edges"])
def test_a_model_gives_the_same_either_way(name: str) -> None:
    batch = uneven_batch("mixed")
    torch.manual_seed(0)
    needs = Requirements.of([part.spec for part in batch.parts])
    model = make_model(name, needs, outputs=3, options={"layers": 2})  # with dropout

    def step() -> list[Tensor]:
        torch.manual_seed(1)
        result = model(batch)
        grads = torch.autograd.grad(result.square().sum(), list(model.parameters()))
        return [result, *grads]

    found = step()
    fuse_kernels(False)
    wanted = step()
    assert close(found[0], wanted[0].double(), 1e-5)
    assert all(close(one, two.double(), 1e-4) for one, two in zip(found, wanted, strict=True))
