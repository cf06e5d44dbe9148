"""What the update of pairs does with all of them: a pass forward and one backward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from weightspace.nn.keeping import Kept
from weightspace.nn.pair_layout import PairLayout


class UpdateMaps(NamedTuple):
    """The update's parameters but for those of the ends, or their gradients."""

    pair: Tensor
    out: Tensor
    out_bias: Tensor
    norm: Tensor
    norm_bias: Tensor
    first: Tensor
    second: Tensor
    second_bias: Tensor
    last_norm: Tensor
    last_norm_bias: Tensor
    first_bias: Tensor


class UpdateSetting(NamedTuple):
    """What an update is given besides tensors that have gradients.

    Args:
        layout: the pairs.
        kept: what dropout keeps in each step, None for all.
        eps: of both norms.
    """

    layout: PairLayout
    kept: tuple[Kept | None, Kept | None]
    eps: tuple[float, float]


class UpdateInputs(NamedTuple):
    """The states of pairs and what their ends bring, or gradients of them."""

    pairs: Float[Tensor, "pairs d"]
    receivers: Float[Tensor, "nodes h"]
    senders: Float[Tensor, "senders h"]


class UpdatePasses(ABC):
    """The passes."""

    @abstractmethod
    def forward(
        self, setting: UpdateSetting, inputs: UpdateInputs, maps: UpdateMaps
    ) -> tuple[Float[Tensor, "pairs d"], Tensor]:
        """The new states, and what backward wants to have kept."""

    @abstractmethod
    def backward(
        self,
        setting: UpdateSetting,
        inputs: UpdateInputs,
        maps: UpdateMaps,
        *,
        stored: Tensor,
        grad: Float[Tensor, "pairs d"],
    ) -> tuple[UpdateInputs, UpdateMaps]:
        """The gradients, from that of the new states."""
