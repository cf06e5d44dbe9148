"""Augmentation of implicit networks in weight space: new weights, the same kind of image."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.errors import ModelError
from weightspace.graph import ChainRunner, GraphSpec, NodeSet, State


@dataclass(frozen=True)
class InrAugmentation:
    """Random changes of implicit networks, drawn anew for every network of a batch.

    Navon et al. 2023, appendix. Moving the image is exact, because the first layer is linear
    in the coordinates: ``f(s R x + t)`` has the first weight ``s W R`` and the first bias
    ``b + W t``. The published code translates through the bias of a random layer, which moves
    no image, and its noise is a constant; here translation is exact and noise is Gaussian.

    Args:
        spec: a chain, such as :func:`weightspace.zoo.siren.siren_spec`.
        translation: the largest shift along each coordinate; the image is 2 wide.
        rotation: the largest angle in degrees, for networks with two inputs.
        scaling: the largest relative change of the image's size.
        noise: the standard deviation of Gaussian noise on each tensor, relative to that
            tensor's own in each network.
        dropout: the chance of a weight to be set to zero.
        sign_flips: flip the signs of random hidden neurons, their inputs and outputs
            together. It leaves the function unchanged if the activations are odd.

    Raises:
        ModelError: a strength is negative, or the network lacks what a change needs.
        SpecError: the spec is not a chain.

    >>> from weightspace.zoo.siren import PUBLISHED, initial_states, siren_spec
    >>> augment = InrAugmentation(siren_spec([2, 8, 1]), noise=0.0)
    >>> state = initial_states([2, 8, 1], PUBLISHED, [1, 2, 3])
    >>> augment(state, torch.Generator().manual_seed(0))["seq.0.weight"].shape
    torch.Size([3, 8, 2])
    """

    spec: GraphSpec
    translation: float = 0.25
    rotation: float = 45.0
    scaling: float = 0.2
    noise: float = 0.02
    dropout: float = 0.0
    sign_flips: bool = False

    def __post_init__(self) -> None:
        ChainRunner(self.spec)
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if not 0 <= value < (1 if field.name in ("scaling", "dropout") else math.inf):
                raise ModelError(
                    field.name, expected="a strength in its range, from 0", found=str(value)
                )
        first = self.spec.node_sets[0]
        if self.rotation and self.spec.nodes_in(first.name) != 2:
            raise ModelError(
                "rotation",
                expected="networks with two inputs",
                found=f"{self.spec.nodes_in(first.name)} inputs",
                hint="Set rotation=0.",
            )
        if self.translation and not self.spec.node_sets[1].pieces:
            raise ModelError(
                "translation",
                expected="a first layer with a bias",
                found="none",
                hint="Set translation=0.",
            )
        if self.sign_flips:
            for node_set in self._hidden:
                _require_odd(node_set)

    def __call__(self, stacked: State, generator: torch.Generator) -> dict[str, Tensor]:
        """Change every network of a stacked state; the tensors given are left as they are.

        Args:
            stacked: each tensor of the state dict, ``[networks, *shape]``.
            generator: the source of randomness, on the tensors' device.
        """
        state = dict(stacked)
        if self.translation or self.rotation or self.scaling:
            state = move_inputs(self.spec, state, *self._motion(state, generator))
        if self.sign_flips:
            state = self._flip(state, generator)
        if self.noise:
            state = {name: self._shake(tensor, generator) for name, tensor in state.items()}
        if self.dropout:
            state = {name: self._drop(tensor, generator) for name, tensor in state.items()}
        return state

    def _motion(self, state: State, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw ``s R`` and ``t`` for every network."""
        weight = state[self._weights[0]]
        networks, inputs = weight.shape[0], weight.shape[2]

        def uniform(limit: float, *shape: int) -> Tensor:
            draw = torch.rand(
                (networks, *shape), generator=generator, dtype=weight.dtype, device=weight.device
            )
            return (2 * draw - 1) * limit

        scale = 1 + uniform(self.scaling, 1, 1)
        matrix = torch.eye(inputs, dtype=weight.dtype, device=weight.device)
        if self.rotation:
            matrix = rotation_matrices(uniform(math.radians(self.rotation)))
        return scale * matrix, uniform(self.translation, inputs)

    def _flip(self, state: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """Flip the signs of hidden neurons: ``sin(-z) = -sin(z)``."""
        for node_set, (weight, after) in zip(
            self._hidden, itertools.pairwise(self._weights), strict=True
        ):
            tensor = state[weight]
            draw = torch.randint(2, tensor.shape[:2], generator=generator, device=tensor.device)
            signs = (2 * draw - 1).to(tensor.dtype)
            state[weight] = tensor * signs[:, :, None]
            state[after] = state[after] * signs[:, None, :]
            for piece in node_set.pieces:
                state[piece.parameter] = state[piece.parameter] * signs
        return state

    def _shake(self, tensor: Tensor, generator: torch.Generator) -> Tensor:
        normal = torch.randn(
            tensor.shape, generator=generator, dtype=tensor.dtype, device=tensor.device
        )
        deviation = tensor.flatten(1).std(dim=1, correction=0)
        return tensor + normal * (self.noise * deviation).reshape(-1, *[1] * (tensor.ndim - 1))

    def _drop(self, tensor: Tensor, generator: torch.Generator) -> Tensor:
        draw = torch.rand(tensor.shape, generator=generator, device=tensor.device)
        return torch.where(draw < self.dropout, torch.zeros_like(tensor), tensor)

    @cached_property
    def _weights(self) -> tuple[str, ...]:
        return tuple(block.pieces[0].parameter for block in self.spec.blocks)

    @property
    def _hidden(self) -> tuple[NodeSet, ...]:
        return self.spec.node_sets[1:-1]


def move_inputs(
    spec: GraphSpec,
    stacked: State,
    matrices: Float[Tensor, "networks inputs inputs"],
    shifts: Float[Tensor, "networks inputs"],
) -> dict[str, Tensor]:
    """Change networks so that they compute ``x -> f(M x + t)``, exactly.

    ``W -> W M`` and ``b -> b + W t`` in the first layer.

    Args:
        spec: a chain of linear layers.
        stacked: each tensor of the state dict, ``[networks, *shape]``.
        matrices: M for each network.
        shifts: t for each network.

    Returns:
        The new stacked state, which shares the tensors of the further layers.
    """
    weight = spec.blocks[0].pieces[0].parameter
    moved = {**stacked, weight: stacked[weight] @ matrices}
    for piece in spec.node_sets[1].pieces:
        shift = torch.einsum("noi,ni->no", stacked[weight], shifts)
        moved[piece.parameter] = stacked[piece.parameter] + shift
    return moved


def rotation_matrices(angles: Float[Tensor, " networks"]) -> Float[Tensor, "networks 2 2"]:
    """Matrices that turn the plane by angles in radians.

    >>> rotation_matrices(torch.tensor([torch.pi / 2])).round().abs()
    tensor([[[0., 1.],
             [1., 0.]]])
    """
    cos, sin = torch.cos(angles), torch.sin(angles)
    return torch.stack([cos, -sin, sin, cos], dim=-1).reshape(-1, 2, 2)


def _require_odd(node_set: NodeSet) -> None:
    if not node_set.activation.law.odd:
        raise ModelError(
            "sign_flips",
            expected="odd activations such as sine and tanh",
            found=f"{node_set.activation} after {node_set.name}",
            hint="Set sign_flips=False.",
        )
