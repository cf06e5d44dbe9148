"""General linear symmetries of attention."""

from __future__ import annotations

import pytest
import torch

from weightspace.graph import spec_from_json, spec_to_json

from .checking import TOLERANCE, faithful
from .transformers import Attention, Block, Language

IDS = torch.tensor([[3, 1, 4, 1, 5, 9]])

CASES = {
    "plain": ({}, ["query-key", "value-output"]),
    "grouped": ({"heads": 4, "kv_heads": 2}, ["query-key", "value-output"]),
    "rotary": ({"rotary": True}, ["value-output"]),
    "normed queries": ({"qk_norm": True}, ["value-output"]),
}


@pytest.mark.parametrize("name", CASES)
def test_pairs_mix(name: str) -> None:
    options, expected = CASES[name]
    net = Language(Block(Attention(**options)))
    graph = faithful(net, IDS)
    assert sorted(m.name.rsplit(".", 1)[1] for m in graph.spec.mixings) == expected
    for kinds in (("gl",), ("permutation", "sign", "scale", "gl")):
        report = graph.symmetry.check(net, (IDS,), kinds=kinds)
        assert report.max_relative_change <= 100 * TOLERANCE
    moved = graph.symmetry.sample(kinds=("gl",)).act_state(graph.state_dict())
    changed = {k for k, v in graph.state_dict().items() if not torch.equal(v, moved[k])}
    wanted = {"v", "o"} | ({"q", "k"} if len(expected) == 2 else set())
    assert {k.split(".")[3] for k in changed} == wanted
    assert spec_from_json(spec_to_json(graph.spec)) == graph.spec
