"""NFN for hidden neuron permutations: Zhou et al. 2023."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from weightspace.models.option_limits import checked_options
from weightspace.models.requirements import Requirements
from weightspace.models.space_trunk import (
    SpaceChanges,
    SpaceReadout,
    SpaceTrunk,
    space_layers,
)
from weightspace.models.trunk import ChangesHead, Option, Readout
from weightspace.nn.fourier_features import FourierFeatures
from weightspace.nn.networks import Networks
from weightspace.nn.space_state import Channels, SpaceState
from weightspace.nn.weight_space import WeightTensor


class NFNHNP(SpaceTrunk):
    """Layers equivariant to hidden permutations, on Fourier features of weights.

    Zhou et al., "Permutation Equivariant Neural Functionals", NeurIPS 2023, the form HNP. Input
    and output neurons keep their places, so its space of maps is that of
    :class:`~weightspace.models.DWSNet`, and so are its layers; pooling is by means, weights and
    biases enter through random Fourier features, and the head is wider. As published: width
    512, head 1000.

    Args:
        requirements: the networks it reads.
        width: channels of each weight and bias.
        layers: equivariant layers.
        frequencies: of the random Fourier features.
        sigma: the deviation of those frequencies.
        head: width of the two layers of the readout.

    Raises:
        ModelError: as for :class:`~weightspace.models.DWSNet`.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> NFNHNP(Requirements.of([chain_spec([2, 8, 1])]), width=16).options["layers"]
    3
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        width: int = 64,
        layers: int = 3,
        frequencies: int = 128,
        sigma: float = 3.0,
        head: int = 256,
    ) -> None:
        super().__init__(requirements, name="nfn-hnp", aggregate="sum")
        self._options = checked_options(
            {
                "width": width,
                "layers": layers,
                "frequencies": frequencies,
                "sigma": sigma,
                "head": head,
            }
        )
        most = max(tensor.features for tensor in self.space.tensors)
        self.fourier = FourierFeatures(most, frequencies=frequencies, sigma=sigma)
        self.channels, self.head = Channels.equal(self.space, width), head
        self.first = Channels.equal(self.space, self.fourier.width)
        self.layers = space_layers([self.first, *[self.channels] * layers], "sum", self.name)

    @property
    def options(self) -> dict[str, Option]:
        """The keyword arguments that make this trunk again."""
        return dict(self._options)

    def forward(self, networks: Networks) -> SpaceState:
        """Read networks."""
        tensors = self.space.read(networks.normal.parts)
        lifted = [self._lift(t, v) for t, v in zip(self.space.tensors, tensors, strict=True)]
        state = self.first.lift(lifted)
        for layer in self.layers:
            state = layer(state)
        return state

    def _lift(self, tensor: WeightTensor, values: Tensor) -> Float[Tensor, "batch *axes channels"]:
        copies = values.reshape(*values.shape[:-1], tensor.copies, tensor.features)
        features: Tensor = self.fourier(copies, range(tensor.features))
        return features.flatten(-2)

    def make_readout(self) -> Readout:
        """Means of each weight and bias, and an MLP."""
        return SpaceReadout(self.channels, aggregate="sum", width=self.head, layers=2)

    def make_changes(self) -> ChangesHead:
        """One more layer."""
        return SpaceChanges(self.channels, aggregate="sum", requirements=self.requirements)
