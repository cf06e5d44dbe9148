"""Gated messages on batches of several architectures: gradients, and blocks of every kind."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.nn.batches import mixed_batch
from tests.nn.test_arrangement import batches
from weightspace.nn import arrange
from weightspace.nn.arrangement import Arrangement
from weightspace.nn.gated_message import gated_messages
from weightspace.nn.gated_run import AtNodes, Weights
from weightspace.nn.marks import Marks

WIDTH = 3


def inputs(arrangement: Arrangement, width: int) -> list[Tensor]:
    torch.manual_seed(0)
    nodes, edges = arrangement.node_count, arrangement.edge_count
    shapes = [(edges, 2), *[(nodes, width)] * 3, (nodes, 1), (width, 2), (width, width)]
    shapes += [(2 * width, width), (2 * width,), (width, 2)]
    found = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    found[4] = found[4].square()
    return found


def random_marks(arrangement: Arrangement) -> Marks:
    """Both freedoms at random, so that neighbours differ in them."""
    sign, scale = torch.randint(0, 2, (2, arrangement.node_count, 1)).float()
    return Marks(sign, scale)


def run(arrangement: Arrangement, marks: Marks, direction: int, *given: Tensor):  # type: ignore[no-untyped-def]
    edges, *rest = given
    return gated_messages(
        arrangement,
        marks,
        direction,
        edges,
        AtNodes(*rest[:4]),
        Weights(*rest[4:]),
        message=True,
        edge=True,
    )


def naive(arrangement: Arrangement, marks: Marks, direction: int, *given: Tensor):  # type: ignore[no-untyped-def]
    """Plain tensor operations on the rows of single connections."""
    edges, send, receive, known, square, lift_g, mix, gates, offset, lift = given
    own = torch.arange(arrangement.node_count).double().unsqueeze(1)
    rows = []
    for ends in (arrangement.at_targets(own), arrangement.at_sources(own)):
        rows.append(
            torch.cat(
                [
                    end.expand(*run.shape, 1).flatten().long()
                    for end, run in zip(ends, arrangement.runs, strict=True)
                ]
            )
        )
    i, j = rows if direction == 0 else rows[::-1]
    z = (edges @ lift_g.T) * send[j]
    norm = (square[i] + z.square().sum(-1, keepdim=True)) / z.shape[1] + 1 - marks.scale[i]
    a = (receive[i] + z @ mix.T) / norm.sqrt()
    f = torch.nn.functional.silu
    h = f(known[i] + a) + marks.sign[i] * f(known[i] - a)
    message, edge = (h @ gates.T + offset).chunk(2, -1)
    total = torch.zeros_like(send).index_add(0, i, z * message)
    return total, torch.zeros_like(send).index_add(0, i, h), (edges @ lift.T) * edge


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("number", range(4))
def test_against_single_connections(number: int, direction: int) -> None:
    arrangement = arrange(batches()[number])
    marks = random_marks(arrangement)
    given = [x.requires_grad_() for x in inputs(arrangement, WIDTH)]
    found = run(arrangement, marks, direction, *given)
    merged = arrangement.merge(found.total), arrangement.merge(found.invariants), found.edges
    expected = naive(arrangement, marks, direction, *given)
    weights = [torch.randn_like(tensor) for tensor in expected]
    grads = []
    for results in (merged, expected):
        for one, two in zip(results, expected, strict=True):
            torch.testing.assert_close(one, two)
        total = sum((r * w).sum() for r, w in zip(results, weights, strict=True))
        grads.append(torch.autograd.grad(total, given))  # type: ignore[arg-type]
    for one, two in zip(*grads, strict=True):
        torch.testing.assert_close(one, two)


def test_nothing_in_nothing_out() -> None:
    arrangement = arrange(mixed_batch(True))
    ones = torch.ones(arrangement.node_count, 1)
    given = inputs(arrangement, WIDTH)
    given[:5] = [torch.zeros_like(x) for x in given[:5]]
    given = [x.requires_grad_() for x in given]
    found = run(arrangement, Marks(ones, ones), 0, *given)
    assert not found.total.any()
    sum(tensor.sum() for tensor in found).backward()  # type: ignore[union-attr]
    for tensor in given:
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
