"""The one interface that every metanetwork's own part has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from weightspace.graph import GraphSpec, MixedGraph
from weightspace.models.requirements import Requirements
from weightspace.nn.networks import Networks

Option = int | float | bool | str


@dataclass(frozen=True, eq=False)
class Prepared:
    """Networks brought to the form that a model reads, and the way back.

    Args:
        batch: networks of the same functions, such as those in canonical signs.
        restore: brings an edited batch of that form to the neurons of the given one.
    """

    batch: MixedGraph
    restore: Callable[[MixedGraph], MixedGraph]


class Changes(NamedTuple):
    """A change of every feature, in units of its layer's deviation.

    Args:
        nodes: ``[nodes, channels]`` in the order of the arrangement.
        edges: ``[edges of the run, features of the run]`` for each run.
    """

    nodes: Tensor
    edges: list[Tensor]


class Readout(nn.Module, ABC):
    """From what a trunk says of networks to an invariant vector of each.

    Args:
        width: the length of that vector.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    @abstractmethod
    def forward(self, networks: Networks, state: Any) -> Float[Tensor, "batch width"]:
        """Pool the state, in the order of the batch."""


class ChangesHead(nn.Module, ABC):
    """From what a trunk says of networks to a change of each of their parameters."""

    @abstractmethod
    def forward(self, networks: Networks, state: Any) -> Changes:
        """Compute the changes."""


class Trunk(nn.Module, ABC):
    """What one paper's model is: it reads networks into a state of its own kind.

    A new model subclasses this and says what it makes of networks (:meth:`forward`), and how
    that becomes a vector (:meth:`make_readout`) and an edit (:meth:`make_changes`).
    :class:`~weightspace.models.Predictor` and :class:`~weightspace.models.Editor` do the rest:
    checking, normalising, saving.

    A trunk can be made again by ``type(trunk)(trunk.requirements, **trunk.options)``.

    Args:
        requirements: the networks it reads.
    """

    def __init__(self, requirements: Requirements) -> None:
        super().__init__()
        self.requirements = requirements

    @property
    @abstractmethod
    def options(self) -> dict[str, Option]:
        """The keyword arguments that make this trunk again."""

    @abstractmethod
    def forward(self, networks: Networks) -> Any:
        """Read networks. Equivariant: permuted neurons give permuted states."""

    @abstractmethod
    def make_readout(self) -> Readout:
        """A new module that pools the state."""

    @abstractmethod
    def make_changes(self) -> ChangesHead:
        """A new module that turns the state into changes of all parameters."""

    def edge_state_bytes(self, networks: Networks) -> int:
        """How many bytes of edge states the trunk would store; 0 if it cannot defer them."""
        return 0

    def check(self, spec: GraphSpec) -> None:
        """Check that networks of a spec can be read.

        Raises:
            ModelError: naming what does not fit, and the models that could take it.
        """
        self.requirements.check(spec)

    def fit(self, batch: MixedGraph) -> None:
        """Learn from the training networks what :meth:`prepare` needs; nothing by default."""

    def prepare(self, batch: MixedGraph) -> Prepared:
        """Bring networks to the form that is read; as they are by default."""
        return Prepared(batch, lambda edited: edited)
