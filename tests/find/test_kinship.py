from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.find.networks import (
    TRACED,
    bare,
    chain,
    moved,
    pruned,
    rounded,
    small_cnn,
    traced,
    tuned,
)
from weightspace.find import Network, kinship, rounding_of
from weightspace.graph import SymmetryGroup

BARE = {"chain": chain(), "cnn": bare(small_cnn())}
WAYS = [(), ("permutation",), ("permutation", "scale"), ("permutation", "sign")]


@pytest.mark.parametrize("name", BARE)
@pytest.mark.parametrize("kinds", WAYS[1:])
def test_reordered_and_rescaled_copies(name: str, kinds: tuple[str, ...]) -> None:
    found = kinship(BARE[name], moved(BARE[name], kinds))
    assert found.kind == "permuted copy"
    assert found.moved
    assert bool(found.note) == (len(kinds) > 1)


@pytest.mark.parametrize("kind", TRACED)
def test_reordered_copies_of_modules(kind: str) -> None:
    network = traced(kind)
    assert network.spec is not None
    draw = torch.Generator().manual_seed(1)
    element = SymmetryGroup(network.spec).sample(draw, kinds=("permutation", "sign"))
    other = Network.of(element.act_state(network.state), network.spec)
    assert kinship(network, other).kind == "permuted copy"
    assert kinship(network, traced(kind, 9)).kind == "unrelated"


def test_names_and_types_do_not_matter() -> None:
    spec = chain().spec
    state = {name: tensor.half() for name, tensor in chain().state.items()}
    same = {name: tensor.double() for name, tensor in state.items()}
    other = chain(layer_names=["a.x", "a.y", "b"])
    renamed = dict(zip(other.names(), state.values(), strict=True))
    one = Network.of(state, spec)
    assert kinship(one, Network.of(same, spec)).kind == "copy"
    assert kinship(one, Network.of(renamed, other.spec)).kind == "copy"


def test_another_bias_is_no_copy() -> None:
    network = chain()
    state = {n: t.clone() for n, t in network.state.items()}
    state["1.bias"][3] += 0.01
    for other in (Network.of(state, network.spec), moved(Network.of(state, network.spec))):
        assert kinship(network, other).kind == "fine-tune"


@pytest.mark.parametrize("kinds", WAYS)
def test_made_of_another(kinds: tuple[str, ...]) -> None:
    network = chain()
    base = moved(network, kinds) if kinds else network
    half = Network.of({n: t.half() for n, t in base.state.items()}, base.spec)
    for expected, other in (("quantised", half), ("quantised", rounded(base)),
                            ("pruned", pruned(base))):  # fmt: skip
        found = kinship(network, other)
        assert (found.kind, found.derived) == (expected, "other")
        assert kinship(other, network).derived == "one"
    assert kinship(network, moved(tuned(network), kinds or ("permutation",))).kind == "fine-tune"


@pytest.mark.parametrize("name", BARE)
def test_strangers(name: str) -> None:
    other = {"chain": chain(1), "cnn": bare(small_cnn(1))}[name]
    assert kinship(BARE[name], other).kind == "unrelated"
    assert kinship(BARE[name], tuned(other)).kind == "unrelated"
    assert kinship(chain(), chain(sizes=(7, 5, 3))).kind in {"unlike", "unrelated"}


def test_what_can_be_aligned_by_chance_is_no_kin() -> None:
    for seed in range(4):
        one, other = (chain(s, sizes=(2, 64, 2)) for s in (seed, seed + 50))
        assert not kinship(one, other).is_kin


@pytest.mark.parametrize("reorder", [False, True])
def test_a_new_head(reorder: bool) -> None:
    module = small_cnn()
    network = bare(module)
    module[-1] = nn.Linear(12 * 16, 7)  # type: ignore[operator]
    wide = bare(module)
    other = moved(wide) if reorder else wide
    found = kinship(network, other)
    assert found.kind in {"fine-tune", "unlike"}
    assert found.shared < 1


def test_most_of_a_network_is_shared() -> None:
    network = chain()
    head = chain(sizes=(12, 24, 16, 3))
    state = {**head.state, **{n: t for n, t in network.state.items() if not n.startswith("2")}}
    for other in (Network.of(state, head.spec), moved(Network.of(state, head.spec))):
        found = kinship(network, other)
        assert found.kind == "fine-tune"
        assert found.similarity > 0.999
        assert 0.5 < found.shared < 1
        assert "shares" in found.note
    assert not kinship(chain(1), Network.of(state, head.spec)).is_kin


def test_unknown_structures_are_compared_as_they_are() -> None:
    names = ("a.weight", "b.weight", "c.weight")
    one, other = (
        Network.of({n: torch.randn(20, 20, generator=g) for n in names}, None)
        for g in (torch.Generator().manual_seed(s) for s in (0, 1))
    )
    near = Network.of({n: t + 0.1 * torch.randn(20, 20) for n, t in one.state.items()}, None)
    assert kinship(one, near).kind == "fine-tune"
    assert kinship(one, other).kind == "unrelated"


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_rounding_to_integers(rows: bool, bits: int) -> None:
    weights = torch.randn(24, 32, generator=torch.Generator().manual_seed(0))
    top = weights.abs().amax(1, keepdim=True) if rows else weights.abs().max()
    step = top / (2 ** (bits - 1) - 1)
    whole = (weights / step).round() * step
    found = rounding_of(Network.of({"a.weight": whole}, None))
    assert found.to == "integers"
    true = float((whole - weights).norm() / weights.norm())
    assert found.error == pytest.approx(true, rel=0.15)
    assert rounding_of(Network.of({"a.weight": weights}, None)).to == ""


def test_rounding_to_half_precision() -> None:
    weights = torch.randn(24, 32)
    for dtype in (torch.float16, torch.bfloat16):
        found = rounding_of(Network.of({"a.weight": weights.to(dtype)}, None))
        assert found.to == str(dtype).removeprefix("torch.")
