"""Canonical scales, phases and settled signs: copies meet, the function stays, zeros stay zeros."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.graph.strategies import chains, random_stacked
from tests.models.scaled_modules import INPUTS, imported
from weightspace.graph import (
    Activation,
    ChainRunner,
    GraphSpec,
    SymmetryGroup,
    canonical_phases,
    canonical_scales,
    chain_spec,
    settled_factors,
)
from weightspace.graph.axis import RescalingKind

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def element(spec: GraphSpec, seed: int, *kinds: str):  # type: ignore[no-untyped-def]
    return SymmetryGroup(spec).sample(torch.Generator().manual_seed(seed), kinds=kinds)


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> None:
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, **CLOSE)


def check(spec: GraphSpec, stacked: dict[str, Tensor], seed: int) -> None:
    for kind in ("scale", "sign"):
        chosen: RescalingKind = kind
        found, applied = settled_factors(spec, stacked, chosen)
        same(found, {name: tensor * applied[name] for name, tensor in stacked.items()})
        moved = element(spec, seed, kind).act_stacked(stacked)
        same(found, settled_factors(spec, moved, chosen)[0])
        permuting = element(spec, seed, "permutation")
        moved = settled_factors(spec, permuting.act_stacked(stacked), chosen)[0]
        same(permuting.act_stacked(found), moved)


@settings(deadline=None, max_examples=40)
@given(chains(), st.integers(0, 99))
def test_copies_meet_and_the_function_stays(spec: GraphSpec, seed: int) -> None:
    stacked = random_stacked(spec, 3, seed, torch.float64)
    check(spec, stacked, seed)
    x = torch.randn(4, spec.nodes_in(spec.node_sets[0].name), dtype=torch.float64)
    output, runner = spec.node_sets[-1].name, ChainRunner(spec)
    before = runner.run_stacked(stacked, x)[output]
    for form in (canonical_scales, canonical_phases):
        torch.testing.assert_close(
            runner.run_stacked(form(spec, stacked), x)[output], before, **CLOSE
        )


@pytest.mark.parametrize("kind", INPUTS)
def test_imported_modules(kind: type[nn.Module]) -> None:
    graph = imported(kind)
    stacked = {n: t for n, t in graph.stacked_state().items() if t.is_floating_point()}
    rest = {n: t for n, t in graph.stacked_state().items() if n not in stacked}
    for kind_of in ("scale", "sign"):
        chosen: RescalingKind = kind_of
        moved = element(graph.spec, 1, chosen).act_stacked({**stacked, **rest})
        one, two = (settled_factors(graph.spec, s, chosen)[0] for s in ({**stacked, **rest}, moved))
        same({n: one[n] for n in stacked}, two)


def test_incoming_weights_have_norm_one() -> None:
    spec = chain_spec([2, 5, 4, 1], activations="relu")
    found = canonical_scales(spec, random_stacked(spec, 3, 0, torch.float64))
    for layer in ("0", "1"):
        rows = torch.cat([found[f"{layer}.weight"], found[f"{layer}.bias"][..., None]], -1)
        torch.testing.assert_close(rows.norm(dim=-1), torch.ones(rows.shape[:2]).double())


def test_dead_neurons_are_judged_by_what_they_send() -> None:
    spec = chain_spec([2, 3, 4, 3, 2], activations="relu")
    stacked = random_stacked(spec, 2, 0, torch.float64)
    stacked["0.weight"][:, 1] = 0.0
    stacked["0.bias"][:, 1] = 0.0
    # in the second layer a neuron hears only a dead one, which in the third is heard alone
    stacked["1.weight"][:, 2] = 0.0
    stacked["1.weight"][:, 2, 1] = 0.3
    stacked["1.bias"][:, 2] = 0.0
    check(spec, stacked, 3)
    assert all(tensor.isfinite().all() for tensor in canonical_scales(spec, stacked).values())


def test_zeros_are_left_alone_and_have_finite_gradients() -> None:
    spec = chain_spec([2, 3, 3, 1], activations="relu")
    stacked = {
        name: torch.zeros_like(tensor).requires_grad_()
        for name, tensor in random_stacked(spec, 2, 0).items()
    }
    found = canonical_scales(spec, stacked)
    sum(tensor.sum() for tensor in found.values()).backward()  # type: ignore[union-attr]
    for name, tensor in stacked.items():
        assert torch.equal(found[name], tensor)
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()


def test_tiny_and_huge_weights_do_not_vanish() -> None:
    spec = chain_spec([2, 3, 1], activations="relu")
    stacked = random_stacked(spec, 1, 0)
    moved = {
        **stacked,
        "0.weight": stacked["0.weight"] * 1e-25,
        "0.bias": stacked["0.bias"] * 1e-25,
        "1.weight": stacked["1.weight"] * 1e25,
    }
    one, two = canonical_scales(spec, stacked), canonical_scales(spec, moved)
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor)


@pytest.mark.parametrize("kind", ["scale", "sign"])
def test_gradients(kind: RescalingKind) -> None:
    spec = chain_spec([2, 2, 2, 1], activations="none")
    stacked = random_stacked(spec, 1, 0, torch.float64)

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(stacked, tensors, strict=True))
        return tuple(settled_factors(spec, given, kind)[0].values())

    assert torch.autograd.gradcheck(run, [t.requires_grad_() for t in stacked.values()])


@settings(deadline=None)
@given(st.integers(0, 99), st.sampled_from([1.0, 3.0, 30.0]))
def test_phases_meet(seed: int, w0: float) -> None:
    spec = chain_spec([2, 5, 4, 1], activations=Activation.of("sine", w0=w0))
    generator = torch.Generator().manual_seed(seed)
    stacked = random_stacked(spec, 3, seed, torch.float64)
    moved = dict(stacked)
    for layer in (0, 1):
        shape = stacked[f"{layer}.bias"].shape
        turns = torch.randint(-3, 4, shape, generator=generator).double()
        moved[f"{layer}.bias"] = moved[f"{layer}.bias"] + turns * torch.pi / w0
        signs = 1 - 2 * (turns % 2)
        moved[f"{layer + 1}.weight"] = moved[f"{layer + 1}.weight"] * signs[:, None, :]
    x = torch.randn(4, 2, dtype=torch.float64)
    runs = [ChainRunner(spec).run_stacked(s, x)["2"] for s in (stacked, moved)]
    torch.testing.assert_close(*runs, **CLOSE)
    one, two = canonical_phases(spec, stacked), canonical_phases(spec, moved)
    same(one, two)
    assert one["0.bias"].abs().max() <= torch.pi / (2 * w0) + 1e-12
    flipped = element(spec, seed, "permutation", "sign")
    same(flipped.act_stacked(one), canonical_phases(spec, flipped.act_stacked(stacked)))


def test_other_functions_have_no_phases() -> None:
    for spec in (chain_spec([2, 5, 1], activations="tanh"), imported(next(iter(INPUTS))).spec):
        stacked = {
            p.name: torch.randn(1, *p.shape)
            for p in (*spec.parameters, *(item.parameter for item in spec.left_out))
        }
        found = canonical_phases(spec, stacked)
        assert all(torch.equal(found[name], tensor) for name, tensor in stacked.items())
