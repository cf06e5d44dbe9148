"""The gradient of many SIRENs at once, derived by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from weightspace.zoo.domains import Domain
from weightspace.zoo.first_layer import FirstLayer, FirstMemory
from weightspace.zoo.siren import SirenVariant, count_layers

CACHE_BYTES = 3 << 19
"""Scratch memory that a block of networks may fill: most of a core's second-level cache."""


@dataclass(frozen=True)
class StackShape:
    """What a stack of SIRENs computes, without its numbers.

    Args:
        sizes: the numbers of neurons, inputs first.
        variant: frequencies and offset.
        points: at how many points it is evaluated at a time.
    """

    sizes: tuple[int, ...]
    variant: SirenVariant
    points: int

    @property
    def layers(self) -> int:
        """The number of linear layers."""
        return count_layers(self.sizes)

    @property
    def values(self) -> int:
        """The number of values of a signal."""
        return self.points * self.sizes[-1]

    @property
    def block(self) -> int:
        """How many networks' activations fit into the cache."""
        hidden = sum(self.sizes[1:-1])
        neurons = 2 * hidden + max(self.sizes[1:-1]) - self.sizes[1] + self.sizes[-1]
        return max(1, CACHE_BYTES // (4 * neurons * self.points))


class SirenStack:
    """SIRENs in one flat buffer, with the gradient of their mean squared errors.

    The optimiser sees one parameter, so its step is one elementwise operation for the whole
    stack. A block of networks at a time runs through scratch memory that stays in the cache:
    on a CPU the page faults of fresh memory cost more than the arithmetic.

    Args:
        state: the stacked state, see :func:`weightspace.zoo.siren.initial_states`.
        shape: sizes, variant and number of points.
        domains: the points, or several sets of points to take by turns.

    >>> from weightspace.zoo.domains import PixelGrid
    >>> from weightspace.zoo.siren import PUBLISHED, initial_states
    >>> shape = StackShape((2, 8, 1), PUBLISHED, 16)
    >>> stack = SirenStack(initial_states(shape.sizes, PUBLISHED, [1, 2]), shape, [PixelGrid(4, 4)])
    >>> stack.gradient(torch.zeros(2, 1, 16)).shape  # the errors; the gradient is in flat.grad
    torch.Size([2])
    """

    def __init__(
        self, state: Mapping[str, Tensor], shape: StackShape, domains: Sequence[Domain]
    ) -> None:
        first = state["seq.0.weight"]
        self.shape = shape
        self._domains = tuple(domains)
        self.networks = first.shape[0]
        self.flat = nn.Parameter(torch.empty(self._count, dtype=first.dtype, device=first.device))
        self._gradients = torch.zeros_like(self.flat)
        self.flat.grad = self._gradients
        self._weights = self._views(self.flat.detach())
        self._write(state)
        block = min(self.networks, shape.block) if first.device.type == "cpu" else self.networks
        gradients = self._views(self._gradients)
        scratch: dict[int, _Scratch] = {}
        self._blocks: list[_Block] = []
        for start in range(0, self.networks, block):
            weights = [weight[start : start + block] for weight in self._weights]
            slots = [gradient[start : start + block] for gradient in gradients]
            size = weights[0].shape[0]
            if size not in scratch:
                scratch[size] = _Scratch(size, shape, self.flat.detach())
            chosen = slice(start, start + size)
            layers = [scratch[size].first_layer(domain, chosen) for domain in self._domains]
            self._blocks.append(_Block(weights, slots, scratch[size], layers, shape))

    def gradient(
        self, targets: Float[Tensor, "networks channels points"], domain: int = 0
    ) -> Float[Tensor, " networks"]:
        """Compute every network's gradient, and its error with the parameters as they are.

        Args:
            targets: the signals at the domain's points, less the variant's offset.
            domain: which of the domains.

        Returns:
            The root of each network's mean squared error. The gradients of the mean squared
            errors are in ``flat.grad``.
        """
        parts = zip(self._blocks, torch.split(targets, self._blocks[0].networks), strict=True)
        return torch.cat(
            [block.backward(block.forward(part, domain), domain) for block, part in parts]
        )

    def errors(
        self, targets: Float[Tensor, "networks channels points"], domain: int = 0
    ) -> Float[Tensor, " networks"]:
        """The root of each network's mean squared error."""
        parts = zip(self._blocks, torch.split(targets, self._blocks[0].networks), strict=True)
        return torch.cat(
            [block.root_mean_square(block.forward(part, domain)) for block, part in parts]
        )

    def state(self) -> dict[str, Tensor]:
        """The parameters as a stacked state."""
        result: dict[str, Tensor] = {}
        for layer, values in enumerate(self._weights):
            result[f"seq.{layer}.weight"] = values[:, :-1].transpose(1, 2).contiguous()
            result[f"seq.{layer}.bias"] = values[:, -1].clone()
        return result

    def select(self, networks: Int[Tensor, " chosen"]) -> SirenStack:
        """Make a stack of some of the networks, with their gradients."""
        state = {name: tensor[networks] for name, tensor in self.state().items()}
        domains = [domain.select(networks) for domain in self._domains]
        chosen = SirenStack(state, self.shape, domains)
        chosen._gradients.copy_(self.rows(self._gradients, networks))
        return chosen

    def rows(self, flat: Tensor, networks: Int[Tensor, " chosen"]) -> Tensor:
        """Take some networks' values out of a buffer laid out like ``flat``."""
        views = self._views(flat)
        return torch.cat([view.index_select(0, networks).reshape(-1) for view in views])

    def _views(self, flat: Tensor) -> list[Tensor]:
        """A buffer as ``[networks, in + 1, out]`` for each layer, the biases last."""
        sizes = self.shape.sizes
        shapes = [(self.networks, i + 1, o) for i, o in itertools.pairwise(sizes)]
        parts = torch.split(flat, [math.prod(shape) for shape in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    @property
    def _count(self) -> int:
        sizes = self.shape.sizes
        return self.networks * sum((i + 1) * o for i, o in itertools.pairwise(sizes))

    def _write(self, state: Mapping[str, Tensor]) -> None:
        for layer, values in enumerate(self._weights):
            values[:, :-1] = state[f"seq.{layer}.weight"].transpose(1, 2)
            values[:, -1] = state[f"seq.{layer}.bias"]


class _Scratch:
    """Memory for the activations of some networks, used by one block after another.

    Hidden values carry a last row of ones, so that a product with ``[W, b]`` adds the bias.
    All views are made once: at this size of work making them would cost a tenth of the time.
    """

    def __init__(self, networks: int, shape: StackShape, like: Tensor) -> None:
        hidden, points = shape.sizes[1:-1], shape.points
        self.values = [like.new_ones(networks, size + 1, points) for size in hidden]
        self.values_t = [values.transpose(1, 2) for values in self.values]
        self.sines = [values[:, :-1] for values in self.values]
        self.slopes = [like.new_empty(networks, size, points) for size in hidden[1:]]
        self.slopes_t = [slopes.transpose(1, 2) for slopes in self.slopes]
        delta = like.new_empty(networks * max(hidden) * points)
        self.deltas = [
            delta[: networks * size * points].view(networks, size, points) for size in hidden
        ]
        self.error = like.new_empty(networks, shape.sizes[-1], points)
        self._phases = torch.empty_like(self.deltas[0])
        self._layers: dict[Domain, FirstLayer] = {}

    def first_layer(self, domain: Domain, networks: slice) -> FirstLayer:
        """The first layer at some networks' points; made once for points that all share."""
        memory = FirstMemory(self.values[0], self.deltas[0], self._phases)
        if not domain.shared:
            return domain.select(networks).first_layer(memory)
        if domain not in self._layers:
            self._layers[domain] = domain.first_layer(memory)
        return self._layers[domain]


class _Block:
    """The networks of a stack that are computed together."""

    def __init__(
        self,
        weights: Sequence[Tensor],
        gradients: Sequence[Tensor],
        scratch: _Scratch,
        first_layers: Sequence[FirstLayer],
        shape: StackShape,
    ) -> None:
        self.networks = weights[0].shape[0]
        self._shape = shape
        self._scratch = scratch
        self._first_layers = first_layers
        self._frequencies = [shape.variant.w0(layer) for layer in range(shape.layers - 1)]
        self._forward = [weight.transpose(1, 2) for weight in weights]
        self._backward = [weight[:, :-1] for weight in weights]
        self._gradients = list(gradients)
        # The output layer's gradient is a thin matrix: cheaper to compute as a row.
        self._output_gradient = gradients[-1].transpose(1, 2)

    def forward(self, targets: Tensor, domain: int) -> Tensor:
        """Evaluate the networks; their values less the targets."""
        memory = self._scratch
        self._first_layers[domain].forward(self._forward[0], self._frequencies[0])
        for layer, phases in enumerate(memory.slopes, start=1):
            weight, inputs = self._forward[layer], memory.values[layer - 1]
            w0 = self._frequencies[layer]
            torch.baddbmm(phases, weight, inputs, beta=0, alpha=w0, out=phases)
            torch.sin(phases, out=memory.sines[layer])
        inputs = memory.values[-1]
        return torch.baddbmm(targets, self._forward[-1], inputs, beta=-1, out=memory.error)

    def root_mean_square(self, error: Tensor) -> Float[Tensor, " networks"]:
        """The root of each network's mean squared error."""
        norms: Tensor = torch.linalg.vector_norm(error, dim=(1, 2))
        return norms / math.sqrt(self._shape.values)

    def backward(self, error: Tensor, domain: int) -> Float[Tensor, " networks"]:
        """Fill the gradients from the values less the targets; the errors as a by-product.

        Factors (the mean's, the frequencies') are put off to the products that give the
        gradients, where they cost nothing.
        """
        memory = self._scratch
        result = self.root_mean_square(error)
        factor = 2.0 / self._shape.values
        slot = self._output_gradient
        torch.baddbmm(slot, error, memory.values_t[-1], beta=0, alpha=factor, out=slot)
        torch.bmm(self._backward[-1], error, out=memory.deltas[-1])
        for layer in range(self._shape.layers - 2, 0, -1):
            factor *= self._frequencies[layer]
            # The phases are not needed any more: they turn into cosines, then into gradients.
            slopes, slot = memory.slopes[layer - 1], self._gradients[layer]
            slopes.cos_().mul_(memory.deltas[layer])
            inputs, outputs = memory.values[layer - 1], memory.slopes_t[layer - 1]
            torch.baddbmm(slot, inputs, outputs, beta=0, alpha=factor, out=slot)
            torch.bmm(self._backward[layer], slopes, out=memory.deltas[layer - 1])
        slot = self._gradients[0]
        self._first_layers[domain].backward(factor * self._frequencies[0], slot)
        return result
