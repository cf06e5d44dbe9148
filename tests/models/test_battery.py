"""Every registered model through the battery that the package ships."""

from __future__ import annotations

from weightspace.models import NGGNN, FlatMLP, Requirements, Trunk
from weightspace.testing import TrunkBattery


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
