"""Activation functions as data: a name, arguments, and what the symmetry group may assume."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.errors import SpecError, similar_name


@dataclass(frozen=True, slots=True)
class ActivationLaw:
    """What is known of an activation function.

    Args:
        function: the elementwise function.
        odd: f(-x) = -f(x), so a neuron's sign may flip.
        homogeneous: f(a x) = a f(x) for a > 0, so a neuron may be rescaled.
    """

    function: Callable[..., Tensor]
    odd: bool = False
    homogeneous: bool = False


def _sine(x: Tensor, w0: float = 1.0) -> Tensor:
    return torch.sin(w0 * x)


def _offset(x: Tensor, value: float = 0.0) -> Tensor:
    return x + value


LAWS: dict[str, ActivationLaw] = {
    "none": ActivationLaw(lambda x: x, odd=True, homogeneous=True),
    "offset": ActivationLaw(_offset),
    "relu": ActivationLaw(F.relu, homogeneous=True),
    "leaky_relu": ActivationLaw(F.leaky_relu, homogeneous=True),
    "relu6": ActivationLaw(F.relu6),
    "elu": ActivationLaw(F.elu),
    "selu": ActivationLaw(F.selu),
    "celu": ActivationLaw(F.celu),
    "gelu": ActivationLaw(F.gelu),
    "silu": ActivationLaw(F.silu),
    "mish": ActivationLaw(F.mish),
    "softplus": ActivationLaw(F.softplus),
    "sigmoid": ActivationLaw(torch.sigmoid),
    "hardsigmoid": ActivationLaw(F.hardsigmoid),
    "hardswish": ActivationLaw(F.hardswish),
    "tanh": ActivationLaw(torch.tanh, odd=True),
    "hardtanh": ActivationLaw(F.hardtanh, odd=True),
    "softsign": ActivationLaw(F.softsign, odd=True),
    "sine": ActivationLaw(_sine, odd=True),
}
"""Every activation function with a name. The order is the order of learned embeddings:
append, never reorder, or saved metanetworks change their meaning."""


@dataclass(frozen=True, slots=True)
class Activation:
    """An elementwise function with its arguments, as it stands after a node set.

    Args:
        name: a key of :data:`LAWS`, or ``"unknown"``.
        arguments: keyword arguments as sorted (name, value) pairs, such as ``(("w0", 30.0),)``.

    Raises:
        SpecError: the name is not known.

    >>> Activation.of("sine", w0=30.0)(torch.zeros(2))
    tensor([0., 0.])
    >>> str(Activation.of("sine", w0=30.0))
    'sine(w0=30)'
    """

    name: str = "none"
    arguments: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if self.name not in LAWS and self.name != "unknown":
            raise SpecError(
                "activation",
                expected=f"one of {', '.join(LAWS)} or unknown",
                found=repr(self.name),
                hint=similar_name(self.name, LAWS)
                or "Name the closest function, or use 'unknown' if the network is not to be run.",
            )

    @classmethod
    def of(cls, name: str, **arguments: float) -> Activation:
        """Make an activation from keyword arguments."""
        return cls(name, tuple(sorted(arguments.items())))

    @property
    def law(self) -> ActivationLaw:
        """The function and its properties.

        Raises:
            SpecError: the activation is unknown.
        """
        if self.name == "unknown":
            raise SpecError(
                "activation",
                expected="a known function",
                found="'unknown'",
                hint="The network was read from bare tensors; give its activations to run it.",
            )
        return LAWS[self.name]

    @property
    def identity(self) -> int:
        """The index of this function in learned embeddings: its place in :data:`LAWS`."""
        return len(LAWS) if self.name == "unknown" else _PLACES[self.name]

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the function."""
        return functools.partial(self.law.function, **dict(self.arguments))(x)

    def __str__(self) -> str:
        inner = ", ".join(f"{key}={value:g}" for key, value in self.arguments)
        return f"{self.name}({inner})" if inner else self.name


_PLACES = {name: place for place, name in enumerate(LAWS)}

NONE = Activation()
ACTIVATION_COUNT = 64
"""Rows of learned activation embeddings: room for functions that are still to be named."""
