"""Specs: contents, equality, JSON, printing, refusals."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest
from hypothesis import given

from tests.graph.strategies import chains
from weightspace.errors import SpecError
from weightspace.graph import (
    Axis,
    EdgeBlock,
    Factor,
    GraphSpec,
    Parameter,
    Piece,
    Span,
    chain_spec,
    spec_from_json,
    spec_to_json,
)


def test_siren_counts() -> None:
    spec = chain_spec([2, 32, 32, 1], activations="sine")
    assert (spec.node_count, spec.edge_count, spec.parameter_count) == (67, 1120, 1185)
    assert [axis.permutes for axis in spec.axes] == [False, True, True, False]


def test_without_biases() -> None:
    spec = chain_spec([2, 5, 3], bias=[False, True])
    assert [p.name for p in spec.parameters] == ["0.weight", "1.weight", "1.bias"]
    assert spec.node_set("0").features == 0


@given(chains())
def test_json_round_trip(spec: GraphSpec) -> None:
    again = spec_from_json(spec_to_json(spec))
    assert again == spec
    assert hash(again) == hash(spec)
    assert again.fingerprint == spec.fingerprint


def test_fingerprint_is_the_same_in_another_process() -> None:
    code = "from weightspace.graph import chain_spec; print(chain_spec([2, 4, 1]).fingerprint)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == chain_spec([2, 4, 1]).fingerprint


def test_specs_that_differ_differ() -> None:
    base = chain_spec([2, 4, 1], activations="relu")
    assert base != chain_spec([2, 4, 1], activations="tanh")
    assert base.fingerprint != chain_spec([2, 4, 1], activations="tanh").fingerprint
    assert base != chain_spec([2, 5, 1], activations="relu")


def test_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        chain_spec([2, 4, 1]).axes = ()  # type: ignore[misc]


def test_prints_as_a_table() -> None:
    text = str(chain_spec([2, 4, 1], activations="tanh"))
    assert "7 nodes, 12 edges, 17 parameters" in text
    assert "S_4" in text
    assert "tanh" in text


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ([2], {}, "at least an input and an output size"),
        ([2, 0, 1], {}, "a positive size"),
        ([2, 3, 1], {"activations": ["relu", "relu"]}, "activations: expected one, or 1"),
        ([2, 3, 1], {"bias": [True]}, "bias: expected one, or 2"),
        ([2, 3, 1], {"activations": "reluu"}, "reluu"),
        ([2, 3, 1], {"layer_names": ["a"]}, "2 names"),
    ],
)
def test_bad_chains(sizes: list[int], options: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        chain_spec(sizes, **options)  # type: ignore[arg-type]


def test_doubled_names() -> None:
    with pytest.raises(SpecError, match="more than once"):
        chain_spec([2, 3, 1], layer_names=["a", "a"])


def test_input_axes_cannot_permute() -> None:
    with pytest.raises(SpecError, match="permutes=False"):
        Axis("input", 2, "input")


def test_pieces_must_fit() -> None:
    spec = chain_spec([2, 3, 1])
    piece = Piece("0.weight", (Span((Factor(4, "0", "target"),)), Span()))
    block = EdgeBlock("0.weight", "input", "0", "dense", pieces=(piece,))
    with pytest.raises(SpecError, match=r"0\.weight"):
        dataclasses.replace(spec, blocks=(block, spec.blocks[1]))
    with pytest.raises(SpecError, match="one of"):
        dataclasses.replace(spec, parameters=(Parameter("other", (3,)),))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"axes": 3}', '{"axes": [{}]}'])
def test_broken_json(text: str) -> None:
    with pytest.raises(SpecError):
        spec_from_json(text)


def test_tampered_json() -> None:
    data = json.loads(spec_to_json(chain_spec([2, 3, 1])))
    data["blocks"][0]["source"] = "nowhere"
    with pytest.raises(SpecError, match="nowhere"):
        spec_from_json(json.dumps(data))
