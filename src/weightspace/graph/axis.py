"""Axes: sets of neurons that one symmetry acts on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from weightspace.errors import SpecError

Role = Literal["input", "hidden", "output"]
RescalingKind = Literal["sign", "scale"]


@dataclass(frozen=True, slots=True)
class Axis:
    """A set of neurons, channels or features whose order one symmetry may change.

    Args:
        name: unique in a spec.
        size: the number of neurons; for an axis within another, for each of its elements.
        role: where the neurons stand. Input and output neurons are not exchangeable.
        permutes: whether reordering the neurons leaves the function unchanged.
        within: the axis this one is nested in, if every element of that axis reorders its
            own copy independently (the features of each attention head, the channels of
            each group). The full group is then the wreath product of the two.
        reason: why the axis does not permute, for hidden axes that cannot.

    Raises:
        SpecError: the size is not positive, or an input or output axis permutes.

    >>> Axis("hidden.0", 32, "hidden").permutes
    True
    """

    name: str
    size: int
    role: Role
    permutes: bool = True
    within: str | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SpecError(f"axis {self.name}", expected="a positive size", found=str(self.size))
        if self.role not in get_args(Role):
            raise SpecError(
                f"axis {self.name}", expected=f"a role of {get_args(Role)}", found=repr(self.role)
            )
        if self.permutes and self.role != "hidden":
            raise SpecError(
                f"axis {self.name}",
                expected="permutes=False for input and output axes",
                found="permutes=True",
                hint="Input and output neurons have meanings of their own.",
            )


@dataclass(frozen=True, slots=True)
class Rescaling:
    """A factor for every neuron of an axis that leaves the function unchanged.

    A rescaling is apart from its axis because one axis can carry several: a batch norm
    ties the order of the channels before and after it, but not their scales.

    Args:
        name: unique in a spec.
        axis: the axis whose neurons are multiplied.
        kind: ``"sign"`` (factors +1 and -1, odd activations) or ``"scale"`` (positive
            factors, positively homogeneous activations).
    """

    name: str
    axis: str
    kind: RescalingKind


@dataclass(frozen=True, slots=True)
class Mixing:
    """An invertible matrix on an axis that leaves the function unchanged.

    Query and key features of an attention head may be mixed by any ``M`` and ``M^-T``, value
    and output features by ``M`` and ``M^-1``; an axis within another has a matrix for each
    element of its parents.

    Args:
        name: unique in a spec.
        axis: the axis whose neurons are mixed.
    """

    name: str
    axis: str
