"""Specs of imported networks, made once for each architecture."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from weightspace.errors import FileError, WeightspaceError
from weightspace.graph import Activation, GraphSpec
from weightspace.graph.activations import LAWS, NONE
from weightspace.importers import from_state
from weightspace.zoo.importing.found import Blueprint
from weightspace.zoo.shards import DTYPES, spec_tensors


@dataclass(frozen=True, eq=False)
class BareBlueprint:
    """The spec of a bare state dict, recognised from names and shapes.

    Args:
        tensors: the state.
        activation: after every hidden layer; None where the file does not tell it.
        order: the layers' names in the order of computation, if that is known.
        output: what is applied to the outputs.
    """

    tensors: Mapping[str, Tensor]
    activation: str | Activation | None = None
    order: Sequence[str] | None = None
    output: Activation = NONE

    @property
    def key(self) -> Hashable:
        """Names, shapes and types of the tensors, and what is known beside them."""
        shapes = tuple((name, tuple(t.shape), t.dtype) for name, t in self.tensors.items())
        order = None if self.order is None else tuple(self.order)
        return ("bare", shapes, self.activation, order, self.output)

    def make(self) -> GraphSpec:
        """Recognise the layers."""
        graph = from_state(
            self.tensors, activations=self.activation, output=self.output, order=self.order
        )
        return graph.spec


class SpecCache:
    """Specs by what they depend on, so that a thousand files of one architecture need one.

    Failures are kept too: the thousandth file that cannot be read as a graph fails at once.
    """

    def __init__(self) -> None:
        self._specs: dict[Hashable, GraphSpec | WeightspaceError] = {}

    def get(self, blueprint: Blueprint, subject: object) -> GraphSpec:
        """The spec of a network.

        Raises:
            WeightspaceError: it cannot be read as a graph; the subject is named.
        """
        key = blueprint.key
        if key not in self._specs:
            try:
                self._specs[key] = _storable(blueprint.make())
            except WeightspaceError as error:
                self._specs[key] = error
        found = self._specs[key]
        if isinstance(found, WeightspaceError):
            raise FileError(
                subject, expected=found.expected, found=found.found, hint=found.hint
            ) from found
        return found


def activation_name(value: object) -> str | None:
    """The activation function that a label or a configuration names, if it is a known one.

    >>> activation_name("Tanh"), activation_name("LeakyReLU"), activation_name("mystery")
    ('tanh', 'leaky_relu', None)
    """
    if not isinstance(value, str):
        return None
    wanted = value.lower().replace("_", "").removeprefix("torch.nn.")
    return next((name for name in LAWS if name.replace("_", "") == wanted), None)


def require_activation(name: str | None) -> None:
    """Check the name of an activation function.

    Raises:
        SpecError: there is no such function.
    """
    if name is not None:
        Activation(name)


def _storable(spec: GraphSpec) -> GraphSpec:
    """Raise unless shards can hold every tensor of a spec."""
    kept = {str(dtype).removeprefix("torch.") for dtype in DTYPES.values()}
    for parameter in spec_tensors(spec):
        if parameter.dtype not in kept:
            raise FileError(
                f"tensor {parameter.name!r}",
                expected=f"a type that a zoo holds ({', '.join(sorted(kept))})",
                found=parameter.dtype,
            )
    return spec
