"""Differentiable pictures of implicit networks, all networks of a batch at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float
from torch import Tensor

from weightspace.errors import ModelError
from weightspace.graph import Batch, ChainRunner, GraphSpec
from weightspace.tasks.application import stacked_of
from weightspace.zoo.coordinates import pixel_grid


@dataclass(frozen=True)
class ImageRenderer:
    """Render networks with two inputs as images that gradients flow through.

    Where no gradients are wanted, :func:`weightspace.zoo.render` gives the same values in
    bounded memory.

    Args:
        spec: a chain, such as :func:`weightspace.zoo.siren.siren_spec`.
        height: the images' rows.
        width: the images' columns.

    Raises:
        ModelError: the networks do not have two inputs.
        SpecError: the networks are not plain chains of linear layers.

    >>> from weightspace.testing import sample_graph
    >>> from weightspace.zoo import siren_spec
    >>> spec = siren_spec([2, 8, 3])
    >>> ImageRenderer(spec, 4, 5)(sample_graph(spec, 2)).shape
    torch.Size([2, 4, 5, 3])
    """

    spec: GraphSpec
    height: int
    width: int

    def __post_init__(self) -> None:
        inputs = self.spec.nodes_in(self.spec.node_sets[0].name)
        if inputs != 2:
            raise ModelError(
                "spec",
                expected="networks with two inputs, the coordinates of a pixel",
                found=f"{inputs} inputs",
            )
        _ = self._runner

    def __call__(self, networks: Batch) -> Float[Tensor, "networks height width channels"]:
        """Render every network; values are not clipped.

        Raises:
            ModelError: the networks are of several architectures.
            StateError: or of another than the spec's.
        """
        stacked = stacked_of(self.spec, networks)
        first = next(iter(stacked.values()))
        points = pixel_grid(self.height, self.width, dtype=first.dtype).to(first.device)
        values = self._runner.run_stacked(stacked, points)[self.spec.node_sets[-1].name]
        return values.reshape(len(values), self.height, self.width, -1)

    @cached_property
    def _runner(self) -> ChainRunner:
        return ChainRunner(self.spec)
