"""Relational attention and the update of pairs against autograd on the plain formulas."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.nn.batches import mixed_batch
from weightspace.nn import arrange, pair_layout
from weightspace.nn.head_products import HeadProducts
from weightspace.nn.keeping import Kept
from weightspace.nn.pair_layout import PairLayout
from weightspace.nn.pair_layouts import all_pairs, connected_pairs
from weightspace.nn.pair_update import PairUpdate
from weightspace.nn.relational_attention import NodeProjections, PairMaps, relational_attention

WIDTH, SIZE, HEADS = 3, 8, 2
LAYOUTS = [all_pairs, connected_pairs]


def ends(layout: PairLayout) -> tuple[Tensor, Tensor, Tensor]:
    """Receiver, sender and reverse of every row of the pair buffer."""
    nodes = torch.arange(layout.arrangement.node_count).double().unsqueeze(1)
    pools = layout.senders(nodes).shape[0]
    all_senders = torch.arange(pools).double().unsqueeze(1)
    rows = torch.arange(layout.pair_count).double().unsqueeze(1)
    receiver, sender, reverse = [], [], []
    for grid in layout.grids:
        shape = (grid.lead, grid.receivers, grid.senders, 1)
        receiver.append(grid.at_receivers(nodes).expand(shape).flatten())
        sender.append(grid.at_senders(all_senders).expand(shape).flatten())
        other = layout.grids[grid.reverse].of_pairs(rows)
        reverse.append(other.transpose(1, 2).flatten())
    return tuple(torch.cat(part).long() for part in (receiver, sender, reverse))  # type: ignore


def tensors(*shapes: tuple[int, ...]) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("layout_of", LAYOUTS)
@pytest.mark.parametrize("several", [False, True])
def test_pairs_never_join_two_networks(layout_of, several: bool) -> None:  # type: ignore
    layout = layout_of(arrange(mixed_batch(several)))
    receiver, sender, reverse = ends(layout)
    networks = layout.arrangement.networks
    pools = layout.senders(networks.double().unsqueeze(1)).flatten().long()
    assert torch.equal(networks[receiver], pools[sender])
    assert torch.equal(reverse[reverse], torch.arange(layout.pair_count))
    real = sender < layout.arrangement.node_count
    assert torch.equal(receiver[reverse][real], sender[real])


@pytest.mark.parametrize("layout_of", LAYOUTS)
@pytest.mark.parametrize("several", [False, True])
def test_connections_are_pairs_of_their_ends(layout_of, several: bool) -> None:  # type: ignore
    layout = layout_of(arrange(mixed_batch(several)))
    receiver, sender, reverse = ends(layout)
    arrangement = layout.arrangement
    nodes = torch.arange(arrangement.node_count).double().unsqueeze(1)
    targets, sources = arrangement.at_targets(nodes), arrangement.at_sources(nodes)
    target = torch.cat([(t + 0 * s).flatten() for t, s in zip(targets, sources, strict=True)])
    source = torch.cat([(s + 0 * t).flatten() for t, s in zip(targets, sources, strict=True)])
    along = torch.arange(layout.pair_count)[layout.along]
    assert torch.equal(receiver[along], target.long())
    assert torch.equal(sender[along], source.long())
    assert torch.equal(reverse[along], layout.against)


def naive_attention(layout: PairLayout, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    pairs, query, key, factor, bias, queries, keys, values = inputs
    receiver, sender, _ = ends(layout)
    q = queries[receiver] + pairs @ query.T
    k = keys[sender] + pairs @ key.T
    v = values[sender] * (pairs @ factor.T + bias)
    logits = (q * k).view(len(pairs), HEADS, -1).sum(-1) / math.sqrt(SIZE)
    mixed, pooled = [], []
    for node in range(len(queries)):
        mine = receiver == node
        shares = torch.softmax(logits[mine], dim=0)
        mixed.append((shares.unsqueeze(-1) * v[mine].view(-1, HEADS, SIZE // HEADS)).sum(0))
        pooled.append((shares.unsqueeze(-1) * pairs[mine].unsqueeze(1)).sum(0))
    return torch.stack(mixed).flatten(1), torch.stack(pooled)


@pytest.mark.parametrize("layout_of", LAYOUTS)
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("piece", [1, 25, 1 << 11])
def test_attention(layout_of, several: bool, piece: int, monkeypatch) -> None:  # type: ignore
    monkeypatch.setattr(pair_layout, "PIECE_PAIRS", piece)
    layout = layout_of(arrange(mixed_batch(several)))
    nodes = layout.arrangement.node_count
    senders = len(layout.senders(torch.zeros(nodes, 1)))
    inputs = tensors(
        (layout.pair_count, WIDTH),
        *[(SIZE, WIDTH)] * 3,
        (SIZE,),
        (nodes, SIZE),
        *[(senders, SIZE)] * 2,
    )
    ours = relational_attention(
        layout, inputs[0], PairMaps(*inputs[1:5]), NodeProjections(*inputs[5:]), heads=HEADS
    )
    theirs = naive_attention(layout, *inputs)
    _same_with_gradients(ours, theirs, inputs)


@pytest.mark.parametrize("layout_of", LAYOUTS)
@pytest.mark.parametrize("piece", [1, 25, 1 << 11])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_update_of_pairs(layout_of, piece: int, dropout: float, monkeypatch) -> None:  # type: ignore
    monkeypatch.setattr(pair_layout, "PIECE_PAIRS", piece)
    layout = layout_of(arrange(mixed_batch(several=True)))
    torch.manual_seed(0)
    update = PairUpdate(nodes=4, pairs=WIDTH, hidden=5, dropout=dropout).double()
    for parameter in update.parameters():
        torch.nn.init.normal_(parameter)
    nodes, pairs = tensors((layout.arrangement.node_count, 4), (layout.pair_count, WIDTH))
    torch.manual_seed(1)
    ours = update(layout, nodes, pairs)
    torch.manual_seed(1)
    kept = [Kept.draw(len(pairs), WIDTH, dropout, pairs.device) for _ in range(2)]
    one, two = (1.0 if k is None else k.mask * k.scale for k in kept)
    receiver, sender, reverse = ends(layout)
    lifted = update.pair(torch.cat([pairs, pairs[reverse]], -1)) + update.receiver(nodes)[receiver]
    lifted = lifted + update.sender(layout.senders(nodes))[sender]
    between = update.norm(pairs + one * update.out(F.gelu(lifted)))
    change = update.second(F.gelu(update.first(between)))
    theirs = update.last_norm(between + two * change)
    _same_with_gradients((ours,), (theirs,), [nodes, pairs, *update.parameters()])


def _same_with_gradients(
    ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...], inputs: list[Tensor]
) -> None:
    weights = [torch.randn_like(output) for output in theirs]
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two)
    grads = [
        torch.autograd.grad(
            sum((o * w).sum() for o, w in zip(outputs, weights, strict=True)), inputs
        )
        for outputs in (ours, theirs)
    ]
    for one, two in zip(*grads, strict=True):
        torch.testing.assert_close(one, two)


def test_large_logits_stay_finite() -> None:
    layout = connected_pairs(arrange(mixed_batch(several=False)))
    nodes = layout.arrangement.node_count
    senders = len(layout.senders(torch.zeros(nodes, 1)))
    pairs, weight, queries, keys = tensors(
        (layout.pair_count, WIDTH), (SIZE, WIDTH), (nodes, SIZE), (senders, SIZE)
    )
    maps = PairMaps(weight, weight, weight, weight[:, 0])
    mixed, pooled = relational_attention(
        layout, pairs, maps, NodeProjections(1e4 * queries, keys, keys), heads=HEADS
    )
    assert torch.isfinite(mixed).all()
    assert torch.isfinite(pooled).all()


@pytest.mark.parametrize("senders", [1, 3, 20])
def test_head_products(senders: int) -> None:
    products = HeadProducts.of(HEADS, SIZE, torch.zeros(1, dtype=torch.float64))
    shares, values, grad = tensors((4, senders, HEADS), (4, senders, SIZE), (4, SIZE))
    wide = shares.repeat_interleave(SIZE // HEADS, dim=-1)
    torch.testing.assert_close(products.spread(shares), wide)
    expected = (wide * values).sum(1)
    torch.testing.assert_close(products.mix(shares, values), expected)
    wanted = torch.autograd.grad(expected, [shares, values], grad)
    with torch.no_grad():
        found = products.mix_backward(grad, shares, values.clone())
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, two)


def test_kept_values() -> None:
    torch.manual_seed(0)
    kept = Kept.draw(1001, 33, 0.2, torch.device("cpu"))
    assert kept is not None
    assert kept.mask.shape == (1001, 33)
    assert abs(kept.mask.double().mean() - 1 / kept.scale) < 0.01
    assert abs(1 / kept.scale - 0.8) < 1 / 512
    # every byte of a word is as random as the others
    places = kept.mask.flatten()[: 1001 * 32].view(-1, 8).double().mean(0)
    assert (places - 0.8).abs().max() < 0.03
    factors = kept.factors(slice(3, 7), torch.zeros(1, dtype=torch.float64))
    assert torch.equal(factors, kept.mask[3:7].double())
    assert Kept.draw(5, 5, 0.0, torch.device("cpu")) is None
