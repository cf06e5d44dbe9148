"""The gradient of many SIRENs at once, derived by hand for images on a grid of pixels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from weightspace.zoo.first_layer import FirstLayer, PointwiseLayer, SeparableLayer
from weightspace.zoo.siren import SirenVariant, count_layers

CACHE_BYTES = 3 << 19
"""Scratch memory that a block of networks may fill: most of a core's second-level cache."""

SEPARABLE_PIXELS = 400
"""From this image size on a separable first layer is the faster one."""


@dataclass(frozen=True)
class StackShape:
    """What a stack of SIRENs computes, without its numbers.

    Args:
        sizes: the numbers of neurons, inputs first; there are two inputs.
        variant: frequencies and offset.
        height: the images' rows.
        width: the images' columns.
    """

    sizes: tuple[int, ...]
    variant: SirenVariant
    height: int
    width: int

    @property
    def layers(self) -> int:
        """The number of linear layers."""
        return count_layers(self.sizes)

    @property
    def pixels(self) -> int:
        """The number of pixels."""
        return self.height * self.width

    @property
    def values(self) -> int:
        """The number of values in an image."""
        return self.pixels * self.sizes[-1]

    @property
    def separable(self) -> bool:
        """Whether the first layer is computed from rows and columns (measured crossover)."""
        return self.pixels >= SEPARABLE_PIXELS

    @property
    def block(self) -> int:
        """How many networks' activations fit into the cache."""
        hidden = sum(self.sizes[1:-1])
        neurons = 2 * hidden + max(self.sizes[1:-1]) - self.sizes[1] + self.sizes[-1]
        return max(1, CACHE_BYTES // (4 * neurons * self.pixels))


class SirenStack:
    """SIRENs in one flat buffer, with the gradient of their mean squared errors.

    The optimiser sees one parameter, so its step is one elementwise operation for the whole
    stack. A block of networks at a time runs through scratch memory that stays in the cache:
    on a CPU the page faults of fresh memory cost more than the arithmetic.

    Args:
        state: the stacked state, see :func:`weightspace.zoo.siren.initial_states`.
        shape: sizes, variant and image size.

    >>> from weightspace.zoo.siren import PUBLISHED, initial_states
    >>> shape = StackShape((2, 8, 1), PUBLISHED, 4, 4)
    >>> stack = SirenStack(initial_states(shape.sizes, PUBLISHED, [1, 2]), shape)
    >>> stack.gradient(torch.zeros(2, 1, 16)).shape  # the errors; the gradient is in flat.grad
    torch.Size([2])
    """

    def __init__(self, state: Mapping[str, Tensor], shape: StackShape) -> None:
        first = state["seq.0.weight"]
        self.shape = shape
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
            self._blocks.append(_Block(weights, slots, scratch[size], shape))

    def gradient(
        self, targets: Float[Tensor, "networks channels pixels"]
    ) -> Float[Tensor, " networks"]:
        """Compute every network's gradient, and its error with the parameters as they are.

        Args:
            targets: the images, less the variant's offset.

        Returns:
            The root of each network's mean squared error. The gradients of the mean squared
            errors are in ``flat.grad``.
        """
        parts = zip(self._blocks, torch.split(targets, self._blocks[0].networks), strict=True)
        return torch.cat([block.backward(block.forward(part)) for block, part in parts])

    def errors(
        self, targets: Float[Tensor, "networks channels pixels"]
    ) -> Float[Tensor, " networks"]:
        """The root of each network's mean squared error."""
        parts = zip(self._blocks, torch.split(targets, self._blocks[0].networks), strict=True)
        return torch.cat([block.root_mean_square(block.forward(part)) for block, part in parts])

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
        chosen = SirenStack(state, self.shape)
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
        hidden, pixels = shape.sizes[1:-1], shape.pixels
        self.values = [like.new_ones(networks, size + 1, pixels) for size in hidden]
        self.values_t = [values.transpose(1, 2) for values in self.values]
        self.sines = [values[:, :-1] for values in self.values]
        self.slopes = [like.new_empty(networks, size, pixels) for size in hidden[1:]]
        self.slopes_t = [slopes.transpose(1, 2) for slopes in self.slopes]
        delta = like.new_empty(networks * max(hidden) * pixels)
        self.deltas = [
            delta[: networks * size * pixels].view(networks, size, pixels) for size in hidden
        ]
        self.error = like.new_empty(networks, shape.sizes[-1], pixels)
        first = SeparableLayer if shape.separable else PointwiseLayer
        self.first: FirstLayer = first(
            self.values[0], self.deltas[0], height=shape.height, width=shape.width
        )


class _Block:
    """The networks of a stack that are computed together."""

    def __init__(
        self,
        weights: Sequence[Tensor],
        gradients: Sequence[Tensor],
        scratch: _Scratch,
        shape: StackShape,
    ) -> None:
        self.networks = weights[0].shape[0]
        self._shape = shape
        self._scratch = scratch
        self._frequencies = [shape.variant.w0(layer) for layer in range(shape.layers - 1)]
        self._forward = [weight.transpose(1, 2) for weight in weights]
        self._backward = [weight[:, :-1] for weight in weights]
        self._gradients = list(gradients)
        # The output layer's gradient is a thin matrix: cheaper to compute as a row.
        self._output_gradient = gradients[-1].transpose(1, 2)

    def forward(self, targets: Tensor) -> Tensor:
        """Evaluate the networks; their values less the targets."""
        memory = self._scratch
        memory.first.forward(self._forward[0], self._frequencies[0])
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

    def backward(self, error: Tensor) -> Float[Tensor, " networks"]:
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
        memory.first.backward(factor * self._frequencies[0], self._gradients[0])
        return result
