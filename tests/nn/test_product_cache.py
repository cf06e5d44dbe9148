"""The cache of products: exact, bounded, counted."""

from __future__ import annotations

import pytest
import torch

from tests.graph.strategies import random_stacked
from weightspace.graph import NeuralGraph, chain_spec
from weightspace.models import NGGNNLinear, Predictor, Requirements
from weightspace.nn.product_cache import ProductCache

SPEC = chain_spec([6, 7, 8, 9, 8, 7, 6], activations="tanh")
LAYERS = 2


def make() -> Predictor:
    torch.manual_seed(0)
    trunk = NGGNNLinear(Requirements.of([SPEC]), width=4, layers=LAYERS, frequencies=4)
    return Predictor(trunk, outputs=3).eval()


def states() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """A network, and a copy of it with one changed block."""
    stacked = random_stacked(SPEC, 1, 0)
    changed = {name: tensor.clone() for name, tensor in stacked.items()}
    changed["0.weight"][0, 2, 3] += 0.5
    return stacked, changed


@torch.no_grad()
def test_only_what_changed_is_computed_again() -> None:
    model = make()
    own, tuned = (NeuralGraph.from_stacked(SPEC, s) for s in states())
    plain = [model(own), model(tuned)]
    cache = model.trunk.products = ProductCache()
    blocks = len(SPEC.blocks)
    assert torch.equal(model(own), plain[0])
    assert (cache.hits, cache.misses) == (0, LAYERS * blocks)
    assert torch.equal(model(own), plain[0])
    assert (cache.hits, cache.misses) == (LAYERS * blocks, LAYERS * blocks)
    before = cache.misses
    assert torch.equal(model(tuned), plain[1])
    # the first layer's product of the changed block, the second's with all that touch its ends
    assert cache.misses - before == 1 + 2


@torch.no_grad()
def test_another_model_shares_nothing() -> None:
    cache = ProductCache()
    graph = NeuralGraph.from_stacked(SPEC, states()[0])
    first = make()
    first.trunk.products = cache
    first(graph)
    other = make()
    other.trunk.layers[0].messages.along.weight.mul_(1.5)
    expected = other(graph)
    other.trunk.products = cache
    assert torch.equal(other(graph), expected)


@torch.no_grad()
@pytest.mark.parametrize("most", [0, 1000])
def test_memory_is_bounded(most: int) -> None:
    model = make()
    cache = model.trunk.products = ProductCache(most_bytes=most)
    own, tuned = (NeuralGraph.from_stacked(SPEC, s) for s in states())
    expected = model(own)
    for graph in (own, tuned, own):
        model(graph)
        assert cache.held_bytes <= most
    assert torch.equal(model(own), expected)
    cache.clear()
    assert cache.held_bytes == 0


def test_gradients_are_not_taken_from_the_cache() -> None:
    model = make()
    graph = NeuralGraph.from_stacked(SPEC, states()[0])
    cache = model.trunk.products = ProductCache()
    with torch.no_grad():
        model(graph)
    counts = cache.hits, cache.misses
    model(graph).sum().backward()
    assert (cache.hits, cache.misses) == counts
    assert model.trunk.layers[0].messages.along.weight.grad.abs().max() > 0


@torch.no_grad()
def test_weights_changed_in_place_are_noticed() -> None:
    model = make()
    stacked, changed = states()
    graph = NeuralGraph.from_stacked(SPEC, stacked)
    expected = model(NeuralGraph.from_stacked(SPEC, changed))
    model.trunk.products = ProductCache()
    model(graph)
    stacked["0.weight"].copy_(changed["0.weight"])
    assert torch.equal(model(graph), expected)
