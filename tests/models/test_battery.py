"""Every registered model through the battery that the package ships."""

from __future__ import annotations

import ast
from pathlib import Path

from weightspace.graph import MixedGraph, chain_spec
from weightspace.models import (
    MODELS,
    NGGNN,
    NGT,
    FlatMLP,
    FlatMLPAligned,
    FlatMLPAugmented,
    Inr2Vec,
    NeuronTransformer,
    NGGNNLinear,
    NGTEdges,
    ProbeOnly,
    Requirements,
    ScaleGMN,
    StatNN,
    Trunk,
)
from weightspace.testing import TrunkBattery, sample_graph


class TestNGGNN(TrunkBattery):
    def make(self, requirements: Requirements) -> Trunk:
        return NGGNN(requirements, width=4, layers=3, frequencies=4, dropout=0.0)


class TestNGGNNWithProbes(TrunkBattery):
    def make(self, requirements: Requirements) -> Trunk:
        return NGGNN(requirements, width=4, layers=2, frequencies=4, dropout=0.0, probes=3)


class TestFlatMLP(TrunkBattery):
    kinds = ()
    mixes = False

    def make(self, requirements: Requirements) -> Trunk:
        return FlatMLP(requirements, width=8, layers=2, dropout=0.0)


class TestNGGNNLinear(TrunkBattery):
    unread = ("layers.1.messages.against",)  # nothing comes to output nodes against connections

    def make(self, requirements: Requirements) -> Trunk:
        return NGGNNLinear(requirements, width=8, layers=2, frequencies=4, dropout=0.0)


SMALL = {"width": 8, "pair_width": 4, "size": 8, "heads": 2, "layers": 2, "node_hidden": 8,
         "pair_hidden": 8, "frequencies": 4, "dropout": 0.0}  # fmt: skip


class TestNGT(TrunkBattery):
    def make(self, requirements: Requirements) -> Trunk:
        return NGT(requirements, **SMALL)


class TestNGTEdges(TrunkBattery):
    def make(self, requirements: Requirements) -> Trunk:
        return NGTEdges(requirements, **SMALL)


class TestScaleGMN(TrunkBattery):
    kinds = ("permutation", "sign", "scale")

    def make(self, requirements: Requirements) -> Trunk:
        return ScaleGMN(requirements, width=8, layers=2)


class TestStatNN(TrunkBattery):
    edits = False

    def make(self, requirements: Requirements) -> Trunk:
        return StatNN(requirements, width=8, layers=2, dropout=0.0)


class TestProbeOnly(TrunkBattery):
    kinds = ("permutation", "sign", "scale")
    edits = False

    def make(self, requirements: Requirements) -> Trunk:
        return ProbeOnly(requirements, probes=3, width=8, layers=2, dropout=0.0)


class TestFlatMLPAligned(TrunkBattery):
    kinds = ()
    mixes = False

    def make(self, requirements: Requirements) -> Trunk:
        return FlatMLPAligned(requirements, width=8, layers=2, dropout=0.0)


class TestFlatMLPAugmented(TrunkBattery):
    kinds = ()
    mixes = False
    couples = True  # every training pass draws orders for its whole batch

    def make(self, requirements: Requirements) -> Trunk:
        return FlatMLPAugmented(requirements, width=8, layers=2, dropout=0.0)


class TestInr2Vec(TrunkBattery):
    kinds = ()
    mixes = False
    couples = True  # batch normalisation, as published

    def batches(self) -> list[MixedGraph]:
        spec = chain_spec([2, 5, 5, 1], activations="tanh")
        return [MixedGraph.of(sample_graph(spec, 5))]

    def make(self, requirements: Requirements) -> Trunk:
        return Inr2Vec(requirements)


class TestNeuronTransformer(TrunkBattery):
    kinds = ()

    def make(self, requirements: Requirements) -> Trunk:
        return NeuronTransformer(requirements, width=8, layers=1, heads=2, dropout=0.0)


def test_every_model_goes_through_the_battery() -> None:
    tested = {
        node.value.func.id
        for path in Path(__file__).parent.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Return)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
    }
    assert {entry.family.__name__ for entry in MODELS.values()} <= tested
