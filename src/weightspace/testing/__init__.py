"""What a new metanetwork is tested with; for use in other projects, too."""

from weightspace.testing.battery import TrunkBattery
from weightspace.testing.networks import sample_batches, sample_graph

__all__ = ["TrunkBattery", "sample_batches", "sample_graph"]
