"""SIRENs, the sine networks that represent images, and the variants that corpora differ by."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import Activation, GraphSpec, chain_spec

Bound = Literal["sine", "fan_in", "linear", "zero"]
"""How a tensor is drawn, uniform within plus and minus: ``sqrt(6 / fan_in) / w0`` (sine),
``1 / fan_in`` (fan_in), ``1 / sqrt(fan_in)`` (linear: as in ``torch.nn.Linear``), or 0."""


@dataclass(frozen=True, slots=True)
class SirenVariant:
    """What two SIRENs of the same sizes may differ by before they are trained.

    Sitzmann et al. 2020, section 3.2, and the corpus of Navon et al. 2023. The variant decides
    what can be read from the weights: with the textbook's wide first layer and random biases,
    independently initialised networks keep so much of their initial values that a metanetwork
    that reads weights alone hardly learns; with the published corpus' narrow first layer and
    zero biases it learns.

    Args:
        w0_first: the frequency of the first layer's sine.
        w0_hidden: the frequency of the further sines.
        first: how the first layer's weights are drawn; the further hidden layers' are drawn
            within the bound ``sine``.
        output: how the output layer's weights are drawn.
        bias: how the hidden layers' biases are drawn.
        output_bias: how the output layer's biases are drawn.
        offset: what is added to the output.
        shared_init: the seed of one initialisation that all networks share; with None, each
            network has its own.

    >>> PUBLISHED.offset, TEXTBOOK.first
    (0.5, 'fan_in')
    """

    w0_first: float = 30.0
    w0_hidden: float = 30.0
    first: Bound = "sine"
    output: Bound = "sine"
    bias: Bound = "zero"
    output_bias: Bound = "zero"
    offset: float = 0.5
    shared_init: int | None = None

    def w0(self, layer: int) -> float:
        """The frequency of a hidden layer's sine."""
        return self.w0_first if layer == 0 else self.w0_hidden

    def bounds(self, layer: int, layers: int, fan_in: int) -> tuple[float, float]:
        """The largest initial weight and bias of a layer.

        Args:
            layer: the layer's place, the first is 0.
            layers: how many there are, the output layer included.
            fan_in: how many inputs the layer has.
        """
        if layer == layers - 1:
            weight, bias = self.output, self.output_bias
        else:
            weight, bias = (self.first if layer == 0 else "sine"), self.bias
        w0 = self.w0(layer)
        return _BOUNDS[weight](fan_in, w0), _BOUNDS[bias](fan_in, w0)


_BOUNDS: dict[str, Callable[[int, float], float]] = {
    "sine": lambda fan_in, w0: math.sqrt(6 / fan_in) / w0,
    "fan_in": lambda fan_in, w0: 1 / fan_in,
    "linear": lambda fan_in, w0: 1 / math.sqrt(fan_in),
    "zero": lambda fan_in, w0: 0.0,
}

PUBLISHED = SirenVariant()
"""The first layer drawn like the hidden ones, biases at zero, half the brightest value added to
the output, as in the published corpus (Navon et al. 2023), and the output layer drawn like the
others, too, so that the images are sharp after a tenth of the corpus' steps. Weights alone
tell what the image is."""

PUBLISHED_EXACT = SirenVariant(output="linear", output_bias="linear")
"""The published corpus to the letter: its output layer is a plain linear layer. Adam at 1e-3
with 2,000 steps gives that corpus' deviations of weights (.063, .018, .118) and its blur (about
27 dB on MNIST)."""

TEXTBOOK = SirenVariant(
    first="fan_in", output="sine", bias="linear", output_bias="linear", offset=0.0
)
"""The variant of Sitzmann et al. 2020. A metanetwork needs probe features, or one shared
initialisation, to read such networks."""


def siren_spec(
    sizes: Sequence[int], variant: SirenVariant = PUBLISHED, *, dtype: str = "float32"
) -> GraphSpec:
    """Describe a SIREN: ``x -> W_L sin(w0 (W x + b)) ... + b_L + offset``.

    Args:
        sizes: the numbers of neurons, inputs first: ``[2, 32, 32, 1]``.
        variant: the frequencies and the output's offset.
        dtype: the type of the tensors.

    Raises:
        ModelError: there is no hidden layer.

    >>> [p.name for p in siren_spec([2, 8, 1]).parameters]
    ['seq.0.weight', 'seq.0.bias', 'seq.1.weight', 'seq.1.bias']
    """
    layers = count_layers(sizes)
    return chain_spec(
        sizes,
        activations=[Activation.of("sine", w0=variant.w0(layer)) for layer in range(layers - 1)],
        output=Activation.of("offset", value=variant.offset),
        layer_names=[f"seq.{layer}" for layer in range(layers)],
        dtype=dtype,
    )


def count_layers(sizes: Sequence[int]) -> int:
    """Count the linear layers of a SIREN.

    Raises:
        ModelError: there is no hidden layer, or a size is not positive.
    """
    if len(sizes) < 3 or min(sizes) < 1:
        raise ModelError(
            "SIREN",
            expected="an input size, one or more hidden sizes and an output size, all positive",
            found=f"sizes {list(sizes)}",
        )
    return len(sizes) - 1


def initial_states(
    sizes: Sequence[int],
    variant: SirenVariant,
    seeds: Sequence[int],
    *,
    dtype: torch.dtype = torch.float32,
) -> dict[str, Tensor]:
    """Draw the initial parameters of a stack of SIRENs, each from its own seed.

    Args:
        sizes: the numbers of neurons, inputs first.
        variant: the bounds of the uniform draws.
        seeds: one for each network; its values depend on nothing else.
        dtype: the type of the tensors; the values are those of single precision in any case.

    Returns:
        The stacked state: ``seq.0.weight`` of shape ``[networks, out, in]``, and so on.

    >>> initial_states([2, 8, 1], PUBLISHED, [7, 8])["seq.0.weight"].shape
    torch.Size([2, 8, 2])
    """
    layers = count_layers(sizes)
    shapes: list[tuple[str, tuple[int, ...], float]] = []
    for layer, (fan_in, out) in enumerate(itertools.pairwise(sizes)):
        weight, bias = variant.bounds(layer, layers, fan_in)
        shapes += [(f"seq.{layer}.weight", (out, fan_in), weight)]
        shapes += [(f"seq.{layer}.bias", (out,), bias)]
    counts = [math.prod(shape) for _, shape, _ in shapes]
    if variant.shared_init is not None:
        draws = _draw(sum(counts), variant.shared_init).expand(len(seeds), -1)
    else:
        draws = torch.stack([_draw(sum(counts), seed) for seed in seeds])
    parts = torch.split(draws, counts, dim=1)
    return {
        name: ((2 * part - 1) * bound).to(dtype).reshape(len(seeds), *shape)
        for (name, shape, bound), part in zip(shapes, parts, strict=True)
    }


def _draw(count: int, seed: int) -> Float[Tensor, " count"]:
    return torch.rand(count, generator=torch.Generator().manual_seed(seed))


class Siren(nn.Module):
    """One SIREN as an ordinary module: ``x -> W_L sin(w0 (W x + b)) ... + b_L + offset``.

    Sitzmann et al. 2020, equation 5. For people and for reference runs; its state dict belongs
    to :func:`siren_spec`.

    Args:
        sizes: the numbers of neurons, inputs first.
        variant: frequencies, initialisation and offset.
        seed: the seed of the initialisation.

    >>> Siren([2, 8, 1])(torch.zeros(5, 2)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self, sizes: Sequence[int], variant: SirenVariant = PUBLISHED, *, seed: int = 0
    ) -> None:
        super().__init__()
        layers = count_layers(sizes)
        self.variant = variant
        self.seq = nn.ModuleList(
            nn.Linear(sizes[layer], sizes[layer + 1]) for layer in range(layers)
        )
        state = initial_states(sizes, variant, [seed])
        self.load_state_dict({name: tensor[0] for name, tensor in state.items()})

    def forward(self, x: Float[Tensor, "points inputs"]) -> Float[Tensor, "points channels"]:
        """Evaluate the image at points."""
        *hidden, output = self.seq
        for layer, linear in enumerate(hidden):
            x = torch.sin(self.variant.w0(layer) * linear(x))
        values: Tensor = output(x)
        return values + self.variant.offset
