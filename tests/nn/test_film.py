"""The hand-written backward passes against autograd on the plain formulas."""

from __future__ import annotations

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.nn.batches import mixed_batch
from weightspace.nn import Arrangement, DirectedMap, arrange, edge_silu, film_aggregate, pieces

WIDTH = 3


def tensors(*shapes: tuple[int, ...]) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def cached(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut batches into smaller or larger pieces."""
    monkeypatch.setattr(pieces, "cached_parts", functools.partial(pieces.cached_parts, limit=limit))


def inputs_of(arrangement: Arrangement, out: int) -> list[Tensor]:
    return tensors(
        (2, arrangement.edge_count, WIDTH),
        (2, out, WIDTH),
        (2, out),
        (arrangement.node_count, WIDTH),
        (arrangement.node_count, WIDTH),
    )


def naive_film(arrangement: Arrangement, *inputs: Tensor) -> list[Tensor]:
    edges, weight, bias, receivers, senders = inputs
    totals: list[list[Tensor]] = [[] for _ in range(4)]
    for i in range(2):
        states = arrangement.views(F.linear(edges[i], weight[i], bias[i]))
        pair = (arrangement.at_targets, arrangement.at_sources)
        mine, theirs = pair[i](receivers), pair[1 - i](senders)
        for state, receiver, sender in zip(states, mine, theirs, strict=True):
            scale, shift = state.chunk(2, -1)
            message, over = scale * (receiver + sender) + shift, 2 - i
            found = (
                message.sum(over),
                message.square().sum(over),
                message.amin(over),
                message.amax(over),
            )
            for total, value in zip(totals, found, strict=True):
                total.append(value.flatten(0, 1))
    half = len(arrangement.runs)
    order = [i for run in range(half) for i in (run, half + run)]
    joins = (torch.add, torch.add, torch.minimum, torch.maximum)
    return [
        arrangement.merge(torch.cat([total[i] for i in order]), join)
        for total, join in zip(totals, joins, strict=True)
    ]


@pytest.mark.parametrize("limit", [1, 40, 1 << 18])
@pytest.mark.parametrize("several", [False, True])
def test_film_aggregate(limit: int, several: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cached(limit, monkeypatch)
    arrangement = arrange(mixed_batch(several))
    inputs = inputs_of(arrangement, 2 * WIDTH)
    ours = film_aggregate(arrangement, inputs[0], DirectedMap(*inputs[1:3]), *inputs[3:])
    theirs = naive_film(arrangement, *inputs)
    weights = [torch.randn_like(output) for output in theirs]
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two)
    grads = [
        torch.autograd.grad([(o * w).sum() for o, w in zip(outputs, weights, strict=True)], inputs)
        for outputs in (ours, theirs)
    ]
    for one, two in zip(*grads, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("limit", [1, 40, 1 << 18])
@pytest.mark.parametrize("several", [False, True])
def test_edge_silu(limit: int, several: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cached(limit, monkeypatch)
    arrangement = arrange(mixed_batch(several))
    inputs = inputs_of(arrangement, WIDTH)
    edges, weight, bias, receivers, senders = inputs
    ours = edge_silu(arrangement, edges, DirectedMap(weight, bias), receivers, senders)
    both = []
    for i in range(2):
        mine, theirs = (receivers, senders) if i == 0 else (senders, receivers)
        ends = zip(
            arrangement.views(F.linear(edges[i], weight[i], bias[i])),
            arrangement.at_targets(mine),
            arrangement.at_sources(theirs),
            strict=True,
        )
        both.append(arrangement.flat([F.silu(e + t + s) for e, t, s in ends]))
    naive = torch.stack(both)
    torch.testing.assert_close(ours, naive)
    factor = torch.randn_like(naive)
    for one, two in zip(
        torch.autograd.grad((ours * factor).sum(), inputs),
        torch.autograd.grad((naive * factor).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, two)


def test_ties_share_the_gradient() -> None:
    arrangement = arrange(mixed_batch(several=False))
    edges = torch.zeros(2, arrangement.edge_count, 1, dtype=torch.float64, requires_grad=True)
    film = DirectedMap(*(torch.ones(2, 2, 1).double(), torch.zeros(2, 2).double()))
    nodes = torch.ones(arrangement.node_count, 1, dtype=torch.float64)
    found = film_aggregate(arrangement, edges, film, nodes, nodes)
    found.minimum.sum().backward()
    run = arrangement.runs[0]
    shares = edges.grad[0, run.edges]
    # two for the scale's pair of ones and one for the shift; shared with the messages that come
    # against the next run's connections, and among the senders
    torch.testing.assert_close(shares, torch.full_like(shares, 3.0 / 2 / run.sources))
