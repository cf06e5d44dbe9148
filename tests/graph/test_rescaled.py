"""Which node sets can be multiplied, and by what."""

from __future__ import annotations

from tests.models.scaled_modules import Attending, Gated, Normed, Tied, imported
from weightspace.graph import GraphSpec, chain_spec, rescaled


def freedoms(spec: GraphSpec) -> dict[str, str]:
    """``+`` for signs, ``*`` for scales."""
    return {
        node_set.name: "+" * freedom.sign + "*" * freedom.scale
        for node_set, freedom in zip(spec.node_sets, rescaled(spec).freedoms, strict=True)
    }


def test_chains() -> None:
    spec = chain_spec([2, 3, 3, 3, 3, 1], activations=["relu", "tanh", "gelu", "none"])
    assert list(freedoms(spec).values()) == ["", "*", "+", "", "+*", ""]
    assert not rescaled(spec).leftover
    assert rescaled(spec).freedoms[1].channels == (True,)
    assert rescaled(spec).freedoms[3].channels == (False,)


def test_a_norm_has_other_scales_before_and_after_it() -> None:
    spec = imported(Normed).spec
    found = freedoms(spec)
    assert found["first"] == ""
    assert [found[name] for name in ("norm", "second", "network.add")] == ["*"] * 3
    shift, *statistics = rescaled(spec).freedoms[2].channels
    assert shift
    assert not any(statistics)


def test_residuals_tie_signs_and_concatenations_do_not() -> None:
    found = freedoms(imported(Tied).spec)
    assert [found[name] for name in ("a", "b", "network.add", "d")] == ["+"] * 4
    assert found["c"] == "*"


def test_gates_are_left_over() -> None:
    spec = imported(Gated).spec
    assert set(freedoms(spec).values()) == {""}
    assert rescaled(spec).leftover == {rescaling.name for rescaling in spec.rescalings}


def test_attention_is_plain() -> None:
    found = freedoms(imported(Attending).spec)
    assert found["q"] == ""
    assert found["out"] == "*"
