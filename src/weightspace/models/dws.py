"""DWSNet: the network of complete equivariant layers of Navon et al. 2023."""

from __future__ import annotations

from weightspace.models.option_limits import checked_options
from weightspace.models.requirements import Requirements
from weightspace.models.space_trunk import (
    SpaceChanges,
    SpaceReadout,
    SpaceTrunk,
    space_layers,
)
from weightspace.models.trunk import ChangesHead, Option, Readout
from weightspace.nn.networks import Networks
from weightspace.nn.space_pooling import Aggregate
from weightspace.nn.space_state import Channels, SpaceState


class DWSNet(SpaceTrunk):
    """Layers of all maps that commute with the permutations of hidden neurons.

    Navon et al., "Equivariant Architectures for Learning in Deep Weight Spaces", ICML 2023.
    :class:`~weightspace.nn.DWSLayer` and ReLU in turn; for a prediction every weight and bias
    is pooled over its permuting axes, and an MLP follows; for an edit one more layer gives a
    value for each weight. Reads networks of one architecture: linear layers, convolutions,
    norms, embeddings, and residuals, whose axes are tied.

    Args:
        requirements: the networks it reads.
        width: channels of each weight and bias.
        layers: equivariant layers.
        aggregate: ``"sum"``, ``"max"`` (the published default: the maximum in place of each
            sum) or ``"attention"``.

    Raises:
        ModelError: the training networks differ in architecture, or have a block that two
            permuting axes do not describe.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> model = DWSNet(Requirements.of([chain_spec([2, 32, 32, 1])]))
    >>> sum(p.numel() for p in model.parameters())
    233696
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        width: int = 32,
        layers: int = 4,
        aggregate: Aggregate = "max",
    ) -> None:
        super().__init__(requirements, name="dws", aggregate=aggregate)
        self._options = checked_options(
            {
                "width": width,
                "layers": layers,
                "aggregate": aggregate,
            }
        )
        self.channels = Channels.equal(self.space, width)
        self.width = width
        states = [Channels.features(self.space), *[self.channels] * layers]
        self.first = states[0]
        self.layers = space_layers(states, aggregate, self.name)

    @property
    def options(self) -> dict[str, Option]:
        """The keyword arguments that make this trunk again."""
        return dict(self._options)

    def forward(self, networks: Networks) -> SpaceState:
        """Read networks."""
        state = self.first.lift(self.space.read(networks.normal.parts))
        for layer in self.layers:
            state = layer(state)
        return state

    def make_readout(self) -> Readout:
        """The invariant layer and an MLP."""
        return SpaceReadout(self.channels, aggregate=self.aggregate, width=4 * self.width, layers=2)

    def make_changes(self) -> ChangesHead:
        """One more layer."""
        return SpaceChanges(self.channels, aggregate=self.aggregate, requirements=self.requirements)
